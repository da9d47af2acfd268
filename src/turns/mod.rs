//! A turn's life outside the engine: it begins with a stored user message, runs on one tracked task
//! whoever listens, appends everything to its one log, and ends with exactly one `turn_end`
//! (invariant 7).

pub mod history;
pub mod log;
mod observe;
pub mod record;

use crate::engine::budget::Limits;
use crate::engine::event::{Finish, RunnerEvent, ToolMode};
use crate::engine::{EngineTurn, StreamingEngine, TurnOutcome};
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::retrieve::{Retrieve, SearchRequest};
use crate::llm::LlmProvider;
use crate::message::ChatMessage;
use crate::message::passages::Passage;
use crate::message::sources::{Source, SourceBook, snippet};
use crate::shutdown::Shutdown;
use crate::storage::{Db, StorageError, conversations, messages, turns};
use crate::tools::seen_urls::SeenUrls;
use futures_util::FutureExt;
use log::{Encode, TurnLog};
use record::Fold;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Starts turns. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    engine: StreamingEngine,
    retrieve: Retrieve,
    shutdown: Shutdown,
    encode: Encode,
    options: TurnOptions,
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

/// A turn that has begun.
pub struct RunningTurn {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    pub log: Arc<TurnLog>,
    /// Stops the provider, the tools and their ingestion; the partial answer is kept.
    pub cancel: CancellationToken,
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
    pub fn new(
        db: Db,
        engine: StreamingEngine,
        retrieve: Retrieve,
        shutdown: Shutdown,
        encode: Encode,
        options: TurnOptions,
    ) -> Self {
        Self { inner: Arc::new(Inner { db, engine, retrieve, shutdown, encode, options }) }
    }

    pub fn engine(&self) -> &StreamingEngine {
        &self.inner.engine
    }

    /// Stores the user's message and starts the turn on a task of its own. When this returns the
    /// message has survived a crash.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(&self, input: TurnInput) -> Result<RunningTurn, StartError> {
        let inner = Arc::clone(&self.inner);
        if inner.shutdown.is_stopping() {
            return Err(StartError::Stopping);
        }
        let began = Instant::now();
        let turn_id = Uuid::now_v7();
        if let Some(id) = input.conversation_id {
            inner.own_conversation(id, input.owner.as_deref()).await?;
        }
        let started = turns::start(
            &inner.db,
            turns::NewTurn {
                turn_id,
                conversation_id: input.conversation_id,
                owner: input.owner.clone(),
                user_text: input.message.clone(),
                replace_message_id: input.replace_message_id,
                provider: input.provider.id().to_owned(),
                model: input.provider.model().to_owned(),
                tool_mode: input.mode.as_str(),
            },
        )
        .await?;
        let log = Arc::new(TurnLog::new(began, inner.encode));
        let cancel = CancellationToken::new();
        let running = RunningTurn {
            turn_id,
            conversation_id: started.conversation_id,
            log: Arc::clone(&log),
            cancel: cancel.clone(),
        };
        let task =
            Task { inner: Arc::clone(&inner), turn_id, conversation_id: started.conversation_id, began, log, cancel };
        drop(inner.shutdown.spawn(task.run(input)));
        Ok(running)
    }
}

impl Inner {
    async fn own_conversation(&self, id: Uuid, owner: Option<&str>) -> Result<(), StorageError> {
        let found = conversations::find(&self.db, id).await?;
        if found.is_some_and(|c| c.owner.as_deref() == owner) {
            return Ok(());
        }
        Err(StorageError::NotFound { what: "conversation", id: id.to_string() })
    }
}

struct Task {
    inner: Arc<Inner>,
    turn_id: Uuid,
    conversation_id: Uuid,
    began: Instant,
    log: Arc<TurnLog>,
    cancel: CancellationToken,
}

