//! Documents in: what is new is read, chunked, embedded, put into the store and then, in one commit,
//! made the version that searches find.
//!
//! Invariants: ingesting twice changes nothing; a point is in the store before the commit that makes it
//! count, so what has a sequence number up to a flush has outlived it; at every moment a search finds
//! exactly one version of a document; what a kill -9 leaves half done is cleaned at the next start.

mod attempt;
mod audit;
mod build;
mod describe;
mod expand;
mod gates;
mod jobs;
mod keep;
mod manage;
mod queue;
mod reindex;
mod remove;
mod reread;
mod runner;
mod running;
mod slice;
mod turnstile;
mod unchanged;
mod upkeep;

pub use audit::Mended;
pub use describe::Change;
pub use expand::Expanded;
pub use manage::NewCollectionOptions;
pub use queue::Accepted;
pub use reindex::Reindexing;
pub use remove::Deleted;

use super::base::Base;
use super::chunker::Chunker;
use super::error::KnowledgeError;
use super::extract::Reader;
use super::{Priority, Scope, identity};
use crate::config::ToolResults;
use crate::storage::Db;
use crate::storage::documents::{DocumentKey, DocumentStatus};
use attempt::Abandoned;
use bytes::Bytes;
use gates::Gates;
use runner::Hand;
use running::Running;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore};
use turnstile::Turnstile;
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// What ingestion may be told.
#[derive(Clone, Copy, Debug)]
pub struct IngestOptions {
    /// Size of a chunk in the embedding model's tokens.
    pub chunk_tokens: usize,
    pub chunk_overlap_percent: usize,
    pub max_document_bytes: usize,
    /// Documents that are worked on at the same time.
    pub parallel: usize,
    /// How often a job is begun before it is given up.
    pub max_attempts: u32,
    /// How long jobs are remembered that have ended.
    pub keep_jobs_days: u32,
}

/// The way into the knowledge base. Cheap to clone.
#[derive(Clone)]
pub struct Ingest {
    inner: Arc<Inner>,
}

struct Inner {
    base: Base,
    options: IngestOptions,
    reader: Reader,
    /// By model, made at first use: before that no model file is needed.
    chunkers: Mutex<HashMap<String, Arc<Chunker>>>,
    turnstile: Turnstile,
    gates: Gates,
    /// One sweep of tombstones at a time, so that none deletes by a list that another has dealt with:
    /// after that a document may use the same ids again.
    sweeping: Semaphore,
    /// Attempts whose future was dropped; upkeep cleans up after them.
    abandoned: Mutex<Vec<Abandoned>>,
    running: Running,
    /// To the one who works on jobs.
    direct: Hand,
    /// Something happened that upkeep should look at soon.
    stirred: Notify,
    /// A collection is to be built anew.
    reindex: Notify,
}

impl Inner {
    fn chunkers(&self) -> MutexGuard<'_, HashMap<String, Arc<Chunker>>> {
        self.chunkers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A document to be ingested.
#[derive(Clone, Debug, Default)]
pub struct NewDocument {
    pub collection: String,
    /// 1 to 255 bytes; `None`: derived from collection and URI.
    pub id: Option<String>,
    /// `None` or empty: the id, or a name made from the text itself.
    pub uri: Option<String>,
    /// `None`: the document's own title, else the last part of its URI.
    pub title: Option<String>,
    pub content: Bytes,
    /// As the client declared it.
    pub mime: Option<String>,
    pub metadata: Map<String, Value>,
}

/// A tool's result to be kept.
#[derive(Clone, Debug)]
pub struct ToolResultText {
    pub conversation_id: Uuid,
    pub turn_id: Uuid,
    pub collection: String,
    pub title: String,
    pub uri: String,
    /// Plain text or Markdown.
    pub text: String,
    pub policy: ToolResults,
    /// How long a conversation keeps it.
    pub keep_days: u32,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestOutcome {
    pub document_id: String,
    pub version: i64,
    pub chunks: u64,
    pub status: DocumentStatus,
    /// These bytes were there already: nothing was embedded.
    pub unchanged: bool,
    /// A search that says at least this has seen the document.
    pub watermark: i64,
    /// What the reader has to say: a guessed charset, removed characters.
    pub notes: Vec<String>,
}

/// A document with its identity decided.
#[derive(Clone, Debug)]
struct Task {
    key: DocumentKey,
    title: Option<String>,
    uri: String,
    metadata: Map<String, Value>,
    scope: Scope,
    /// Unix seconds.
    expires_at: Option<i64>,
    content: Bytes,
    mime: Option<String>,
    /// BLAKE3 of the content, in hex.
    hash: String,
    priority: Priority,
    /// The job that this is the work of.
    job: Option<Uuid>,
}

impl Ingest {
    pub fn new(base: Base, options: IngestOptions) -> Self {
        Self::with_reader(base, options, Reader::default())
    }

