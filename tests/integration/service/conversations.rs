//! A conversation is stored as it goes, and can be read, continued, edited and deleted.

use super::*;
use crate::upstream::{Upstream, openai};
use serde_json::json;

#[tokio::test]
async fn a_conversation_goes_on_and_can_be_read_back() {
    let upstream = Upstream::answering(|n, _| openai::answer(&[&format!("Answer {n}.")])).await;
    let service = Service::behind(&upstream, &[]).await;
    let first = service.chat(json!({"message": "First question", "retrieval": "off"})).await;
    let id = first.conversation();
    service.chat(json!({"message": "Second question", "conversation_id": id, "retrieval": "off"})).await;
    let asked = upstream.request(1).await.body;
    assert!(asked.contains("First question") && asked.contains("Answer 0."), "{asked}");

    let path = format!("/api/v1/conversations/{id}");
    let stored: Value = service.get(&format!("{path}/messages")).send().await.unwrap().json().await.unwrap();
    let texts: Vec<_> = stored["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["First question", "Answer 0.", "Second question", "Answer 1."]);
    assert_eq!(stored["messages"][1]["finish"], "complete");

    let replaced = stored["messages"][2]["id"].as_str().unwrap();
    let body = json!({"message": "Edited", "conversation_id": id, "replace_message_id": replaced, "retrieval": "off"});
    service.chat(body).await;
    let stored: Value = service.get(&format!("{path}/messages")).send().await.unwrap().json().await.unwrap();
    assert_eq!(stored["messages"][2]["text"], "Edited");
    assert_eq!(stored["messages"].as_array().unwrap().len(), 4);

    let listed: Value = service.get("/api/v1/conversations?q=edited").send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["conversations"][0]["id"], id.as_str());
    let renamed = service.client.patch(format!("{}{path}", service.url)).json(&json!({"title": "Mine"})).send().await;
    assert_eq!(renamed.unwrap().json::<Value>().await.unwrap()["title"], "Mine");
    assert_eq!(service.delete(&path).send().await.unwrap().status(), 204);
    assert_eq!(service.get(&path).send().await.unwrap().status(), 404);
    assert_eq!(service.delete(&path).send().await.unwrap().status(), 404);
}
