//! A conversation that outgrows its model goes to it in short, and stays as it was for everybody else.

use super::Service;
use crate::upstream::{Upstream, openai};
use serde_json::{Value, json};

#[tokio::test]
async fn a_summary_is_made_once_and_the_history_stays() {
    let upstream = Upstream::answering(|_, request| {
        let summary = request.body.contains("You shorten conversations");
        openai::answer(&[if summary { "They spoke of apples." } else { "Fine." }])
    })
    .await;
    // The script says that a request has 7 tokens, which no rate below a tenth of a token for each byte explains: the
    // room is some 15,000 bytes.
    let service = Service::behind(&upstream, &[("TAILRACE__LLM__CONTEXT_TOKENS", "3000")]).await;
    let long = |word: &str| format!("{word} ").repeat(1200);
    let mut conversation = Value::Null;
    let mut notices = Vec::new();
    for message in [long("apples"), long("pears"), "And now?".to_owned()] {
        let mut body = json!({"message": message, "retrieval": "off"});
        if conversation.is_string() {
            body["conversation_id"] = conversation.clone();
        }
        let frames = service.chat(body).await;
        assert_eq!(frames.text(), "Fine.");
        conversation = frames.conversation().into();
        notices.push(frames.named("notice").iter().map(|n| n["code"].clone()).collect::<Vec<_>>());
    }
    assert_eq!(notices, [vec![], vec![json!("context_shortened")], vec![]]);
    let bodies: Vec<String> = upstream.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 4, "one of them asked for the summary");
    for body in &bodies[2..] {
        assert!(body.contains("They spoke of apples.") && !body.contains("apples apples") && body.contains("pears"));
    }
    let path = format!("/api/v1/conversations/{}/messages", conversation.as_str().unwrap());
    let stored: Value = service.get(&path).send().await.unwrap().json().await.unwrap();
    assert!(stored.to_string().contains(long("apples").trim_end()));
}
