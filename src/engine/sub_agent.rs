//! The tool `sub_agent`: a turn inside a turn, with a smaller budget of its own.
//!
//! It runs on the task of its call and is gone with it. What it says is the call's result, never visible text of the
//! turn; what its tools do leaves as events of the turn, tagged with the depth. Invariant: whatever began leaves with
//! its end before the call's own result does, however the nested turn ended.

use super::budget::Limits;
use super::event::{Finish, RunnerEvent, ToolOutcome, ToolSettled};
use super::tool_task::{Ran, cut};
use super::{EngineTurn, StreamingEngine, TurnOutcome, TurnState, nudge};
use crate::message::Arguments;
use crate::tools::ToolSpec;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub const NAME: &str = "sub_agent";

/// How far calls of the tool may go.
#[derive(Clone, Copy, Debug)]
pub struct SubAgentConfig {
    /// How deep turns may be nested; 0: there is no such tool.
    pub max_depth: u32,
    /// Of each nested turn; at most what the turn around it has.
    pub limits: Limits,
    /// For a whole nested turn.
    pub timeout: Duration,
}

pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Gives a task to a second agent, which has the same tools and sees nothing but the task, and \
                      returns its answer. For a part of the question that needs several searches of its own."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"task": {"type": "string", "minLength": 1, "description": "All that the agent has to know."}},
            "required": ["task"],
            "additionalProperties": false,
        }),
        side_effects: false,
    }
}

/// What nested turns have to say, each event with the place of its call. Emptied by the turn around them; bounded by
/// what their limits let them do.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    events: Mutex<VecDeque<(usize, RunnerEvent)>>,
    some: Notify,
}

impl Inbox {
    fn push(&self, at: usize, event: RunnerEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push_back((at, event));
        self.some.notify_one();
    }

    fn pop(&self) -> Option<(usize, RunnerEvent)> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits until there may be something in it. Cancel safe.
    pub async fn some(&self) {
        self.some.notified().await;
    }
}

/// One call of the tool.
pub(super) struct SubAgentTask {
    engine: StreamingEngine,
    turn: EngineTurn,
    pub arguments: Arguments,
    timeout: Duration,
    inbox: Arc<Inbox>,
    at: usize,
}

impl SubAgentTask {
    /// Boxed: the future of a turn would otherwise hold itself.
    pub fn run(mut self) -> BoxFuture<'static, Ran> {
        async move {
            let began = Instant::now();
            self.turn.deadline = self.turn.deadline.min(began + self.timeout);
            let mut heard = Heard::default();
            let mut emit = |event: RunnerEvent| {
                if let Some(event) = heard.take(event, self.turn.family.depth) {
                    self.inbox.push(self.at, event);
                }
            };
            let outcome = self.engine.run(&self.turn, &mut emit).await;
            let (outcome, full_bytes) = self.answer(heard, &outcome);
            Ran {
                began,
                answered: Instant::now(),
                outcome,
                full_bytes,
                sources: Vec::new(),
                ingested: None,
                ingest_time: None,
                ingest_error: None,
            }
        }
        .boxed()
    }

    fn answer(&self, heard: Heard, outcome: &TurnOutcome) -> (ToolOutcome, Option<u64>) {
        let error = match outcome.finish {
            Finish::Complete | Finish::MaxContinuations => {
                let mut output = nudge::own_text(&heard.text, []).trim().to_owned();
                if !output.is_empty() {
                    let full_bytes = cut(&mut output, self.engine.config().max_result_bytes);
                    return (ToolOutcome::Ok { output }, full_bytes);
                }
                "the sub-agent ended without an answer".to_owned()
            }
            Finish::Timeout => {
                let limit = self.timeout.as_millis();
                format!("the sub-agent did not end within {limit} ms (engine.sub_agent.timeout_ms)")
            }
            Finish::ProviderError | Finish::Cancelled | Finish::Interrupted => {
                heard.error.unwrap_or_else(|| "the sub-agent was stopped".to_owned())
            }
        };
        (ToolOutcome::Failed { error }, None)
    }
}

