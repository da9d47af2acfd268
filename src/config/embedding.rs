//! `[models]`, `[embedding]`: where the model files are, and how texts become vectors.

use super::key::{Key, Rule};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Holds the ONNX Runtime library and the model folders.
    pub dir: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// A built-in name or a folder.
    pub model: String,
    /// 0: one for each core.
    pub threads: usize,
    /// Texts that may wait.
    pub queue: usize,
    /// Texts run together, for models that allow it.
    pub batch: usize,
    /// Remembered query embeddings.
    pub query_cache: u64,
}

pub(super) const KEYS: &[Key] = &[
    Key::text("models.dir", Rule::NOT_EMPTY),
    Key::text("embedding.model", MODEL),
    Key::whole("embedding.threads", 0, 256),
    Key::whole("embedding.queue", 1, 65_536),
    Key::whole("embedding.batch", 1, 64),
    Key::whole("embedding.query_cache", 0, 1_000_000),
];

const MODEL: Rule = Rule {
    works: "a built-in name such as all-minilm-l6-v2, or a folder (this version has no openai:<model>)",
    accepts: |text| !text.trim().is_empty() && !text.starts_with("openai:"),
};
