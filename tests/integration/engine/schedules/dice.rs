//! What the model and the tools of a schedule do, and when: all of it from the seed.

use super::super::*;
use super::QUESTION;
use futures_util::{StreamExt, stream};
use tailrace::llm::{Done, EventStream, LlmError, LlmErrorKind, Stop, StreamEvent};
use tailrace::message::Usage;

/// SplitMix64: the same everywhere, for ever.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }

    /// Mostly nothing, sometimes long.
    pub fn wait(&mut self) -> Duration {
        Duration::from_millis(match self.roll(8) {
            0..5 => 0,
            5 | 6 => self.roll(40),
            _ => self.roll(400),
        })
    }
}

/// What a schedule's model has said, for the rules.
#[derive(Default)]
pub struct Spoken {
    /// The text that left the provider in the turn's own rounds.
    pub text: String,
    pub requests: Vec<Vec<ChatMessage>>,
}

pub struct Model {
    /// One for each schedule: what the engine learns of a model is kept from turn to turn.
    pub name: String,
    pub dice: Mutex<Dice>,
    pub spoken: Arc<Mutex<Spoken>>,
    pub native: bool,
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
            1 => events.push(StreamEvent::Done(Done {
                usage,
                stop,
                message: None,
                refused: Some("broken arguments".to_owned()),
            })),
            // It just ends.
            2 => {}
            _ => events.push(StreamEvent::Done(Done { usage, stop, message: None, refused: None })),
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
pub struct Table {
    pub dice: Arc<Mutex<Dice>>,
    /// Calls that are running now.
    pub running: Arc<AtomicUsize>,
    pub called: Arc<Mutex<Vec<(String, Arguments)>>>,
}

pub struct Random {
    pub spec: ToolSpec,
    pub table: Table,
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
