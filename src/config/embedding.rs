//! `[models]`, `[embedding]`: where the model files are, and how texts become vectors.

use super::key::{Key, Rule};
use super::storage::OPTIONAL_ADDRESS;
use super::{filled, millis};
use crate::secret::Secret;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Holds the ONNX Runtime library and the model folders.
    pub dir: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// A built-in name, a folder, or `openai:` and a model's name.
    pub model: String,
    /// Others that collections may be made with, named like `model`.
    pub more: Vec<String>,
    /// Before queries and passages of `model`; `auto`: what models of its name want.
    pub query_prefix: String,
    pub passage_prefix: String,
    /// 0: one for each core.
    pub threads: usize,
    /// Texts that may wait.
    pub queue: usize,
    /// Texts run together, for models that allow it.
    pub batch: usize,
    /// Remembered query embeddings.
    pub query_cache: u64,
    pub openai: OpenaiEmbedding,
}

/// A server that speaks OpenAI's embeddings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenaiEmbedding {
    /// `None`: that of `llm.openai`, with its key.
    #[serde(deserialize_with = "filled")]
    pub base_url: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub api_key: Option<Secret>,
    /// Numbers in a vector; 0: as many as the model makes.
    pub dimension: usize,
    /// Tokens that the model reads.
    pub window: usize,
    /// Texts in one request.
    pub batch: usize,
    /// Requests at the same time, for each priority.
    pub parallel: usize,
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Duration,
    pub max_retries: u32,
}

pub(super) const KEYS: &[Key] = &[
    Key::text("models.dir", Rule::NOT_EMPTY),
    Key::text("embedding.model", MODEL),
    Key::list("embedding.more", MODEL),
    Key::text("embedding.query_prefix", Rule::ANY),
    Key::text("embedding.passage_prefix", Rule::ANY),
    Key::whole("embedding.threads", 0, 256),
    Key::whole("embedding.queue", 1, 65_536),
    Key::whole("embedding.batch", 1, 64),
    Key::whole("embedding.query_cache", 0, 1_000_000),
    Key::text("embedding.openai.base_url", OPTIONAL_ADDRESS),
    Key::secret("embedding.openai.api_key"),
    Key::whole("embedding.openai.dimension", 0, 65_536),
    Key::whole("embedding.openai.window", 64, 1_000_000),
    Key::whole("embedding.openai.batch", 1, 2048),
    Key::whole("embedding.openai.parallel", 1, 64),
    Key::whole("embedding.openai.timeout_ms", 100, 3_600_000),
    Key::whole("embedding.openai.max_retries", 0, 10),
];

const MODEL: Rule = Rule {
    works: "a built-in name such as all-minilm-l6-v2, a folder, or openai:<model>",
    accepts: |text| !text.trim().is_empty() && text.trim() != "openai:",
};
