//! What was said, and what was acknowledged, survives kill -9 (invariants 9, 13).

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use futures_util::StreamExt;
use serde_json::json;

#[tokio::test]
async fn a_turn_that_was_killed_keeps_its_text_and_says_interrupted() {
    for round in 0..20 {
        let upstream = Upstream::start([Script::stream([openai::text("Half an answer"), Step::Hang])]).await;
        let mut service = Service::behind(&upstream, &[]).await;
        let body = json!({"message": format!("Question {round}"), "retrieval": "off"});
        let response = service.post("/api/v1/chat", &body).send().await.unwrap();
        let mut stream = response.bytes_stream();
        let mut seen = String::new();
        while !seen.contains("Half an answer") {
            seen.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
        }
        let id = seen.split("\"conversation_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        // Deltas are stored within 50 ms; kills fall before and after that.
        tokio::time::sleep(Duration::from_millis(round * 50)).await;
        service.child.kill().await.unwrap();
        let service =
            Service::on(std::sync::Arc::clone(&service.data), &[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
        let path = format!("/api/v1/conversations/{id}/messages");
        let stored: Value = service.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(stored["messages"][0]["text"], format!("Question {round}"));
        assert_eq!(stored["messages"][1]["status"], "interrupted");
        let text = stored["messages"][1]["text"].as_str().unwrap();
        assert!("Half an answer".starts_with(text), "{text}");
        if round >= 4 {
            assert_eq!(text, "Half an answer", "200 ms are enough to store it");
        }
        // Whoever comes back learns how it ended.
        let turn = stored["messages"][1]["turn_id"].as_str().unwrap();
        let log = service.get(&format!("/api/v1/turns/{turn}/events")).send().await.unwrap().text().await.unwrap();
        let frames = Frames::parse(&log);
        assert_eq!((frames.text().as_str(), &frames.end()["finish"]), (text, &json!("interrupted")));
        assert_eq!(frames.named("error")[0]["code"], "interrupted");
    }
}
