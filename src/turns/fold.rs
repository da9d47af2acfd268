//! What the events of a turn so far make of its answer. Pure.

use crate::engine::event::{Finish, RunnerEvent, Telemetry, ToolOutcome, ToolSettled, ToolStart};
use crate::message::Usage;
use crate::message::sources::Source;
use crate::storage::messages::{CallOutcome, StoredCall, StoredIngest};
use crate::storage::turns::Progress;
use serde_json::{Value, json};

#[derive(Clone, Debug, Default)]
pub struct Fold {
    pub progress: Progress,
    pub error: Option<FoldedError>,
    /// How the turn ended, once it has.
    pub end: Option<Ended>,
    /// Whether the model itself has said anything: the error text of a turn without any is not the model's.
    pub spoke: bool,
    /// Where in the text a round ended and another one may go on.
    pub borders: Vec<usize>,
    streaming: bool,
    round: u32,
    index: u32,
}

/// The turn's `error` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedError {
    pub code: &'static str,
    pub message: String,
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    pub finish: Finish,
    pub fallback_reason: Option<&'static str>,
    pub usage: Usage,
    pub telemetry: Telemetry,
}

impl FoldedError {
    /// As clients see it.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"code": self.code, "message": self.message, "retryable": self.retryable});
        if let Some(ms) = self.retry_after_ms {
            value["retry_after_ms"] = ms.into();
        }
        value
    }
}

impl Fold {
    /// `true` if the event should be stored without waiting for more.
    pub fn apply(&mut self, event: &RunnerEvent) -> bool {
        match event {
            RunnerEvent::Delta(text) => {
                self.spoke |= self.streaming;
                self.progress.text.push_str(text);
                return false;
            }
            RunnerEvent::Retry { discard_from, .. } => {
                let kept = usize::try_from(*discard_from).unwrap_or(usize::MAX).min(self.progress.text.len());
                self.progress.text.truncate(kept);
                self.borders.retain(|border| *border <= kept);
                self.spoke &= kept > 0;
                return false;
            }
            RunnerEvent::Round { round } => {
                self.streaming = true;
                self.round = *round;
                self.index = 0;
                return false;
            }
            RunnerEvent::RoundEnd { .. } => {
                self.streaming = false;
                self.borders.push(self.progress.text.len());
                return false;
            }
            // What a sub-agent's tools do stands in the log only: the turn's own call is that of the sub-agent.
            RunnerEvent::ToolStart(ToolStart { depth: 1.., .. })
            | RunnerEvent::ToolResult(ToolSettled { depth: 1.., .. })
            | RunnerEvent::Approval(_)
            | RunnerEvent::SubAgentStart { .. }
            | RunnerEvent::SubAgentEnd { .. } => {}
            RunnerEvent::ToolStart(start) => {
                self.index = start.index + 1;
                self.progress.calls.push(running(start));
            }
            RunnerEvent::ToolResult(settled) => self.settle(settled),
            RunnerEvent::Sources(sources) => self.cite(sources),
            RunnerEvent::Error { code, message, retryable, retry_after_ms } => {
                self.error = Some(FoldedError {
                    code,
                    message: message.clone(),
                    retryable: *retryable,
                    retry_after_ms: *retry_after_ms,
                });
            }
            RunnerEvent::TurnEnd { finish, fallback_reason, usage, telemetry } => {
                self.end = Some(Ended {
                    finish: *finish,
                    fallback_reason: *fallback_reason,
                    usage: *usage,
                    telemetry: *telemetry,
                });
            }
            _ => return false,
        }
        true
    }

    fn settle(&mut self, settled: &ToolSettled) {
        let outcome = match &settled.outcome {
            ToolOutcome::Ok { output } => CallOutcome::Ok { output: output.clone() },
            ToolOutcome::Failed { error } => CallOutcome::Failed { error: error.clone() },
            ToolOutcome::Rejected { reason, error } => {
                CallOutcome::Rejected { reason: reason.as_str().to_owned(), error: error.clone() }
            }
        };
        let known = self.progress.calls.iter().position(|c| c.call_id == settled.call_id);
        let at = known.unwrap_or_else(|| {
            // A refused call was never started: this is its first event.
            self.progress.calls.push(StoredCall {
                call_id: settled.call_id.clone(),
                name: settled.name.clone(),
                arguments: settled.arguments.clone(),
                round: self.round,
                index: self.index,
                span: settled.span.map(|s| (s.start, s.end)),
                outcome: CallOutcome::Running,
                duration_ms: 0,
                ingest_ms: None,
                truncated: false,
                ingested: None,
            });
            self.index += 1;
            self.progress.calls.len() - 1
        });
        let Some(call) = self.progress.calls.get_mut(at) else { return };
        call.outcome = outcome;
        call.duration_ms = settled.duration_ms;
        call.ingest_ms = settled.ingest_ms;
        call.truncated = settled.truncated;
        call.ingested = settled.ingested.as_ref().map(|i| StoredIngest {
            document_id: i.document_id.clone(),
            chunks: i.chunks,
            collection: i.collection.clone(),
            scope: i.scope.to_owned(),
            fresh: i.fresh,
        });
    }

    fn cite(&mut self, sources: &[Source]) {
        for source in sources {
            if !self.progress.sources.iter().any(|s| s.n == source.n) {
                self.progress.sources.push(source.clone());
            }
        }
    }
}

fn running(start: &ToolStart) -> StoredCall {
    StoredCall {
        call_id: start.call_id.clone(),
        name: start.name.clone(),
        arguments: start.arguments.clone(),
        round: start.round,
        index: start.index,
        span: start.span.map(|s| (s.start, s.end)),
        outcome: CallOutcome::Running,
        duration_ms: 0,
        ingest_ms: None,
        truncated: false,
        ingested: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::{Rejection, Span};

    #[test]
    fn refused_calls_are_stored_too() {
        let mut fold = Fold::default();
        fold.apply(&RunnerEvent::Round { round: 1 });
        fold.apply(&RunnerEvent::Delta("a".into()));
        let settled = |id: &str, outcome| {
            RunnerEvent::ToolResult(ToolSettled {
                call_id: id.into(),
                name: "t".into(),
                arguments: Default::default(),
                outcome,
                duration_ms: 3,
                ingest_ms: None,
                truncated: false,
                span: Some(Span { start: 0, end: 1 }),
                ingested: None,
                depth: 0,
            })
        };
        fold.apply(&RunnerEvent::ToolStart(ToolStart {
            call_id: "x".into(),
            name: "t".into(),
            arguments: Default::default(),
            round: 1,
            index: 0,
            span: None,
            depth: 0,
        }));
        assert!(fold.apply(&settled("y", ToolOutcome::Rejected { reason: Rejection::CapRound, error: "cap".into() })));
        fold.apply(&settled("x", ToolOutcome::Ok { output: "o".into() }));
        let calls = &fold.progress.calls;
        assert_eq!(
            calls.iter().map(|c| (c.call_id.as_str(), c.round, c.index)).collect::<Vec<_>>(),
            [("x", 1, 0), ("y", 1, 1)]
        );
        assert_eq!(calls[0].outcome, CallOutcome::Ok { output: "o".into() });
    }
}