/// What a nested turn has said since tools last answered, which is its answer.
#[derive(Debug, Default)]
struct Heard {
    text: String,
    /// Bytes of its visible text before that.
    before: u64,
    answered: bool,
    error: Option<String>,
}

impl Heard {
    /// Keeps what is said, hands on what the turn around it should hear. `depth`: of the nested turn.
    fn take(&mut self, event: RunnerEvent, depth: u32) -> Option<RunnerEvent> {
        match &event {
            RunnerEvent::Delta(text) => self.text.push_str(text),
            RunnerEvent::Retry { discard_from, .. } => {
                let keep = usize::try_from(discard_from.saturating_sub(self.before)).unwrap_or(usize::MAX);
                self.text.truncate(self.text.floor_char_boundary(keep));
            }
            RunnerEvent::Error { message, .. } => self.error = Some(message.clone()),
            RunnerEvent::ToolResult(settled) => self.answered |= settled.depth == depth,
            RunnerEvent::Round { .. } if std::mem::take(&mut self.answered) => {
                self.before += self.text.len() as u64;
                self.text.clear();
            }
            _ => {}
        }
        let is_heard = match &event {
            RunnerEvent::Notice(notice) => notice.code == "ingest_failed",
            RunnerEvent::Round { .. }
            | RunnerEvent::RoundEnd { .. }
            | RunnerEvent::ToolStart(_)
            | RunnerEvent::ToolResult(_)
            | RunnerEvent::Approval(_)
            | RunnerEvent::Sources(_)
            | RunnerEvent::SubAgentStart { .. }
            | RunnerEvent::SubAgentEnd { .. } => true,
            _ => false,
        };
        is_heard.then_some(event)
    }
}

/// What the turn around it knows of a nested turn.
pub(super) struct Nested {
    task: String,
    depth: u32,
    rounds: u32,
    tools_run: u32,
    /// What has begun in it and not ended, in this order.
    open: Vec<Open>,
}

enum Open {
    Call { call_id: String, name: String, arguments: Arguments, depth: u32 },
    Agent { call_id: String, task: String, depth: u32 },
}

impl Nested {
    pub fn new(task: &SubAgentTask) -> Self {
        let depth = task.turn.family.depth;
        Self { task: task.turn.question.clone(), depth, rounds: 0, tools_run: 0, open: Vec::new() }
    }

    pub fn began(&self, call_id: &str) -> RunnerEvent {
        RunnerEvent::SubAgentStart { call_id: call_id.to_owned(), task: self.task.clone(), depth: self.depth }
    }

    fn ended(&self, call_id: &str) -> RunnerEvent {
        RunnerEvent::SubAgentEnd {
            call_id: call_id.to_owned(),
            task: self.task.clone(),
            depth: self.depth,
            rounds: self.rounds,
            tools_run: self.tools_run,
        }
    }

    /// Counts an event.
    fn note(&mut self, event: &RunnerEvent) {
        match event {
            RunnerEvent::Round { round } => self.rounds = round + 1,
            RunnerEvent::ToolStart(start) => self.open.push(Open::Call {
                call_id: start.call_id.clone(),
                name: start.name.clone(),
                arguments: start.arguments.clone(),
                depth: start.depth,
            }),
            RunnerEvent::ToolResult(settled) => {
                let ran = !matches!(settled.outcome, ToolOutcome::Rejected { .. });
                self.tools_run += u32::from(ran && settled.depth == self.depth);
                self.open.retain(|open| !matches!(open, Open::Call { call_id, .. } if *call_id == settled.call_id));
            }
            RunnerEvent::SubAgentStart { call_id, task, depth } => {
                self.open.push(Open::Agent { call_id: call_id.clone(), task: task.clone(), depth: *depth });
            }
            RunnerEvent::SubAgentEnd { call_id: ended, .. } => {
                self.open.retain(|open| !matches!(open, Open::Agent { call_id, .. } if call_id == ended));
            }
            _ => {}
        }
    }

