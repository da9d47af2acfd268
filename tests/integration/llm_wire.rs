//! The two remote providers against a scripted server: what they ask and what they make of the
//! answer. How they fail is in `failing.rs`.

mod failing;

use crate::upstream::{PATIENCE, Request, Script, Served, Signal, Step, Upstream, anthropic, event, openai};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tailrace::llm::anthropic::{Anthropic, AnthropicOptions};
use tailrace::llm::openai::probe::probe;
use tailrace::llm::openai::{OpenAi, OpenAiOptions};
use tailrace::llm::transport::{Transport, TransportOptions};
use tailrace::llm::{EventStream, LlmError, LlmErrorKind, LlmProvider, Stop, StreamEvent};
use tailrace::message::{AssistantMessage, ChatMessage, ToolCall, ToolResult, Usage};
use tailrace::secret::Secret;
use tailrace::tools::ToolSpec;

const KEY: &str = "sk-canary-0123456789";
const BOTH: [&str; 2] = ["openai", "anthropic"];

fn provider_with(name: &str, base_url: &str, options: TransportOptions) -> Arc<dyn LlmProvider> {
    let transport = Arc::new(Transport::new(options));
    let (base_url, api_key, model) = (base_url.to_owned(), Some(Secret::new(KEY)), "m".to_owned());
    match name {
        "openai" => {
            let options = OpenAiOptions {
                base_url,
                api_key,
                model,
                max_tokens: None,
                reasoning_effort: None,
                native_tools: true,
            };
            Arc::new(OpenAi::new(options, transport).unwrap())
        }
        _ => {
            let options = AnthropicOptions { base_url, api_key, model, max_tokens: 64, reasoning_effort: None };
            Arc::new(Anthropic::new(options, transport).unwrap())
        }
    }
}

fn provider(name: &str, base_url: &str) -> Arc<dyn LlmProvider> {
    provider_with(name, base_url, TransportOptions::default())
}

fn question() -> Vec<ChatMessage> {
    vec![ChatMessage::System("Be short.".into()), ChatMessage::User("Hi?".into())]
}

async fn next(stream: &mut EventStream) -> Option<StreamEvent> {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("the stream neither went on nor ended")
}

/// All that is left, and nothing after the one terminal event.
async fn rest(stream: &mut EventStream) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(event) = next(stream).await {
        events.push(event);
    }
    let terminal = |event: &StreamEvent| matches!(event, StreamEvent::Done(_) | StreamEvent::Error(_));
    assert_eq!(events.iter().position(terminal), Some(events.len() - 1), "{events:?}");
    events
}

fn text_of(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let StreamEvent::Delta(text) = event { Some(text.as_str()) } else { None })
        .collect()
}

fn failure(events: &[StreamEvent]) -> &LlmError {
    match events.last() {
        Some(StreamEvent::Error(error)) => error,
        other => panic!("no error at the end but {other:?}"),
    }
}

async fn ask(name: &str, script: Script) -> Result<Vec<StreamEvent>, LlmError> {
    let upstream = Upstream::start([script]).await;
    let mut stream = provider(name, upstream.base_url()).stream(&question()).await?;
    Ok(rest(&mut stream).await)
}

#[tokio::test]
async fn an_answer_of_text_streams_on_both_wires() {
    for (name, script) in [
        ("openai", openai::answer(&["Hel", "lo ", "北京 🌧"])),
        ("anthropic", anthropic::answer(&["Hel", "lo ", "北京 🌧"])),
    ] {
        let upstream = Upstream::start([script]).await;
        let mut stream = provider(name, upstream.base_url()).stream(&question()).await.unwrap();
        let events = rest(&mut stream).await;
        assert_eq!(text_of(&events), "Hello 北京 🌧", "{name}");
        let Some(StreamEvent::Done(done)) = events.last() else { panic!("{name}: {events:?}") };
        assert_eq!(
            (done.usage, done.stop),
            (Usage { input_tokens: 7, output_tokens: 3, cache_read_tokens: 0 }, Stop::End)
        );
        let Request { method, path, .. } = &upstream.requests()[0];
        let request = &upstream.requests()[0];
        let sent = request.json();
        assert_eq!((method.as_str(), &sent["stream"], &sent["model"]), ("POST", &json!(true), &json!("m")));
        assert_eq!(request.header("accept-encoding"), None, "a compressed stream waits for full blocks");
        match name {
            "openai" => {
                assert_eq!(path, "/v1/chat/completions");
                assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
                assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be short."}));
                assert_eq!(sent["stream_options"], json!({"include_usage": true}));
                assert_eq!(done.message, None);
            }
            _ => {
                assert_eq!(path, "/v1/messages");
                assert_eq!(request.header("x-api-key"), Some(KEY));
                assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
                assert_eq!(sent["system"], "Be short.");
                let blocks = done.message.as_ref().map(|raw| &raw.content);
                assert_eq!(blocks, Some(&json!([{"type": "text", "text": "Hello 北京 🌧"}])));
            }
        }
    }
}

