//! The engine over real HTTP streams: a scripted provider, real tools made for the purpose.

mod approval;
mod cases;
mod circles;
mod native;
mod overlap;
mod schedules;
mod sub_agents;
mod window;

use crate::upstream::{Script, Signal, Step, Upstream, openai};
use async_trait::async_trait;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tailrace::config::Locale;
use tailrace::engine::approval::Approvals;
use tailrace::engine::budget::Limits;
use tailrace::engine::event::{Finish, RunnerEvent, ToolMode, ToolOutcome, ToolSettled};
use tailrace::engine::sub_agent::{self, SubAgentConfig};
use tailrace::engine::{EngineConfig, EngineTurn, Family, StreamingEngine, TurnOutcome};
use tailrace::llm::LlmProvider;
use tailrace::llm::anthropic::{Anthropic, AnthropicOptions};
use tailrace::llm::openai::{OpenAi, OpenAiOptions};
use tailrace::llm::transport::{Transport, TransportOptions};
use tailrace::message::{Arguments, ChatMessage};
use tailrace::tools::{Tool, ToolContext, ToolError, ToolOutput, ToolRegistry, ToolSpec};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a test tool does when it is called.
#[derive(Clone)]
enum Act {
    Answer(String),
    Fail(String),
    Panic,
    /// Says that it was called, and answers when told.
    Gate {
        called: Signal,
        answer: Signal,
    },
    Hang,
}

/// A tool named by the test, taking `{"q": string}`.
struct Probe {
    spec: ToolSpec,
    act: Act,
    calls: Arc<Mutex<Vec<Arguments>>>,
    dropped: Arc<AtomicUsize>,
}

/// Counts a call whose future was dropped before it had answered.
struct OnDrop(Arc<AtomicUsize>, bool);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.lock().unwrap().push(arguments);
        let mut alive = OnDrop(Arc::clone(&self.dropped), false);
        let answer = match &self.act {
            Act::Answer(text) => Ok(ToolOutput { text: text.clone(), ..ToolOutput::default() }),
            Act::Fail(why) => Err(ToolError(why.clone())),
            Act::Panic => panic!("a tool that crashes"),
            Act::Gate { called, answer } => {
                called.send();
                answer.wait().await;
                Ok(ToolOutput { text: "from the gate".into(), ..ToolOutput::default() })
            }
            Act::Hang => std::future::pending().await,
        };
        alive.1 = true;
        answer
    }
}

/// A registry of probes that tests can look at afterwards.
#[derive(Default)]
struct Probes {
    tools: Vec<Arc<dyn Tool>>,
    calls: Arc<Mutex<Vec<Arguments>>>,
    dropped: Arc<AtomicUsize>,
}

impl Probes {
    fn with(mut self, name: &str, act: Act) -> Self {
        self.add(name, act, false);
        self
    }

    fn add(&mut self, name: &str, act: Act, side_effects: bool) {
        self.tools.push(Arc::new(Probe {
            spec: ToolSpec {
                name: name.into(),
                description: "A tool for tests.".into(),
                parameters: json!({
                    "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"],
                    "additionalProperties": false,
                }),
                side_effects,
            },
            act,
            calls: Arc::clone(&self.calls),
            dropped: Arc::clone(&self.dropped),
        }));
    }

    fn names(&self) -> Vec<String> {
        self.tools.iter().map(|t| t.spec().name.clone()).collect()
    }

    fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|a| a["q"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

const LIMITS: Limits = Limits { max_continuations: 3, max_tools_per_round: 3, max_tools_total: 5 };

/// One turn as a test wants it.
struct Given {
    mode: ToolMode,
    limits: Limits,
    tool_timeout: Duration,
    turn_timeout: Duration,
    overlap: bool,
    locale: Locale,
    anthropic: bool,
    cancel: CancellationToken,
    allowed: Option<Vec<String>>,
    prompt_tokens: Option<u64>,
    history: Vec<ChatMessage>,
    approval_timeout: Duration,
    outside: bool,
    approvals: Arc<Approvals>,
    /// How deep sub-agents may be nested.
    depth: u32,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            mode: ToolMode::Inline,
            limits: LIMITS,
            tool_timeout: Duration::from_secs(20),
            turn_timeout: Duration::from_secs(60),
            overlap: true,
            locale: Locale::En,
            anthropic: false,
            cancel: CancellationToken::new(),
            allowed: None,
            prompt_tokens: None,
            history: vec![],
            approval_timeout: Duration::from_secs(20),
            outside: false,
            approvals: Arc::default(),
            depth: 0,
        }
    }
}

/// What came out.
struct Ran {
    events: Vec<(Instant, RunnerEvent)>,
    outcome: TurnOutcome,
}

