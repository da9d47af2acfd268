//! What the program says to its operator.

use super::*;
use crate::upstream::{Script, Upstream, openai};
use serde_json::json;

/// Everything that is logged at one level, in lower case, while paths are taken that work and that fail.
async fn logged(level: &str) -> String {
    let refusal = json!({"error": {"message": "bad key sk-canary-key-1234567890", "type": "authentication_error"}});
    let call = "<tool name=\"vector_search\">{\"query\": \"canaryquery\"}</tool>";
    let upstream = Upstream::start([
        openai::answer(&["A canaryanswer. ", call]),
        openai::answer(&["More canaryanswer."]),
        Script::json(401, &refusal),
    ])
    .await;
    let data = std::sync::Arc::new(tempfile::tempdir().unwrap());
    // A file, not a pipe: nobody reads while the program writes.
    let log = data.path().join("log");
    let mut service = Service::on_with_stderr(
        std::sync::Arc::clone(&data),
        std::fs::File::create(&log).unwrap().into(),
        &[
            ("OPENAI_BASE_URL", upstream.base_url()),
            ("OPENAI_API_KEY", "sk-canary-key-1234567890"),
            ("TAILRACE_ADMIN_KEY", "canaryadminkey"),
            ("TAILRACE__LOG__LEVEL", level),
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
    service.child.kill().await.unwrap();
    std::fs::read_to_string(log).unwrap().to_lowercase()
}

/// Invariant 14: no key, no prompt and no document text in logs at info.
#[tokio::test]
async fn invariant_14_no_key_prompt_or_document_text_is_logged() {
    let logged = logged("info").await;
    assert!(logged.contains("turn ended"), "{logged}");
    assert!(!logged.contains("canary"), "{logged}");
}

/// Invariant 14: no key at any level, whatever the libraries write.
#[tokio::test]
async fn invariant_14_no_key_is_logged_at_any_level() {
    let logged = logged("trace").await;
    assert!(logged.contains("debug"), "{logged}");
    for key in ["sk-canary-key", "canaryadminkey", "canarywrongkey"] {
        assert!(!logged.contains(key), "{key} was logged");
    }
}
