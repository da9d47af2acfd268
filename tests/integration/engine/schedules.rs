//! The engine core under a seeded scheduler: the clock is paused and jumps from one event to the next, a script made
//! from the seed says what the model, the tools and the user do and when, and the rules hold after every schedule.
//!
//! A failure prints its seed; `TAILRACE_SEED=n` runs that one alone.

mod dice;
mod rules;

use super::*;
use dice::{Dice, Model, Random, Spoken, Table};
use std::collections::HashMap;

const SCHEDULES: u64 = 10_000;
const LONGEST: Duration = Duration::from_secs(120);
const LIMITS: Limits = Limits { max_continuations: 3, max_tools_per_round: 2, max_tools_total: 4 };
const QUESTION: &str = "What is it?";
const TURN: Duration = Duration::from_millis(900);
const TOOL: Duration = Duration::from_millis(120);

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

/// How often something happened.
#[derive(Default)]
struct Seen(HashMap<&'static str, u64>);

impl Seen {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn played(&mut self, played: &Played) {
        self.note(played.outcome.finish.as_str());
        for event in &played.events {
            match event {
                RunnerEvent::Notice(notice) => self.note(notice.code),
                RunnerEvent::Approval(_) => self.note("approval"),
                RunnerEvent::SubAgentStart { .. } => self.note("sub_agent"),
                RunnerEvent::ToolResult(s) => match &s.outcome {
                    ToolOutcome::Ok { .. } => self.note("ok"),
                    ToolOutcome::Failed { .. } => self.note("failed"),
                    ToolOutcome::Rejected { reason, .. } => self.note(reason.as_str()),
                },
                _ => {}
            }
        }
    }
}

/// Plays schedules on a clock of their own.
fn play_all(seeds: impl Iterator<Item = u64>) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let table = Table { dice: Arc::new(Mutex::new(Dice(0))), running: Arc::default(), called: Arc::default() };
    let engine = engine(&table);
    let mut seen = Seen::default();
    for seed in seeds {
        let played = runtime.block_on(async {
            let played = play(&engine, &table, seed).await;
            // Whoever still runs has been told to stop: a few turns of the scheduler later nobody does.
            for _ in 0..64 {
                tokio::task::yield_now().await;
            }
            played
        });
        played.check();
        assert_eq!(table.running.load(Ordering::SeqCst), 0, "{}", played.say("a tool outlived its turn"));
        seen.played(&played);
    }
    seen
}

#[test]
fn every_schedule_keeps_the_rules() {
    // Tools that crash on purpose would fill the log.
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("a tool that crashes") {
            eprintln!("{info}");
        }
    }));
    if let Ok(seed) = std::env::var("TAILRACE_SEED") {
        play_all(std::iter::once(seed.parse().unwrap()));
        return;
    }
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seen = std::thread::scope(|scope| {
        let play = |first| scope.spawn(move || play_all((first..SCHEDULES).step_by(threads)));
        let playing: Vec<_> = (0..threads as u64).map(play).collect();
        playing.into_iter().flat_map(|thread| thread.join().unwrap().0).fold(
            Seen::default(),
            |mut all, (what, count)| {
                *all.0.entry(what).or_default() += count;
                all
            },
        )
    });
    println!("{SCHEDULES} schedules in {:?}: {:?}", began.elapsed(), seen.0);
    assert!(began.elapsed() < LONGEST, "it took {:?}", began.elapsed());
    // The dice really go everywhere.
    for what in [
        "complete",
        "max_continuations",
        "cancelled",
        "provider_error",
        "timeout",
        "auto_continue",
        "loop_detected",
        "tool_cap_reached",
        "context_shortened",
        "approval",
        "sub_agent",
        "ok",
        "failed",
        "not_approved",
        "duplicate",
        "bad_arguments",
        "unknown_tool",
        "cap_round",
        "cap_total",
    ] {
        assert!(seen.0.contains_key(what), "no schedule had {what}: {:?}", seen.0);
    }
}
