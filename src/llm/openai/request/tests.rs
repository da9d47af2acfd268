//! Conversations, and the body that is sent for them.

use super::*;
use crate::message::{AssistantMessage, RawMessage, ToolCall, ToolResult};
use crate::secret::Secret;
use serde_json::json;

fn options() -> OpenAiOptions {
    OpenAiOptions {
        base_url: "http://127.0.0.1:1".into(),
        api_key: Some(Secret::new("sk-1")),
        model: "m".into(),
        max_tokens: None,
        reasoning_effort: None,
        native_tools: true,
    }
}

fn sent(options: &OpenAiOptions, vendor: bool, messages: &[ChatMessage], tools: &[ToolSpec]) -> Value {
    serde_json::from_slice(&body(options, vendor, messages, tools)).unwrap()
}

fn check(messages: &[ChatMessage], want: Value) {
    assert_eq!(sent(&options(), false, messages, &[])["messages"], want);
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.as_object().cloned().unwrap() }
}

fn result(id: &str, ok: bool, content: &str) -> ToolResult {
    ToolResult { call_id: id.into(), name: "search".into(), ok, content: content.into() }
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.into())
}

fn system(text: &str) -> ChatMessage {
    ChatMessage::System(text.into())
}

fn said(text: &str, tool_calls: Vec<ToolCall>) -> ChatMessage {
    ChatMessage::Assistant(AssistantMessage { text: text.into(), tool_calls, raw: None })
}

#[test]
fn the_request_asks_for_a_stream_with_totals() {
    let spec = ToolSpec {
        name: "search".into(),
        description: "Finds.".into(),
        parameters: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        side_effects: false,
    };
    assert_eq!(
        sent(&options(), false, &[user("hi")], &[spec]),
        json!({
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {
                "name": "search", "description": "Finds.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            }}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
    let options = OpenAiOptions { max_tokens: Some(9), reasoning_effort: Some(ReasoningEffort::Low), ..options() };
    for (vendor, key, other) in
        [(false, "max_tokens", "max_completion_tokens"), (true, "max_completion_tokens", "max_tokens")]
    {
        let body = sent(&options, vendor, &[user("hi")], &[]);
        assert_eq!((&body[key], &body[other], &body["reasoning_effort"]), (&json!(9), &Value::Null, &json!("low")));
        assert_eq!(body.get("tools"), None);
    }
}

#[test]
fn one_system_prompt_in_front_and_users_joined() {
    check(
        &[system("a"), system("b"), user("hi"), said("hello", vec![]), user("more"), system("now stop"), user(" ")],
        json!([
            {"role": "system", "content": "a\n\nb"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "more\n\nnow stop"},
        ]),
    );
}

#[test]
fn calls_and_results_in_their_own_roles() {
    check(
        &[
            user("hi"),
            said("", vec![call("c0", "search", json!({"q": "a b", "n": 1})), call("c1", "search", json!({}))]),
            ChatMessage::ToolResults(vec![result("c0", true, "found"), result("c1", false, "timed out")]),
            said("Half", vec![call("c2", "search", json!({}))]),
            ChatMessage::ToolResults(vec![result("c2", true, "x")]),
            user("go on"),
        ],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c0", "type": "function", "function": {"name": "search", "arguments": "{\"q\":\"a b\",\"n\":1}"}},
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c0", "content": "found"},
            {"role": "tool", "tool_call_id": "c1", "content": "timed out"},
            {"role": "assistant", "content": "Half", "tool_calls": [
                {"id": "c2", "type": "function", "function": {"name": "search", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c2", "content": "x"},
            {"role": "user", "content": "go on"},
        ]),
    );
}

#[test]
fn every_call_is_answered_once_under_its_own_id() {
    let lost = "No result: the turn ended before this call was answered.";
    let sent = sent(
        &options(),
        false,
        &[
            user("hi"),
            said(
                "",
                vec![
                    call("c", "search", json!({})),
                    call("c", "search", json!({"q": 1})),
                    call("d", "search", json!({})),
                ],
            ),
            ChatMessage::ToolResults(vec![
                result("c", true, "first"),
                result("c", true, "second"),
                result("x", true, "stray"),
            ]),
            said("", vec![call("c", "search", json!({"q": 2}))]),
        ],
        &[],
    );
    let messages = sent["messages"].as_array().unwrap();
    let ids: Vec<&Value> = messages[1]["tool_calls"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    assert_eq!(ids, ["c", "c_2", "d"]);
    assert_eq!(
        messages[2..6],
        [
            json!({"role": "tool", "tool_call_id": "c", "content": "first"}),
            json!({"role": "tool", "tool_call_id": "c_2", "content": "second"}),
            json!({"role": "tool", "tool_call_id": "d", "content": lost}),
            json!({"role": "user", "content": "Result of search:\nstray"}),
        ]
    );
    assert_eq!(messages[6]["tool_calls"][0]["id"], "c_3");
    assert_eq!(messages[7], json!({"role": "tool", "tool_call_id": "c_3", "content": lost}));
}

#[test]
fn another_providers_message_goes_as_text_and_an_empty_one_not_at_all() {
    let raw = Some(RawMessage { provider: "anthropic".into(), content: json!([{"type": "thinking"}]) });
    let foreign = |text: &str| {
        ChatMessage::Assistant(AssistantMessage { text: text.into(), tool_calls: vec![], raw: raw.clone() })
    };
    check(
        &[user("a"), foreign("hello"), user("b"), foreign(""), said("", vec![])],
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "b"},
        ]),
    );
}
