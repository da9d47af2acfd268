//! The Anthropic wire in steps and whole scripts.

use super::{Script, Step, event};
use serde_json::{Value, json};

fn named(data: &Value) -> Step {
    event(data["type"].as_str().unwrap_or_default(), &data.to_string())
}

pub fn start(input_tokens: u64) -> Step {
    let usage = json!({"input_tokens": input_tokens, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage});
    named(&json!({"type": "message_start", "message": message}))
}

fn block(index: usize, content: Value) -> Step {
    named(&json!({"type": "content_block_start", "index": index, "content_block": content}))
}

fn delta(index: usize, delta: Value) -> Step {
    named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

pub fn text_block(index: usize) -> Step {
    block(index, json!({"type": "text", "text": ""}))
}

pub fn text(index: usize, piece: &str) -> Step {
    delta(index, json!({"type": "text_delta", "text": piece}))
}

/// A whole thinking block with its signature.
pub fn thinking(index: usize, thought: &str, signature: &str) -> [Step; 4] {
    [
        block(index, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(index, json!({"type": "thinking_delta", "thinking": thought})),
        delta(index, json!({"type": "signature_delta", "signature": signature})),
        stop(index),
    ]
}

pub fn call(index: usize, id: &str, name: &str) -> Step {
    block(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

pub fn arguments(index: usize, piece: &str) -> Step {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

/// The end of a block.
pub fn stop(index: usize) -> Step {
    named(&json!({"type": "content_block_stop", "index": index}))
}

/// `end_turn`, `max_tokens`, `tool_use`; then the end of the message.
pub fn finish(reason: &str, output_tokens: u64) -> [Step; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [
        named(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output_tokens}})),
        named(&json!({"type": "message_stop"})),
    ]
}

/// A whole answer of text: 7 tokens in, one out per piece.
pub fn answer(pieces: &[&str]) -> Script {
    let mut steps = vec![start(7), text_block(0)];
    steps.extend(pieces.iter().map(|piece| text(0, piece)));
    steps.push(stop(0));
    steps.extend(finish("end_turn", pieces.len() as u64));
    Script::stream(steps)
}

/// A whole answer of calls: `(id, name, arguments)`.
pub fn calls(calls: &[(&str, &str, &str)]) -> Script {
    let mut steps = vec![start(7)];
    for (index, (id, name, json)) in calls.iter().enumerate() {
        steps.push(call(index, id, name));
        let cut = json.floor_char_boundary(json.len() / 2);
        steps.extend([&json[..cut], &json[cut..]].map(|piece| arguments(index, piece)));
        steps.push(stop(index));
    }
    steps.extend(finish("tool_use", calls.len() as u64));
    Script::stream(steps)
}
