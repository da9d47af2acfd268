//! The frame files that the web page's tests read: one turn with every event, as server-sent events and as the
//! socket's messages. `BLESS=1 cargo test frame_files` writes them; otherwise they must be what the server sends,
//! so that the page and the server cannot drift apart.

use super::super::frame;
use super::wire;
use crate::engine::event::{
    Claim, Finish, Ingested, Notice, Rejection, RoundStop, RunnerEvent, Span, Telemetry, ToolMode, ToolOutcome,
    ToolSettled, ToolStart, Verdict,
};
use crate::llm::Stop;
use crate::message::Usage;
use crate::message::sources::Source;
use serde_json::json;
use std::fs;
use std::path::Path;
use uuid::Uuid;

const FETCH: &str = "<tool name=\"fetch_url\"><url>https://example.org/</url></tool>";
const AGAIN: &str = "<tool name=\"fetch_url\" url='https://example.org/'/>";

/// Times and events in the order in which a turn has them.
fn turn() -> Vec<(u64, RunnerEvent)> {
    let usage = Usage { input_tokens: 812, output_tokens: 164, cache_read_tokens: 0 };
    let span = |text: &str, block: &str| {
        let start = text.find(block).unwrap() as u64;
        Some(Span { start, end: start + block.len() as u64 })
    };
    let text = format!("Grüße. {FETCH} und {AGAIN}");
    let arguments = json!({"url": "https://example.org/"}).as_object().unwrap().clone();
    let settled = |outcome, span, ingested| ToolSettled {
        call_id: "call-1".into(),
        name: "fetch_url".into(),
        arguments: Default::default(),
        outcome,
        duration_ms: 1200,
        ingest_ms: Some(90),
        truncated: true,
        span,
        ingested,
        depth: 0,
    };
    let source = Source {
        n: 1,
        document_id: "locks".into(),
        chunk_id: Uuid::nil(),
        title: "The \"Locking\" Clause".into(),
        uri: "locks.md".into(),
        snippet: "A row waits\u{2028}for <others>.".into(),
        score: 0.5,
        start: 3,
        end: 40,
        page: Some(7),
    };
    let ingested = Ingested {
        document_id: "fetched".into(),
        chunks: 12,
        collection: "default".into(),
        scope: "conversation",
        fresh: true,
    };
    let refused = ToolOutcome::Rejected { reason: Rejection::Duplicate, error: "called before".into() };
    vec![
        (
            0,
            RunnerEvent::TurnStart {
                turn_id: Uuid::nil(),
                conversation_id: Uuid::nil(),
                provider: "openai".into(),
                model: "example-model".into(),
                tool_mode: ToolMode::Inline,
            },
        ),
        (10, RunnerEvent::Sources(vec![source])),
        (11, RunnerEvent::Round { round: 0 }),
        (11, RunnerEvent::Thinking),
        (40, RunnerEvent::Delta("Void".into())),
        (41, RunnerEvent::Retry { attempt: 1, after_ms: 500, error: "overloaded".into(), discard_from: 0 }),
        (600, RunnerEvent::ThinkingDone),
        (600, RunnerEvent::Reasoning("Look it up.\n".into())),
        (700, RunnerEvent::Delta("Grüße. ".into())),
        (750, RunnerEvent::Delta(FETCH.into())),
        (
            750,
            RunnerEvent::ToolStart(ToolStart {
                call_id: "call-1".into(),
                name: "fetch_url".into(),
                arguments,
                round: 0,
                index: 0,
                span: span(&text, FETCH),
                depth: 0,
            }),
        ),
        (800, RunnerEvent::Delta(" und ".into())),
        (820, RunnerEvent::Delta(AGAIN.into())),
        (
            820,
            RunnerEvent::ToolResult(ToolSettled {
                call_id: "call-2".into(),
                duration_ms: 0,
                ingest_ms: None,
                truncated: false,
                ..settled(refused, span(&text, AGAIN), None)
            }),
        ),
        (900, RunnerEvent::RoundEnd { round: 0, stop: RoundStop::Model(Stop::End), usage, spoke: vec![(600, 830)] }),
        (
            2040,
            RunnerEvent::ToolResult(settled(
                ToolOutcome::Ok { output: "Rows are left out.".into() },
                span(&text, FETCH),
                Some(ingested),
            )),
        ),
        (
            2041,
            RunnerEvent::Notice(Notice {
                code: "auto_continue",
                title: "Goes on".into(),
                message: "with 1 result".into(),
            }),
        ),
        (2041, RunnerEvent::Round { round: 1 }),
        (2300, RunnerEvent::Delta("\n\nThey are left out [1].".into())),
        (
            2390,
            RunnerEvent::Claim(Claim {
                span: Span { start: text.len() as u64 + 2, end: text.len() as u64 + 24 },
                verdict: Verdict::Supported,
                sources: vec![1],
            }),
        ),
        (2400, RunnerEvent::RoundEnd { round: 1, stop: RoundStop::Cut, usage, spoke: vec![(2300, 2390)] }),
        (
            2400,
            RunnerEvent::Error {
                code: "provider_interrupted",
                message: "the stream broke off".into(),
                retryable: true,
                retry_after_ms: Some(1000),
            },
        ),
        (
            2410,
            RunnerEvent::TurnEnd {
                finish: Finish::ProviderError,
                fallback_reason: None,
                usage,
                telemetry: Telemetry { rounds: 2, tools_run: 1, tools_rejected: 1, ..Telemetry::default() },
            },
        ),
    ]
}

fn check(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/tests/frames").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == now,
        "{name} is not what the server sends: BLESS=1 cargo test frame_files, then scripts/web --test"
    );
}

#[test]
fn frame_files_are_what_the_server_sends() {
    let (mut sse, mut socket) = (String::new(), String::new());
    for (i, (at_ms, event)) in turn().iter().enumerate() {
        let frame = (frame::WIRE.encode)(i as u64 + 1, *at_ms, event);
        sse.push_str(std::str::from_utf8(&frame).unwrap());
        socket.push_str(&wire::event(Uuid::nil(), &frame, None).unwrap());
        socket.push('\n');
    }
    sse.push_str(std::str::from_utf8(&frame::DONE).unwrap());
    check("contract.sse", &sse);
    check("contract.jsonl", &socket);
}
