//! The one task of a turn: reads what was said before, retrieves, runs the engine, and stores the end.

use super::claims::Judging;
use super::fold::Fold;
use super::history::Past;
use super::live::Live;
use super::{Inner, Retrieval, TurnInput, history, observe};
use crate::engine::event::{Finish, Notice, RunnerEvent};
use crate::engine::summary::Summary;
use crate::engine::{EngineTurn, Family, TurnOutcome};
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::retrieve::SearchRequest;
use crate::message::passages::Passage;
use crate::message::sources::SourceBook;
use crate::storage::summaries::StoredSummary;
use crate::storage::turn_log::Frames;
use crate::storage::{StorageError, conversations, messages, summaries, turns};
use crate::tools::seen_urls::SeenUrls;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Pause after the end of a turn could not be stored.
const STORE_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Task {
    pub inner: Arc<Inner>,
    pub turn: Arc<Live>,
    pub began: Instant,
}

/// The process ends before the answer has.
pub(super) fn interrupted() -> RunnerEvent {
    RunnerEvent::Error {
        code: "interrupted",
        message: "the server stopped before the answer was complete".to_owned(),
        retryable: true,
        retry_after_ms: None,
    }
}

/// What was said before.
#[derive(Default)]
struct Earlier {
    past: Past,
    /// Answers in it were made from documents or tool results.
    outside: bool,
    sources: SourceBook,
}

