//! `POST /api/v1/chat`.

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use serde_json::json;

/// The main job with nothing configured: a document, a question, an inline call, an answer with the fact.
#[tokio::test]
async fn the_main_job_end_to_end() {
    let service = Service::start().await;
    service.ingest("leave.md", "# Leave policy\n\nParents may take 26 weeks of parental leave at full pay.\n").await;
    let body = json!({"message": "How many weeks of parental leave are there?", "retrieval": "tool"});
    let frames = service.chat(body).await;
    assert_eq!(frames.named("turn_start")[0]["provider"], "extractive");
    let start = frames.named("tool_start")[0];
    assert_eq!(start["name"], "vector_search");
    let result = frames.named("tool_result")[0];
    assert_eq!((&result["ok"], &result["call_id"]), (&json!(true), &start["call_id"]));
    let sources = frames.named("sources")[0];
    assert_eq!((&sources[0]["n"], &sources[0]["uri"]), (&json!(1), &json!("leave.md")));
    assert!(frames.text().contains("26 weeks") && frames.text().contains("[1]"), "{}", frames.text());
    assert_eq!(frames.end()["finish"], "complete");
    assert_eq!(frames.named("round").len(), 2);
}

#[tokio::test]
async fn automatic_retrieval_gives_sources_before_round_0() {
    let upstream = Upstream::start([openai::answer(&["26 weeks [1]."])]).await;
    let service = Service::behind(&upstream, &[]).await;
    service.ingest("leave.md", "Parents may take 26 weeks of parental leave at full pay.").await;
    let frames = service.chat(json!({"message": "How long is parental leave?"})).await;
    let order: Vec<_> = frames.all.iter().filter_map(|f| f.event.as_deref()).collect();
    let at = |name| order.iter().position(|e| *e == name).unwrap();
    assert!(at("sources") < at("round"), "{order:?}");
    let asked = upstream.request(0).await.body;
    assert!(asked.contains("26 weeks of parental leave"), "{asked}");
    let off = service.chat(json!({"message": "How long is parental leave?", "retrieval": "off"})).await;
    assert!(off.named("sources").is_empty());
}

#[tokio::test]
async fn an_answer_without_streaming_is_one_object() {
    let upstream = Upstream::start([
        openai::answer(&["Hello."]),
        Script::json(401, &json!({"error": {"message": "no such key", "type": "invalid_request_error"}})),
    ])
    .await;
    let service = Service::behind(&upstream, &[]).await;
    let answer = service.post("/api/v1/chat", &json!({"message": "Hi", "stream": false})).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!((&answer["text"], &answer["finish"]), (&json!("Hello."), &json!("complete")));
    assert_eq!(answer["usage"]["input_tokens"], 7);
    let failed = service.post("/api/v1/chat", &json!({"message": "Hi", "stream": false})).send().await.unwrap();
    assert_eq!(failed.status(), 502);
    assert_eq!(failed.headers()["content-type"], "application/problem+json");
    assert!(failed.json::<Value>().await.unwrap()["detail"].as_str().unwrap().contains("no such key"));
}

/// Invariant 7 on the paths that go wrong (`Frames::parse` checks it).
#[tokio::test]
async fn invariant_7_every_path_ends_with_one_turn_end_and_one_done() {
    let upstream = Upstream::start([
        Script::json(500, &json!({"error": {"message": "asleep", "type": "server_error"}})),
        Script::stream([openai::text("Half"), Step::CutInChunk]),
        Script::stream([openai::text("Slow"), Step::Hang]),
    ])
    .await;
    let env = [("TAILRACE__LLM__IDLE_TIMEOUT_MS", "300"), ("TAILRACE__LLM__MAX_RETRIES", "0")];
    let service = Service::behind(&upstream, &env).await;
    for (text, finish) in [("⚠️ LLM error: ", "provider_error"), ("Half", "provider_error"), ("Slow", "provider_error")]
    {
        let frames = service.chat(json!({"message": "Hi", "retrieval": "off"})).await;
        assert!(frames.text().starts_with(text), "{}", frames.text());
        assert_eq!(frames.end()["finish"], finish);
        assert_eq!(frames.named("error").len(), 1);
    }
}

