//! Embedded search queries, remembered: the same question asked again embeds nothing.
//! Only retrieval uses it; documents are embedded once anyway.

use super::super::{EmbedError, Embedder, Priority};
use moka::future::Cache;
use std::sync::Arc;

/// Query vectors by (model, text). Cheap to clone; clones share the memory.
#[derive(Clone)]
pub struct QueryCache {
    vectors: Cache<(String, String), Arc<[f32]>>,
}

impl QueryCache {
    /// Remembers at most `entries` queries; 0: none.
    pub fn new(entries: u64) -> Self {
        Self { vectors: Cache::new(entries) }
    }

    /// The query's unit vector, at [`Priority::Turn`]. Askers of the same query at the same time share one run.
    ///
    /// A query longer than the model's window is embedded by its beginning: unlike a document, nothing of it
    /// would be lost for good, and its first 250 words say what is sought.
    ///
    /// # Errors
    /// As [`Embedder::embed`]; errors are not remembered.
    pub async fn embed(&self, embedder: &dyn Embedder, query: &str) -> Result<Arc<[f32]>, EmbedError> {
        let query = fitting(embedder, query)?;
        let key = (embedder.model().name.clone(), query.to_owned());
        let vector = self.vectors.try_get_with(key, async {
            let asked = format!("{}{query}", embedder.model().query_prefix);
            let mut vectors = embedder.embed(vec![asked], Priority::Turn).await?;
            vectors.pop().map(Arc::from).ok_or_else(|| EmbedError::Failed("no vector for the query".to_owned()))
        });
        vector.await.map_err(Arc::unwrap_or_clone)
    }
}

/// The longest beginning of `query` that fits the window, whole tokens only.
fn fitting<'q>(embedder: &dyn Embedder, query: &'q str) -> Result<&'q str, EmbedError> {
    let (window, prefix) = (embedder.model().window, embedder.model().query_prefix.as_str());
    // A token is at least a byte, and there are at most a handful of special ones.
    if prefix.len() + query.len() + 8 <= window {
        return Ok(query);
    }
    // No token is longer than 64 bytes in any text worth embedding: the rest need not be looked at.
    let head = &query[..query.floor_char_boundary(64 * window)];
    let tokenizer = embedder.tokenizer()?;
    let encoding = tokenizer.encode(head, false).map_err(|e| EmbedError::Failed(e.to_string()))?;
    let special = tokenizer.encode(prefix, true).map_err(|e| EmbedError::Failed(e.to_string()))?.len();
    let room = window.saturating_sub(special);
    if encoding.len() <= room && head.len() == query.len() {
        return Ok(query);
    }
    let end = encoding.get_offsets().get(..room.min(encoding.len())).and_then(<[_]>::last).map_or(0, |(_, end)| *end);
    Ok(&head[..head.floor_char_boundary(end)])
}
