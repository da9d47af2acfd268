//! From a sealed call to its one outcome (invariant 5): the gate, the start, the announcement. A panic inside a tool is
//! that call's failure, nothing more.

use super::TurnState;
use super::budget::Admission;
use super::calls::{Beside, Brought, Call, Sealed, Work};
use super::event::{Ingested, Notice, Rejection, RunnerEvent, ToolOutcome, ToolSettled, ToolStart};
use super::loop_guard;
use super::sub_agent::Nested;
use super::tool_task::{Ran, ToolTask};
use crate::message::Arguments;
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

impl TurnState<'_> {
    /// The one gate: admits the call and starts it, or settles it as refused. Returns its place in the
    /// round.
    pub(super) fn seal(&mut self, sealed: Sealed) -> usize {
        let id = self.calls.name_call(sealed.id);
        let at = self.calls.list.len();
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        let arguments = sealed.arguments.map_err(|error| error.with_sent(&sealed.sent));
        let admission = self.calls.budget.admit(&sealed.name, arguments.as_ref());
        let key = match &arguments {
            Ok(arguments) => loop_guard::key(&sealed.name, arguments),
            Err(_) => loop_guard::key_of_text(&sealed.name, &sealed.sent.text),
        };
        self.calls.list.push(Call {
            id,
            name: sealed.name,
            arguments: arguments.as_ref().ok().cloned().or(sealed.sent.arguments),
            key,
            index,
            span: sealed.span,
            sealed: Instant::now(),
            ticket: None,
            task: None,
            nested: None,
            settled: None,
        });
        match (admission, arguments) {
            (Admission::Run(ticket), Ok(arguments)) => {
                if let Some(call) = self.calls.list.get_mut(at) {
                    call.ticket = Some(ticket);
                }
                self.start(at, arguments);
            }
            (Admission::Run(_), Err(error)) => self.refuse(at, Rejection::BadArguments, error.to_string()),
            (Admission::Refuse { reason, message }, _) => self.refuse(at, reason, message),
        }
        at
    }

    fn start(&mut self, at: usize, arguments: Arguments) {
        let Some(call) = self.calls.list.get(at) else { return };
        let (work, side_effects) = match self.engine.tools.get(&call.name) {
            Some(tool) => {
                let task = ToolTask {
                    tool: std::sync::Arc::clone(tool),
                    arguments,
                    context: self.calls.context.clone(),
                    deadline: self.turn.tool_timeout,
                    max_result_bytes: self.engine.config.max_result_bytes,
                    keeper: self.engine.keeper.clone(),
                };
                (Work::Tool(Box::new(task)), tool.spec().side_effects)
            }
            None => (Work::Nested(Box::new(self.sub_agent(at, &call.id, arguments))), false),
        };
        if self.engine.config.overlap && !side_effects {
            self.launch(at, work);
        } else {
            self.calls.waiting.push((at, work));
        }
    }

    /// The stream has ended cleanly: starts the calls that waited for it, or asks the user about them.
    pub(super) fn launch_waiting(&mut self) {
        for (at, work) in std::mem::take(&mut self.calls.waiting) {
            let side_effects = matches!(&work, Work::Tool(task) if task.tool.spec().side_effects);
            if side_effects && self.outside { self.ask(at, work) } else { self.launch(at, work) }
        }
    }

    pub(super) fn launch(&mut self, at: usize, work: Work) {
        let depth = self.turn.family.depth;
        let Some(call) = self.calls.list.get_mut(at) else { return };
        let started = ToolStart {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: work.arguments().clone(),
            round: self.calls.round,
            index: call.index,
            span: call.span,
            depth,
        };
        let nested = match &work {
            Work::Nested(task) => Some(Nested::new(task)),
            Work::Tool(_) => None,
        };
        let began = nested.as_ref().map(|nested| nested.began(&call.id));
        call.nested = nested;
        // The task is spawned first: telling takes longer than starting.
        self.calls.spawn(at, work);
        (self.emit)(RunnerEvent::ToolStart(started));
        if let Some(began) = began {
            (self.emit)(began);
        }
    }

    /// Takes what came from beside the stream.
    pub(super) fn take_beside(&mut self, beside: Beside) {
        match beside {
            Beside::Nested => self.hear_nested(),
            Beside::Joined(joined) => self.settle(joined),
        }
    }

    /// A task has ended: announces what it brought.
    fn settle(&mut self, joined: Result<(Id, Brought), JoinError>) {
        let (task, brought) = match joined {
            Ok((task, brought)) => (task, Ok(brought)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(at) = self.calls.by_task.remove(&task) else { return };
        let Some(call) = self.calls.list.get(at) else { return };
        if call.settled.is_some() {
            return;
        }
        match brought {
            Ok(Brought::Ran(ran)) => self.settle_ran(at, *ran),
            Ok(Brought::Word(word)) => self.answered(at, word),
            Err(error) => {
                let name = call.name.clone();
                tracing::error!(tool = %name, %error, "a tool crashed");
                self.calls.run += 1;
                self.announce(at, Settlement::failed("the tool crashed".to_owned()));
            }
        }
    }

    fn settle_ran(&mut self, at: usize, ran: Ran) {
        let ms = |instant: Instant| {
            let since = instant.saturating_duration_since(self.turn.began);
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        let interval = (ms(ran.began), ms(ran.answered));
        self.calls.intervals.push(interval);
        self.calls.run += 1;
        let ingest_ms = ran.ingest_time.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        self.calls.ingest_ms += ingest_ms.unwrap_or(0);
        if let Some(message) = ran.ingest_error {
            (self.emit)(RunnerEvent::Notice(Notice {
                code: "ingest_failed",
                title: "A result was not stored".to_owned(),
                message,
            }));
        }
        if !ran.sources.is_empty() {
            (self.emit)(RunnerEvent::Sources(ran.sources));
        }
        self.announce(
            at,
            Settlement {
                outcome: ran.outcome,
                duration_ms: interval.1 - interval.0,
                ingest_ms,
                full_bytes: ran.full_bytes,
                ingested: ran.ingested,
            },
        );
    }

    /// Settles a call as refused: it did not run, or its task is stopped.
    pub(super) fn refuse(&mut self, at: usize, reason: Rejection, message: String) {
        self.calls.waiting.retain(|(waiting, _)| *waiting != at);
        if let Some(task) = self.calls.list.get_mut(at).and_then(|c| c.task.take()) {
            task.abort();
        }
        self.calls.rejected += 1;
        self.announce(
            at,
            Settlement {
                outcome: ToolOutcome::Rejected { reason, error: message },
                duration_ms: 0,
                ingest_ms: None,
                full_bytes: None,
                ingested: None,
            },
        );
        self.notice_cap(reason);
    }

    /// Takes back a started native call whose arguments went on after their object had closed.
    pub(super) fn revoke(&mut self, at: usize, message: String) {
        let Some(call) = self.calls.list.get_mut(at) else { return };
        if call.settled.is_some() {
            return;
        }
        if let Some(ticket) = call.ticket.take() {
            self.calls.budget.revoke(&ticket);
        }
        self.refuse(at, Rejection::BadArguments, message);
    }

    /// Stops every call that still runs, and says why.
    pub(super) fn abandon_calls(&mut self, why: &str) {
        self.hear_nested();
        self.calls.stop().iter().for_each(|call| self.turn.approvals.forget(call));
        let open: Vec<usize> = (0..self.calls.list.len()).filter(|at| self.calls.list[*at].settled.is_none()).collect();
        for at in open {
            self.announce(at, Settlement::failed(why.to_owned()));
        }
    }

    fn announce(&mut self, at: usize, settlement: Settlement) {
        self.end_nested(at, &settlement.outcome);
        let depth = self.turn.family.depth;
        let Some(call) = self.calls.list.get_mut(at) else { return };
        call.settled = Some((settlement.outcome.clone(), settlement.full_bytes));
        let duration_ms = match &settlement.outcome {
            ToolOutcome::Failed { .. } if settlement.duration_ms == 0 => {
                u64::try_from(call.sealed.elapsed().as_millis()).unwrap_or(u64::MAX)
            }
            _ => settlement.duration_ms,
        };
        // A refused name is anything that a model may say; those that ran are registered.
        if !matches!(settlement.outcome, ToolOutcome::Rejected { .. }) {
            let took = std::time::Duration::from_millis(duration_ms);
            metrics::histogram!("tailrace_tool_seconds", "tool" => call.name.clone()).record(took.as_secs_f64());
        }
        (self.emit)(RunnerEvent::ToolResult(ToolSettled {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone().unwrap_or_default(),
            outcome: settlement.outcome,
            duration_ms,
            ingest_ms: settlement.ingest_ms,
            truncated: settlement.full_bytes.is_some(),
            span: call.span,
            ingested: settlement.ingested,
            depth,
        }));
    }
}

struct Settlement {
    outcome: ToolOutcome,
    duration_ms: u64,
    ingest_ms: Option<u64>,
    full_bytes: Option<u64>,
    ingested: Option<Ingested>,
}

impl Settlement {
    fn failed(error: String) -> Self {
        Self {
            outcome: ToolOutcome::Failed { error },
            duration_ms: 0,
            ingest_ms: None,
            full_bytes: None,
            ingested: None,
        }
    }
}
