//! What a search is asked for.

use super::super::error::KnowledgeError;
use super::super::filter::Filter;
use jiff::Timestamp;
use uuid::Uuid;

/// Which legs a search has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// By meaning and by words, fused.
    #[default]
    Hybrid,
    /// By meaning.
    Dense,
    /// By words.
    Sparse,
}

#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// At least one; hits of several are ranked together.
    pub collections: Vec<String>,
    pub query: String,
    /// At least 1.
    pub limit: usize,
    pub mode: SearchMode,
    /// What the user asked for; scope and expiry are added here.
    pub filter: Filter,
    /// Also what this conversation has found for itself.
    pub conversation: Option<Uuid>,
    /// Least cosine of query and passage; not with [`SearchMode::Sparse`].
    pub min_cosine: Option<f32>,
    /// Let the reranking model put the best hits in order.
    pub rerank: bool,
    /// Least score of the reranking model; only with `rerank`.
    pub min_rerank: Option<f32>,
    /// Hits from one document at most.
    pub per_document: Option<usize>,
    /// Chunks before and after each hit that are joined to it.
    pub neighbours: u32,
    /// Also tell what was left out, and why.
    pub explain: bool,
    /// What the collections held then, as far as they keep versions; without what conversations found.
    pub as_of: Option<Timestamp>,
}

impl SearchRequest {
    /// A hybrid search of one collection with no conditions.
    pub fn new(collection: &str, query: &str, limit: usize) -> Self {
        Self {
            collections: vec![collection.to_owned()],
            query: query.to_owned(),
            limit,
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            conversation: None,
            min_cosine: None,
            rerank: false,
            min_rerank: None,
            per_document: None,
            neighbours: 0,
            explain: false,
            as_of: None,
        }
    }

    /// What a reranker is given to read: more hits, and as many of a document as there are.
    pub(super) fn wide(&self, most: usize) -> Self {
        Self { limit: self.limit.max(most), per_document: None, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<(), KnowledgeError> {
        let refused = |why| Err(KnowledgeError::BadSearch(why));
        if self.collections.is_empty() {
            return refused("a search needs a collection");
        }
        if self.query.trim().is_empty() {
            return refused("a search needs a query");
        }
        if self.limit == 0 {
            return refused("a search needs a limit of at least 1");
        }
        if self.min_cosine.is_some() && self.mode == SearchMode::Sparse {
            return refused("a least score needs a search by meaning: mode hybrid or dense");
        }
        if self.min_rerank.is_some() && !self.rerank {
            return refused("a reranker's least score needs `rerank`");
        }
        Ok(())
    }
}
