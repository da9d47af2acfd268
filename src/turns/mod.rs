//! A turn's life outside the engine: it begins with a stored user message, runs on one tracked task
//! whoever listens, appends everything to its one log, and ends with exactly one `turn_end`
//! (invariant 7).

mod claims;
pub mod fold;
pub mod history;
mod journal;
mod live;
pub mod log;
mod observe;
pub mod recover;
mod tail;
mod task;
pub mod view;

pub use live::{Live, LiveTurns};

use crate::engine::StreamingEngine;
use crate::engine::budget::Limits;
use crate::engine::event::{RunnerEvent, ToolMode};
use crate::knowledge::claims::Claims;
use crate::knowledge::retrieve::Retrieve;
use crate::llm::LlmProvider;
use crate::shutdown::Shutdown;
use crate::storage::turns::{Begun, Idempotency, StoredTurn};
use crate::storage::{Db, StorageError, conversations, messages, turn_log, turns};
use journal::Journal;
use log::{TurnLog, Wire};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use task::Task;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use view::TurnView;

/// Starts turns. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    engine: StreamingEngine,
    retrieve: Retrieve,
    /// `None`: answers are not held against their sources.
    claims: Option<Claims>,
    shutdown: Shutdown,
    wire: Wire,
    options: TurnOptions,
    live: LiveTurns,
    /// Logs of turns that have ended and that somebody reads: all readers of one share it.
    ended: Mutex<HashMap<Uuid, Weak<TurnLog>>>,
    journal: Journal,
    stop_journal: CancellationToken,
    /// The journal's.
    tasks: TaskTracker,
}

/// What holds for every turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnOptions {
    /// For a whole turn.
    pub timeout: Duration,
    /// Hits of automatic retrieval.
    pub retrieval_limit: usize,
    /// Hits of it from one document at most.
    pub per_document: usize,
    /// Least dense cosine of automatic retrieval.
    pub min_cosine: f32,
    /// How long the end of a turn waits for the judgement of its last sentences.
    pub claims_wait: Duration,
    /// Sentences of an answer that are judged.
    pub max_claims: usize,
    /// Bytes of a turn's frames; a longer one is ended.
    pub max_log_bytes: usize,
}

/// What a client asks for, already checked against what is registered.
pub struct TurnInput {
    pub message: String,
    pub conversation_id: Option<Uuid>,
    pub replace_message_id: Option<Uuid>,
    /// Existing collections, at least one.
    pub collections: Vec<String>,
    pub provider: Arc<dyn LlmProvider>,
    pub mode: ToolMode,
    /// Names of registered tools.
    pub tools: Vec<String>,
    pub retrieval: Retrieval,
    /// At most the engine's.
    pub limits: Limits,
    pub tool_timeout: Duration,
    /// Id of the API key, where one was given.
    pub owner: Option<String>,
    pub idempotency: Option<Idempotency>,
    /// See [`Live::asked_by`].
    pub asked_by: Option<Uuid>,
    /// See [`Live::cancel`]; it may be cancelled before the turn has begun.
    pub cancel: CancellationToken,
}

/// When the knowledge base is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retrieval {
    /// Before round 0.
    Auto,
    /// Only when the model calls `vector_search`.
    Tool,
    /// As `Auto`, and an answer without sources says so.
    Required,
    Off,
}

/// What became of a request for a turn.
pub enum Started {
    New(Arc<Live>),
    /// The client's idempotency key began this one; `same_body`: by the same request.
    Known {
        turn_id: Uuid,
        same_body: bool,
    },
}

