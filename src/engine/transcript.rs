//! What the model reads in a turn: instructions, history, passages, the question, and what its rounds brought. It is
//! kept in parts, so that a part can be made shorter when the whole does not fit. Pure.

use super::continuation::{self, RoundRecord};
use super::event::ToolMode;
use super::prompt;
use crate::message::framing::Frame;
use crate::message::passages::Passage;
use crate::message::{AssistantMessage, ChatMessage};
use crate::tools::ToolSpec;

/// One turn's messages, in parts.
pub struct Transcript {
    pub frame: Frame,
    mode: ToolMode,
    /// Instructions with tools and without.
    opening: [Vec<ChatMessage>; 2],
    /// Earlier messages, oldest first.
    pub history: Vec<ChatMessage>,
    /// Passages and the question.
    asked: Vec<ChatMessage>,
    pub legs: Vec<Leg>,
}

/// A round that is over, as the next one reads it.
pub enum Leg {
    Results(RoundRecord),
    /// It called nothing and was asked to go on.
    Nudged {
        said: String,
        message: String,
    },
}

/// What a turn begins with.
pub struct Opening<'a> {
    pub mode: ToolMode,
    /// The tools this turn may call, in name order.
    pub tools: &'a [ToolSpec],
    /// Whether the model learns from example exchanges.
    pub examples: bool,
    pub history: Vec<ChatMessage>,
    /// What automatic retrieval found.
    pub passages: &'a [Passage],
    pub question: &'a str,
}

impl Transcript {
    pub fn new(opening: Opening<'_>) -> Self {
        let frame = Frame::random();
        let Opening { mode, tools, examples, history, passages, question } = opening;
        Self {
            mode,
            opening: [prompt::opening(mode, tools, examples), prompt::opening(ToolMode::Off, &[], examples)],
            history,
            asked: prompt::asked(passages, question, &frame),
            legs: Vec::new(),
            frame,
        }
    }

    /// All of it, in the order a provider is asked with. `tools`: whether the next round has any; where it has none,
    /// native calls stand as text, because providers take such calls only beside the tools they belong to.
    pub fn messages(&self, tools: bool) -> Vec<ChatMessage> {
        let mut messages = self.opening[usize::from(!tools)].clone();
        messages.extend(self.history.iter().cloned());
        messages.extend(self.asked.iter().cloned());
        for leg in &self.legs {
            messages.extend(self.leg(leg, tools));
        }
        messages
    }

    fn leg(&self, leg: &Leg, tools: bool) -> Vec<ChatMessage> {
        match leg {
            Leg::Nudged { said, message } => vec![
                ChatMessage::Assistant(AssistantMessage { text: said.clone(), ..AssistantMessage::default() }),
                ChatMessage::User(message.clone()),
            ],
            Leg::Results(record) if self.mode == ToolMode::Native && tools => continuation::native(record, &self.frame),
            Leg::Results(record) => {
                let record = RoundRecord { raw: record.raw.clone().filter(|_| tools), ..record.clone() };
                continuation::inline(&record, &self.frame)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::continuation::SettledCall;
    use crate::engine::event::ToolOutcome;
    use crate::message::{Arguments, RawMessage};

    fn transcript() -> Transcript {
        let mut transcript = Transcript::new(Opening {
            mode: ToolMode::Native,
            tools: &[],
            examples: false,
            history: vec![ChatMessage::User("before".into())],
            passages: &[],
            question: "When?",
        });
        transcript.legs.push(Leg::Results(RoundRecord {
            text: "Looking.".into(),
            calls: vec![SettledCall {
                call_id: "c1".into(),
                name: "t".into(),
                arguments: Some(Arguments::new()),
                outcome: ToolOutcome::Ok { output: "found".into() },
                full_bytes: None,
            }],
            raw: Some(RawMessage { provider: "p".into(), content: serde_json::json!([]) }),
            ..RoundRecord::default()
        }));
        transcript.legs.push(Leg::Nudged { said: "Hm".into(), message: "Go on.".into() });
        transcript
    }

    #[test]
    fn native_calls_are_text_where_there_are_no_tools() {
        let with = transcript().messages(true);
        assert!(matches!(&with[3], ChatMessage::Assistant(said) if said.tool_calls.len() == 1 && said.raw.is_some()));
        assert!(matches!(&with[4], ChatMessage::ToolResults(_)));
        let without = transcript().messages(false);
        assert!(
            matches!(&without[3], ChatMessage::Assistant(said) if said.tool_calls.is_empty() && said.raw.is_none())
        );
        assert!(
            matches!(&without[4], ChatMessage::User(text) if text.contains("t answered") && text.contains("found"))
        );
        for messages in [&with, &without] {
            assert_eq!(messages[1], ChatMessage::User("before".into()));
            assert_eq!(messages.last(), Some(&ChatMessage::User("Go on.".into())));
        }
    }
}
