//! Why something could not be ingested or searched, in words for the person who asked for it.

use super::chunker::ChunkError;
use super::extract::ExtractError;
use super::filter_json::FilterError;
use super::keyword::UnknownLanguage;
use super::{EmbedError, StoreError};
use crate::storage::StorageError;

#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    #[error("there is no collection `{0}`")]
    NoCollection(String),
    #[error("there is no document `{0}`")]
    NoDocument(String),
    #[error("there is no conversation `{0}`")]
    NoConversation(String),
    #[error("`{0}` cannot name a collection: 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit")]
    BadName(String),
    #[error("a document's id has 1 to 255 bytes")]
    BadId,
    #[error("document `{0}` has no version that can be found yet")]
    NotIndexed(String),
    #[error("document `{0}` is being ingested: try again when its job has ended")]
    Busy(String),
    #[error("document `{0}` is in the collection already: only what one conversation has found can be kept")]
    NotAFinding(String),
    #[error("embedding model `{asked}` does not run here; there are: {running} (`embedding.model`, `embedding.more`)")]
    NoModel { asked: String, running: String },
    #[error(
        "collection `{collection}` is there already, with the embedding model `{recorded}`: to change it, re-index it"
    )]
    OtherModel { collection: String, recorded: String },
    #[error("the collection `default` always exists")]
    DefaultStays,
    #[error(transparent)]
    Language(#[from] UnknownLanguage),
    #[error(
        "collection `{collection}` needs re-index: it was built with the embedding model `{recorded}`, and this server \
         runs `{running}`. Send `POST /api/v1/collections/{collection}/reindex`, or set `embedding.model` back (or name \
         the old model in `embedding.more`)"
    )]
    Model { collection: String, recorded: String, running: String },
    #[error("the document has {bytes} bytes; at most {limit} are read (`ingest.max_document_bytes`)")]
    TooLarge { bytes: usize, limit: usize },
    #[error(transparent)]
    Extract(#[from] ExtractError),
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("no reranking model is configured (`retrieval.rerank_model`)")]
    NoReranker,
    /// A search's own fields contradict each other.
    #[error("{0}")]
    BadSearch(&'static str),
    #[error("the document was deleted or sent again while it was being read")]
    Overtaken,
    #[error("it was cancelled before it was complete")]
    Cancelled,
    #[error("the server is stopping: it goes on with the document when it starts again")]
    Stopping,
    /// The document as such makes the reader fail; the process goes on.
    #[error("the document could not be read: {0}")]
    Reader(String),
    #[error(transparent)]
    Embed(#[from] EmbedError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Storage(StorageError),
}

impl KnowledgeError {
    /// Whether the trouble is not the document's: the same may work later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Embed(_)
                | Self::Store(_)
                | Self::Storage(_)
                | Self::Stopping
                | Self::Extract(ExtractError::ReaderFailed(_))
        )
    }

    /// A stable word for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoCollection(_) => "unknown_collection",
            Self::NoDocument(_) => "unknown_document",
            Self::NoConversation(_) => "unknown_conversation",
            Self::BadName(_) => "bad_collection_name",
            Self::BadId => "bad_document_id",
            Self::NotIndexed(_) => "not_indexed",
            Self::Busy(_) => "document_busy",
            Self::NotAFinding(_) => "not_a_finding",
            Self::NoModel { .. } => "unknown_embedding_model",
            Self::OtherModel { .. } => "other_embedding_model",
            Self::DefaultStays => "default_collection",
            Self::Language(_) => "unknown_language",
            Self::Model { .. } => "model_changed",
            Self::TooLarge { .. } => "document_too_large",
            Self::Extract(refused) => refused.code(),
            Self::Chunk(_) => "cannot_chunk",
            Self::Filter(_) => "bad_filter",
            Self::NoReranker => "no_reranker",
            Self::BadSearch(_) => "bad_search",
            Self::Overtaken => "overtaken",
            Self::Cancelled => "cancelled",
            Self::Stopping => "stopping",
            Self::Reader(_) => "reader_failed",
            Self::Embed(EmbedError::ModelMissing(_)) => "model_missing",
            Self::Embed(EmbedError::Failed(_)) => "embedding_failed",
            Self::Embed(EmbedError::Unavailable(_)) => "embedding_unavailable",
            Self::Store(StoreError::Unreachable(_)) => "store_unreachable",
            Self::Store(_) => "store_failed",
            Self::Storage(_) => "storage_failed",
        }
    }
}

impl From<StorageError> for KnowledgeError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NotFound { what: "collection", id } => Self::NoCollection(id),
            StorageError::NotFound { what: "conversation", id } => Self::NoConversation(id),
            StorageError::Conflict(_) => Self::Overtaken,
            other => Self::Storage(other),
        }
    }
}

impl From<StoreError> for KnowledgeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoCollection(name) => Self::NoCollection(name),
            other => Self::Store(other),
        }
    }
}