impl Task {
    async fn run(self, input: TurnInput) {
        let recorder = record::keep_storing(self.inner.db.clone(), self.turn_id, Arc::clone(&self.log));
        drop(self.inner.shutdown.spawn(recorder));
        let outcome = AssertUnwindSafe(self.answer(input)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(turn.id = %self.turn_id, "a turn crashed");
            self.fail("internal", "the turn failed inside the service; its log has the cause".to_owned());
            TurnOutcome {
                finish: Finish::Interrupted,
                fallback_reason: None,
                usage: Default::default(),
                telemetry: Default::default(),
            }
        });
        self.store_end(&outcome).await;
        self.log.append(RunnerEvent::TurnEnd {
            finish: outcome.finish,
            fallback_reason: outcome.fallback_reason,
            usage: outcome.usage,
            telemetry: outcome.telemetry,
        });
        self.log.close();
        observe::ended(self.turn_id, &outcome);
    }

    async fn answer(&self, input: TurnInput) -> TurnOutcome {
        self.log.append(RunnerEvent::TurnStart {
            turn_id: self.turn_id,
            conversation_id: self.conversation_id,
            provider: input.provider.id().to_owned(),
            model: input.provider.model().to_owned(),
            tool_mode: input.mode,
        });
        let seen_urls = Arc::new(SeenUrls::default());
        seen_urls.add_text(&input.message);
        let (history, sources) = self.earlier(&seen_urls).await;
        let sources = Arc::new(sources);
        let required = input.retrieval == Retrieval::Required;
        let passages = match input.retrieval {
            Retrieval::Auto | Retrieval::Required => self.retrieve(&input, &sources, &seen_urls).await,
            Retrieval::Tool | Retrieval::Off => vec![],
        };
        let turn = EngineTurn {
            turn_id: self.turn_id,
            conversation_id: self.conversation_id,
            provider: input.provider,
            mode: input.mode,
            tools: input.tools,
            limits: input.limits,
            tool_timeout: input.tool_timeout,
            history,
            passages,
            question: input.message,
            collections: input.collections.into(),
            sources,
            seen_urls,
            began: self.began,
            deadline: self.began + self.inner.options.timeout,
            cancel: self.cancel.clone(),
        };
        let mut cited = !turn.passages.is_empty();
        let mut emit = |event: RunnerEvent| {
            cited |= matches!(event, RunnerEvent::Sources(_));
            self.log.append(event);
        };
        let outcome = self.inner.engine.run(&turn, &mut emit).await;
        if required && !cited && outcome.finish != Finish::Cancelled {
            self.log.append(RunnerEvent::Notice(crate::engine::event::Notice {
                code: "no_sources",
                title: "No sources".to_owned(),
                message: "Nothing in the knowledge base supports this answer.".to_owned(),
            }));
        }
        outcome
    }

    /// Earlier messages and citation numbers. A conversation that cannot be read is answered without
    /// its past, which the client is told.
    async fn earlier(&self, seen: &SeenUrls) -> (Vec<ChatMessage>, SourceBook) {
        let read = async {
            let mut stored = messages::history(&self.inner.db, self.conversation_id).await?;
            stored.retain(|m| m.turn_id != self.turn_id);
            let numbers = conversations::source_numbers(&self.inner.db, self.conversation_id).await?;
            Ok::<_, StorageError>((stored, numbers))
        };
        match read.await {
            Ok((stored, numbers)) => {
                history::note_urls(&stored, seen);
                (history::as_messages(&stored), SourceBook::new(numbers))
            }
            Err(error) => {
                tracing::error!(conversation.id = %self.conversation_id, %error, "the history could not be read");
                self.fail("history_unreadable", "earlier messages could not be read".to_owned());
                (vec![], SourceBook::default())
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
            conversation: Some(self.conversation_id),
            ..SearchRequest::new("", &input.message, options.retrieval_limit)
        };
        let found = tokio::select! {
            found = self.inner.retrieve.search(&request) => found,
            () = self.cancel.cancelled() => return vec![],
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
            sources.push(Source {
                n,
                document_id: hit.document_id,
                chunk_id: hit.chunk_id,
                title: hit.title.clone(),
                uri: hit.uri,
                snippet: snippet(&hit.text),
                score: hit.score,
                start: hit.start,
                end: hit.end,
                page: hit.page,
            });
            passages.push(Passage { n, title: hit.title, text: hit.text });
        }
        if !sources.is_empty() {
            self.log.append(RunnerEvent::Sources(sources));
        }
        passages
    }

    fn retrieval_failed(&self, error: &KnowledgeError) {
        tracing::warn!(turn.id = %self.turn_id, %error, "automatic retrieval failed");
        self.log.append(RunnerEvent::Notice(crate::engine::event::Notice {
            code: "retrieval_failed",
            title: "The knowledge base could not be searched".to_owned(),
            message: error.to_string(),
        }));
    }

    fn fail(&self, code: &'static str, message: String) {
        self.log.append(RunnerEvent::Error { code, message, retryable: false, retry_after_ms: None });
    }

    async fn store_end(&self, outcome: &TurnOutcome) {
        let mut fold = Fold::default();
        for entry in self.log.entries() {
            fold.apply(&entry.event);
        }
        let end = turns::TurnEnd {
            progress: fold.progress,
            finish: outcome.finish.as_str(),
            fallback_reason: outcome.fallback_reason,
            usage: outcome.usage,
            telemetry: serde_json::to_value(outcome.telemetry).unwrap_or_default(),
            error: fold.error.map(|e| e.to_value()),
        };
        if let Err(error) = turns::finish(&self.inner.db, self.turn_id, end).await {
            tracing::error!(turn.id = %self.turn_id, %error, "the end of a turn could not be stored");
        }
    }
}