/// Why a turn did not begin; nothing of it was stored.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the server is stopping")]
    Stopping,
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Turns {
    /// Also starts the task that stores what turns append.
    pub fn new(
        db: Db,
        engine: StreamingEngine,
        (retrieve, claims): (Retrieve, Option<Claims>),
        shutdown: Shutdown,
        wire: Wire,
        options: TurnOptions,
    ) -> Self {
        let (journal, stop_journal, tasks) = (Journal::default(), CancellationToken::new(), TaskTracker::new());
        tasks.spawn(journal.clone().run(db.clone(), stop_journal.clone()));
        tasks.close();
        let live = LiveTurns::default();
        let inner = Inner {
            db,
            engine,
            retrieve,
            claims,
            shutdown,
            wire,
            options,
            live,
            ended: Mutex::default(),
            journal,
            stop_journal,
            tasks,
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn engine(&self) -> &StreamingEngine {
        &self.inner.engine
    }

    pub fn live(&self) -> &LiveTurns {
        &self.inner.live
    }

    /// Stores the user's message and starts the turn on a task of its own. When this returns the
    /// message has survived a crash.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(&self, input: TurnInput) -> Result<Started, StartError> {
        if self.inner.shutdown.is_stopping() {
            return Err(StartError::Stopping);
        }
        // On a task of its own: a client that goes away meanwhile leaves no turn half begun.
        let turns = self.clone();
        self.inner.shutdown.spawn(async move { turns.begin(input).await }).await.unwrap_or(Err(StartError::Stopping))
    }

    async fn begin(&self, input: TurnInput) -> Result<Started, StartError> {
        let inner = Arc::clone(&self.inner);
        let began = Instant::now();
        let turn_id = Uuid::now_v7();
        if let Some(id) = input.conversation_id {
            inner.own_conversation(id, input.owner.as_deref()).await?;
        }
        let turn = Arc::new(Live {
            turn_id,
            conversation_id: input.conversation_id.unwrap_or_else(Uuid::now_v7),
            owner: input.owner.clone(),
            asked_by: input.asked_by,
            log: Arc::new(TurnLog::new(turn_id, began, inner.wire, inner.journal.clone())),
            cancel: input.cancel.clone(),
            approvals: Arc::default(),
        });
        let new = turns::NewTurn {
            turn_id,
            conversation_id: turn.conversation_id,
            opens: input.conversation_id.is_none(),
            owner: input.owner.clone(),
            user_text: input.message.clone(),
            replace_message_id: input.replace_message_id,
            provider: input.provider.id().to_owned(),
            model: input.provider.model().to_owned(),
            tool_mode: input.mode.as_str(),
            idempotency: input.idempotency.clone(),
        };
        // Before its rows can be seen: whoever finds those finds the turn running.
        inner.live.insert(Arc::clone(&turn));
        let begun = turns::start(&inner.db, new).await;
        if !matches!(begun, Ok(Begun::New(_))) {
            inner.live.remove(turn_id);
        }
        if let Begun::Known { turn_id, same_body } = begun? {
            return Ok(Started::Known { turn_id, same_body });
        }
        turn.log.append(RunnerEvent::TurnStart {
            turn_id,
            conversation_id: turn.conversation_id,
            provider: input.provider.id().to_owned(),
            model: input.provider.model().to_owned(),
            tool_mode: input.mode,
        });
        inner.live.announce(Arc::clone(&turn));
        let task = Task { inner: Arc::clone(&inner), turn: Arc::clone(&turn), began };
        drop(inner.shutdown.spawn(task.run(input)));
        Ok(Started::New(turn))
    }

    /// The log of a turn that runs or has ended.
    ///
    /// # Errors
    /// [`StorageError::NotFound`]: there is no such turn, or it is not the owner's.
    pub async fn log(&self, turn_id: Uuid, owner: Owner<'_>) -> Result<Arc<TurnLog>, StorageError> {
        let inner = &self.inner;
        if let Some(turn) = inner.live.get(turn_id) {
            return if owner.may_see(turn.owner.as_deref()) {
                Ok(Arc::clone(&turn.log))
            } else {
                Err(unknown(turn_id))
            };
        }
        // Looked up after the running ones: a turn is removed from those once its end is stored.
        self.stored(turn_id, owner).await?;
        if let Some(log) = inner.ended().get(&turn_id).and_then(Weak::upgrade) {
            return Ok(log);
        }
        let log = Arc::new(TurnLog::ended(turn_id, inner.wire, turn_log::read(&inner.db, turn_id).await?));
        let mut ended = inner.ended();
        // Another reader may have been quicker.
        if let Some(log) = ended.get(&turn_id).and_then(Weak::upgrade) {
            return Ok(log);
        }
        ended.retain(|_, log| log.strong_count() > 0);
        ended.insert(turn_id, Arc::downgrade(&log));
        Ok(log)
    }

    /// What is known of a turn.
    ///
    /// # Errors
    /// See [`Turns::log`].
    pub async fn view(&self, turn_id: Uuid, owner: Owner<'_>) -> Result<TurnView, StorageError> {
        if let Some(turn) = self.inner.live.get(turn_id) {
            return if owner.may_see(turn.owner.as_deref()) { Ok(TurnView::of(&turn)) } else { Err(unknown(turn_id)) };
        }
        let stored = self.stored(turn_id, owner).await?;
        let messages = messages::history(&self.inner.db, stored.conversation_id).await?;
        let answer = messages.into_iter().find(|message| message.id == stored.assistant_message_id);
        Ok(TurnView::stored(stored, answer.ok_or_else(|| unknown(turn_id))?))
    }

    /// Cancels a turn; one that has ended stays as it is.
    ///
    /// # Errors
    /// See [`Turns::log`].
    pub async fn cancel(&self, turn_id: Uuid, owner: Owner<'_>) -> Result<(), StorageError> {
        match self.inner.live.get(turn_id) {
            Some(turn) if owner.may_see(turn.owner.as_deref()) => turn.cancel.cancel(),
            Some(_) => return Err(unknown(turn_id)),
            None => drop(self.stored(turn_id, owner).await?),
        }
        Ok(())
    }

    /// The user's word on a call that waits for it; `false`: no such call waits.
    ///
    /// # Errors
    /// See [`Turns::log`].
    pub async fn approve(
        &self,
        turn_id: Uuid,
        owner: Owner<'_>,
        call_id: &str,
        allow: bool,
    ) -> Result<bool, StorageError> {
        match self.inner.live.get(turn_id) {
            Some(turn) if owner.may_see(turn.owner.as_deref()) => Ok(turn.approvals.answer(call_id, allow)),
            Some(_) => Err(unknown(turn_id)),
            None => self.stored(turn_id, owner).await.map(|_| false),
        }
    }

    async fn stored(&self, turn_id: Uuid, owner: Owner<'_>) -> Result<StoredTurn, StorageError> {
        let found = turns::find(&self.inner.db, turn_id).await?;
        found.filter(|turn| owner.may_see(turn.owner.as_deref())).ok_or_else(|| unknown(turn_id))
    }

    /// After the last turn has ended: stores what is left, and ends.
    pub async fn close(&self) {
        self.inner.stop_journal.cancel();
        self.inner.tasks.wait().await;
    }
}

fn unknown(turn_id: Uuid) -> StorageError {
    StorageError::NotFound { what: "turn", id: turn_id.to_string() }
}

/// Whose turns and conversations a request may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// There are no keys, or the request carries the operator's.
    Any,
    Key(&'a str),
}

impl Owner<'_> {
    pub fn may_see(self, owner: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Key(key) => owner == Some(key),
        }
    }
}

impl Inner {
    fn ended(&self) -> MutexGuard<'_, HashMap<Uuid, Weak<TurnLog>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn own_conversation(&self, id: Uuid, owner: Option<&str>) -> Result<(), StorageError> {
        let found = conversations::find(&self.db, id).await?;
        if found.is_some_and(|c| owner.is_none() || c.owner.as_deref() == owner) {
            return Ok(());
        }
        Err(StorageError::NotFound { what: "conversation", id: id.to_string() })
    }
}
