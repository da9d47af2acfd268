//! The streaming engine: the loop over rounds. While a round's answer streams, its tool calls run; when
//! both have ended, their results become the next round, until no tool was called, a cap is reached,
//! or the turn is cancelled.
//!
//! The engine knows nothing of HTTP, SQL or who listens: it pulls a provider's stream and emits
//! [`event::RunnerEvent`]s in the order things happened.

pub mod arguments;
pub mod budget;
pub mod call_assembler;
mod calls;
pub mod continuation;
pub mod event;
pub mod prompt;
pub mod prompt_examples;
mod round;
pub mod timeline;
mod tool_task;
pub mod xml_block;
pub mod xml_parser;

pub use tool_task::Keeper;

use crate::config::Locale;
use crate::llm::{LlmError, LlmProvider};
use crate::message::framing::Frame;
use crate::message::passages::Passage;
use crate::message::sources::SourceBook;
use crate::message::{ChatMessage, Usage};
use crate::tools::seen_urls::SeenUrls;
use crate::tools::{ToolContext, ToolRegistry, ToolSpec};
use arguments::{ArgumentError, ToolSchemas};
use budget::Limits;
use calls::Calls;
use event::{Finish, Notice, Rejection, RunnerEvent, Telemetry, ToolMode};
use prompt::FirstRound;
use round::{Round, RoundOutcome};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The engine's limits; a turn may lower some of them.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub limits: Limits,
    /// For one tool's execution.
    pub tool_timeout: Duration,
    /// Longest tool block, and longest argument text of a native call, in bytes.
    pub max_block_bytes: usize,
    /// How much of one result the model and the client see, in bytes.
    pub max_result_bytes: usize,
    /// `false`: tools start when the stream has ended.
    pub overlap: bool,
    /// Whether a round whose stream failed after its text was shown may begin anew.
    pub retry_after_text: bool,
    pub locale: Locale,
}

/// Runs turns. Cheap to share; holds no state of any turn.
pub struct StreamingEngine {
    config: EngineConfig,
    tools: ToolRegistry,
    schemas: ToolSchemas,
    /// Stores what tools bring; `None`: `ingest.tool_results = "off"`.
    keeper: Option<Keeper>,
}

/// One turn's input, already checked.
pub struct EngineTurn {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    pub provider: Arc<dyn LlmProvider>,
    pub mode: ToolMode,
    /// Names of registered tools that this turn may call.
    pub tools: Vec<String>,
    /// At most the engine's own.
    pub limits: Limits,
    pub tool_timeout: Duration,
    pub history: Vec<ChatMessage>,
    /// What automatic retrieval found.
    pub passages: Vec<Passage>,
    pub question: String,
    pub collections: Arc<[String]>,
    pub sources: Arc<SourceBook>,
    pub seen_urls: Arc<SeenUrls>,
    /// All times of the turn count from here.
    pub began: Instant,
    pub deadline: Instant,
    pub cancel: CancellationToken,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    pub finish: Finish,
    pub fallback_reason: Option<&'static str>,
    pub usage: Usage,
    pub telemetry: Telemetry,
}

/// Takes events as they happen; must not block.
pub type Emit<'e> = &'e mut (dyn FnMut(RunnerEvent) + Send);

/// Why the loop over rounds ended.
enum Ended {
    Complete,
    MaxContinuations,
    Provider(LlmError),
}

impl StreamingEngine {
    /// # Errors
    /// A tool's schema that is not a JSON Schema.
    pub fn new(config: EngineConfig, tools: ToolRegistry, keeper: Option<Keeper>) -> Result<Self, ArgumentError> {
        let schemas = ToolSchemas::compile(tools.specs())?;
        Ok(Self { config, tools, schemas, keeper })
    }

    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }

    /// Runs one turn to its end. Everything but `turn_start` and `turn_end` is emitted here; every call
    /// that was sealed has its one outcome when this returns.
    pub async fn run(&self, turn: &EngineTurn, emit: Emit<'_>) -> TurnOutcome {
        let mut state = TurnState::new(self, turn, emit);
        let ended = tokio::select! {
            biased;
            () = turn.cancel.cancelled() => Err(Finish::Cancelled),
            () = tokio::time::sleep_until(turn.deadline.into()) => Err(Finish::Timeout),
            ended = state.rounds() => Ok(ended),
        };
        state.finish(ended)
    }

    fn specs(&self, turn: &EngineTurn) -> Vec<ToolSpec> {
        match turn.mode {
            ToolMode::Off => vec![],
            ToolMode::Inline | ToolMode::Native => {
                self.tools.specs().filter(|s| turn.tools.contains(&s.name)).cloned().collect()
            }
        }
    }
}

/// What the rounds of one turn share.
struct TurnState<'t> {
    engine: &'t StreamingEngine,
    turn: &'t EngineTurn,
    emit: Emit<'t>,
    calls: Calls,
    round: Round,
    /// Bytes of visible text so far.
    visible: u64,
    usage: Usage,
    telemetry: Telemetry,
    streams: Vec<timeline::Interval>,
}