/// Invariant 8 over HTTP: what a tool fetched in one round is found by the next round's search.
#[tokio::test]
async fn invariant_8_the_next_round_finds_what_the_last_one_fetched() {
    let page = Upstream::answering(|_, _| {
        Script::body(
            200,
            "text/html",
            "<html><title>Gate</title><p>The zebrafish gate opens at 04:17 each day.</p></html>",
        )
    })
    .await;
    let url = format!("{}/gate.html", page.base_url());
    let host = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let fetch = format!("<tool name=\"fetch_url\">{{\"url\": \"{url}\"}}</tool>");
    let search = "<tool name=\"vector_search\">{\"query\": \"when does the zebrafish gate open\"}</tool>";
    let upstream =
        Upstream::start([openai::answer(&[&fetch]), openai::answer(&[search]), openai::answer(&["At 04:17 [1]."])])
            .await;
    let hosts = format!("[\"{host}\"]");
    // A busy machine takes its time.
    let env = [("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", hosts.as_str()), ("TAILRACE__INGEST__WAIT_MS", "20000")];
    let service = Service::behind(&upstream, &env).await;
    let body = json!({"message": format!("Look at {url}"), "retrieval": "off", "tool_mode": "inline"});
    let frames = service.chat(body).await;
    let results = frames.named("tool_result");
    assert_eq!(results.len(), 2, "{frames:?}");
    let ingested = &results[0]["ingested"];
    assert_eq!((&ingested["fresh"], &ingested["scope"]), (&json!(true), &json!("conversation")));
    assert!(results[1]["output"].as_str().unwrap().contains("04:17"), "{:?}", results[1]);
    assert_eq!(service.search("default", "zebrafish gate").await.len(), 0, "it belongs to the conversation");
}

#[tokio::test]
async fn bad_input_is_refused_with_the_fields_name() {
    let service = Service::start().await;
    for (body, status, code, names) in [
        (json!({}), 422, "invalid_field", "message"),
        (json!({"message": "x", "colour": 1}), 422, "invalid_field", "colour"),
        (
            json!({"message": "x", "limits": {"max_tools_total": 99}}),
            422,
            "limit_above_server",
            "limits.max_tools_total",
        ),
        (json!({"message": "x", "collection": "nope"}), 404, "unknown_collection", "nope"),
        (json!({"message": "x", "provider": "nope"}), 422, "unknown_provider", "provider"),
        (json!({"message": "x", "tools": ["nope"]}), 422, "unknown_tool", "nope"),
        (json!({"message": " "}), 422, "invalid_field", "message"),
        // Values without names would bind clients to the order of fields in the source.
        (json!({"message": "x", "limits": [0, 1, 1, 5]}), 422, "invalid_field", "limits"),
        (json!(["x"]), 422, "invalid_field", "an object"),
        (json!({"message": "x", "tool_mode": "loud"}), 422, "invalid_field", "tool_mode"),
        (
            json!({"message": "x", "conversation_id": "0190c9a0-0000-7000-8000-000000000000"}),
            404,
            "not_found",
            "conversation",
        ),
        (json!({"message": "x".repeat(256 * 1024 + 1)}), 413, "message_too_long", "message"),
    ] {
        let response = service.post("/api/v1/chat", &body).send().await.unwrap();
        assert_eq!(response.status(), status, "{}", body.to_string().chars().take(90).collect::<String>());
        assert!(response.headers().contains_key("x-request-id"));
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(names), "{problem}");
    }
    let plain = service.client.post(format!("{}/api/v1/chat", service.url)).body("{}").send().await.unwrap();
    assert_eq!(plain.status(), 415);
    let garbled = service.get("/api/v1/collections/%ff").send().await.unwrap();
    assert_eq!(garbled.status(), 400);
    assert_eq!(garbled.json::<Value>().await.unwrap()["code"], "invalid_path");
}