    /// Ends what was cut off with it.
    fn stopped(&mut self, why: &str) -> Vec<RunnerEvent> {
        let ended = |open| match open {
            Open::Call { call_id, name, arguments, depth } => RunnerEvent::ToolResult(ToolSettled {
                call_id,
                name,
                arguments,
                outcome: ToolOutcome::Failed { error: why.to_owned() },
                duration_ms: 0,
                ingest_ms: None,
                truncated: false,
                span: None,
                ingested: None,
                depth,
            }),
            Open::Agent { call_id, task, depth } => {
                RunnerEvent::SubAgentEnd { call_id, task, depth, rounds: 0, tools_run: 0 }
            }
        };
        self.open.drain(..).rev().map(ended).collect()
    }
}

impl TurnState<'_> {
    /// The task of an admitted call of the tool.
    pub(super) fn sub_agent(&self, at: usize, call_id: &str, arguments: Arguments) -> SubAgentTask {
        let (turn, config) = (self.turn, self.engine.config.sub_agent);
        let family = turn.family.child(call_id);
        let deepest = family.depth >= config.max_depth;
        let least = |one: u32, other: u32| one.min(other);
        let nested = EngineTurn {
            turn_id: turn.turn_id,
            conversation_id: turn.conversation_id,
            provider: Arc::clone(&turn.provider),
            mode: turn.mode,
            tools: turn.tools.iter().filter(|name| !deepest || name.as_str() != NAME).cloned().collect(),
            limits: Limits {
                max_continuations: least(config.limits.max_continuations, turn.limits.max_continuations),
                max_tools_per_round: least(config.limits.max_tools_per_round, turn.limits.max_tools_per_round),
                max_tools_total: least(config.limits.max_tools_total, turn.limits.max_tools_total),
            },
            tool_timeout: turn.tool_timeout,
            history: Vec::new(),
            passages: Vec::new(),
            question: arguments.get("task").and_then(Value::as_str).unwrap_or_default().to_owned(),
            collections: Arc::clone(&turn.collections),
            sources: Arc::clone(&turn.sources),
            seen_urls: Arc::clone(&turn.seen_urls),
            began: turn.began,
            deadline: turn.deadline,
            cancel: turn.cancel.clone(),
            outside: self.outside,
            approvals: Arc::clone(&turn.approvals),
            family,
        };
        let (engine, inbox) = (self.engine.clone(), Arc::clone(&self.calls.inbox));
        SubAgentTask { engine, turn: nested, arguments, timeout: config.timeout, inbox, at }
    }

    /// Passes on what nested turns have to say.
    pub(super) fn hear_nested(&mut self) {
        while let Some((at, event)) = self.calls.inbox.pop() {
            let Some(call) = self.calls.list.get_mut(at) else { continue };
            let Some(nested) = call.nested.as_mut() else { continue };
            nested.note(&event);
            if let RunnerEvent::RoundEnd { usage, .. } = &event {
                self.usage += *usage;
            }
            // Rounds of nested turns are counted in each turn around them and shown by none.
            let shown = match &event {
                RunnerEvent::Round { .. } => false,
                RunnerEvent::RoundEnd { .. } => self.turn.family.depth > 0,
                _ => true,
            };
            if shown {
                (self.emit)(event);
            }
        }
    }

    /// The call that ran a nested turn settles.
    pub(super) fn end_nested(&mut self, at: usize, outcome: &ToolOutcome) {
        self.hear_nested();
        let Some(call) = self.calls.list.get_mut(at) else { return };
        let Some(mut nested) = call.nested.take() else { return };
        let why = match outcome {
            ToolOutcome::Ok { .. } => "the sub-agent has ended",
            ToolOutcome::Failed { error } | ToolOutcome::Rejected { error, .. } => error,
        };
        let mut events = nested.stopped(why);
        events.push(nested.ended(&call.id));
        events.into_iter().for_each(|event| (self.emit)(event));
    }
}
