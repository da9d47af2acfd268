//! `[retrieval]`: how many hits, from where, and how near they must be.

use super::key::{Key, Rule};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// Below this dense cosine automatic retrieval adds nothing.
    pub min_cosine: f32,
    pub limit: usize,
    /// Hits from one document.
    pub per_document: usize,
    /// Candidates of each search before fusion; at least `limit`.
    pub prefetch: usize,
    /// Folder of a cross-encoder; `None`: nothing is reranked.
    #[serde(deserialize_with = "super::filled")]
    pub rerank_model: Option<PathBuf>,
    /// Hits that it reads.
    pub rerank_candidates: usize,
    /// Tokens of query and passage together that it reads.
    pub rerank_tokens: usize,
}

pub(super) const KEYS: &[Key] = &[
    Key::real("retrieval.min_cosine", -1.0, 1.0),
    Key::whole("retrieval.limit", 1, 100),
    Key::whole("retrieval.per_document", 1, 100),
    Key::whole("retrieval.prefetch", 1, 1000),
    Key::text("retrieval.rerank_model", Rule::ANY),
    Key::whole("retrieval.rerank_candidates", 1, 100),
    Key::whole("retrieval.rerank_tokens", 16, 8192),
];
