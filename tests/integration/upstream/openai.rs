//! The OpenAI wire in steps and whole scripts.

use super::{Script, Step, event};
use serde_json::{Value, json};

fn chunk(delta: Value, finish: Option<&str>) -> Step {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    event("", &json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}).to_string())
}

pub fn text(piece: &str) -> Step {
    chunk(json!({"content": piece}), None)
}

pub fn reasoning(piece: &str) -> Step {
    chunk(json!({"reasoning_content": piece}), None)
}

pub fn call(index: usize, id: &str, name: &str) -> Step {
    let call = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
    chunk(json!({"tool_calls": [call]}), None)
}

pub fn arguments(index: usize, piece: &str) -> Step {
    chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None)
}

/// `stop`, `length`, `tool_calls`.
pub fn finish(reason: &str) -> Step {
    chunk(json!({}), Some(reason))
}

pub fn usage(input: u64, output: u64) -> Step {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    event("", &json!({"choices": [], "usage": usage}).to_string())
}

pub fn done() -> Step {
    event("", "[DONE]")
}

/// A whole answer of text: 7 tokens in, one out per piece.
pub fn answer(pieces: &[&str]) -> Script {
    let mut steps: Vec<Step> = pieces.iter().map(|piece| text(piece)).collect();
    steps.extend([finish("stop"), usage(7, pieces.len() as u64), done()]);
    Script::stream(steps)
}

/// A whole answer of calls: `(id, name, arguments)`.
pub fn calls(calls: &[(&str, &str, &str)]) -> Script {
    let mut steps = Vec::new();
    for (index, (id, name, json)) in calls.iter().enumerate() {
        steps.push(call(index, id, name));
        let cut = json.floor_char_boundary(json.len() / 2);
        steps.extend([&json[..cut], &json[cut..]].map(|piece| arguments(index, piece)));
    }
    steps.extend([finish("tool_calls"), usage(7, calls.len() as u64), done()]);
    Script::stream(steps)
}
