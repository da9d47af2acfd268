//! Conversations, and the body that is sent for them.

use super::*;
use crate::message::{RawMessage, ToolCall, ToolResult};

fn options(reasoning_effort: Option<ReasoningEffort>) -> AnthropicOptions {
    AnthropicOptions {
        base_url: "http://127.0.0.1:1".into(),
        api_key: None,
        model: "m".into(),
        max_tokens: 100,
        reasoning_effort,
    }
}

fn sent(options: &AnthropicOptions, messages: &[ChatMessage], tools: &[ToolSpec]) -> Value {
    serde_json::from_slice(&body(options, messages, tools)).unwrap()
}

fn check(messages: &[ChatMessage], want: Value) {
    assert_eq!(sent(&options(None), messages, &[])["messages"], want);
}

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.into(), name: "search".into(), arguments: arguments.as_object().cloned().unwrap() }
}

fn results(all: &[(&str, bool, &str)]) -> ChatMessage {
    ChatMessage::ToolResults(
        all.iter()
            .map(|&(id, ok, content)| ToolResult {
                call_id: id.into(),
                name: "search".into(),
                ok,
                content: content.into(),
            })
            .collect(),
    )
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.into())
}

fn said(text: &str, tool_calls: Vec<ToolCall>, raw: Option<Value>) -> ChatMessage {
    let raw = raw.map(|content| RawMessage { provider: ID.into(), content });
    ChatMessage::Assistant(AssistantMessage { text: text.into(), tool_calls, raw })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn the_request_has_system_and_tools_beside_the_messages() {
    let spec = ToolSpec {
        name: "search".into(),
        description: "Finds.".into(),
        parameters: json!({"type": "object"}),
        side_effects: false,
    };
    let messages = [ChatMessage::System("a".into()), ChatMessage::System("b".into()), user("hi")];
    assert_eq!(
        sent(&options(None), &messages, &[spec]),
        json!({
            "model": "m",
            "max_tokens": 100,
            "system": "a\n\nb",
            "messages": [{"role": "user", "content": [text("hi")]}],
            "tools": [{"name": "search", "description": "Finds.", "input_schema": {"type": "object"}}],
            "stream": true,
        })
    );
}

#[test]
fn roles_alternate_and_results_come_first() {
    check(
        &[
            said("earlier", vec![], None),
            user("a"),
            user("b"),
            said("Looking.", vec![call("t1", json!({"q": 1})), call("t2", json!({}))], None),
            results(&[("t1", true, "found"), ("t2", false, "timed out")]),
            ChatMessage::System("one more round".into()),
            said(" \n", vec![], None),
            said("done", vec![], None),
        ],
        json!([
            {"role": "user", "content": [text(EARLIER)]},
            {"role": "assistant", "content": [text("earlier")]},
            {"role": "user", "content": [text("a\n\nb")]},
            {"role": "assistant", "content": [
                text("Looking."),
                {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}},
                {"type": "tool_use", "id": "t2", "name": "search", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "found"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "timed out", "is_error": true},
                text("one more round"),
            ]},
            {"role": "assistant", "content": [text("done")]},
        ]),
    );
}

#[test]
fn its_own_message_goes_back_unchanged() {
    let raw = json!([
        {"type": "thinking", "thinking": "plan", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eHg="},
        text("Looking."),
        {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}},
    ]);
    let history = [
        user("a"),
        said("Looking.", vec![call("t1", json!({"q": 1}))], Some(raw.clone())),
        results(&[("t1", true, "x")]),
    ];
    check(
        &history,
        json!([
            {"role": "user", "content": [text("a")]},
            {"role": "assistant", "content": raw},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
        ]),
    );
    // Two calls under one id are told apart, and so are their results.
    let twin = json!([
        {"type": "tool_use", "id": "t", "name": "search", "input": {"q": 1}},
        {"type": "tool_use", "id": "t", "name": "search", "input": {"q": 2}},
    ]);
    let calls = vec![call("t", json!({"q": 1})), call("t", json!({"q": 2}))];
    let body = sent(
        &options(None),
        &[user("a"), said("", calls, Some(twin)), results(&[("t", true, "1"), ("t", true, "2")])],
        &[],
    );
    let at = |message: usize, block: usize, key: &str| body["messages"][message]["content"][block][key].clone();
    assert_eq!([at(1, 0, "id"), at(1, 1, "id")], ["t", "t_2"]);
    assert_eq!([at(2, 1, "tool_use_id"), at(2, 1, "content")], ["t_2", "2"]);
}

#[test]
fn thinking_has_a_budget_of_its_own_and_needs_a_thought_to_go_on_from() {
    let high = options(Some(ReasoningEffort::High));
    let body = sent(&high, &[user("a")], &[]);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 16_384}));
    assert_eq!(body["max_tokens"], 16_484);

    let thought = json!([{"type": "thinking", "thinking": "p", "signature": "s"}, {"type": "tool_use", "id": "t", "name": "search", "input": {}}]);
    for (raw, thinks) in [(Some(thought), true), (None, false)] {
        let history = [user("a"), said("", vec![call("t", json!({}))], raw), results(&[("t", true, "x")])];
        let body = sent(&high, &history, &[]);
        assert_eq!(body.get("thinking").is_some(), thinks);
        assert_eq!(body["max_tokens"] == 16_484, thinks);
    }
}

#[test]
fn a_history_with_calls_declares_their_tools_even_when_none_may_be_used() {
    let history = [user("a"), said("", vec![call("t", json!({}))], None), results(&[("t", true, "x")])];
    let body = sent(&options(None), &history, &[]);
    assert_eq!(body["tools"], json!([{"name": "search", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let body = sent(&options(None), &[user("a")], &[]);
    assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None));
}
