//! At start-up: turns that the end of the process cut are ended as interrupted, with what was durable of them.

use super::fold::Fold;
use super::log::{Logged, Wire};
use super::task::interrupted;
use crate::engine::event::{Finish, RoundStop, RunnerEvent, Span, Telemetry, ToolOutcome, ToolSettled};
use crate::message::Usage;
use crate::storage::messages::{CallOutcome, StoredCall};
use crate::storage::turns::{CutTurn, Progress, TurnEnd};
use crate::storage::{Db, StorageError, turns};
use std::sync::Arc;

/// Ends every turn that still says `running`; how many there were.
pub async fn end_cut_turns(db: &Db, wire: Wire) -> Result<usize, StorageError> {
    let cut = turns::cut(db).await?;
    let count = cut.len();
    for turn in cut {
        let id = turn.id;
        turns::finish(db, id, Arc::new(end(turn, wire))).await?;
    }
    Ok(count)
}

/// The visible text, in order.
pub(super) fn text(logged: impl Iterator<Item = Logged>) -> String {
    logged.fold(String::new(), |mut text, logged| {
        match logged {
            Logged::Text(more) => text.push_str(&more),
            Logged::Discard(from) => text.truncate(text.floor_char_boundary(from)),
            Logged::Round(_)
            | Logged::RoundEnd(_)
            | Logged::Thinking(_)
            | Logged::SubAgentStart { .. }
            | Logged::SubAgentEnd { .. } => {}
        }
        text
    })
}

/// The ends of the sub-agents that were at work, the inner ones first.
fn sub_agents(logged: &[Logged]) -> Vec<RunnerEvent> {
    let has_ended = |id: &str| logged.iter().any(|l| matches!(l, Logged::SubAgentEnd { call_id } if call_id == id));
    let open = logged.iter().rev().filter_map(|logged| match logged {
        Logged::SubAgentStart { call_id, task, depth } if !has_ended(call_id) => Some(RunnerEvent::SubAgentEnd {
            call_id: call_id.clone(),
            task: task.clone(),
            depth: *depth,
            rounds: 0,
            tools_run: 0,
        }),
        _ => None,
    });
    open.collect()
}

/// How far the rounds had come.
#[derive(Default)]
struct Rounds {
    usage: Usage,
    begun: u32,
    open: Option<u32>,
    thinking: bool,
}

impl Rounds {
    fn of(logged: &[Logged]) -> Self {
        logged.iter().fold(Self::default(), |mut rounds, logged| {
            match logged {
                Logged::Round(round) => (rounds.begun, rounds.open) = (rounds.begun + 1, Some(*round)),
                Logged::RoundEnd(usage) => {
                    rounds.usage += *usage;
                    rounds.open = None;
                }
                Logged::Thinking(thinking) => rounds.thinking = *thinking,
                Logged::Text(_) | Logged::Discard(_) | Logged::SubAgentStart { .. } | Logged::SubAgentEnd { .. } => {}
            }
            rounds
        })
    }

    /// The ends of what is open.
    fn ends(&self) -> impl Iterator<Item = RunnerEvent> + use<> {
        let thinking = self.thinking.then_some(RunnerEvent::ThinkingDone);
        let (stop, usage, spoke) = (RoundStop::Cut, Usage::default(), Vec::new());
        let round = self.open.map(|round| RunnerEvent::RoundEnd { round, stop, usage, spoke });
        thinking.into_iter().chain(round)
    }
}

