//! A conversation as the body of an Anthropic Messages request. Pure.
//!
//! Roles alternate, beginning with the user; results stand first in the user message that follows
//! their calls; an assistant message that came from here goes back as it came.

use super::{AnthropicOptions, ID};
use crate::llm::ReasoningEffort;
use crate::llm::history::{History, Outcome, Said, Turn};
use crate::message::{AssistantMessage, ChatMessage};
use crate::tools::ToolSpec;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What stands in front of a history that begins with the assistant.
const EARLIER: &str = "(The beginning of the conversation is left out.)";

#[derive(Debug, Serialize)]
struct Request<'m> {
    model: &'m str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    stream: bool,
}

#[derive(Debug, Serialize)]
struct Thinking {
    r#type: &'static str,
    budget_tokens: u32,
}

#[derive(Debug, Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Value>,
}

/// The JSON of the request.
pub fn body(options: &AnthropicOptions, messages: &[ChatMessage], tools: &[ToolSpec]) -> Vec<u8> {
    let history = History::read(messages, call_ids);
    let thinking = options.reasoning_effort.filter(|_| may_think(&history)).map(budget);
    let (tools, tool_choice) = tools_of(&history, tools);
    let mut rendered: Vec<Message> = Vec::new();
    for turn in &history.turns {
        match turn {
            Turn::User(text) => add(&mut rendered, "user", [text_block(text)]),
            Turn::Assistant(said) => add(&mut rendered, "assistant", assistant(said)),
            Turn::Results(outcomes) => add(&mut rendered, "user", outcomes.iter().map(result)),
        }
    }
    let request = Request {
        model: &options.model,
        // Thinking counts as output; the answer keeps its own length.
        max_tokens: options.max_tokens.saturating_add(thinking.unwrap_or(0)),
        system: history.system,
        messages: rendered,
        tools,
        tool_choice,
        thinking: thinking.map(|budget_tokens| Thinking { r#type: "enabled", budget_tokens }),
        stream: true,
    };
    // Strings, numbers and string keys only: this cannot fail.
    serde_json::to_vec(&request).unwrap_or_default()
}

fn add(messages: &mut Vec<Message>, role: &'static str, blocks: impl IntoIterator<Item = Value>) {
    let blocks: Vec<Value> = blocks.into_iter().collect();
    if blocks.is_empty() {
        return;
    }
    if messages.is_empty() && role == "assistant" {
        messages.push(Message { role: "user", content: vec![text_block(EARLIER)] });
    }
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.extend(blocks),
        _ => messages.push(Message { role, content: blocks }),
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result(outcome: &Outcome<'_>) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": outcome.id, "content": outcome.content});
    if !outcome.ok {
        block["is_error"] = true.into();
    }
    block
}

/// The blocks of an assistant message: its own ones if it came from this provider.
fn assistant(said: &Said<'_>) -> Vec<Value> {
    let ids = said.ids.iter();
    if let Some(blocks) = own_blocks(said.message) {
        let mut blocks = blocks.clone();
        // They differ only where two calls shared an id.
        for (block, id) in blocks.iter_mut().filter(|block| is_call(block)).zip(ids) {
            block["id"] = id.as_str().into();
        }
        return blocks;
    }
    let message = said.message;
    let text = (!message.text.trim().is_empty()).then(|| text_block(&message.text));
    let calls = message.tool_calls.iter().zip(ids);
    text.into_iter()
        .chain(
            calls.map(|(call, id)| json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})),
        )
        .collect()
}

fn own_blocks(message: &AssistantMessage) -> Option<&Vec<Value>> {
    message.raw.as_ref().filter(|raw| raw.provider == ID)?.content.as_array()
}

fn is_call(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("tool_use")
}

fn call_ids(message: &AssistantMessage) -> Vec<&str> {
    match own_blocks(message) {
        Some(blocks) => blocks.iter().filter(|block| is_call(block)).map(|block| str_at(block, "id")).collect(),
        None => message.tool_calls.iter().map(|call| call.id.as_str()).collect(),
    }
}

fn str_at<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Tokens of thought for an effort.
fn budget(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Low => 1_024,
        ReasoningEffort::Medium => 4_096,
        ReasoningEffort::High => 16_384,
    }
}

/// With thinking on, the vendor demands that the assistant message whose calls are being answered
/// begins with its thought. One that came from elsewhere has none.
fn may_think(history: &History<'_>) -> bool {
    let calling = history.turns.iter().rev().find_map(|turn| match turn {
        Turn::Assistant(said) => Some(said),
        Turn::User(_) | Turn::Results(_) => None,
    });
    calling.is_none_or(|said| {
        let first = own_blocks(said.message).and_then(|blocks| blocks.first());
        said.ids.is_empty() || first.is_some_and(|block| str_at(block, "type").ends_with("thinking"))
    })
}

/// The tools, and whether they may be used: a history with calls needs their declarations even
/// where no more calls are wanted.
fn tools_of(history: &History<'_>, tools: &[ToolSpec]) -> (Vec<Value>, Option<Value>) {
    if !tools.is_empty() {
        let declared = tools
            .iter()
            .map(|spec| json!({"name": spec.name, "description": spec.description, "input_schema": spec.parameters}));
        return (declared.collect(), None);
    }
    let names: BTreeSet<&str> = history
        .turns
        .iter()
        .filter_map(|turn| if let Turn::Assistant(said) = turn { Some(said.message) } else { None })
        .flat_map(|message| match own_blocks(message) {
            Some(blocks) => blocks.iter().filter(|b| is_call(b)).map(|b| str_at(b, "name")).collect::<Vec<_>>(),
            None => message.tool_calls.iter().map(|call| call.name.as_str()).collect(),
        })
        .collect();
    let declared: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect();
    let choice = (!declared.is_empty()).then(|| json!({"type": "none"}));
    (declared, choice)
}

#[cfg(test)]
mod tests;
