//! The engine core under a seeded scheduler: the clock is paused and jumps from one event to the next, a script made
//! from the seed says what the model, the tools and the user do and when, and the rules hold after every schedule.
//!
//! A failure prints its seed; `TAILRACE_SEED=n` runs that one alone.

use super::*;
use futures_util::{StreamExt, stream};
use std::collections::{HashMap, HashSet};
use tailrace::llm::{Done, EventStream, LlmError, LlmErrorKind, Stop, StreamEvent};
use tailrace::message::{ChatMessage, Usage};

const SCHEDULES: u64 = 10_000;
const LONGEST: Duration = Duration::from_secs(120);
const LIMITS: Limits = Limits { max_continuations: 3, max_tools_per_round: 2, max_tools_total: 4 };
const QUESTION: &str = "What is it?";
const TURN: Duration = Duration::from_millis(900);
const TOOL: Duration = Duration::from_millis(120);

/// SplitMix64: the same everywhere, for ever.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }

    /// Mostly nothing, sometimes long.
    fn wait(&mut self) -> Duration {
        Duration::from_millis(match self.roll(8) {
            0..5 => 0,
            5 | 6 => self.roll(40),
            _ => self.roll(400),
        })
    }
}

/// What a schedule's model has said, for the rules.
#[derive(Default)]
struct Spoken {
    /// The text that left the provider in the turn's own rounds.
    text: String,
    requests: Vec<Vec<ChatMessage>>,
}

struct Model {
    /// One for each schedule: what the engine learns of a model is kept from turn to turn.
    name: String,
    dice: Mutex<Dice>,
    spoken: Arc<Mutex<Spoken>>,
    native: bool,
}

impl Model {
    /// One round: events, each after a wait.
    fn script(&self) -> Vec<(Duration, StreamEvent)> {
        let mut dice = self.dice.lock().unwrap();
        let mut events = Vec::new();
        let mut index = 0;
        for _ in 0..dice.roll(7) {
            match dice.roll(6) {
                0 => events.push(StreamEvent::ReasoningDelta("hm ".into())),
                1 | 2 => {
                    let text = dice.pick(&["Well. ", "é\n\n", "`<tool`", " <tool ", "```\n", "<think>", "a < b"]);
                    events.push(StreamEvent::Delta(text.into()));
                }
                _ if self.native => call(&mut dice, &mut events, &mut index),
                _ => {
                    let block = inline(&mut dice);
                    let mut cut = dice.roll(block.len() as u64 + 1) as usize;
                    while !block.is_char_boundary(cut) {
                        cut -= 1;
                    }
                    events.extend([&block[..cut], &block[cut..]].map(|piece| StreamEvent::Delta(piece.into())));
                }
            }
        }
        let stop = dice.pick(&[Stop::End, Stop::End, Stop::Tools, Stop::Length, Stop::Filter]);
        let usage = Usage { input_tokens: 10, output_tokens: 1, cache_read_tokens: 0 };
        match dice.roll(20) {
            0 => {
                let kinds = [LlmErrorKind::Interrupted, LlmErrorKind::Overloaded, LlmErrorKind::ContextTooLong];
                events.push(StreamEvent::Error(LlmError::new(dice.pick(&kinds), "broken")));
            }
            1 => events.push(StreamEvent::Error(LlmError::new(LlmErrorKind::Arguments, "broken arguments"))),
            // It just ends.
            2 => {}
            _ => events.push(StreamEvent::Done(Done { usage, stop, message: None })),
        }
        events.into_iter().map(|event| (dice.wait(), event)).collect()
    }
}

/// A call as an inline block: good, unknown, with bad arguments, again, never closed.
fn inline(dice: &mut Dice) -> String {
    let name = dice.pick(&["quick", "quick", "slow", "send", "crash", "sub_agent", "nope"]);
    let q = dice.roll(4);
    match dice.roll(8) {
        0 => format!("<tool name=\"{name}\">{{\"z\": 1}}</tool>"),
        1 => format!("<tool name=\"{name}\">{{\"q\": \"half"),
        _ if name == "sub_agent" => format!("<tool name=\"sub_agent\">{{\"task\": \"é{q}\"}}</tool>"),
        _ => block(name, &format!("é{q}")),
    }
}

