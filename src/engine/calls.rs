//! The calls of a turn: admitted ones run on tasks of their own, and each sealed call gets exactly one
//! outcome (invariant 5). A panic inside a tool is that call's failure, nothing more.

use super::arguments::{ArgumentError, Sent};
use super::budget::{Admission, Ticket, ToolBudget};
use super::continuation::SettledCall;
use super::event::{Rejection, Span, ToolOutcome, ToolSettled, ToolStart};
use super::loop_guard;
use super::timeline::Interval;
use super::tool_task::{Ran, ToolTask};
use super::{EngineTurn, TurnState};
use crate::engine::event::{Notice, RunnerEvent};
use crate::message::Arguments;
use crate::tools::ToolContext;
use std::collections::{HashMap, HashSet};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

/// A finished task, as the pull loop gets it.
pub(super) type Joined = Result<(Id, Ran), JoinError>;

pub(super) struct Calls {
    pub context: ToolContext,
    pub budget: ToolBudget,
    tasks: JoinSet<Ran>,
    by_task: HashMap<Id, usize>,
    /// This round's, in the order they were sealed.
    list: Vec<Call>,
    /// Admitted calls that wait for the stream's end: they have side effects, or `engine.overlap = false`.
    waiting: Vec<(usize, ToolTask)>,
    round: u32,
    ids: HashSet<String>,
    intervals: Vec<Interval>,
    run: u32,
    rejected: u32,
    ingest_ms: u64,
    capped: HashSet<Rejection>,
}

struct Call {
    id: String,
    name: String,
    /// `None`: they could not be read.
    arguments: Option<Arguments>,
    /// What the loop guard knows it by.
    key: String,
    index: u32,
    span: Option<Span>,
    sealed: Instant,
    /// What it has used up of the budget; `None`: it was refused.
    ticket: Option<Ticket>,
    task: Option<AbortHandle>,
    /// The outcome, and how long it was before it was cut.
    settled: Option<(ToolOutcome, Option<u64>)>,
}

/// A call as the round hands it in.
pub(super) struct Sealed {
    /// The provider's id; `None` for inline calls.
    pub id: Option<String>,
    pub name: String,
    /// Or why they are not what the tool takes.
    pub arguments: Result<Arguments, ArgumentError>,
    /// As they were sent: a refused native call goes back with them.
    pub sent: Sent,
    pub span: Option<Span>,
}

impl Calls {
    pub fn new(turn: &EngineTurn, registered: impl IntoIterator<Item = String>, context: ToolContext) -> Self {
        Self {
            context,
            budget: ToolBudget::new(turn.limits, registered, turn.tools.iter().cloned()),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            list: Vec::new(),
            waiting: Vec::new(),
            round: 0,
            ids: HashSet::new(),
            intervals: Vec::new(),
            run: 0,
            rejected: 0,
            ingest_ms: 0,
            capped: HashSet::new(),
        }
    }

    /// `tools`: whether the round was offered any.
    pub fn begin_round(&mut self, round: u32, tools: bool) {
        self.round = round;
        self.list.clear();
        self.budget.begin_round(round);
        if !tools {
            self.budget.close_round();
        }
    }

    /// What the loop guard knows the round's calls by. One that only a cap of the round kept from running may come
    /// again.
    pub fn keys(&self) -> Vec<String> {
        let capped = |call: &&Call| {
            matches!(&call.settled, Some((ToolOutcome::Rejected { reason: Rejection::CapRound, .. }, _)))
        };
        self.list.iter().filter(|call| !capped(call)).map(|call| call.key.clone()).collect()
    }

    /// The bytes of the round's sealed blocks in the turn's visible text.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        self.list.iter().filter_map(|call| call.span)
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    pub fn run(&self) -> u32 {
        self.run
    }

    pub fn rejected(&self) -> u32 {
        self.rejected
    }

    pub fn ingest_ms(&self) -> u64 {
        self.ingest_ms
    }

    /// `true` the first time in this turn.
    pub fn first_cap(&mut self, reason: Rejection) -> bool {
        self.capped.insert(reason)
    }

