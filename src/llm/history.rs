//! A conversation put in the order that providers accept, before either wire writes it down: one
//! system prompt in front, user texts that follow each other joined, every native call answered
//! exactly once under an id that no other call has. Pure.

use crate::message::{AssistantMessage, ChatMessage, ToolResult};
use std::collections::HashMap;

/// What the model reads for a call whose result was lost (a turn that was cut).
const LOST: &str = "No result: the turn ended before this call was answered.";

#[derive(Debug, Default)]
pub struct History<'m> {
    /// The leading system messages; empty if there are none.
    pub system: String,
    pub turns: Vec<Turn<'m>>,
}

#[derive(Debug)]
pub enum Turn<'m> {
    /// Never empty, and never beside another one.
    User(String),
    Assistant(Said<'m>),
    /// The answers to the calls of the assistant before it, one each, in call order.
    Results(Vec<Outcome<'m>>),
}

#[derive(Debug)]
pub struct Said<'m> {
    pub message: &'m AssistantMessage,
    /// The ids of its calls, in order, as they are to be written.
    pub ids: Vec<String>,
}

#[derive(Debug)]
pub struct Outcome<'m> {
    /// As the call's.
    pub id: String,
    pub ok: bool,
    pub content: &'m str,
}

impl<'m> History<'m> {
    /// `ids_of`: the ids of an assistant message's calls as the model gave them, in order.
    pub fn read(messages: &'m [ChatMessage], ids_of: impl Fn(&'m AssistantMessage) -> Vec<&'m str>) -> Self {
        let mut history = Self::default();
        let mut used = HashMap::new();
        let mut rest = messages.iter().peekable();
        while let Some(message) = rest.next() {
            match message {
                ChatMessage::System(text) if history.turns.is_empty() => append(&mut history.system, text),
                // Later instructions stand where they were said; providers take a system role in front only.
                ChatMessage::System(text) | ChatMessage::User(text) => history.user(text),
                ChatMessage::Assistant(message) => {
                    let given = ids_of(message);
                    let ids: Vec<String> = given.iter().map(|id| unique(id, &mut used)).collect();
                    let mut results = Vec::new();
                    while let Some(ChatMessage::ToolResults(more)) =
                        rest.next_if(|m| matches!(m, ChatMessage::ToolResults(_)))
                    {
                        results.extend(more);
                    }
                    let outcomes = answers(&given, &ids, &mut results);
                    if !ids.is_empty() || !message.text.trim().is_empty() || message.raw.is_some() {
                        history.turns.push(Turn::Assistant(Said { message, ids }));
                    }
                    if !outcomes.is_empty() {
                        history.turns.push(Turn::Results(outcomes));
                    }
                    results.into_iter().for_each(|result| history.stray(result));
                }
                ChatMessage::ToolResults(results) => results.iter().for_each(|result| history.stray(result)),
            }
        }
        history
    }

    fn user(&mut self, text: &str) {
        match self.turns.last_mut() {
            _ if text.trim().is_empty() => {}
            Some(Turn::User(before)) => append(before, text),
            _ => self.turns.push(Turn::User(text.to_owned())),
        }
    }

    /// A result whose call the history does not have is told as text.
    fn stray(&mut self, result: &ToolResult) {
        self.user(&format!("Result of {}:\n{}", result.name, result.content));
    }
}

/// One outcome for each call; takes out of `results` those that belong to one. A model may give two
/// calls the same id: the first result then belongs to the first of them.
fn answers<'m>(given: &[&str], ids: &[String], results: &mut Vec<&'m ToolResult>) -> Vec<Outcome<'m>> {
    let mut outcome = |(given, id): (&&str, &String)| {
        let at = results.iter().position(|result| result.call_id == **given);
        let result = at.map(|at| results.remove(at));
        Outcome {
            id: id.clone(),
            ok: result.is_some_and(|result| result.ok),
            content: result.map_or(LOST, |result| &result.content),
        }
    };
    given.iter().zip(ids).map(&mut outcome).collect()
}

/// The id as both vendors take it, with a number if another call has it already.
fn unique(id: &str, used: &mut HashMap<String, usize>) -> String {
    let clean: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let clean = if clean.is_empty() { "call".to_owned() } else { clean };
    loop {
        let count = used.entry(clean.clone()).or_default();
        *count += 1;
        let id = if *count == 1 { clean.clone() } else { format!("{clean}_{count}") };
        // `a_2` may be somebody's own id.
        if *count == 1 || used.insert(id.clone(), 1).is_none() {
            return id;
        }
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_clean_and_never_used_twice() {
        let mut used = HashMap::new();
        let ids: Vec<_> = ["a", "a", "a_2", "a", "", "b:1"].iter().map(|id| unique(id, &mut used)).collect();
        assert_eq!(ids, ["a", "a_2", "a_2_2", "a_3", "call", "b_1"]);
    }
}