fn call(dice: &mut Dice, events: &mut Vec<StreamEvent>, index: &mut i64) {
    let name = dice.pick(&["quick", "slow", "send", "crash", "sub_agent", "nope"]);
    let q = dice.roll(4);
    let key = if name == "sub_agent" { "task" } else { "q" };
    events.push(StreamEvent::ToolCallStart { id: format!("c{}", dice.roll(6)), name: name.into(), index: *index });
    let mut add = |delta: String| events.push(StreamEvent::ToolCallArgumentsDelta { index: *index, delta });
    match dice.roll(9) {
        0 => add("{\"z\": 1}".into()),
        1 => add("{\"q\": ".into()),
        2 => {
            add(format!("{{\"{key}\": \"{q}\"}}"));
            add("{}".into());
        }
        _ => {
            add(format!("{{\"{key}\": "));
            add(format!("\"{q}\"}}"));
        }
    }
    if !dice.one_in(6) {
        events.push(StreamEvent::ToolCallComplete { index: *index });
    }
    *index += 1;
}

#[async_trait]
impl LlmProvider for Model {
    fn id(&self) -> &str {
        "dice"
    }

    fn model(&self) -> &str {
        &self.name
    }

    fn with_model(&self, _: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        Err(LlmError::new(LlmErrorKind::BadRequest, "there is one"))
    }

    fn supports_tools(&self) -> bool {
        self.native
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        let spoken = Arc::clone(&self.spoken);
        // Nested turns have other questions, requests for a summary none.
        let own = messages.contains(&ChatMessage::User(QUESTION.into()));
        spoken.lock().unwrap().requests.push(messages.to_vec());
        if self.dice.lock().unwrap().one_in(30) {
            return Err(LlmError::new(LlmErrorKind::RateLimited, "slow down"));
        }
        let events = stream::iter(self.script()).then(move |(wait, event)| {
            let spoken = Arc::clone(&spoken);
            async move {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                if let (true, StreamEvent::Delta(text)) = (own, &event) {
                    spoken.lock().unwrap().text.push_str(text);
                }
                event
            }
        });
        Ok(events.boxed())
    }
}

/// What the tools of all schedules of a run share: dice that are set anew for each.
#[derive(Clone)]
struct Table {
    dice: Arc<Mutex<Dice>>,
    /// Calls that are running now.
    running: Arc<AtomicUsize>,
    called: Arc<Mutex<Vec<(String, Arguments)>>>,
}

struct Random {
    spec: ToolSpec,
    table: Table,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tool for Random {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Arguments, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.table.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.table.running));
        self.table.called.lock().unwrap().push((self.spec.name.clone(), arguments));
        let (wait, fails, length) = {
            let mut dice = self.table.dice.lock().unwrap();
            (dice.wait(), dice.one_in(5), dice.roll(700))
        };
        match self.spec.name.as_str() {
            "crash" => panic!("a tool that crashes"),
            "slow" => tokio::time::sleep(wait * 2).await,
            _ => tokio::time::sleep(wait / 4).await,
        }
        if fails {
            return Err(ToolError("no luck".into()));
        }
        Ok(ToolOutput { text: "é".repeat(length as usize), ..ToolOutput::default() })
    }
}

fn engine(table: &Table) -> StreamingEngine {
    let tool = |name: &str| -> Arc<dyn Tool> {
        let parameters = json!({
            "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false,
        });
        let spec = ToolSpec { name: name.into(), description: String::new(), parameters, side_effects: name == "send" };
        Arc::new(Random { spec, table: table.clone() })
    };
    let config = EngineConfig {
        limits: LIMITS,
        tool_timeout: TOOL,
        max_block_bytes: 512,
        max_result_bytes: 501,
        overlap: true,
        retry_after_text: false,
        prompt_tokens: Some(400),
        approval_timeout: Duration::from_millis(60),
        sub_agent: SubAgentConfig {
            max_depth: 1,
            limits: Limits { max_continuations: 1, max_tools_per_round: 1, max_tools_total: 1 },
            timeout: Duration::from_millis(300),
        },
        locale: Locale::En,
    };
    StreamingEngine::new(config, ToolRegistry::new(["quick", "slow", "send", "crash"].map(tool)), None).unwrap()
}

