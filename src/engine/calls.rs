//! The calls of a turn, and the tasks on which admitted ones run. `dispatch.rs` is what happens to them.

use super::EngineTurn;
use super::approval::Word;
use super::arguments::{ArgumentError, Sent};
use super::budget::{Ticket, ToolBudget};
use super::continuation::SettledCall;
use super::event::{Rejection, Span, ToolMode, ToolOutcome};
use super::sub_agent::{Inbox, Nested, SubAgentTask};
use super::timeline::Interval;
use super::tool_task::{Ran, ToolTask};
use crate::message::Arguments;
use crate::tools::{PendingIngests, ToolContext};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

/// What comes from beside the stream.
pub(super) enum Beside {
    /// A task has ended.
    Joined(Result<(Id, Brought), JoinError>),
    /// A nested turn has something to say.
    Nested,
}

/// What a task brought.
pub(super) enum Brought {
    Ran(Box<Ran>),
    /// The user's answer, or none.
    Word(Word),
}

/// What an admitted call does.
pub(super) enum Work {
    Tool(Box<ToolTask>),
    Nested(Box<SubAgentTask>),
}

impl Work {
    pub fn arguments(&self) -> &Arguments {
        match self {
            Self::Tool(task) => &task.arguments,
            Self::Nested(task) => &task.arguments,
        }
    }

    fn run(self) -> BoxFuture<'static, Ran> {
        match self {
            Self::Tool(task) => Box::pin(task.run()),
            Self::Nested(task) => task.run(),
        }
    }
}

/// What the turns of one family share: a turn, and those that its calls of `sub_agent` run.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// 0: the turn that somebody asked for.
    pub depth: u32,
    /// The call that runs this one.
    pub parent: Option<String>,
    /// Ids of calls that were used.
    ids: Arc<Mutex<HashSet<String>>>,
    pub(super) pending: PendingIngests,
}

impl Family {
    pub(super) fn child(&self, call_id: &str) -> Self {
        Self { depth: self.depth + 1, parent: Some(call_id.to_owned()), ..self.clone() }
    }
}

pub(super) struct Calls {
    pub context: ToolContext,
    pub budget: ToolBudget,
    pub tasks: JoinSet<Brought>,
    pub by_task: HashMap<Id, usize>,
    /// This round's, in the order they were sealed.
    pub list: Vec<Call>,
    /// Admitted calls that wait for the stream's end: they have side effects, or `engine.overlap = false`.
    pub waiting: Vec<(usize, Work)>,
    /// Admitted calls that wait for the user's word.
    asked: Vec<(usize, Work)>,
    pub inbox: Arc<Inbox>,
    family: Family,
    pub round: u32,
    pub intervals: Vec<Interval>,
    pub run: u32,
    pub rejected: u32,
    pub ingest_ms: u64,
    capped: HashSet<Rejection>,
}

pub(super) struct Call {
    pub id: String,
    pub name: String,
    /// `None`: they could not be read.
    pub arguments: Option<Arguments>,
    /// What the loop guard knows it by.
    pub key: String,
    pub index: u32,
    pub span: Option<Span>,
    pub sealed: Instant,
    /// What it has used up of the budget; `None`: it was refused.
    pub ticket: Option<Ticket>,
    pub task: Option<AbortHandle>,
    /// The turn that it runs, if it runs one.
    pub nested: Option<Nested>,
    /// The outcome, and how long it was before it was cut.
    pub settled: Option<(ToolOutcome, Option<u64>)>,
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
        // A model may call what it was not offered.
        let allowed = turn.tools.iter().filter(|_| turn.mode != ToolMode::Off);
        Self {
            context,
            budget: ToolBudget::new(turn.limits, registered, allowed.cloned()),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            list: Vec::new(),
            waiting: Vec::new(),
            asked: Vec::new(),
            inbox: Arc::default(),
            family: turn.family.clone(),
            round: 0,
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

    /// `true` the first time in this turn.
    pub fn first_cap(&mut self, reason: Rejection) -> bool {
        self.capped.insert(reason)
    }

    pub fn running(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// The next that happens beside the stream; pends for ever while nothing runs. Cancel safe.
    pub async fn beside(&mut self) -> Beside {
        let Self { tasks, inbox, .. } = self;
        let joined = async {
            match tasks.join_next_with_id().await {
                Some(joined) => Beside::Joined(joined),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What a nested turn said comes before its end.
            biased;
            () = inbox.some() => Beside::Nested,
            joined = joined => joined,
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
    pub fn name_call(&self, given: Option<String>) -> String {
        let mut ids = self.family.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let id = given.filter(|id| !id.is_empty() && !ids.contains(id)).unwrap_or_else(|| {
            let parent = self.family.parent.as_deref().map(|call| format!("{call}/")).unwrap_or_default();
            let place = format!("{parent}{}/{}", self.round, self.list.len());
            Uuid::new_v5(&self.context.turn_id, place.as_bytes()).to_string()
        });
        ids.insert(id.clone());
        id
    }

    pub fn spawn(&mut self, at: usize, work: Work) {
        let run = work.run();
        self.spawn_task(at, async move { Brought::Ran(Box::new(run.await)) });
    }

    /// Keeps the work until the question is answered.
    pub fn spawn_question(&mut self, at: usize, work: Work, question: impl Future<Output = Word> + Send + 'static) {
        self.asked.push((at, work));
        self.spawn_task(at, async move { Brought::Word(question.await) });
    }

    fn spawn_task(&mut self, at: usize, task: impl Future<Output = Brought> + Send + 'static) {
        let handle = self.tasks.spawn(task);
        self.by_task.insert(handle.id(), at);
        if let Some(call) = self.list.get_mut(at) {
            call.task = Some(handle);
        }
    }

    /// The work that waited for the user's word.
    pub fn take_asked(&mut self, at: usize) -> Option<Work> {
        let place = self.asked.iter().position(|(asked, _)| *asked == at)?;
        Some(self.asked.swap_remove(place).1)
    }

    /// The call will not run: it does not count towards the caps.
    pub fn release(&mut self, at: usize) {
        if let Some(ticket) = self.list.get_mut(at).and_then(|call| call.ticket.take()) {
            self.budget.release(&ticket);
        }
    }

    /// Stops all tasks; the ids of the calls that the user was asked about.
    pub fn stop(&mut self) -> Vec<String> {
        self.tasks.abort_all();
        self.waiting.clear();
        let asked = std::mem::take(&mut self.asked);
        asked.iter().filter_map(|(at, _)| self.list.get(*at)).map(|call| call.id.clone()).collect()
    }
}
