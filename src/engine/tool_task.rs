//! One admitted call, on a task of its own: run the tool under its deadline, then store what it
//! brought, then settle. The deadline covers the execution only; storing is waited for at most
//! `ingest.wait_ms` and goes on behind the turn's back after that.

use super::event::{Ingested, ToolOutcome};
use crate::config::ToolResults;
use crate::knowledge::identity;
use crate::knowledge::ingest::{Ingest, ToolResultText};
use crate::message::Arguments;
use crate::message::sources::Source;
use crate::tools::{IngestText, Tool, ToolContext};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Everything one call needs.
pub(super) struct ToolTask {
    pub tool: Arc<dyn Tool>,
    pub arguments: Arguments,
    pub context: ToolContext,
    pub deadline: Duration,
    pub max_result_bytes: usize,
    pub keeper: Option<Keeper>,
}

/// Stores what tools bring.
#[derive(Clone)]
pub struct Keeper {
    pub ingest: Ingest,
    pub policy: ToolResults,
    /// Days that a conversation keeps a result.
    pub keep_days: u32,
    /// Longest wait for a result to become searchable.
    pub wait: Duration,
    /// Owns ingestions that outlive their call.
    pub tasks: TaskTracker,
}

/// What a task hands back.
pub(super) struct Ran {
    pub began: Instant,
    /// When the tool had answered, before its text was stored.
    pub answered: Instant,
    pub outcome: ToolOutcome,
    /// How long the text was, in bytes, where it was cut.
    pub full_bytes: Option<u64>,
    pub sources: Vec<Source>,
    pub ingested: Option<Ingested>,
    pub ingest_time: Option<Duration>,
    pub ingest_error: Option<String>,
}

impl ToolTask {
    pub async fn run(self) -> Ran {
        let began = Instant::now();
        let answer = tokio::time::timeout(self.deadline, self.tool.call(self.arguments, &self.context)).await;
        let mut ran = Ran {
            began,
            answered: Instant::now(),
            outcome: ToolOutcome::Failed { error: String::new() },
            full_bytes: None,
            sources: Vec::new(),
            ingested: None,
            ingest_time: None,
            ingest_error: None,
        };
        let output = match answer {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                ran.outcome = ToolOutcome::Failed { error: error.0 };
                return ran;
            }
            Err(_) => {
                let limit = self.deadline.as_millis();
                let error = format!("no answer within {limit} ms (engine.tool_timeout_ms)");
                ran.outcome = ToolOutcome::Failed { error };
                return ran;
            }
        };
        let mut text = output.text;
        ran.full_bytes = cut(&mut text, self.max_result_bytes);
        ran.outcome = ToolOutcome::Ok { output: text };
        ran.sources = output.sources;
        if let (Some(keeper), Some(found)) = (self.keeper, output.ingest) {
            self.context.seen_urls.add_text(&found.text);
            keep(keeper, found, &self.context, &mut ran).await;
        }
        ran
    }
}

async fn keep(keeper: Keeper, found: IngestText, context: &ToolContext, ran: &mut Ran) {
    let Some(collection) = context.collections.first().cloned() else { return };
    let begun = context.pending.begin();
    let cancel = context.cancel.clone();
    let (scope, document_id) = match keeper.policy {
        ToolResults::Off => return,
        ToolResults::Collection => ("collection", identity::document_id(&collection, &found.uri)),
        ToolResults::Conversation => {
            ("conversation", identity::finding_id(&collection, context.conversation_id, &found.uri))
        }
    };
    let text = ToolResultText {
        turn_id: context.turn_id,
        conversation_id: context.conversation_id,
        collection: collection.clone(),
        title: found.title,
        uri: found.uri,
        text: found.text,
        policy: keeper.policy,
        keep_days: keeper.keep_days,
    };
    let ingested = |chunks, fresh| Ingested { document_id, chunks, collection, scope, fresh };
    let started = Instant::now();
    let task = keeper.tasks.spawn(async move {
        let _begun = begun;
        tokio::select! {
            stored = keeper.ingest.tool_result(text) => Some(stored),
            () = cancel.cancelled() => None,
        }
    });
    match tokio::time::timeout(keeper.wait, task).await {
        Ok(Ok(Some(Ok(stored)))) => {
            ran.ingested = stored.map(|stored| ingested(stored.chunks, true));
            ran.ingest_time = Some(started.elapsed());
        }
        Ok(Ok(Some(Err(error)))) => ran.ingest_error = Some(error.to_string()),
        // The turn was cancelled: nobody asks any more.
        Ok(Ok(None)) => {}
        Ok(Err(_)) => ran.ingest_error = Some("storing the result crashed".to_owned()),
        // It goes on; how many chunks it makes is not known yet.
        Err(_) => {
            ran.ingested = Some(ingested(0, false));
            ran.ingest_time = Some(started.elapsed());
        }
    }
}

/// Cuts `text` to at most `limit` bytes at a character's border; how long it was, if it did.
pub(super) fn cut(text: &mut String, limit: usize) -> Option<u64> {
    let full = text.len();
    if full <= limit {
        return None;
    }
    text.truncate(text.floor_char_boundary(limit));
    Some(full as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_cut_between_characters() {
        for (text, limit, want, cut_off) in [("abc", 3, "abc", None), ("añb", 2, "a", Some(4)), ("", 0, "", None)] {
            let mut got = text.to_owned();
            assert_eq!((cut(&mut got, limit), got.as_str()), (cut_off, want));
        }
    }
}