struct Played {
    seed: u64,
    outcome: TurnOutcome,
    events: Vec<RunnerEvent>,
    requests: Vec<Vec<ChatMessage>>,
    text: String,
    called: Vec<(String, Arguments)>,
    /// From the beginning, or from the cancel, to the end.
    took: Duration,
    cancelled: bool,
}

async fn play(engine: &StreamingEngine, table: &Table, seed: u64) -> Played {
    let mut dice = Dice(seed);
    *table.dice.lock().unwrap() = Dice(dice.roll(u64::MAX));
    table.called.lock().unwrap().clear();
    let native = dice.one_in(2);
    let spoken: Arc<Mutex<Spoken>> = Arc::default();
    let provider: Arc<dyn LlmProvider> = Arc::new(Model {
        name: format!("dice-{seed}"),
        dice: Mutex::new(Dice(dice.roll(u64::MAX))),
        spoken: Arc::clone(&spoken),
        native,
    });
    let (cancel, approvals) = (CancellationToken::new(), Arc::<Approvals>::default());
    let history = (0..dice.roll(4)).flat_map(|n| {
        let said = tailrace::message::AssistantMessage { text: "Before. ".repeat(40), ..Default::default() };
        [ChatMessage::User(format!("Question {n}?")), ChatMessage::Assistant(said)]
    });
    let began = tokio::time::Instant::now();
    let turn = EngineTurn {
        turn_id: Uuid::from_u128(u128::from(seed)),
        conversation_id: Uuid::nil(),
        provider,
        mode: if native { ToolMode::Native } else { ToolMode::Inline },
        tools: ["quick", "slow", "send", "crash", sub_agent::NAME].map(str::to_owned).into(),
        limits: LIMITS,
        tool_timeout: TOOL,
        history: history.collect(),
        passages: vec![],
        question: QUESTION.into(),
        collections: Arc::from(["default".to_owned()]),
        sources: Arc::default(),
        seen_urls: Arc::default(),
        began,
        deadline: began + TURN,
        cancel: cancel.clone(),
        outside: dice.one_in(2),
        approvals: Arc::clone(&approvals),
        family: Family::default(),
    };
    let cancel_after = dice.one_in(4).then(|| Duration::from_millis(dice.roll(700)));
    let mut users = dice.clone();
    let mut stopped = None;
    let mut events = Vec::new();
    let mut emit = |event| events.push(event);
    let outcome = {
        let running = engine.run(&turn, &mut emit);
        let mut running = std::pin::pin!(running);
        let user = async {
            if let Some(wait) = cancel_after {
                tokio::time::sleep(wait).await;
                cancel.cancel();
                stopped = Some(tokio::time::Instant::now());
            }
            std::future::pending::<()>().await;
        };
        let answers = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                for call in approvals.waiting() {
                    if users.one_in(3) {
                        approvals.answer(&call, users.one_in(2));
                    }
                }
            }
        };
        tokio::select! {
            biased;
            outcome = &mut running => outcome,
            () = user => unreachable!(),
            () = answers => unreachable!(),
        }
    };
    let took = stopped.unwrap_or(began).elapsed();
    let Spoken { text, requests } = std::mem::take(&mut *spoken.lock().unwrap());
    let called = std::mem::take(&mut *table.called.lock().unwrap());
    Played { seed, outcome, events, requests, text, called, took, cancelled: stopped.is_some() }
}

impl Played {
    /// What has to hold whatever happened.
    fn check(&self) {
        self.one_outcome_for_each_call();
        self.rounds_open_and_close();
        self.text_is_conserved();
        self.limits_hold();
        self.results_are_in_order();
        self.it_ended_in_time();
    }

    fn say(&self, what: &str) -> String {
        format!("seed {}: {what}\n{:#?}\n{:#?}", self.seed, self.outcome, self.events)
    }

