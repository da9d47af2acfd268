//! The streaming engine: the loop over rounds. While a round's answer streams, its tool calls run; when
//! both have ended, their results become the next round, until no tool was called, a cap is reached,
//! or the turn is cancelled.
//!
//! The engine knows nothing of HTTP, SQL or who listens: it pulls a provider's stream and emits
//! [`event::RunnerEvent`]s in the order things happened.

pub mod approval;
pub mod arguments;
pub mod budget;
pub mod call_assembler;
mod calls;
mod canonical;
pub mod continuation;
pub mod course;
mod dispatch;
mod ending;
pub mod event;
pub mod loop_guard;
pub mod nudge;
pub mod prompt;
pub mod prompt_examples;
mod round;
pub mod sub_agent;
pub mod summary;
pub mod timeline;
mod tool_task;
pub mod transcript;
pub mod window;
pub mod xml_block;
pub mod xml_parser;

pub use calls::Family;
pub use ending::is_error_text;
pub use tool_task::Keeper;

use crate::config::Locale;
use crate::llm::LlmProvider;
use crate::message::passages::Passage;
use crate::message::sources::SourceBook;
use crate::message::{ChatMessage, Usage};
use crate::tools::seen_urls::SeenUrls;
use crate::tools::{ToolContext, ToolRegistry, ToolSpec};
use approval::Approvals;
use arguments::{ArgumentError, ToolSchemas};
use budget::Limits;
use calls::Calls;
use continuation::RoundRecord;
use course::{Course, Next};
use ending::Ended;
use event::{Finish, RunnerEvent, Telemetry, ToolMode};
use loop_guard::Intervention;
use nudge::Nudge;
use round::{Round, RoundOutcome};
use std::sync::Arc;
use std::time::Duration;
use sub_agent::SubAgentConfig;
use summary::{Fit, Rates, Summary};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use transcript::{Leg, Opening, Transcript};
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
    /// Tokens that a request may have; `None`: not known, the provider says when it is too long.
    pub prompt_tokens: Option<u64>,
    /// How long the user may take to allow a call.
    pub approval_timeout: Duration,
    pub sub_agent: SubAgentConfig,
    pub locale: Locale,
}

/// Runs turns. Cheap to clone; holds no state of any turn.
#[derive(Clone)]
pub struct StreamingEngine {
    config: EngineConfig,
    tools: ToolRegistry,
    /// What the model may be told of: the registered tools and `sub_agent`, by name.
    specs: Arc<[ToolSpec]>,
    schemas: Arc<ToolSchemas>,
    rates: Rates,
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
    /// Text that somebody else wrote is in the history or among the passages.
    pub outside: bool,
    /// Where the user's answers about calls arrive.
    pub approvals: Arc<Approvals>,
    /// New for a turn that is not nested.
    pub family: Family,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    pub finish: Finish,
    pub fallback_reason: Option<&'static str>,
    pub usage: Usage,
    pub telemetry: Telemetry,
    /// What stands for the oldest messages from now on, where they did not fit any more.
    pub summary: Option<Summary>,
}

/// Takes events as they happen; must not block.
pub type Emit<'e> = &'e mut (dyn FnMut(RunnerEvent) + Send);

impl StreamingEngine {
    /// # Errors
    /// A tool's schema that is not a JSON Schema.
    pub fn new(config: EngineConfig, tools: ToolRegistry, keeper: Option<Keeper>) -> Result<Self, ArgumentError> {
        let mut specs: Vec<ToolSpec> = tools.specs().cloned().collect();
        if config.sub_agent.max_depth > 0 {
            specs.push(sub_agent::spec());
        }
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        let schemas = Arc::new(ToolSchemas::compile(&specs)?);
        Ok(Self { config, tools, specs: specs.into(), schemas, rates: Rates::default(), keeper })
    }

    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The tools that turns may be allowed to call, in name order.
    pub fn tools(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Runs one turn to its end. Everything but `turn_start` and `turn_end` is emitted here; every call
    /// that was sealed has its one outcome when this returns.
    pub async fn run(&self, turn: &EngineTurn, emit: Emit<'_>) -> TurnOutcome {
        let mut state = TurnState::new(self, turn, emit);
        let ended = tokio::select! {
            biased;
            () = turn.cancel.cancelled() => Err(Finish::Cancelled),
            () = tokio::time::sleep_until(turn.deadline) => Err(Finish::Timeout),
            ended = state.rounds() => Ok(ended),
        };
        state.finish(ended)
    }

    fn specs(&self, turn: &EngineTurn) -> Vec<ToolSpec> {
        match turn.mode {
            ToolMode::Off => vec![],
            ToolMode::Inline | ToolMode::Native => {
                self.specs.iter().filter(|s| turn.tools.contains(&s.name)).cloned().collect()
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
    course: Course,
    fit: Fit,
    /// Text that somebody else wrote is in the model's context.
    outside: bool,
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
            pending: turn.family.pending.clone(),
            cancel: turn.cancel.clone(),
        };
        Self {
            engine,
            turn,
            emit,
            calls: Calls::new(turn, engine.specs.iter().map(|spec| spec.name.clone()), context),
            round: Round::new(0, 0, engine.config.max_block_bytes),
            course: Course::new(turn.limits.max_continuations),
            fit: Fit::default(),
            outside: turn.outside || !turn.passages.is_empty(),
            visible: 0,
            usage: Usage::default(),
            telemetry: Telemetry::default(),
            streams: Vec::new(),
        }
    }

    async fn rounds(&mut self) -> Ended {
        let specs = self.engine.specs(self.turn);
        let mut transcript = Transcript::new(Opening {
            mode: self.turn.mode,
            tools: &specs,
            examples: self.turn.provider.wants_examples(),
            history: self.turn.history.clone(),
            passages: &self.turn.passages,
            question: &self.turn.question,
        });
        loop {
            let (round, tools) = (self.course.round(), !self.course.without_tools());
            self.telemetry.rounds = round + 1;
            self.outside |= self.calls.run > 0;
            self.calls.begin_round(round, tools);
            let specs = if tools { specs.as_slice() } else { &[] };
            let (record, facts) = match self.stream(round, &mut transcript, tools, specs).await {
                RoundOutcome::Ended(record, facts) => (record, facts),
                RoundOutcome::Failed(error) => return Ended::Provider(error),
            };
            let leg = match self.course.after(facts) {
                Next::End(end) => return Ended::Course(end),
                Next::Nudge(nudge) => self.nudged(nudge, record),
                Next::Results(intervention) => self.results(intervention, record),
            };
            transcript.legs.push(leg);
        }
    }

    fn nudged(&mut self, nudge: Nudge, record: RoundRecord) -> Leg {
        self.notice_nudge(nudge);
        let message = nudge.message(self.ask_again().as_deref(), self.course.is_last());
        Leg::Nudged { said: record.text, message }
    }

    fn results(&mut self, intervention: Option<Intervention>, record: RoundRecord) -> Leg {
        if let Some(intervention) = intervention {
            self.notice_loop(intervention);
        }
        Leg::Results(RoundRecord {
            last_next: self.course.is_last(),
            ask_again: self.ask_again(),
            repeats: intervention.is_some(),
            ..record
        })
    }

    /// Models that learn from examples read the question once more behind what they asked for.
    fn ask_again(&self) -> Option<String> {
        self.turn.provider.wants_examples().then(|| self.turn.question.clone())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.turn.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Visible text.
    fn say(&mut self, text: String) {
        self.visible += text.len() as u64;
        (self.emit)(RunnerEvent::Delta(text));
    }
}