impl Task {
    pub async fn run(self, input: TurnInput) {
        let turn_id = self.turn.turn_id;
        let mut outcome = AssertUnwindSafe(self.answer(input)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(turn.id = %turn_id, "a turn crashed");
            self.fail("internal", "the turn failed inside the service; its log has the cause".to_owned());
            TurnOutcome {
                finish: Finish::Interrupted,
                fallback_reason: None,
                usage: Default::default(),
                telemetry: Default::default(),
                summary: None,
            }
        });
        if outcome.finish == Finish::Cancelled && self.inner.live.is_stopped() {
            outcome.finish = Finish::Interrupted;
            self.turn.log.append(interrupted());
        }
        if self.turn.log.is_full() {
            outcome.finish = Finish::ProviderError;
        }
        let end = RunnerEvent::TurnEnd {
            finish: outcome.finish,
            fallback_reason: outcome.fallback_reason,
            usage: outcome.usage,
            telemetry: outcome.telemetry,
        };
        // Stored first: nobody is told that a turn has ended before that has survived a crash.
        let (last, frames) = self.turn.log.seal(&end);
        if self.store_end(&outcome, frames).await {
            self.turn.log.close(&end, last);
        }
        self.inner.live.remove(turn_id);
        observe::ended(turn_id, &outcome);
    }

    async fn answer(&self, input: TurnInput) -> TurnOutcome {
        let _attending = self.inner.retrieve.attend();
        let seen_urls = Arc::new(SeenUrls::default());
        seen_urls.add_text(&input.message);
        let Earlier { past, outside, sources } = match input.conversation_id {
            Some(_) => self.earlier(&seen_urls).await,
            None => Earlier::default(),
        };
        let sources = Arc::new(sources);
        let required = input.retrieval == Retrieval::Required;
        let passages = match input.retrieval {
            Retrieval::Auto | Retrieval::Required => self.retrieve(&input, &sources, &seen_urls).await,
            Retrieval::Tool | Retrieval::Off => vec![],
        };
        let turn = EngineTurn {
            turn_id: self.turn.turn_id,
            conversation_id: self.turn.conversation_id,
            provider: input.provider,
            mode: input.mode,
            tools: input.tools,
            limits: input.limits,
            tool_timeout: input.tool_timeout,
            history: past.messages,
            passages,
            question: input.message,
            collections: input.collections.into(),
            sources,
            seen_urls,
            began: self.began.into(),
            deadline: (self.began + self.inner.options.timeout).into(),
            cancel: self.turn.cancel.clone(),
            outside,
            approvals: Arc::clone(&self.turn.approvals),
            family: Family::default(),
        };
        let mut cited = !turn.passages.is_empty();
        let judge = || Judging::start(&self.inner, &self.turn, &turn.sources);
        let mut judging = if cited { judge() } else { None };
        let mut emit = |event: RunnerEvent| {
            if matches!(event, RunnerEvent::Sources(_)) && !std::mem::replace(&mut cited, true) {
                judging = judge();
            }
            self.turn.log.append(event);
            if self.turn.log.bytes() > self.inner.options.max_log_bytes && self.turn.log.fill() {
                let limit = self.inner.options.max_log_bytes;
                self.fail("answer_too_long", format!("the turn is longer than {limit} bytes (turns.max_log_bytes)"));
                self.turn.cancel.cancel();
            }
        };
        let outcome = self.inner.engine.run(&turn, &mut emit).await;
        if let Some(judging) = judging {
            let cut = matches!(outcome.finish, Finish::Cancelled | Finish::Timeout);
            judging.finish(if cut { Duration::ZERO } else { self.inner.options.claims_wait }).await;
        }
        if let Some(summary) = &outcome.summary {
            self.store_summary(summary, &past.ids).await;
        }
        self.flag_invented(&turn.sources);
        if required && !cited && matches!(outcome.finish, Finish::Complete | Finish::MaxContinuations) {
            self.turn.log.append(RunnerEvent::Notice(Notice {
                code: "no_sources",
                title: "No sources".to_owned(),
                message: "Nothing in the knowledge base supports this answer.".to_owned(),
            }));
        }
        outcome
    }

    /// Says which numbers in the answer stand for no source.
    fn flag_invented(&self, book: &SourceBook) {
        let Fold { progress, .. } = self.turn.log.fold();
        let known = book.known();
        let invented = history::invented(&progress.text, &progress.calls, |n| known.contains(&n));
        if invented.is_empty() {
            return;
        }
        let numbers: Vec<String> = invented.iter().map(|n| format!("[{n}]")).collect();
        self.turn.log.append(RunnerEvent::Notice(Notice {
            code: "unknown_citation",
            title: "A citation without a source".to_owned(),
            message: format!("The answer cites {}, which stands for no source here.", numbers.join(", ")),
        }));
    }

    /// Earlier messages and citation numbers. A conversation that cannot be read is answered without
    /// its past, which the client is told.
    async fn earlier(&self, seen: &SeenUrls) -> Earlier {
        let read = async {
            let mut stored = messages::history(&self.inner.db, self.turn.conversation_id).await?;
            stored.retain(|m| m.turn_id != self.turn.turn_id);
            let numbers = conversations::source_numbers(&self.inner.db, self.turn.conversation_id).await?;
            let summary = summaries::latest(&self.inner.db, self.turn.conversation_id).await?;
            Ok::<_, StorageError>((stored, numbers, summary))
        };
        match read.await {
            Ok((stored, numbers, summary)) => {
                history::note_urls(&stored, seen);
                let outside = stored.iter().any(|m| !m.calls.is_empty() || !m.sources.is_empty());
                let sources = SourceBook::new(numbers);
                let known = sources.known();
                let past = Past::new(&stored, |n| known.contains(&n), summary);
                Earlier { past, outside, sources }
            }
            Err(error) => {
                tracing::error!(conversation.id = %self.turn.conversation_id, %error, "the history could not be read");
                self.fail("history_unreadable", "earlier messages could not be read".to_owned());
                Earlier::default()
            }
        }
    }

    /// Automatic retrieval: what is near enough goes to the model, and out as sources. A failure is
    /// told and does not stop the turn.
    async fn retrieve(&self, input: &TurnInput, book: &SourceBook, seen: &SeenUrls) -> Vec<Passage> {
        let options = self.inner.options;
        let request = SearchRequest {
            collections: input.collections.clone(),
            min_cosine: Some(options.min_cosine),
            per_document: Some(options.per_document),
            rerank: self.inner.retrieve.can_rerank(),
            conversation: Some(self.turn.conversation_id),
            ..SearchRequest::new("", &input.message, options.retrieval_limit)
        };
        let found = tokio::select! {
            found = self.inner.retrieve.search(&request) => found,
            () = self.turn.cancel.cancelled() => return vec![],
        };
        let hits = match found {
            Ok(answer) => answer.hits,
            Err(error) => {
                self.retrieval_failed(&error);
                return vec![];
            }
        };
        let mut passages = Vec::with_capacity(hits.len());
        let mut sources = Vec::with_capacity(hits.len());
        for hit in hits {
            let n = book.number(hit.chunk_id);
            seen.add_text(&hit.text);
            seen.add_text(&hit.uri);
            sources.push(hit.source(n));
            passages.push(hit.passage(n));
        }
        if !sources.is_empty() {
            self.turn.log.append(RunnerEvent::Sources(sources));
        }
        passages
    }

    fn retrieval_failed(&self, error: &KnowledgeError) {
        tracing::warn!(turn.id = %self.turn.turn_id, %error, "automatic retrieval failed");
        self.turn.log.append(RunnerEvent::Notice(Notice {
            code: "retrieval_failed",
            title: "The knowledge base could not be searched".to_owned(),
            message: error.to_string(),
        }));
    }

    fn fail(&self, code: &'static str, message: String) {
        self.turn.log.append(RunnerEvent::Error { code, message, retryable: false, retry_after_ms: None });
    }

    /// The next turn begins with it. Without it, it is only made once more.
    async fn store_summary(&self, summary: &Summary, ids: &[Uuid]) {
        let Some(message_id) = summary.messages.checked_sub(1).and_then(|last| ids.get(last).copied()) else { return };
        let stored = StoredSummary { message_id, text: summary.text.clone() };
        if let Err(error) = summaries::put(&self.inner.db, stored).await {
            tracing::warn!(conversation.id = %self.turn.conversation_id, %error, "a summary could not be stored");
        }
    }

    /// Until it is stored. `false`: the process stops before; its next start ends the turn from what is stored, and
    /// readers go on there.
    async fn store_end(&self, outcome: &TurnOutcome, frames: Frames) -> bool {
        let Fold { progress, error, .. } = self.turn.log.fold();
        let end = turns::TurnEnd {
            progress,
            frames,
            cut_after: None,
            finish: outcome.finish.as_str(),
            fallback_reason: outcome.fallback_reason,
            usage: outcome.usage,
            telemetry: serde_json::to_value(outcome.telemetry).unwrap_or_default(),
            error: error.map(|e| e.to_value()),
        };
        let (end, closing) = (Arc::new(end), self.inner.shutdown.closing());
        loop {
            let error = match turns::finish(&self.inner.db, self.turn.turn_id, Arc::clone(&end)).await {
                // Not running any more: its conversation was deleted.
                Ok(_) => return true,
                Err(error) => error,
            };
            tracing::error!(turn.id = %self.turn.turn_id, %error, "the end of a turn could not be stored; it is tried again");
            let pause = tokio::time::sleep(STORE_AGAIN);
            if matches!(error, StorageError::Closed) || closing.run_until_cancelled(pause).await.is_none() {
                return false;
            }
        }
    }
}