    fn one_outcome_for_each_call(&self) {
        let (mut started, mut settled) = (HashMap::new(), HashSet::new());
        for event in &self.events {
            match event {
                RunnerEvent::ToolStart(s) => {
                    assert!(started.insert(s.call_id.clone(), s.depth).is_none(), "{}", self.say("started twice"));
                    assert!(!settled.contains(&s.call_id), "{}", self.say("started after its end"));
                }
                RunnerEvent::ToolResult(s) => {
                    assert!(settled.insert(s.call_id.clone()), "{}", self.say("two outcomes"));
                    let ran = !matches!(s.outcome, ToolOutcome::Rejected { .. });
                    let known = started.get(&s.call_id) == Some(&s.depth);
                    // A call that waited for the stream's end or for the user was cut before it began.
                    let cut = matches!(&s.outcome, ToolOutcome::Failed { error } if !error.contains("crashed"));
                    assert!(!ran || known || cut, "{}", self.say("an outcome without a start"));
                }
                _ => {}
            }
        }
        assert!(started.keys().all(|id| settled.contains(id)), "{}", self.say("a call without an outcome"));
        let agents = |wanted: fn(&RunnerEvent) -> bool| self.events.iter().filter(|e| wanted(e)).count();
        assert_eq!(
            agents(|e| matches!(e, RunnerEvent::SubAgentStart { .. })),
            agents(|e| matches!(e, RunnerEvent::SubAgentEnd { .. })),
            "{}",
            self.say("a sub-agent without an end")
        );
    }

    fn rounds_open_and_close(&self) {
        let mut open = None;
        let mut next = 0;
        for event in &self.events {
            match event {
                RunnerEvent::Round { round } => {
                    assert!(open.is_none() && *round == next, "{}", self.say("rounds are out of order"));
                    open = Some(*round);
                    next += 1;
                }
                RunnerEvent::RoundEnd { round, .. } => {
                    assert_eq!(open.take(), Some(*round), "{}", self.say("a round ends that is not open"));
                }
                RunnerEvent::Delta(text) if !text.starts_with("⚠️") => {
                    assert!(open.is_some(), "{}", self.say("text outside of a round"));
                }
                RunnerEvent::TurnEnd { .. } | RunnerEvent::TurnStart { .. } => {
                    panic!("{}", self.say("the turn's own frames are not the engine's"));
                }
                _ => {}
            }
        }
        assert!(open.is_none(), "{}", self.say("a round without an end"));
        assert_eq!(next, self.outcome.telemetry.rounds, "{}", self.say("rounds are miscounted"));
    }

    /// Whatever the model said is shown, in order, and nothing else (invariant 1).
    fn text_is_conserved(&self) {
        let shown: String = self
            .events
            .iter()
            .filter_map(|e| if let RunnerEvent::Delta(t) = e { Some(t.as_str()) } else { None })
            .filter(|t| !t.starts_with("⚠️ LLM error"))
            .collect();
        assert_eq!(shown, self.text, "{}", self.say("text was lost or made up"));
    }

    fn limits_hold(&self) {
        let telemetry = self.outcome.telemetry;
        assert!(telemetry.rounds <= 1 + LIMITS.max_continuations + 2, "{}", self.say("too many rounds"));
        assert!(telemetry.tools_run <= LIMITS.max_tools_total, "{}", self.say("too many tools"));
        let mut in_round: HashMap<u32, u32> = HashMap::new();
        let mut seen = HashSet::new();
        for event in &self.events {
            let RunnerEvent::ToolStart(s) = event else { continue };
            if s.depth == 0 {
                let count = in_round.entry(s.round).or_default();
                *count += 1;
                // One that was started and taken back does not count.
                let taken_back = self.taken_back();
                assert!(*count <= LIMITS.max_tools_per_round + taken_back, "{}", self.say("too many in a round"));
                assert!(s.round < LIMITS.max_continuations, "{}", self.say("a tool ran in the last round"));
                let again = !seen.insert(format!("{} {}", s.name, json!(s.arguments)));
                assert!(!again || taken_back > 0, "{}", self.say("the same call ran twice"));
            }
        }
        let sends: Vec<_> = self.called.iter().filter(|(name, _)| name == "send").collect();
        let distinct: HashSet<_> = sends.iter().map(|(_, arguments)| json!(arguments).to_string()).collect();
        // A sub-agent is a turn of its own: it may do the same once more.
        let turns = 1 + self.events.iter().filter(|e| matches!(e, RunnerEvent::SubAgentStart { .. })).count();
        assert!(sends.len() <= distinct.len() * turns, "{}", self.say("a side effect happened twice"));
    }

