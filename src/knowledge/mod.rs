//! The knowledge base: bytes to text, text to chunks, chunks to vectors, vectors to hits.
//! SQL holds the truth; the vector store is an index over it that can be rebuilt.
//! Ports: [`Embedder`], [`VectorStore`], [`Reranker`].

pub mod attention;
pub mod base;
pub mod chunker;
pub mod claims;
pub mod embed;
pub mod error;
pub mod extract;
pub mod filter;
pub mod filter_json;
pub mod identity;
pub mod ingest;
pub mod keyword;
pub mod map;
pub mod pending;
pub mod reconcile;
pub mod retrieve;
pub mod store;
pub mod walk;
pub mod watch;

use async_trait::async_trait;
use filter::Filter;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokenizers::Tokenizer;
use uuid::Uuid;

/// Namespace of every derived id (UUIDv5).
pub const NAMESPACE: Uuid = Uuid::from_u128(0x7a1e_7ace_0000_5000_8000_7461_696c_7261);

/// A model that turns text into vectors of one length.
#[async_trait]
pub trait Embedder: Send + Sync {
    fn model(&self) -> &EmbeddingModel;
    /// What chunks are measured with: the model's own tokenizer, without truncation or padding, or one that rather
    /// counts too much where nobody knows the model's own. `Err` where the model's files are missing.
    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError>;
    /// One unit-length vector for each text, in order; prefixes are the caller's part. Waits for room in the bounded
    /// queue.
    /// The work runs on the embedder's own threads, never on the runtime's.
    async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// What a collection records of its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingModel {
    /// Built-in name, or a folder's name with a hash of its file.
    pub name: String,
    /// Numbers in a vector.
    pub dimension: usize,
    /// Tokens that the model reads, special tokens included.
    pub window: usize,
    /// What the model wants before a query and before a passage; mostly nothing.
    pub query_prefix: String,
    pub passage_prefix: String,
}

/// Whose work goes first: somebody waits for `Turn`, nobody for `Bulk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Turn,
    Bulk,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The message names the missing file and the command that fetches it.
    #[error("{0}")]
    ModelMissing(String),
    /// The runtime or the model failed.
    #[error("embedding failed: {0}")]
    Failed(String),
    /// The server that embeds does not do it now; the message says why.
    #[error("{0}")]
    Unavailable(String),
}

/// A model that reads a query and a passage together and says how well the one answers the other.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// A name for logs and `explain`.
    fn name(&self) -> &str;
    /// One score for each passage, in order; more is better, and scores of different queries can be compared.
    async fn rerank(&self, query: &str, passages: Vec<String>) -> Result<Vec<f32>, EmbedError>;
}

/// An index of points that can be searched. Every write is applied when the call returns.
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// `edge` or `qdrant`, for logs and `doctor`.
    fn kind(&self) -> &'static str;
    /// Makes the collection's vectors and payload indexes; nothing if it is there.
    /// [`StoreError::Dimension`] if it is there with vectors of another length.
    async fn create_collection(&self, collection: &str, dimension: usize) -> Result<(), StoreError>;
    async fn delete_collection(&self, collection: &str) -> Result<(), StoreError>;
    /// Inserts or replaces, in requests of under 256 points and 8 MiB.
    async fn upsert(&self, collection: &str, points: Vec<Point>) -> Result<(), StoreError>;
    /// Ids that are not there are skipped.
    async fn delete(&self, collection: &str, ids: &[Uuid]) -> Result<(), StoreError>;
    /// What each leg finds, best first; at most `query.limit` of each.
    async fn search(&self, collection: &str, query: &StoreQuery) -> Result<Legs, StoreError>;
    async fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError>;
    /// Every id in the collection, in no order: for `reconcile` and `doctor`.
    async fn ids(&self, collection: &str) -> Result<Vec<Uuid>, StoreError>;
    /// Whether what was applied before survives a crash only after this returns; `false`: it always does.
    fn needs_flush(&self) -> bool;
    /// Makes what was applied durable. Slow: called in the background, never before an answer.
    async fn flush(&self, collection: &str) -> Result<(), StoreError>;
}

/// A stored vector with payload. The payload is an index: texts stay in SQL.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// UUIDv5 of (collection, document, version, ordinal, model).
    pub id: Uuid,
    pub dense: Vec<f32>,
    pub bm25: SparseVector,
    pub payload: Payload,
}

/// Terms of a text, weighted as BM25 weighs a document, or 1 each for a query; IDF is the store's part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseVector {
    /// Hashes of terms, unique.
    pub indices: Vec<u32>,
    pub values: Vec<f32>,
}

/// What filters can name, and what ties a point to its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub document_id: String,
    pub chunk_id: Uuid,
    pub version: i64,
    pub scope: Scope,
    pub title: String,
    pub uri: String,
    pub metadata: Map<String, Value>,
    /// Unix seconds; `None`: never.
    pub expires_at: Option<i64>,
}

/// Who may find a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Collection,
    Conversation(Uuid),
    /// Searches of the past: a version that is kept and not live any more.
    Kept,
}

impl Scope {
    /// The word stored in rows and payloads: `collection`, `kept`, or the conversation's id.
    pub fn key(&self) -> String {
        match self {
            Self::Collection => "collection".to_owned(),
            Self::Conversation(id) => id.to_string(),
            Self::Kept => "kept".to_owned(),
        }
    }
}

/// One search in one collection: a leg for each vector that is given. Their hits are fused by `retrieve`, so that
/// every store gives the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreQuery {
    pub dense: Option<Vec<f32>>,
    pub bm25: Option<SparseVector>,
    /// Scope, expiry and what the caller asked for, in one; the same for both legs.
    pub filter: Filter,
    /// Hits of each leg.
    pub limit: usize,
}

/// What the legs of a search found; empty for a leg that was not asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Legs {
    /// By cosine.
    pub dense: Vec<ScoredPoint>,
    /// By the BM25 sum.
    pub bm25: Vec<ScoredPoint>,
}

/// A point that a leg names, with the leg's own score.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredPoint {
    pub id: Uuid,
    pub score: f32,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the vector store has no collection `{0}`")]
    NoCollection(String),
    #[error(
        "collection `{collection}` holds vectors of {found} numbers, the embedding model makes {wanted}: reindex it"
    )]
    Dimension { collection: String, found: usize, wanted: usize },
    /// The server cannot be reached; the message names its address.
    #[error("{0}")]
    Unreachable(String),
    /// Another process holds the folder of the store in process.
    #[error("the vector folder `{0}` is in use by another process")]
    InUse(String),
    /// The collection's files are damaged. Delete and create it, then replay its points from SQL.
    #[error("the vector index of `{collection}` cannot be read: {reason}")]
    Unreadable { collection: String, reason: String },
    #[error("vector store: {0}")]
    Failed(String),
}
