//! Jobs: documents that were accepted, how far each has come, and what became of it.
//! Invariant: an accepted document has a row from the commit that accepts it, and its bytes stay until it is
//! indexed; a crash loses none.

mod end;
mod queue;
pub mod reindex;

pub use end::{End, Retried, cancel_queued, end, progress, prune, requeue, retry};
pub(super) use end::{forget_document, indexed};
pub use queue::{Claimed, NewJob, Released, accept, beat, claim, content, next_due, record, release};

use super::StorageError;
use super::column::{self, count, get, json, optional_count, small, time, uuid};
use super::db::{Db, Driver, Row};
use super::documents::DocumentKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, QueryBuilder};
use uuid::Uuid;

/// What the client said of a document, as it was said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRequest {
    pub title: Option<String>,
    pub uri: String,
    pub mime: Option<String>,
    /// BLAKE3 of the bytes, in hex.
    pub hash: String,
    pub metadata: Map<String, Value>,
}

/// Where a job is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    Queued,
    Extracting,
    Chunking,
    Embedding,
    Indexed,
    Failed,
    Cancelled,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: Uuid,
    pub kind: String,
    pub collection: String,
    pub document_id: Option<String>,
    pub owner: Option<String>,
    pub request: JobRequest,
    pub status: JobStatus,
    pub stage: JobStatus,
    /// Chunks.
    pub done: u64,
    pub total: u64,
    pub attempts: u32,
    /// A stable word and a sentence.
    pub error: Option<(String, String)>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub ended: Option<Timestamp>,
}

/// Which jobs somebody asks for, and may see.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// `None`: everybody's.
    pub owner: Option<String>,
    /// `None`: of every collection.
    pub collections: Option<Vec<String>>,
    pub status: Option<JobStatus>,
    /// Only older ones: the last of the page before.
    pub after: Option<Uuid>,
}

impl JobStatus {
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Extracting, Self::Chunking, Self::Embedding, Self::Indexed, Self::Failed, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Extracting => "extracting",
            Self::Chunking => "chunking",
            Self::Embedding => "embedding",
            Self::Indexed => "indexed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Nothing more will happen to it by itself.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Indexed | Self::Failed | Self::Cancelled)
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    fn read(word: &str) -> Result<Self, StorageError> {
        Self::of_word(word).ok_or_else(|| column::corrupt("status", word))
    }
}

impl Job {
    /// The document that it is about.
    pub fn key(&self) -> Option<DocumentKey> {
        self.document_id.clone().map(|id| DocumentKey { collection: self.collection.clone(), id })
    }
}

const COLUMNS: &str = "id, kind, collection, document_id, owner, request, status, stage, done, total, attempts, \
     error_code, error, created_ms, updated_ms, ended_ms";

fn read(row: &Row) -> Result<Job, StorageError> {
    let code: Option<String> = get(row, "error_code")?;
    Ok(Job {
        id: uuid(row, "id")?,
        kind: get(row, "kind")?,
        collection: get(row, "collection")?,
        document_id: get(row, "document_id")?,
        owner: get(row, "owner")?,
        request: json(row, "request")?,
        status: JobStatus::read(get(row, "status")?)?,
        stage: JobStatus::read(get(row, "stage")?)?,
        done: count(row, "done")?,
        total: count(row, "total")?,
        attempts: small(row, "attempts")?,
        error: code.zip(get(row, "error")?),
        created: time(row, "created_ms")?,
        updated: time(row, "updated_ms")?,
        ended: optional_count(row, "ended_ms")?.map(|_| time(row, "ended_ms")).transpose()?,
    })
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<Job>, StorageError> {
    let row = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM jobs WHERE id = $1")))
        .bind(id.to_string())
        .fetch_optional(db.readers())
        .await?;
    row.as_ref().map(read).transpose()
}

/// The newest first.
pub async fn list(db: &Db, filter: &JobFilter, limit: u32) -> Result<Vec<Job>, StorageError> {
    let mut sql = QueryBuilder::<Driver>::new(format!("SELECT {COLUMNS} FROM jobs WHERE 1 = 1"));
    if let Some(owner) = &filter.owner {
        sql.push(" AND owner = ").push_bind(owner);
    }
    if let Some(names) = &filter.collections {
        sql.push(" AND collection IN (");
        let mut list = sql.separated(", ");
        for name in names {
            list.push_bind(name);
        }
        sql.push(")");
    }
    if let Some(status) = filter.status {
        sql.push(" AND status = ").push_bind(status.as_str());
    }
    if let Some(after) = filter.after {
        sql.push(" AND id < ").push_bind(after.to_string());
    }
    sql.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
    sql.build().fetch_all(db.readers()).await?.iter().map(read).collect()
}

/// The newest job of each of these documents that has one.
pub async fn latest(db: &Db, collection: &str, documents: &[&str]) -> Result<Vec<Job>, StorageError> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = QueryBuilder::<Driver>::new(format!("SELECT {COLUMNS} FROM jobs WHERE id IN ("));
    sql.push("SELECT MAX(id) FROM jobs WHERE collection = ").push_bind(collection).push(" AND document_id IN (");
    let mut list = sql.separated(", ");
    for document in documents {
        list.push_bind(*document);
    }
    sql.push(") GROUP BY document_id)");
    sql.build().fetch_all(db.readers()).await?.iter().map(read).collect()
}

/// Jobs of this document that have not ended.
pub async fn unfinished(db: &Db, key: &DocumentKey) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query("SELECT id FROM jobs WHERE collection = $1 AND document_id = $2 AND ended_ms IS NULL")
        .bind(&key.collection)
        .bind(&key.id)
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| uuid(row, "id")).collect()
}

/// Jobs of this collection that have not ended.
pub async fn unfinished_in(db: &Db, collection: &str) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query("SELECT id FROM jobs WHERE collection = $1 AND ended_ms IS NULL")
        .bind(collection)
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| uuid(row, "id")).collect()
}
