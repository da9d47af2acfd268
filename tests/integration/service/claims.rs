//! An answer held against its sources, over both wires; invented citations.

use super::*;
use crate::upstream::{Upstream, openai};
use serde_json::json;

const ANSWER: [&str; 5] = [
    "The tide table lies in ",
    "drawer six [1]. It lies in drawer nine of the desk [1]. Is that so? ",
    "Short. Call `open(drawer)` for the table. ",
    "The hull was painted by the Panthers [1].",
    " The table of the tides is in drawer six [9].",
];

async fn service(env: &[(&str, &str)]) -> (Service, Upstream) {
    let upstream = Upstream::answering(|_, _| openai::answer(&ANSWER)).await;
    let service = Service::behind(&upstream, env).await;
    service
        .ingest("tides.md", "# Tides\n\nThe tide table lies in drawer six of the desk. The hull is painted red.")
        .await;
    (service, upstream)
}

/// Start, end, verdict and sources of each claim.
fn claims(frames: &[&Value], text: &str) -> Vec<(String, String, Value)> {
    let at = |claim: &Value, name: &str| usize::try_from(claim[name].as_u64().unwrap()).unwrap();
    let read = |claim: &&Value| {
        let sentence = text[at(claim, "start")..at(claim, "end")].to_owned();
        (sentence, claim["verdict"].as_str().unwrap().to_owned(), claim["sources"].clone())
    };
    frames.iter().map(read).collect()
}

fn expected() -> Vec<(String, String, Value)> {
    [
        ("The tide table lies in drawer six [1].", "supported", json!([1])),
        ("It lies in drawer nine of the desk [1].", "unsupported", json!([])),
        ("The hull was painted by the Panthers [1].", "unsupported", json!([])),
        // It cites what does not exist, and another source has it.
        ("The table of the tides is in drawer six [9].", "weak", json!([1])),
    ]
    .map(|(sentence, verdict, sources)| (sentence.to_owned(), verdict.to_owned(), sources))
    .into()
}

#[tokio::test]
async fn sentences_are_held_against_their_sources_on_both_wires() {
    let (service, _upstream) = service(&[]).await;
    let message = "Where does the tide table lie?";
    let frames = service.chat(json!({"message": message})).await;
    assert_eq!(frames.named("sources").len(), 1, "{frames:?}");
    assert_eq!(claims(&frames.named("claim"), &frames.text()), expected());

    let mut socket = service.socket().await;
    socket.send(json!({"type": "chat", "message": message})).await;
    let events = socket.turn().await;
    let seen: Vec<&Value> = events.iter().filter(|event| event["state"] == "claim").collect();
    assert_eq!(claims(&seen, &frames.text()), expected());
    // Read again from the log: the same.
    let path = format!("/api/v1/turns/{}/events", frames.named("turn_start")[0]["turn_id"].as_str().unwrap());
    let again = Frames::parse(&service.get(&path).send().await.unwrap().text().await.unwrap());
    assert_eq!(claims(&again.named("claim"), &again.text()), expected());

    let without = service.chat(json!({"message": message, "retrieval": "off"})).await;
    assert!(without.named("claim").is_empty(), "no sources, no claims");
}

#[tokio::test]
async fn claims_can_be_switched_off() {
    let (service, _upstream) = service(&[("TAILRACE__TURNS__CLAIMS", "false")]).await;
    let frames = service.chat(json!({"message": "Where does the tide table lie?"})).await;
    assert!(frames.named("claim").is_empty() && !frames.named("sources").is_empty(), "{frames:?}");
}

#[tokio::test]
async fn invented_citations_are_flagged_and_neither_exported_nor_sent_back() {
    let (service, upstream) = service(&[]).await;
    let frames = service.chat(json!({"message": "Where does the tide table lie?"})).await;
    let notice = frames.named("notice").into_iter().find(|notice| notice["code"] == "unknown_citation").unwrap();
    assert!(notice["message"].as_str().unwrap().contains("[9]"), "{notice}");
    let id = frames.conversation();
    let path = format!("/api/v1/conversations/{id}");
    let stored: Value = service.get(&format!("{path}/messages")).send().await.unwrap().json().await.unwrap();
    assert!(stored["messages"][1]["text"].as_str().unwrap().ends_with("six [9]."), "the log keeps the words");
    assert_eq!(stored["messages"][1]["unknown_citations"], json!([9]));
    assert!(stored["messages"][0].get("unknown_citations").is_none());

    service.chat(json!({"message": "And now?", "conversation_id": id, "retrieval": "off"})).await;
    let sent = upstream.request(1).await.body;
    assert!(sent.contains("drawer six [1]") && !sent.contains("[9]"), "{sent}");

    let export = async |query: &str| service.get(&format!("{path}/export{query}")).send().await.unwrap();
    let file = export("").await;
    assert_eq!(file.headers()["content-type"], "text/markdown; charset=utf-8");
    assert!(file.headers()["content-disposition"].to_str().unwrap().contains(&format!("{id}.md")));
    let markdown = file.text().await.unwrap();
    assert!(markdown.starts_with("# Where does the tide table lie?\n\n## Question\n"), "{markdown}");
    assert!(markdown.contains("is in drawer six.\n") && !markdown.contains("[9]"), "{markdown}");
    assert!(markdown.contains("\n- [1] Tides: tides.md, bytes "), "{markdown}");
    let json: Value = export("?format=json").await.json().await.unwrap();
    assert_eq!(json["conversation"]["id"], id.as_str());
    assert_eq!(json["messages"].as_array().unwrap().len(), 4);
    assert!(!json["messages"][1]["text"].as_str().unwrap().contains("[9]"), "{json}");
    assert_eq!(json["messages"][1]["sources"][0]["n"], 1);
    let refused = export("?format=pdf").await;
    assert_eq!(refused.status(), 422);
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "invalid_parameter");
    let unknown = service.get(&format!("/api/v1/conversations/{}/export", uuid::Uuid::nil())).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
}