#[tokio::test]
async fn calls_come_in_and_their_results_go_back_in_the_tools_own_role() {
    let arguments = "{\"query\":\"überall 🌧\"}";
    let called = [("c1", "search", arguments), ("c2", "list", "")];
    let thought = anthropic::thinking(0, "plan", "c2ln");
    let mut with_thought = vec![anthropic::start(7)];
    with_thought.extend(thought);
    with_thought.extend(anthropic::calls(&called).steps.split_off(1).into_iter().map(shift_block));
    for (name, script) in [("openai", openai::calls(&called)), ("anthropic", Script::stream(with_thought))] {
        let answer = if name == "openai" { openai::answer(&["ok"]) } else { anthropic::answer(&["ok"]) };
        let upstream = Upstream::start([script, answer]).await;
        let provider = provider(name, &format!("{}/v1", upstream.base_url()));
        let spec = ToolSpec {
            name: "search".into(),
            description: "Finds.".into(),
            parameters: json!({"type": "object"}),
            side_effects: false,
        };
        let mut stream = provider.stream_with_tools(&question(), &[spec]).await.unwrap();
        let events = rest(&mut stream).await;
        let mut started = Vec::new();
        let mut got = String::new();
        let mut complete = Vec::new();
        for event in &events {
            match event {
                StreamEvent::ToolCallStart { id, name, index } => started.push((id.as_str(), name.as_str(), *index)),
                StreamEvent::ToolCallArgumentsDelta { delta, .. } => got.push_str(delta),
                StreamEvent::ToolCallComplete { index } => complete.push(*index),
                _ => {}
            }
        }
        let base = i64::from(name == "anthropic");
        assert_eq!(started, [("c1", "search", base), ("c2", "list", base + 1)], "{name}");
        assert_eq!(got, arguments);
        assert_eq!(complete, [base, base + 1]);
        let Some(StreamEvent::Done(done)) = events.last() else { panic!("{events:?}") };
        assert_eq!(done.stop, Stop::Tools);
        let tools = &upstream.requests()[0].json()["tools"][0];
        assert_eq!(if name == "openai" { &tools["function"]["name"] } else { &tools["name"] }, "search");

        let call = |id: &str, name: &str, json: &str| ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: serde_json::from_str(json).unwrap(),
        };
        let result = |id: &str, content: &str| ToolResult {
            call_id: id.into(),
            name: "x".into(),
            ok: true,
            content: content.into(),
        };
        let mut history = question();
        history.push(ChatMessage::Assistant(AssistantMessage {
            text: String::new(),
            tool_calls: vec![call("c1", "search", arguments), call("c2", "list", "{}")],
            raw: done.message.clone(),
        }));
        history.push(ChatMessage::ToolResults(vec![result("c1", "one"), result("c2", "two")]));
        let mut stream = provider.stream(&history).await.unwrap();
        assert_eq!(text_of(&rest(&mut stream).await), "ok");
        let sent = upstream.requests()[1].json()["messages"].clone();
        match name {
            "openai" => {
                assert_eq!(sent[2]["tool_calls"][0]["function"]["arguments"], arguments);
                assert_eq!(sent[3], json!({"role": "tool", "tool_call_id": "c1", "content": "one"}));
                assert_eq!(sent[4], json!({"role": "tool", "tool_call_id": "c2", "content": "two"}));
            }
            _ => {
                assert_eq!(
                    sent[1]["content"],
                    json!([
                        {"type": "thinking", "thinking": "plan", "signature": "c2ln"},
                        {"type": "tool_use", "id": "c1", "name": "search", "input": {"query": "überall 🌧"}},
                        {"type": "tool_use", "id": "c2", "name": "list", "input": {}},
                    ])
                );
                assert_eq!(sent[2]["role"], "user");
                assert_eq!(
                    sent[2]["content"][1],
                    json!({"type": "tool_result", "tool_use_id": "c2", "content": "two"})
                );
            }
        }
    }
}

/// The same step for a block that stands one later.
fn shift_block(step: Step) -> Step {
    let Step::Send(bytes) = step else { return step };
    let text = String::from_utf8(bytes).unwrap();
    Step::Send(text.replace("\"index\":1", "\"index\":2").replace("\"index\":0", "\"index\":1").into_bytes())
}

#[tokio::test]
async fn events_arrive_while_the_answer_is_still_being_made() {
    for name in BOTH {
        let seen = Signal::new();
        let mut steps = match name {
            "openai" => vec![openai::reasoning("hm"), openai::call(0, "c", "f"), openai::arguments(0, "{}")],
            _ => vec![
                anthropic::start(1),
                anthropic::call(0, "c", "f"),
                anthropic::arguments(0, "{}"),
                anthropic::stop(0),
            ],
        };
        steps.push(Step::Wait(seen.clone()));
        match name {
            "openai" => steps.extend([openai::finish("tool_calls"), openai::done()]),
            _ => steps.extend(anthropic::finish("tool_use", 1)),
        }
        let upstream = Upstream::start([Script::stream(steps)]).await;
        let mut stream = provider(name, upstream.base_url()).stream(&question()).await.unwrap();
        // Arguments on the one wire, the whole call on the other, are known before the end is sent.
        loop {
            match next(&mut stream).await {
                Some(StreamEvent::ToolCallArgumentsDelta { .. }) if name == "openai" => break,
                Some(StreamEvent::ToolCallComplete { .. }) => break,
                Some(_) => {}
                None => panic!("{name}: the stream ended"),
            }
        }
        assert!(!upstream.served(0).finished);
        seen.send();
        assert!(matches!(rest(&mut stream).await.last(), Some(StreamEvent::Done(_))));
    }
}

