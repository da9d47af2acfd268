//! Qdrant's own BM25 embedding, as the in-process engine ships it: tokens to hashed term weights.
//! Both stores are fed from here, so a point has the same `bm25` vector in either.
//!
//! Invariant: k 1.2, b 0.75 and an average length of 256 tokens never change; stored vectors depend on them.

use crate::knowledge::{SparseVector, StoreError};
use qdrant_edge::bm25_embed::{EdgeBm25, EdgeBm25Config};
use serde_json::json;
use std::fmt;

/// Splits at everything that is neither letter nor digit, lowercases, drops stop words, stems, hashes.
pub struct Bm25 {
    model: EdgeBm25,
}

impl Bm25 {
    /// With the stemmer and the stop words of `language` (Qdrant's English name for it, such as `german`).
    pub fn stemmed(language: &str) -> Result<Self, StoreError> {
        Self::build(json!({ "language": language }))
    }

    /// Words as they are: no stemmer, no stop words.
    pub fn plain() -> Result<Self, StoreError> {
        // The engine takes English for an absent language. Hebrew has no stemmer there, and the empty
        // set replaces its stop words.
        Self::build(json!({ "language": "hebrew", "stopwords": {} }))
    }

    fn build(config: serde_json::Value) -> Result<Self, StoreError> {
        let config: EdgeBm25Config =
            serde_json::from_value(config).map_err(|e| StoreError::Failed(format!("BM25 settings: {e}")))?;
        let model = EdgeBm25::new(config).map_err(|e| StoreError::Failed(format!("BM25 settings: {e}")))?;
        Ok(Self { model })
    }

    /// Term weights of a document.
    pub fn document(&self, text: &str) -> SparseVector {
        let vector = self.model.embed_document(text);
        SparseVector { indices: vector.indices, values: vector.values }
    }

    /// 1 for each term of a query.
    pub fn query(&self, text: &str) -> SparseVector {
        let vector = self.model.embed_query(text);
        SparseVector { indices: vector.indices, values: vector.values }
    }
}

impl fmt::Debug for Bm25 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bm25").finish_non_exhaustive()
    }
}