impl<'t> TurnState<'t> {
    fn new(engine: &'t StreamingEngine, turn: &'t EngineTurn, emit: Emit<'t>) -> Self {
        let context = ToolContext {
            turn_id: turn.turn_id,
            conversation_id: turn.conversation_id,
            collections: Arc::clone(&turn.collections),
            sources: Arc::clone(&turn.sources),
            seen_urls: Arc::clone(&turn.seen_urls),
            pending: Default::default(),
            cancel: turn.cancel.clone(),
        };
        Self {
            engine,
            turn,
            emit,
            calls: Calls::new(turn, engine.tools.names().map(str::to_owned), context),
            round: Round::new(0, 0, engine.config.max_block_bytes),
            visible: 0,
            usage: Usage::default(),
            telemetry: Telemetry::default(),
            streams: Vec::new(),
        }
    }

    async fn rounds(&mut self) -> Ended {
        let frame = Frame::random();
        let specs = self.engine.specs(self.turn);
        let mut messages = prompt::first_round(
            FirstRound {
                mode: self.turn.mode,
                tools: &specs,
                examples: self.turn.provider.wants_examples(),
                history: self.turn.history.clone(),
                passages: &self.turn.passages,
                question: &self.turn.question,
            },
            &frame,
        );
        let last = self.turn.limits.max_continuations;
        for round in 0..=last {
            self.telemetry.rounds = round + 1;
            self.calls.begin_round(round);
            match self.stream(round, &messages, &specs).await {
                RoundOutcome::Failed(error) => return Ended::Provider(error),
                RoundOutcome::Ended(_) if self.calls.is_empty() => return Ended::Complete,
                RoundOutcome::Ended(_) if round == last => return Ended::MaxContinuations,
                RoundOutcome::Ended(mut record) => {
                    record.last_next = round + 1 == last;
                    record.ask_again = self.turn.provider.wants_examples().then(|| self.turn.question.clone());
                    messages.extend(match self.turn.mode {
                        ToolMode::Native => continuation::native(record, &frame),
                        ToolMode::Inline | ToolMode::Off => continuation::inline(record, &frame),
                    });
                }
            }
        }
        Ended::Complete
    }

    fn finish(mut self, ended: Result<Ended, Finish>) -> TurnOutcome {
        let mut fallback_reason = None;
        let finish = match ended {
            Ok(Ended::Complete) => Finish::Complete,
            Ok(Ended::MaxContinuations) => {
                fallback_reason = Some("max_continuations_reached");
                self.notice_max_continuations();
                Finish::MaxContinuations
            }
            Ok(Ended::Provider(error)) => {
                self.abandon("the model's answer was cut off before this tool had answered");
                self.provider_failed(error);
                Finish::ProviderError
            }
            Err(finish) => {
                let why = if finish == Finish::Cancelled { "the turn was cancelled" } else { "the turn took too long" };
                self.abandon(why);
                if finish == Finish::Timeout {
                    let limit = self.turn.deadline.saturating_duration_since(self.turn.began).as_millis();
                    let message = format!("the turn took longer than {limit} ms (turns.timeout_ms)");
                    (self.emit)(RunnerEvent::Error {
                        code: "turn_timeout",
                        message,
                        retryable: true,
                        retry_after_ms: None,
                    });
                }
                finish
            }
        };
        self.sum_up();
        TurnOutcome { finish, fallback_reason, usage: self.usage, telemetry: self.telemetry }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.turn.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sum_up(&mut self) {
        let tools = timeline::union(self.calls.intervals());
        self.telemetry.tool_wall_ms = timeline::length(&tools);
        self.telemetry.overlap_ms = timeline::common(&tools, &self.streams);
        self.telemetry.tools_run = self.calls.run();
        self.telemetry.tools_rejected = self.calls.rejected();
        self.telemetry.ingest_ms = self.calls.ingest_ms();
        self.telemetry.total_ms = self.now_ms();
    }

    fn provider_failed(&mut self, error: LlmError) {
        if self.visible == 0 {
            let text = match self.engine.config.locale {
                Locale::De => format!("⚠️ LLM-Fehler: {}", error.message),
                Locale::En => format!("⚠️ LLM error: {}", error.message),
            };
            self.say(text);
        }
        (self.emit)(RunnerEvent::Error {
            code: error.kind.code(),
            message: error.message,
            retryable: error.kind.retryable(),
            retry_after_ms: error.retry_after.and_then(|d| u64::try_from(d.as_millis()).ok()),
        });
    }

    fn notice_max_continuations(&mut self) {
        let limit = self.turn.limits.max_continuations;
        (self.emit)(RunnerEvent::Notice(Notice {
            code: "max_continuations_reached",
            title: "No further rounds".to_owned(),
            message: format!(
                "The model asked for another tool after {limit} continuations (engine.max_continuations); the answer \
                 stands as it is."
            ),
        }));
    }

    /// Visible text.
    fn say(&mut self, text: String) {
        self.visible += text.len() as u64;
        (self.emit)(RunnerEvent::Delta(text));
    }

    /// Says once per turn which cap was hit.
    fn notice_cap(&mut self, reason: Rejection) {
        let (limit, key) = match reason {
            Rejection::CapRound => (self.turn.limits.max_tools_per_round, "engine.max_tools_per_round"),
            Rejection::CapTotal => (self.turn.limits.max_tools_total, "engine.max_tools_total"),
            _ => return,
        };
        if self.calls.first_cap(reason) {
            (self.emit)(RunnerEvent::Notice(Notice {
                code: "tool_cap_reached",
                title: "Tool limit reached".to_owned(),
                message: format!("The model wanted more tools than allowed: {limit} ({key})."),
            }));
        }
    }
}