#[tokio::test]
async fn comments_keep_a_stream_alive() {
    let options =
        TransportOptions { first_byte_timeout: Duration::from_secs(20), idle_timeout: Duration::from_secs(1) };
    let alive = || [Step::Send(b": ping\n\n".to_vec()), Step::Sleep(Duration::from_millis(200))];
    let steps = (0..8).flat_map(|_| alive()).chain(openai::answer(&["Hi"]).steps);
    let upstream = Upstream::start([Script::stream(steps)]).await;
    let mut stream = provider_with("openai", upstream.base_url(), options).stream(&question()).await.unwrap();
    assert_eq!(text_of(&rest(&mut stream).await), "Hi");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for (name, first) in [("openai", openai::text("Hi")), ("anthropic", anthropic::text(0, "Hi"))] {
        let dropped = Signal::new();
        let flood = std::iter::repeat_n(Step::Send(vec![b':'; 64 * 1024]), 64);
        let steps = [Step::Head, first, Step::Wait(dropped.clone())].into_iter().chain(flood);
        let upstream = Upstream::start([Script::stream(steps)]).await;
        let mut stream = provider(name, upstream.base_url()).stream(&question()).await.unwrap();
        assert_eq!(next(&mut stream).await, Some(StreamEvent::Delta("Hi".into())));
        drop(stream);
        let before = Instant::now();
        let Served { left, .. } = upstream.left(0).await;
        assert!(left.is_some_and(|at| at.saturating_duration_since(before) < Duration::from_millis(250)));
        dropped.send();
        // What the kernel still took in is a few buffers, not the four MiB that were to come.
        let served = upstream.over(0).await;
        assert!(!served.finished && served.bytes_after_left < 1024 * 1024, "{served:?}");
    }
}

#[tokio::test]
async fn a_finished_answer_leaves_its_connection_to_the_next() {
    let open = Signal::new();
    let late = [openai::text("b"), openai::done(), Step::Tell(open.clone()), Step::Hang];
    let scripts = std::iter::repeat_n(openai::answer(&["a"]), 20).chain([Script::stream(late)]);
    let upstream = Upstream::start(scripts).await;
    let provider = provider("openai", upstream.base_url());
    for _ in 0..20 {
        let mut stream = provider.stream(&question()).await.unwrap();
        assert_eq!(text_of(&rest(&mut stream).await), "a");
    }
    // One, on a machine that is not too busy to send the body's end in time.
    assert!(upstream.connections() <= 10, "{}", upstream.connections());
    // The end mark is the end, whether the server closes or not.
    let mut stream = provider.stream(&question()).await.unwrap();
    let begun = Instant::now();
    assert_eq!(text_of(&rest(&mut stream).await), "b");
    assert!(begun.elapsed() < Duration::from_secs(2));
    open.wait().await;
}

#[tokio::test]
async fn characters_may_be_cut_between_chunks() {
    let Step::Send(bytes) = openai::text("a日😀é") else { panic!("a step that sends") };
    let steps = bytes.into_iter().map(|byte| Step::Send(vec![byte])).chain([openai::finish("stop"), openai::done()]);
    let events = ask("openai", Script::stream(steps)).await.unwrap();
    assert_eq!(text_of(&events), "a日😀é");
}

#[tokio::test]
async fn only_a_model_list_on_this_machine_is_a_local_server() {
    let list = json!({"object": "list", "data": [{"id": "qwen", "object": "model"}]});
    // Far more than the program allows, so that a busy machine does not decide.
    let limit = Duration::from_secs(3);
    for (script, want) in [
        (Script::json(200, &list), Some("qwen")),
        (Script::json(200, &json!({"hello": "world"})), None),
        (Script::body(200, "text/html", "<html>"), None),
        (Script::json(500, &list), None),
        (Script::stream([Step::Hang]), None),
    ] {
        let upstream = Upstream::answering(move |_, _| script.clone()).await;
        let transport = Transport::new(TransportOptions::default());
        let begun = Instant::now();
        assert_eq!(probe(&transport, upstream.base_url(), limit).await.as_deref(), want);
        assert!(begun.elapsed() < Duration::from_secs(20));
        let asked = upstream.request(0).await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/v1/models"));
        // The same port under a name that may mean another machine.
        let elsewhere = upstream.base_url().replace("127.0.0.1", "127.0.0.1.nip.invalid");
        assert_eq!(probe(&transport, &elsewhere, limit).await, None);
    }
}
