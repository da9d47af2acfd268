//! `POST /turns/{id}/approve`. No tool that comes with Tailrace has side effects; what an answer does is tested with the
//! engine's own (`tests/integration/engine/approval.rs`).

use super::Service;
use serde_json::json;

#[tokio::test]
async fn an_answer_needs_a_question() {
    let service = Service::start().await;
    let turn = service.chat(json!({"message": "Hello?"})).await;
    let turn = turn.named("turn_start")[0]["turn_id"].as_str().unwrap().to_owned();
    for (id, body, status, code) in [
        (turn.as_str(), json!({"call_id": "c", "allow": true}), 409, "not_waiting"),
        ("01890000-0000-7000-8000-000000000000", json!({"call_id": "c", "allow": true}), 404, "not_found"),
        ("nonsense", json!({"call_id": "c", "allow": true}), 404, "not_found"),
        (turn.as_str(), json!({"call_id": "c"}), 422, "invalid_field"),
        (turn.as_str(), json!({"call_id": "c", "allow": true, "always": true}), 422, "invalid_field"),
    ] {
        let response = service.post(&format!("/api/v1/turns/{id}/approve"), &body).send().await.unwrap();
        let (got, problem) = (response.status(), response.json::<serde_json::Value>().await.unwrap());
        assert_eq!((got.as_u16(), problem["code"].as_str()), (status, Some(code)), "{id} {body}");
    }
}
