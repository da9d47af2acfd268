//! What a prompt says about the turn that is to be answered: the question, what was found, what failed. Pure.
//!
//! It reads what the engine writes: passages framed as data before the question, and after each round one
//! message with the results of its calls.

use crate::message::ChatMessage;
use crate::message::passages::{self, Passage};

/// The current turn, from its question on.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub question: String,
    /// Everything found so far, each number once.
    pub passages: Vec<Passage>,
    /// The text of a page that `fetch_url` brought.
    pub fetched: Option<String>,
    pub failures: Vec<Failure>,
    /// Whether another call would run.
    pub may_call: bool,
    instructions: String,
    /// What the assistant said in this turn.
    said: String,
}

/// A tool that failed or was refused.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    pub tool: String,
    pub why: String,
}

impl Turn {
    pub(super) fn read(messages: &[ChatMessage]) -> Self {
        let mut turn = Self { may_call: true, ..Self::default() };
        for message in messages {
            if let ChatMessage::System(text) = message {
                turn.instructions.push_str(text);
                turn.instructions.push('\n');
            }
        }
        let question = question_at(messages);
        let first = match question.checked_sub(1).map(|i| &messages[i]) {
            // What automatic retrieval found stands before the question.
            Some(ChatMessage::User(text)) if text.contains("<<data ") => question - 1,
            _ => question,
        };
        for (i, message) in messages.iter().enumerate().skip(first) {
            match message {
                ChatMessage::User(text) if i == question => turn.question = text.trim().to_owned(),
                ChatMessage::User(text) => turn.take(text),
                ChatMessage::Assistant(said) => turn.said.push_str(&said.text),
                ChatMessage::System(_) | ChatMessage::ToolResults(_) => {}
            }
        }
        turn
    }

    /// Whether this is not its first round.
    pub(super) fn has_spoken(&self) -> bool {
        !self.said.is_empty()
    }

    /// Whether the instructions name the tool.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.instructions.contains(tool)
    }

    /// Whether this turn has called it.
    pub(super) fn called(&self, tool: &str) -> bool {
        self.said.contains(&format!("<tool name=\"{tool}\""))
    }

    /// The first address in the question.
    pub(super) fn url(&self) -> Option<&str> {
        let at = ["https://", "http://"].iter().filter_map(|scheme| self.question.find(scheme)).min()?;
        let word = self.question[at..].split(|c: char| c.is_whitespace() || "<>\"'`".contains(c)).next()?;
        // A sentence's full stop or a bracket around the address is not part of it.
        Some(word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}']))
    }

    /// Reads the frames of one message.
    fn take(&mut self, text: &str) {
        // The engine says so where the next call would be refused.
        self.may_call &= !text.contains("no further call will run");
        for (before, what, body) in frames(text) {
            // `1. fetch_url failed: <<data …`
            let tool = before.split_whitespace().find(|word| word.contains('_')).unwrap_or("A tool");
            match what.split_once(" of ").map_or((what, tool), |(kind, tool)| (kind, tool)) {
                ("result", "fetch_url") => self.fetched = Some(body.to_owned()),
                ("error" | "reason", tool) => {
                    self.failures.push(Failure { tool: tool.to_owned(), why: body.trim().to_owned() });
                }
                _ => {
                    for passage in passages::parse(body) {
                        if self.passages.iter().all(|p| p.n != passage.n) {
                            self.passages.push(passage);
                        }
                    }
                }
            }
        }
    }
}

/// The last message that a user wrote. What follows an assistant's call and holds framed data are results.
fn question_at(messages: &[ChatMessage]) -> usize {
    let mut at = messages.len().saturating_sub(1);
    while at >= 2 {
        let (ChatMessage::User(text), ChatMessage::Assistant(said)) = (&messages[at], &messages[at - 1]) else { break };
        if !text.contains("<<data ") || !said.text.contains("<tool") {
            break;
        }
        at -= 2;
    }
    at
}

/// The frames in `text`: the line before each, what it says it is, and its body.
fn frames(text: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once("<<data ") {
        let Some((mark, tail)) = tail.split_once(">>\n") else { break };
        let Some((nonce, what)) = mark.split_once(": ") else { break };
        let Some((body, tail)) = tail.split_once(&format!("\n<<end {nonce}>>")) else { break };
        let line = before.trim_end().rsplit('\n').next().unwrap_or("");
        found.push((line, what, body));
        rest = tail;
    }
    found
}