/// The text is what the stored frames say; calls without an outcome get one, and the log an end, as if the turn had
/// ended itself.
fn end(turn: CutTurn, wire: Wire) -> TurnEnd {
    let mut frames = turn.log;
    let known = (wire.split)(&frames.bytes.clone().into());
    let logged: Vec<Logged> = known.iter().filter_map(|frame| (wire.read)(frame)).collect();
    let text = text(logged.iter().cloned());
    let rounds = Rounds::of(&logged);
    let usage = rounds.usage;
    let refused = |call: &&StoredCall| matches!(call.outcome, CallOutcome::Rejected { .. });
    let tools_rejected = turn.calls.iter().filter(refused).count();
    let tools_run = turn.calls.len() - tools_rejected;
    let (total_ms, cut_after) = (frames.at_ms, Some(frames.last_seq));
    let mut fold = Fold::default();
    fold.progress = Progress { text, calls: turn.calls, sources: vec![] };
    let mut add = |event: RunnerEvent| {
        frames.last_seq += 1;
        frames.bytes.extend_from_slice(&(wire.encode)(frames.last_seq, frames.at_ms, &event));
        fold.apply(&event);
        fold.progress.calls.iter().find(|call| call.outcome == CallOutcome::Running).map(stopped)
    };
    sub_agents(&logged).into_iter().chain(rounds.ends()).for_each(|end| drop(add(end)));
    let mut open = add(interrupted());
    while let Some(event) = open {
        open = add(event);
    }
    let telemetry = Telemetry {
        rounds: rounds.begun,
        tools_run: u32::try_from(tools_run).unwrap_or(u32::MAX),
        tools_rejected: u32::try_from(tools_rejected).unwrap_or(u32::MAX),
        total_ms,
        ..Telemetry::default()
    };
    let finish = Finish::Interrupted;
    add(RunnerEvent::TurnEnd { finish, fallback_reason: None, usage, telemetry });
    TurnEnd {
        progress: fold.progress,
        frames,
        cut_after,
        finish: finish.as_str(),
        fallback_reason: None,
        usage,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::turn_log::Frames;
    use bytes::Bytes;
    use uuid::Uuid;

    /// Frames for people: `text`, `!3` (void from byte 3), `(0` (a round), `#7` (its end: it wrote 7 tokens), `~`
    /// (thinking), `+id` and `-id` (a sub-agent), each up to a semicolon.
    const WIRE: Wire = Wire {
        encode: |seq, _at, event| match event {
            RunnerEvent::SubAgentEnd { call_id, .. } => Bytes::from(format!("-{call_id};")),
            RunnerEvent::TurnEnd { .. } => Bytes::from(format!("end {seq};")),
            RunnerEvent::ThinkingDone => Bytes::from_static(b"done;"),
            RunnerEvent::RoundEnd { round, .. } => Bytes::from(format!("){round};")),
            _ => Bytes::from_static(b"?;"),
        },
        split: |frames| frames.split_inclusive(|b| *b == b';').map(Bytes::copy_from_slice).collect(),
        read: |frame| {
            let frame = std::str::from_utf8(frame).unwrap().trim_end_matches(';');
            let (mark, rest) = frame.split_at(frame.ceil_char_boundary(1));
            let call_id = rest.to_owned();
            Some(match mark {
                "!" => Logged::Discard(rest.parse().unwrap()),
                "(" => Logged::Round(rest.parse().unwrap()),
                "#" => Logged::RoundEnd(Usage { output_tokens: rest.parse().unwrap(), ..Usage::default() }),
                "~" => Logged::Thinking(true),
                "+" => Logged::SubAgentStart { call_id, task: "look".to_owned(), depth: 1 },
                "-" => Logged::SubAgentEnd { call_id },
                _ => Logged::Text(frame.to_owned()),
            })
        },
    };

    #[test]
    fn a_cut_turn_keeps_what_still_stands_and_every_sub_agent_gets_its_end() {
        for (frames, text, added) in [
            ("a;bc;", "abc", "?;end 4;"),
            ("abc;def;!3;xyz;", "abcxyz", "?;end 6;"),
            ("é;!1;b;", "b", "?;end 5;"),
            ("a;!9;b;", "ab", "?;end 5;"),
            ("+1;+2;-1;", "", "-2;?;end 6;"),
            ("+1;+2;", "", "-2;-1;?;end 6;"),
            ("(0;a;#7;(1;b;#2;", "ab", "?;end 8;"),
            ("(0;a;#9;(1;~;", "a", "done;)1;?;end 9;"),
            ("", "", "?;end 2;"),
        ] {
            let known = frames.matches(';').count() as u64;
            let log = Frames { first_seq: 1, last_seq: known, at_ms: 5, bytes: frames.into() };
            let ended = end(CutTurn { id: Uuid::nil(), calls: vec![], log }, WIRE);
            assert_eq!((ended.progress.text.as_str(), ended.finish), (text, "interrupted"), "{frames}");
            assert_eq!(String::from_utf8(ended.frames.bytes).unwrap(), format!("{frames}{added}"));
            assert_eq!(ended.cut_after, Some(known));
            assert_eq!(ended.usage.output_tokens, if frames.contains('#') { 9 } else { 0 });
            assert_eq!(ended.frames.last_seq, known + added.matches(';').count() as u64, "{frames}");
        }
    }
}
