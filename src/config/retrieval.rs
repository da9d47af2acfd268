//! `[retrieval]`: how many hits, from where, and how near they must be.

use super::key::Key;
use serde::Deserialize;

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
}

pub(super) const KEYS: &[Key] = &[
    Key::real("retrieval.min_cosine", -1.0, 1.0),
    Key::whole("retrieval.limit", 1, 100),
    Key::whole("retrieval.per_document", 1, 100),
    Key::whole("retrieval.prefetch", 1, 1000),
];
