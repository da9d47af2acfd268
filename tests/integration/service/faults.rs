//! What goes wrong upstream, row by row: how often the provider was asked, and what the client saw.

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use futures_util::StreamExt;
use serde_json::json;

/// One kind of fault.
struct Row {
    name: &'static str,
    /// Played in order; the last one again and again.
    scripts: Vec<Script>,
    env: &'static [(&'static str, &'static str)],
    /// Requests that reached the provider.
    asked: usize,
    finish: &'static str,
    /// Of the `error` frame; empty: none.
    code: &'static str,
    text: &'static str,
    /// The first `retry` frame's wait lies between these.
    wait_ms: Option<(u64, u64)>,
}

const BASE: Row = Row {
    name: "",
    scripts: Vec::new(),
    env: &[],
    asked: 1,
    finish: "provider_error",
    code: "",
    text: "⚠️ LLM error: ",
    wait_ms: None,
};

fn refused(status: u16, kind: &str, code: &str) -> Script {
    Script::json(status, &json!({"error": {"message": "no", "type": kind, "code": code}}))
}

fn well() -> Script {
    openai::answer(&["Fine."])
}

fn rows() -> Vec<Row> {
    let jitter = Some((0, 500));
    let fine = Row { asked: 2, finish: "complete", text: "Fine.", wait_ms: jitter, ..BASE };
    let cut = |first: Step| Script::stream([first, Step::CutInChunk]);
    let event = |data: Value| crate::upstream::event("", &data.to_string());
    let error_event = event(json!({"error": {"message": "busy", "type": "overloaded_error", "code": 503}}));
    let split = |piece: &str| piece.bytes().map(|byte| Step::Send(vec![byte])).collect::<Vec<_>>();
    let Step::Send(snow) = openai::text("☃ Ünïcode 🌊") else { panic!("a text is sent") };
    let mut byte_by_byte = split(std::str::from_utf8(&snow).unwrap());
    byte_by_byte.extend([openai::finish("stop"), openai::done()]);
    let large = "x".repeat(1 << 20);
    vec![
        Row {
            name: "429 with retry-after",
            scripts: vec![refused(429, "rate_limit_error", "rate_limit_exceeded").header("retry-after", "1"), well()],
            wait_ms: Some((1000, 1000)),
            ..fine
        },
        Row {
            name: "429 without",
            scripts: vec![refused(429, "rate_limit_error", "rate_limit_exceeded"), well()],
            ..fine
        },
        Row {
            name: "429 for ever",
            scripts: vec![refused(429, "rate_limit_error", "rate_limit_exceeded")],
            asked: 4,
            code: "rate_limited",
            wait_ms: jitter,
            ..BASE
        },
        Row { name: "529", scripts: vec![refused(529, "overloaded_error", ""), well()], ..fine },
        Row { name: "500", scripts: vec![refused(500, "server_error", ""), well()], ..fine },
        Row {
            name: "401",
            scripts: vec![refused(401, "invalid_request_error", "invalid_api_key")],
            code: "provider_auth",
            ..BASE
        },
        Row {
            name: "402",
            scripts: vec![refused(402, "insufficient_quota", "insufficient_quota")],
            code: "provider_quota",
            ..BASE
        },
        Row {
            name: "429 that means quota",
            scripts: vec![refused(429, "insufficient_quota", "insufficient_quota")],
            code: "provider_quota",
            ..BASE
        },
        Row {
            name: "400",
            scripts: vec![refused(400, "invalid_request_error", "unknown_field")],
            code: "provider_bad_request",
            ..BASE
        },
        Row {
            name: "an error inside a 200 stream",
            scripts: vec![Script::stream([error_event.clone()]), well()],
            ..fine
        },
        Row {
            name: "the same after text",
            scripts: vec![Script::stream([openai::text("Half"), error_event])],
            code: "overloaded",
            text: "Half",
            ..BASE
        },
        Row {
            name: "silence before the first byte",
            scripts: vec![Script::stream([Step::Head, Step::Hang]), well()],
            env: &[("TAILRACE__LLM__FIRST_BYTE_TIMEOUT_MS", "300")],
            ..fine
        },
        Row {
            name: "silence after it",
            scripts: vec![Script::stream([openai::text("Half"), Step::Hang])],
            env: &[("TAILRACE__LLM__IDLE_TIMEOUT_MS", "300")],
            code: "provider_unreachable",
            text: "Half",
            ..BASE
        },
        Row { name: "reset before text", scripts: vec![Script::stream([Step::Head, Step::Reset]), well()], ..fine },
        Row {
            name: "reset inside an event",
            scripts: vec![cut(openai::text("Half"))],
            code: "provider_truncated",
            text: "Half",
            ..BASE
        },
        Row { name: "cut before text", scripts: vec![Script::stream([Step::Head, Step::CutInChunk]), well()], ..fine },
        Row {
            name: "no end mark",
            scripts: vec![Script::stream([openai::text("Half")])],
            code: "provider_truncated",
            text: "Half",
            ..BASE
        },
        Row {
            name: "cut after text, with llm.retry_after_text",
            scripts: vec![cut(openai::text("Half")), well()],
            env: &[("TAILRACE__LLM__RETRY_AFTER_TEXT", "true")],
            wait_ms: Some((1000, 1000)),
            ..fine
        },
        Row {
            name: "one byte a packet",
            scripts: vec![Script::stream(byte_by_byte)],
            finish: "complete",
            text: "☃ Ünïcode 🌊",
            ..BASE
        },
        Row {
            name: "a megabyte in one delta",
            scripts: vec![Script::stream([openai::text(&large), openai::finish("stop"), openai::done()])],
            finish: "complete",
            text: "xxxx",
            ..BASE
        },
        Row {
            name: "reasoning without end",
            scripts: vec![Script::stream(
                (0..4000).flat_map(|_| [openai::reasoning("and "), Step::Sleep(Duration::from_millis(1))]),
            )],
            env: &[("TAILRACE__TURNS__TIMEOUT_MS", "700")],
            finish: "timeout",
            code: "turn_timeout",
            text: "",
            ..BASE
        },
        Row {
            name: "more than a turn may hold",
            scripts: vec![Script::stream((0..4000).map(|_| openai::reasoning(&"and ".repeat(64))))],
            env: &[("TAILRACE__TURNS__MAX_LOG_BYTES", "65536")],
            code: "answer_too_long",
            text: "",
            ..BASE
        },
        Row {
            name: "cut in the arguments of a call",
            scripts: vec![
                Script::stream([openai::call(0, "c", "fetch_url"), openai::arguments(0, "{\"ur"), Step::CutInChunk]),
                well(),
            ],
            ..fine
        },
        Row {
            name: "cut after a call that may have started",
            scripts: vec![Script::stream([
                openai::call(0, "c", "nope"),
                openai::arguments(0, "{}"),
                Step::Head,
                Step::CutInChunk,
            ])],
            code: "provider_truncated",
            ..BASE
        },
    ]
}

