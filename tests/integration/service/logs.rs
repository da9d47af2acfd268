//! What the program says to its operator.

use super::*;
use crate::upstream::{Script, Upstream, openai};
use serde_json::json;
use tokio::io::AsyncReadExt;

/// Invariant 14: no key, no prompt and no document text in logs at info, on paths that work and on
/// paths that fail.
#[tokio::test]
async fn invariant_14_no_key_prompt_or_document_text_is_logged() {
    let refusal = json!({"error": {"message": "bad key sk-canary-key-1234567890", "type": "authentication_error"}});
    let call = "<tool name=\"vector_search\">{\"query\": \"canaryquery\"}</tool>";
    let upstream = Upstream::start([
        openai::answer(&["A canaryanswer. ", call]),
        openai::answer(&["More canaryanswer."]),
        Script::json(401, &refusal),
    ])
    .await;
    let data = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let mut service = Service::on_with_stderr(
        std::sync::Arc::clone(&data),
        &[
            ("OPENAI_BASE_URL", upstream.base_url()),
            ("OPENAI_API_KEY", "sk-canary-key-1234567890"),
            ("TAILRACE_ADMIN_KEY", "canaryadminkey"),
            ("TAILRACE__LOG__LEVEL", "info"),
        ],
    )
    .await;
    let key = |request: reqwest::RequestBuilder| request.bearer_auth("canaryadminkey").send();
    let documents = json!({"documents": [
        {"uri": "a.md", "text": "The canarydocument text."}, {"uri": "b.md", "text": "\u{0}\u{1}\u{2}canarybroken\u{0}"},
    ]});
    let path = "/api/v1/collections/default/documents?wait=true";
    key(service.post(path, &documents)).await.unwrap();
    for (body, status) in [
        (json!({"message": "A canaryprompt?", "tool_mode": "inline"}), 200),
        (json!({"message": "A canaryprompt again?", "tool_mode": "inline"}), 200),
        (json!({"message": "canaryprompt", "colour": "canarycolour"}), 422),
    ] {
        let response = key(service.post("/api/v1/chat", &body)).await.unwrap();
        assert_eq!(response.status(), status);
        let _read = response.text().await.unwrap();
    }
    key(service.post("/api/v1/collections/default/search", &json!({"query": "canaryquery"}))).await.unwrap();
    assert_eq!(service.get("/api/v1/collections").bearer_auth("canarywrongkey").send().await.unwrap().status(), 401);
    let mut stderr = service.child.stderr.take().unwrap();
    service.child.kill().await.unwrap();
    let mut logged = String::new();
    stderr.read_to_string(&mut logged).await.unwrap();
    assert!(!logged.to_lowercase().contains("canary"), "{logged}");
}