    pub fn with_reader(base: Base, options: IngestOptions, reader: Reader) -> Self {
        Self {
            inner: Arc::new(Inner {
                base,
                options,
                reader,
                chunkers: Mutex::default(),
                turnstile: Turnstile::default(),
                gates: Gates::default(),
                sweeping: Semaphore::new(1),
                abandoned: Mutex::default(),
                running: Running::default(),
                direct: Hand::new(options.parallel),
                stirred: Notify::new(),
                reindex: Notify::new(),
            }),
        }
    }

    /// The database that it writes to.
    pub fn db(&self) -> &Db {
        &self.inner.base.db
    }

    /// Ingests one document; resolves when a search finds it. Where the same document is being
    /// ingested already, this waits for that.
    ///
    /// # Errors
    /// Everything that [`KnowledgeError`] names but searches. A document that was read and refused has a
    /// row with status `failed` that says why; a version that was live stays so.
    pub async fn document(&self, new: NewDocument, priority: Priority) -> Result<IngestOutcome, KnowledgeError> {
        let task = self.task(new, priority).await?;
        self.run(task).await
    }

    /// Keeps what a tool brought; `None` where the policy is not to.
    ///
    /// # Errors
    /// As [`Ingest::document`]; [`KnowledgeError::NoConversation`] where it was deleted meanwhile.
    pub async fn tool_result(&self, result: ToolResultText) -> Result<Option<IngestOutcome>, KnowledgeError> {
        let collection = result.collection;
        let (id, scope, expires_at) = match result.policy {
            ToolResults::Off => return Ok(None),
            ToolResults::Collection => (identity::document_id(&collection, &result.uri), Scope::Collection, None),
            ToolResults::Conversation => {
                let conversation = result.conversation_id;
                let until = jiff::Timestamp::now().as_second() + i64::from(result.keep_days) * 86_400;
                let id = identity::finding_id(&collection, conversation, &result.uri);
                (id, Scope::Conversation(conversation), Some(until))
            }
        };
        let content = Bytes::from(result.text);
        let (content, hash) = self.hash(content, Priority::Turn).await?;
        let task = Task {
            key: DocumentKey { collection, id },
            title: Some(result.title),
            uri: result.uri,
            metadata: Map::from_iter([("turn_id".to_owned(), json!(result.turn_id))]),
            scope,
            expires_at,
            content,
            mime: Some("text/markdown".to_owned()),
            hash,
            priority: Priority::Turn,
            job: None,
        };
        self.run(task).await.map(Some)
    }

    async fn task(&self, new: NewDocument, priority: Priority) -> Result<Task, KnowledgeError> {
        let limit = self.inner.options.max_document_bytes;
        if new.content.len() > limit {
            return Err(KnowledgeError::TooLarge { bytes: new.content.len(), limit });
        }
        if new.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 255) {
            return Err(KnowledgeError::BadId);
        }
        let (content, hash) = self.hash(new.content, priority).await?;
        let uri = new.uri.filter(|uri| !uri.is_empty()).or_else(|| new.id.clone());
        let uri: String = uri.unwrap_or_else(|| identity::text_uri(&hash)).nfc().collect();
        let id = new.id.unwrap_or_else(|| identity::document_id(&new.collection, &uri));
        Ok(Task {
            key: DocumentKey { collection: new.collection, id },
            title: new.title,
            uri,
            metadata: new.metadata,
            scope: Scope::Collection,
            expires_at: None,
            content,
            mime: new.mime,
            hash,
            priority,
            job: None,
        })
    }

    /// Large contents are hashed off the runtime.
    async fn hash(&self, content: Bytes, priority: Priority) -> Result<(Bytes, String), KnowledgeError> {
        const SMALL: usize = 64 * 1024;
        let of = |content: &Bytes| blake3::hash(content).to_hex().to_string();
        if content.len() <= SMALL {
            let hash = of(&content);
            return Ok((content, hash));
        }
        self.inner
            .base
            .off_runtime(priority, move || {
                let hash = of(&content);
                (content, hash)
            })
            .await
    }
}