async fn check(row: Row) {
    let scripts = row.scripts;
    let upstream = Upstream::answering(move |n, _| scripts[n.min(scripts.len() - 1)].clone()).await;
    let service = Service::behind(&upstream, row.env).await;
    let frames = service.chat(json!({"message": "Hi", "retrieval": "off"})).await;
    let name = row.name;
    assert_eq!(upstream.requests().len(), row.asked, "{name}");
    assert_eq!(frames.end()["finish"], row.finish, "{name}: {:?}", frames.end());
    let codes: Vec<&str> = frames.named("error").iter().map(|e| e["code"].as_str().unwrap()).collect();
    assert_eq!(codes, if row.code.is_empty() { vec![] } else { vec![row.code] }, "{name}");
    let retries = frames.named("retry");
    match row.wait_ms {
        None => assert!(retries.is_empty(), "{name}: {retries:?}"),
        Some((least, most)) => {
            assert_eq!(retries.len(), row.asked - 1, "{name}");
            let wait = retries[0]["after_ms"].as_u64().unwrap();
            assert!((least..=most).contains(&wait), "{name}: {wait}");
            assert_eq!((&retries[0]["attempt"], &retries[0]["discard_from"]), (&json!(1), &json!(0)), "{name}");
        }
    }
    // What a retry has made void is not part of the answer.
    let path = format!("/api/v1/turns/{}", frames.named("turn_start")[0]["turn_id"].as_str().unwrap());
    let kept: Value = service.get(&path).send().await.unwrap().json().await.unwrap();
    let text = kept["text"].as_str().unwrap();
    assert!(text.starts_with(row.text) && (row.text != "Fine." || text == "Fine."), "{name}: {text:.40}");
}

