//! Beside a turn that has sources: looks now and then at what was said, and judges each finished sentence.
//!
//! Invariants: a turn without sources has none of this; the stream never waits for it; a claim is only appended while
//! the text it is about stands in the log; nothing follows once the turn's end is stored.

use super::Inner;
use super::fold::Fold;
use super::live::Live;
use crate::engine::event::{Claim, RunnerEvent, Span, Verdict};
use crate::knowledge::claims::sentences::{Sentence, finished};
use crate::knowledge::claims::{Claims, Ground, Judgement, Standing, Support};
use crate::knowledge::error::KnowledgeError;
use crate::message::sources::SourceBook;
use crate::storage::messages::CallOutcome;
use crate::storage::turns::Progress;
use crate::storage::{Db, chunks};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Between two looks at the growing text.
const LOOK: Duration = Duration::from_millis(250);
/// The tool whose results are the sources themselves.
const SEARCH: &str = "vector_search";

/// The task that judges one turn.
pub(super) struct Judging {
    ended: CancellationToken,
    task: JoinHandle<()>,
}

impl Judging {
    /// `None`: the operator wants no claims.
    pub fn start(inner: &Inner, turn: &Arc<Live>, book: &Arc<SourceBook>) -> Option<Self> {
        let ended = CancellationToken::new();
        let judge = Judge {
            claims: inner.claims.clone()?,
            db: inner.db.clone(),
            turn: Arc::clone(turn),
            book: Arc::clone(book),
            left: inner.options.max_claims,
            from: 0,
            ground: None,
        };
        let task = inner.shutdown.spawn(judge.run(ended.clone()));
        Some(Self { ended, task })
    }

    /// The text is complete: waits for the rest, at most `wait`. Nothing is appended after this returns.
    pub async fn finish(mut self, wait: Duration) {
        self.ended.cancel();
        if tokio::time::timeout(wait, &mut self.task).await.is_err() {
            self.task.abort();
            // An aborted task has nothing to tell.
            drop(self.task.await);
        }
    }
}

struct Judge {
    claims: Claims,
    db: Db,
    turn: Arc<Live>,
    book: Arc<SourceBook>,
    /// Sentences that may still be judged.
    left: usize,
    /// Where in the text the next look begins.
    from: usize,
    /// What there was to hold claims against at the last look, made ready.
    ground: Option<(Vec<Uuid>, usize, Ground)>,
}

impl Judge {
    async fn run(mut self, ended: CancellationToken) {
        loop {
            let last = tokio::select! {
                () = ended.cancelled() => true,
                () = self.turn.cancel.cancelled() => return,
                () = tokio::time::sleep(LOOK) => false,
            };
            if let Err(error) = self.look(last).await {
                tracing::warn!(turn.id = %self.turn.turn_id, %error, "claims could not be judged");
                return;
            }
            if last || self.left == 0 {
                return;
            }
        }
    }

    async fn look(&mut self, last: bool) -> Result<(), KnowledgeError> {
        let Fold { progress, borders, spoke, .. } = self.turn.log.fold();
        if !spoke {
            // What stands there is the service's own word, or nothing.
            return Ok(());
        }
        // Text was taken back.
        self.from = self.from.min(progress.text.len());
        let spans = progress.calls.iter().filter_map(|call| call.span);
        let spans = spans.map(|(start, end)| place(start)..place(end));
        // What another round says is another sentence, even if it begins without a space.
        let mut blocks: Vec<Range<usize>> = spans.chain(borders.into_iter().map(|border| border..border)).collect();
        blocks.sort_by_key(|block| block.start);
        let (mut sentences, next) = finished(&progress.text, self.from, &blocks, last);
        self.from = next;
        sentences.truncate(self.left);
        self.left -= sentences.len();
        if sentences.is_empty() {
            return Ok(());
        }
        let ground = self.ground(&progress, &sentences).await?;
        // One by one: the first is shown while the last is read.
        for sentence in sentences {
            let judged = self.claims.judge(&ground, vec![sentence.clone()]).await?;
            judged.into_iter().for_each(|judgement| self.tell(&progress, &sentence, judgement));
        }
        Ok(())
    }

    /// The turn's sources, earlier ones that are cited, and what other tools brought.
    async fn ground(&mut self, progress: &Progress, sentences: &[Sentence]) -> Result<Ground, KnowledgeError> {
        let mut numbers: BTreeMap<Uuid, (u32, String)> =
            progress.sources.iter().map(|source| (source.chunk_id, (source.n, source.title.clone()))).collect();
        for n in sentences.iter().flat_map(|sentence| &sentence.cites) {
            if let Some(chunk) = self.book.chunk(*n) {
                numbers.entry(chunk).or_insert_with(|| (*n, String::new()));
            }
        }
        let ids: Vec<Uuid> = numbers.keys().copied().collect();
        let outputs = progress.calls.iter().filter(|call| call.name != SEARCH).filter_map(|call| match &call.outcome {
            CallOutcome::Ok { output } => Some(output.clone()),
            CallOutcome::Running | CallOutcome::Failed { .. } | CallOutcome::Rejected { .. } => None,
        });
        let outputs: Vec<String> = outputs.collect();
        if let Some((known, count, ground)) = &self.ground
            && *known == ids
            && *count == outputs.len()
        {
            return Ok(ground.clone());
        }
        let mut texts = chunks::texts(&self.db, &ids).await?;
        let cited = numbers.into_iter().filter_map(|(chunk, (n, title))| {
            let text = texts.remove(&chunk)?;
            Some(Support { n: Some(n), title, text })
        });
        let count = outputs.len();
        let brought = outputs.into_iter().map(|text| Support { n: None, title: String::new(), text });
        let ground = self.claims.ground(cited.chain(brought).collect()).await?;
        self.ground = Some((ids, count, ground.clone()));
        Ok(ground)
    }

    fn tell(&self, seen: &Progress, sentence: &Sentence, judgement: Judgement) {
        let verdict = match judgement.standing {
            Standing::Supported => Verdict::Supported,
            Standing::Weak => Verdict::Weak,
            Standing::Unsupported => Verdict::Unsupported,
        };
        let span = Span { start: sentence.start as u64, end: sentence.end as u64 };
        let about = sentence.start..sentence.end;
        let claim = RunnerEvent::Claim(Claim { span, verdict, sources: judgement.sources });
        self.turn.log.append_if(claim, |fold| fold.progress.text.get(about.clone()) == seen.text.get(about));
    }
}

fn place(byte: u64) -> usize {
    usize::try_from(byte).unwrap_or(usize::MAX)
}
