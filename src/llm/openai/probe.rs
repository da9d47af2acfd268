//! Whether a language model server runs on this machine: asked on the usual ports, answered only by
//! a model list of OpenAI's shape. Nothing but this machine is ever asked.

use crate::llm::transport::{Transport, endpoint};
use serde_json::Value;
use std::time::Duration;

/// The usual addresses: Ollama's, then llama-server's.
pub const USUAL: [(&str, &str); 2] = [("Ollama", "http://127.0.0.1:11434"), ("llama-server", "http://127.0.0.1:8080")];

/// How long finding one may take.
pub const BUDGET: Duration = Duration::from_millis(200);

/// A server that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// `Ollama` or `llama-server`, for the user.
    pub name: &'static str,
    pub base_url: &'static str,
    /// The first model it offers.
    pub model: String,
}

/// The first of [`USUAL`] that answers, within [`BUDGET`].
pub async fn find_local(transport: &Transport) -> Option<LocalServer> {
    let ask = |(name, base_url)| async move {
        let model = probe(transport, base_url, BUDGET).await?;
        Some(LocalServer { name, base_url, model })
    };
    let [first, second] = USUAL.map(ask);
    let (first, second) = tokio::join!(first, second);
    first.or(second)
}

/// The first chat model that the server at `base_url` offers; `None` if it is not on this machine,
/// does not answer within `limit`, has no model, or is something else.
pub async fn probe(transport: &Transport, base_url: &str, limit: Duration) -> Option<String> {
    let url = endpoint(base_url, "models").ok()?;
    first_model(&transport.get_local_json(&url, limit).await?)
}

fn first_model(list: &Value) -> Option<String> {
    if list.get("object")?.as_str()? != "list" {
        return None;
    }
    let models = list.get("data")?.as_array()?.iter();
    let ids: Option<Vec<&str>> = models
        .map(|model| model.get("id")?.as_str().filter(|_| model.get("object").and_then(Value::as_str) == Some("model")))
        .collect();
    // Ollama lists embedding models beside the others; they cannot chat.
    ids?.into_iter().find(|id| !id.is_empty() && !id.to_ascii_lowercase().contains("embed")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_model_list_names_a_model() {
        let model = |id: &str| json!({"id": id, "object": "model", "owned_by": "x"});
        for (list, want) in [
            (json!({"object": "list", "data": [model("a"), model("b")]}), Some("a")),
            (json!({"object": "list", "data": [model("nomic-embed-text"), model("b")], "models": []}), Some("b")),
            (json!({"object": "list", "data": []}), None),
            (json!({"object": "list", "data": null}), None),
            (json!({"object": "list", "data": [{"id": "a"}]}), None),
            (json!({"object": "list", "data": [{"id": 7, "object": "model"}]}), None),
            (json!({"data": [model("a")]}), None),
            (json!([model("a")]), None),
            (json!("a"), None),
        ] {
            assert_eq!(first_model(&list).as_deref(), want, "{list}");
        }
    }
}
