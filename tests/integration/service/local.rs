//! The real local model, at temperature 0.

use super::*;
use serde_json::json;

/// Ingest, question, inline call, answer with the fact; no key, no account, no other server.
#[tokio::test]
async fn the_local_model_calls_a_tool_and_answers_with_the_fact() {
    let mut service =
        Service::with(&[("TAILRACE__LLM__PROVIDER", "local"), ("TAILRACE__LLM__LOCAL__TEMPERATURE", "0")]).await;
    // A debug build on a busy machine takes its time over the prompt.
    service.client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(280)).build().unwrap();
    service.ingest("garage.md", "# Garage\n\nThe garage closes at 22:30 every evening.").await;
    let frames = service.chat(json!({"message": "When does the garage close?", "retrieval": "tool"})).await;
    assert_eq!(frames.named("turn_start")[0]["provider"], "local");
    let start = frames.named("tool_start");
    assert!(!start.is_empty() && start[0]["name"] == "vector_search", "{}", frames.text());
    assert!(frames.text().contains("22:30"), "{}", frames.text());
    assert_eq!(frames.end()["finish"], "complete", "{}", frames.text());
}