    fn taken_back(&self) -> u32 {
        let mut started = HashSet::new();
        let mut count = 0;
        for event in &self.events {
            match event {
                RunnerEvent::ToolStart(s) => drop(started.insert(s.call_id.clone())),
                RunnerEvent::ToolResult(s) if matches!(s.outcome, ToolOutcome::Rejected { .. }) => {
                    count += u32::from(started.contains(&s.call_id));
                }
                _ => {}
            }
        }
        count
    }

    /// Native results stand behind the calls they answer, in the order of the calls.
    fn results_are_in_order(&self) {
        for messages in &self.requests {
            for pair in messages.windows(2) {
                let [ChatMessage::Assistant(said), ChatMessage::ToolResults(results)] = pair else { continue };
                let asked: Vec<_> = said.tool_calls.iter().map(|c| &c.id).collect();
                let answered: Vec<_> = results.iter().map(|r| &r.call_id).collect();
                assert_eq!(asked, answered, "{}", self.say("results are out of order"));
            }
        }
    }

    fn it_ended_in_time(&self) {
        if self.cancelled {
            assert_eq!(self.took, Duration::ZERO, "{}", self.say("a cancel was not heard at once"));
            assert_eq!(self.outcome.finish, Finish::Cancelled, "{}", self.say("cancelled, but not said"));
        }
        assert!(self.took <= TURN, "{}", self.say("longer than a turn may take"));
    }
}

#[test]
fn every_schedule_keeps_the_rules() {
    let seeds = match std::env::var("TAILRACE_SEED") {
        Ok(seed) => seed.parse::<u64>().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..SCHEDULES,
    };
    // Tools that crash on purpose would fill the log.
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("a tool that crashes") {
            eprintln!("{info}");
        }
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let table = Table { dice: Arc::new(Mutex::new(Dice(0))), running: Arc::default(), called: Arc::default() };
    let engine = engine(&table);
    let began = Instant::now();
    let (mut finishes, mut notices) = (HashMap::<_, u64>::new(), HashMap::<_, u64>::new());
    let mut interesting = HashMap::<&str, u64>::new();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        runtime.block_on(async {
            let played = play(&engine, &table, seed).await;
            played.check();
            *finishes.entry(played.outcome.finish.as_str()).or_default() += 1;
            for event in &played.events {
                match event {
                    RunnerEvent::Notice(notice) => *notices.entry(notice.code).or_default() += 1,
                    RunnerEvent::Approval(_) => *interesting.entry("approval").or_default() += 1,
                    RunnerEvent::SubAgentStart { .. } => *interesting.entry("sub_agent").or_default() += 1,
                    RunnerEvent::ToolStart(_) => *interesting.entry("started").or_default() += 1,
                    RunnerEvent::ToolResult(s) => {
                        if let ToolOutcome::Rejected { reason, .. } = s.outcome {
                            *interesting.entry(reason.as_str()).or_default() += 1;
                        }
                    }
                    _ => {}
                }
            }
            // Whoever still runs has been told to stop: a few turns of the scheduler later nobody does.
            for _ in 0..64 {
                tokio::task::yield_now().await;
            }
            let running = table.running.load(Ordering::SeqCst);
            assert_eq!(running, 0, "{}", played.say("a tool outlived its turn"));
        });
    }
    println!("{count} schedules in {:?}: {finishes:?} {notices:?} {interesting:?}", began.elapsed());
    if count == SCHEDULES {
        assert!(began.elapsed() < LONGEST, "it took {:?}", began.elapsed());
        // The dice really go everywhere.
        for finish in ["complete", "max_continuations", "cancelled", "provider_error", "timeout"] {
            assert!(finishes.contains_key(finish), "no schedule ended as {finish}: {finishes:?}");
        }
        for code in ["auto_continue", "loop_detected", "tool_cap_reached", "context_shortened"] {
            assert!(notices.contains_key(code), "no schedule had the notice {code}: {notices:?}");
        }
        for what in [
            "approval",
            "sub_agent",
            "not_approved",
            "duplicate",
            "bad_arguments",
            "unknown_tool",
            "cap_round",
            "cap_total",
        ] {
            assert!(interesting.contains_key(what), "no schedule had {what}: {interesting:?}");
        }
    }
}