impl Ran {
    fn text(&self) -> String {
        self.events
            .iter()
            .filter_map(|(_, e)| if let RunnerEvent::Delta(t) = e { Some(t.as_str()) } else { None })
            .collect()
    }

    fn at(&self, wanted: impl Fn(&RunnerEvent) -> bool) -> usize {
        self.events.iter().position(|(_, e)| wanted(e)).expect("the event did not happen")
    }

    fn results(&self) -> Vec<&ToolSettled> {
        self.events
            .iter()
            .filter_map(|(_, e)| if let RunnerEvent::ToolResult(s) = e { Some(s) } else { None })
            .collect()
    }

    /// `name: ok|failed|reason`, in the order they were announced.
    fn outcomes(&self) -> Vec<String> {
        self.results()
            .iter()
            .map(|s| match &s.outcome {
                ToolOutcome::Ok { .. } => format!("{}: ok", s.name),
                ToolOutcome::Failed { .. } => format!("{}: failed", s.name),
                ToolOutcome::Rejected { reason, .. } => format!("{}: {}", s.name, reason.as_str()),
            })
            .collect()
    }

    fn notices(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|(_, e)| if let RunnerEvent::Notice(n) = e { Some(n.code) } else { None })
            .collect()
    }
}

async fn run(upstream: &Upstream, probes: &Probes, given: Given) -> Ran {
    let transport = Arc::new(Transport::new(TransportOptions {
        first_byte_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
    }));
    let provider: Arc<dyn LlmProvider> = if given.anthropic {
        let options = AnthropicOptions {
            base_url: upstream.base_url().into(),
            api_key: None,
            model: "m".into(),
            max_tokens: 1000,
            reasoning_effort: None,
        };
        Arc::new(Anthropic::new(options, transport).unwrap())
    } else {
        let options = OpenAiOptions {
            base_url: upstream.base_url().into(),
            api_key: None,
            model: "m".into(),
            max_tokens: None,
            reasoning_effort: None,
            native_tools: true,
        };
        Arc::new(OpenAi::new(options, transport).unwrap())
    };
    let config = EngineConfig {
        limits: LIMITS,
        tool_timeout: given.tool_timeout,
        max_block_bytes: 65536,
        max_result_bytes: 51200,
        overlap: given.overlap,
        prompt_tokens: given.prompt_tokens,
        approval_timeout: given.approval_timeout,
        sub_agent: SubAgentConfig {
            max_depth: given.depth,
            limits: Limits { max_continuations: 2, max_tools_per_round: 2, max_tools_total: 2 },
            timeout: given.tool_timeout,
        },
        retry_after_text: false,
        locale: given.locale,
    };
    let engine = StreamingEngine::new(config, ToolRegistry::new(probes.tools.iter().cloned()), None).unwrap();
    let began = Instant::now();
    let sub_agent = (given.depth > 0).then(|| sub_agent::NAME.to_owned());
    let turn = EngineTurn {
        turn_id: Uuid::now_v7(),
        conversation_id: Uuid::now_v7(),
        provider,
        mode: given.mode,
        tools: given.allowed.unwrap_or_else(|| probes.names()).into_iter().chain(sub_agent).collect(),
        limits: given.limits,
        tool_timeout: given.tool_timeout,
        history: given.history,
        passages: vec![],
        question: "What is it?".into(),
        collections: Arc::from(["default".to_owned()]),
        sources: Arc::default(),
        seen_urls: Arc::default(),
        began: began.into(),
        deadline: (began + given.turn_timeout).into(),
        cancel: given.cancel,
        outside: given.outside,
        approvals: given.approvals,
        family: Family::default(),
    };
    let mut events = Vec::new();
    let mut emit = |event| events.push((Instant::now(), event));
    let outcome = engine.run(&turn, &mut emit).await;
    Ran { events, outcome }
}

/// An inline block that calls `name` with `q`.
fn block(name: &str, q: &str) -> String {
    format!("<tool name=\"{name}\">{{\"q\": \"{q}\"}}</tool>")
}

/// A whole answer in one piece.
fn says(text: &str) -> Script {
    openai::answer(&[text])
}

fn stream(steps: Vec<Step>) -> Script {
    Script::stream(steps)
}

/// The last user message of an OpenAI request.
fn last_user(request: &crate::upstream::Request) -> String {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|m| m["role"] == "user").unwrap();
    last["content"].as_str().map_or_else(|| last["content"].to_string(), str::to_owned)
}

fn finished(ran: &Ran, finish: Finish) {
    assert_eq!(ran.outcome.finish, finish, "{:?}", ran.events);
}