#[tokio::test]
async fn each_fault_has_its_number_of_requests_and_its_end() {
    futures_util::stream::iter(rows()).map(check).buffer_unordered(4).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn an_upstream_that_fails_too_often_is_left_alone_and_another_one_answers() {
    let down = Upstream::answering(|_, _| Script::json(500, &json!({"error": {"message": "down"}}))).await;
    let other = Upstream::answering(|_, _| crate::upstream::anthropic::answer(&["From the other one."])).await;
    let env = [
        ("TAILRACE__LLM__PROVIDER", "openai"),
        ("TAILRACE__LLM__FALLBACKS", "[\"anthropic\"]"),
        ("ANTHROPIC_API_KEY", "sk-ant-not-a-key"),
        ("ANTHROPIC_BASE_URL", other.base_url()),
    ];
    let service = Service::behind(&down, &env).await;
    // What it said itself is told also by the turn during which it is given up.
    for (asked, why) in [(4, "down"), (5, "down"), (5, "failed too often")] {
        let frames = service.chat(json!({"message": "Hi", "retrieval": "off"})).await;
        assert_eq!((frames.text().as_str(), &frames.end()["finish"]), ("From the other one.", &json!("complete")));
        let last = frames.named("retry").last().unwrap()["error"].as_str().unwrap().to_owned();
        assert!(last.contains("now asking anthropic") && last.contains(why), "{last}");
        assert_eq!(down.requests().len(), asked);
    }
    assert_eq!(other.requests().len(), 3);
}

/// A provider without native calls answers, too, where another one cannot.
#[tokio::test]
async fn the_last_of_a_list_needs_no_tools() {
    let down = Upstream::answering(|_, _| refused(401, "invalid_request_error", "invalid_api_key")).await;
    let env = [("TAILRACE__LLM__PROVIDER", "openai"), ("TAILRACE__LLM__FALLBACKS", "[\"extractive\"]")];
    let service = Service::behind(&down, &env).await;
    service.ingest("gate.md", "The zebra code of the gate is 4711.").await;
    let frames = service.chat(json!({"message": "What is the zebra code of the gate?"})).await;
    assert_eq!(frames.end()["finish"], "complete");
    assert!(frames.text().contains("4711 [1]"), "{}", frames.text());
    // What stands for an answer where there is none is not told to the next model as its own words.
    let alone = Upstream::answering(move |n, _| match n {
        0 => refused(401, "invalid_request_error", "invalid_api_key"),
        _ => well(),
    })
    .await;
    let service = Service::behind(&alone, &[]).await;
    let failed = service.chat(json!({"message": "Hi", "retrieval": "off"})).await;
    assert!(failed.text().starts_with("⚠️ LLM error: "), "{}", failed.text());
    let id = &failed.named("turn_start")[0]["conversation_id"];
    service.chat(json!({"message": "Again", "retrieval": "off", "conversation_id": id})).await;
    assert!(!alone.request(1).await.json().to_string().contains("LLM error"));
}
