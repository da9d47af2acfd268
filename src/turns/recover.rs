//! At start-up: turns that the end of the process cut are ended as interrupted, with what was durable of them.

use super::fold::Fold;
use super::log::Wire;
use crate::engine::event::{Finish, RunnerEvent, Span, Telemetry, ToolOutcome, ToolSettled};
use crate::message::Usage;
use crate::storage::messages::{CallOutcome, StoredCall};
use crate::storage::turns::{CutTurn, Progress, TurnEnd};
use crate::storage::{Db, StorageError, turns};

/// Ends every turn that still says `running`; how many there were.
pub async fn end_cut_turns(db: &Db, wire: Wire) -> Result<usize, StorageError> {
    let cut = turns::cut(db).await?;
    let count = cut.len();
    for turn in cut {
        let id = turn.id;
        turns::finish(db, id, end(turn, wire)).await?;
    }
    Ok(count)
}

/// The text is what the stored frames say; calls without an outcome get one, and the log an end, as if the turn had
/// ended itself.
fn end(turn: CutTurn, wire: Wire) -> TurnEnd {
    let mut frames = turn.log;
    let known = (wire.split)(&frames.bytes.clone().into());
    let text: String = known.iter().filter_map(|frame| (wire.text)(frame)).collect();
    let total_ms = frames.at_ms;
    let mut fold = Fold::default();
    fold.progress = Progress { text, calls: turn.calls, sources: vec![] };
    let mut add = |event: RunnerEvent| {
        frames.last_seq += 1;
        frames.bytes.extend_from_slice(&(wire.encode)(frames.last_seq, frames.at_ms, &event));
        fold.apply(&event);
        fold.progress.calls.iter().find(|call| call.outcome == CallOutcome::Running).map(stopped)
    };
    let mut open = add(RunnerEvent::Error {
        code: "interrupted",
        message: "the server stopped before the answer was complete".to_owned(),
        retryable: true,
        retry_after_ms: None,
    });
    while let Some(event) = open {
        open = add(event);
    }
    let telemetry = Telemetry { total_ms, ..Telemetry::default() };
    let finish = Finish::Interrupted;
    add(RunnerEvent::TurnEnd { finish, fallback_reason: None, usage: Usage::default(), telemetry });
    TurnEnd {
        progress: fold.progress,
        frames,
        finish: finish.as_str(),
        fallback_reason: None,
        usage: Usage::default(),
        telemetry: serde_json::to_value(telemetry).unwrap_or_default(),
        error: fold.error.map(|error| error.to_value()),
    }
}

fn stopped(call: &StoredCall) -> RunnerEvent {
    RunnerEvent::ToolResult(ToolSettled {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        outcome: ToolOutcome::Failed { error: "the server stopped before the call had ended".to_owned() },
        duration_ms: 0,
        ingest_ms: None,
        truncated: false,
        span: call.span.map(|(start, end)| Span { start, end }),
        ingested: None,
        depth: 0,
    })
}