    pub fn running(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// The next finished task; pends for ever while none runs. Cancel safe.
    pub async fn join(&mut self) -> Joined {
        match self.tasks.join_next_with_id().await {
            Some(joined) => joined,
            None => std::future::pending().await,
        }
    }

    /// Outcomes in call order. Every call of the round has settled by then.
    pub fn record(&self) -> Vec<SettledCall> {
        self.list
            .iter()
            .filter_map(|call| {
                let (outcome, full_bytes) = call.settled.clone()?;
                Some(SettledCall {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    outcome,
                    full_bytes,
                })
            })
            .collect()
    }

    /// The provider's id where it is new in this turn; else one derived from turn, round and position.
    fn name_call(&mut self, given: Option<String>) -> String {
        let id = given.filter(|id| !id.is_empty() && !self.ids.contains(id)).unwrap_or_else(|| {
            Uuid::new_v5(&self.context.turn_id, format!("{}/{}", self.round, self.list.len()).as_bytes()).to_string()
        });
        self.ids.insert(id.clone());
        id
    }

    fn spawn(&mut self, at: usize, task: ToolTask) {
        let handle = self.tasks.spawn(task.run());
        self.by_task.insert(handle.id(), at);
        if let Some(call) = self.list.get_mut(at) {
            call.task = Some(handle);
        }
    }
}

impl TurnState<'_> {
    /// The one gate: admits the call and starts it, or settles it as refused. Returns its place in the
    /// round.
    pub(super) fn seal(&mut self, sealed: Sealed) -> usize {
        let id = self.calls.name_call(sealed.id);
        let at = self.calls.list.len();
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        let arguments = sealed.arguments.map_err(|error| error.with_sent(&sealed.sent));
        let admission = self.calls.budget.admit(&sealed.name, arguments.as_ref());
        let shown = arguments.as_ref().ok().cloned().or(sealed.sent.arguments);
        let key = match &shown {
            Some(arguments) => loop_guard::key(&sealed.name, arguments),
            None => loop_guard::key_of_text(&sealed.name, &sealed.sent.text),
        };
        self.calls.list.push(Call {
            id,
            name: sealed.name,
            arguments: shown,
            key,
            index,
            span: sealed.span,
            sealed: Instant::now(),
            ticket: None,
            task: None,
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
        let Some(tool) = self.engine.tools.get(&call.name) else { return };
        let task = ToolTask {
            tool: std::sync::Arc::clone(tool),
            arguments,
            context: self.calls.context.clone(),
            deadline: self.turn.tool_timeout,
            max_result_bytes: self.engine.config.max_result_bytes,
            keeper: self.engine.keeper.clone(),
        };
        if self.engine.config.overlap && !tool.spec().side_effects {
            self.launch(at, task);
        } else {
            self.calls.waiting.push((at, task));
        }
    }

    /// Starts the calls that waited for the stream's end.
    pub(super) fn launch_waiting(&mut self) {
        for (at, task) in std::mem::take(&mut self.calls.waiting) {
            self.launch(at, task);
        }
    }

    fn launch(&mut self, at: usize, task: ToolTask) {
        let Some(call) = self.calls.list.get(at) else { return };
        let started = ToolStart {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: task.arguments.clone(),
            round: self.calls.round,
            index: call.index,
            span: call.span,
        };
        // The task is spawned first: telling takes longer than starting.
        self.calls.spawn(at, task);
        (self.emit)(RunnerEvent::ToolStart(started));
    }

    /// A task has ended: announces what it brought.
    pub(super) fn settle(&mut self, joined: Joined) {
        let (task, ran) = match joined {
            Ok((task, ran)) => (task, Ok(ran)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(at) = self.calls.by_task.remove(&task) else { return };
        let Some(call) = self.calls.list.get_mut(at) else { return };
        if call.settled.is_some() {
            return;
        }
        match ran {
            Ok(ran) => self.settle_ran(at, ran),
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
        self.calls.tasks.abort_all();
        self.calls.waiting.clear();
        let open: Vec<usize> = (0..self.calls.list.len()).filter(|at| self.calls.list[*at].settled.is_none()).collect();
        for at in open {
            self.announce(at, Settlement::failed(why.to_owned()));
        }
    }

    fn announce(&mut self, at: usize, settlement: Settlement) {
        let Some(call) = self.calls.list.get_mut(at) else { return };
        call.settled = Some((settlement.outcome.clone(), settlement.full_bytes));
        let duration_ms = match &settlement.outcome {
            ToolOutcome::Failed { .. } if settlement.duration_ms == 0 => {
                u64::try_from(call.sealed.elapsed().as_millis()).unwrap_or(u64::MAX)
            }
            _ => settlement.duration_ms,
        };
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
        }));
    }
}

struct Settlement {
    outcome: ToolOutcome,
    duration_ms: u64,
    ingest_ms: Option<u64>,
    full_bytes: Option<u64>,
    ingested: Option<super::event::Ingested>,
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
