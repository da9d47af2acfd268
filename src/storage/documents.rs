//! Document rows: what is known of each, how the last attempt to build it went, how it goes away.
//! Invariant: a document is found through `live_version` only, and that changes in one commit.

use super::column::{self, count, get, json, now_ms, optional_count, time};
use super::db::{Connection, Db, Row};
use super::{StorageError, collections};
use futures_util::FutureExt;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

/// Names a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DocumentKey {
    pub collection: String,
    pub id: String,
}

/// What a client says of a document besides its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub title: String,
    pub uri: String,
    pub metadata: Map<String, Value>,
    /// `collection`, or the id of the one conversation that finds it.
    pub scope: String,
    /// Unix seconds.
    pub expires_at: Option<i64>,
}

/// How far the last attempt to build a document has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentStatus {
    Queued,
    Extracting,
    Chunking,
    Embedding,
    Indexed,
    Failed,
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    pub key: DocumentKey,
    pub description: Description,
    pub status: DocumentStatus,
    /// Why the last attempt failed: a stable word and a sentence.
    pub error: Option<(String, String)>,
    /// What can be found; `None` until a first version is complete.
    pub live: Option<LiveVersion>,
    /// The version being built.
    pub building: Option<i64>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LiveVersion {
    pub version: i64,
    /// BLAKE3 of the bytes that were sent, in hex.
    pub hash: String,
    pub bytes: u64,
    pub mime: String,
    pub notes: Vec<String>,
    pub chunks: u64,
}

impl DocumentStatus {
    const ALL: [Self; 6] =
        [Self::Queued, Self::Extracting, Self::Chunking, Self::Embedding, Self::Indexed, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Extracting => "extracting",
            Self::Chunking => "chunking",
            Self::Embedding => "embedding",
            Self::Indexed => "indexed",
            Self::Failed => "failed",
        }
    }

    fn read(word: &str) -> Result<Self, StorageError> {
        Self::ALL.into_iter().find(|s| s.as_str() == word).ok_or_else(|| column::corrupt("status", word))
    }
}

const SELECT: &str = "SELECT d.collection, d.id, d.title, d.uri, d.metadata, d.scope, d.expires_at, d.status, \
     d.error_code, d.error, d.live_version, d.building, d.created_ms, d.updated_ms, v.hash, v.bytes, v.mime, v.notes, \
     v.chunks FROM documents d LEFT JOIN versions v ON v.collection = d.collection \
     AND v.document_id = d.id AND v.version = d.live_version ";

fn read(row: &Row) -> Result<StoredDocument, StorageError> {
    let code: Option<String> = get(row, "error_code")?;
    let live = match get::<Option<i64>>(row, "live_version")? {
        None => None,
        Some(version) => Some(LiveVersion {
            version,
            hash: get(row, "hash")?,
            bytes: count(row, "bytes")?,
            mime: get(row, "mime")?,
            notes: json(row, "notes")?,
            chunks: optional_count(row, "chunks")?.unwrap_or_default(),
        }),
    };
    Ok(StoredDocument {
        key: DocumentKey { collection: get(row, "collection")?, id: get(row, "id")? },
        description: Description {
            title: get(row, "title")?,
            uri: get(row, "uri")?,
            metadata: json(row, "metadata")?,
            scope: get(row, "scope")?,
            expires_at: get(row, "expires_at")?,
        },
        status: DocumentStatus::read(get(row, "status")?)?,
        error: code.zip(get(row, "error")?),
        live,
        building: get(row, "building")?,
        created: time(row, "created_ms")?,
        updated: time(row, "updated_ms")?,
    })
}

pub async fn find(db: &Db, key: &DocumentKey) -> Result<Option<StoredDocument>, StorageError> {
    let row = sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE d.collection = $1 AND d.id = $2")))
        .bind(&key.collection)
        .bind(&key.id)
        .fetch_optional(db.readers())
        .await?;
    row.as_ref().map(read).transpose()
}

/// The documents of the collection's own scope, by URI; `after`: the id that ended the last page.
pub async fn list(
    db: &Db,
    collection: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<StoredDocument>, StorageError> {
    let page = "AND (CAST($2 AS TEXT) IS NULL OR (d.uri, d.id) > (SELECT a.uri, a.id FROM documents a \
         WHERE a.collection = $1 AND a.id = $2)) ORDER BY d.uri, d.id LIMIT $3";
    let rows =
        sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE d.collection = $1 AND d.scope = 'collection' {page}")))
            .bind(collection)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(db.readers())
            .await?;
    rows.iter().map(read).collect()
}

/// Id, URI and metadata of the documents of the collection's own scope whose URI begins with `prefix`.
pub async fn below(
    db: &Db,
    collection: &str,
    prefix: &str,
) -> Result<Vec<(String, String, Map<String, Value>)>, StorageError> {
    let rows = sqlx::query(
        "SELECT id, uri, metadata FROM documents WHERE collection = $1 AND scope = 'collection' \
         AND SUBSTR(uri, 1, $2) = $3",
    )
    .bind(collection)
    .bind(i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX))
    .bind(prefix)
    .fetch_all(db.readers())
    .await?;
    rows.iter().map(|row| Ok((get(row, "id")?, get(row, "uri")?, json(row, "metadata")?))).collect()
}

/// Every document of which a version is being built, or was when the process ended.
pub async fn building(db: &Db) -> Result<Vec<StoredDocument>, StorageError> {
    let rows =
        sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE d.building IS NOT NULL"))).fetch_all(db.readers()).await?;
    rows.iter().map(read).collect()
}

/// How many documents wait or are being read, by the word of their status.
pub async fn under_way(db: &Db) -> Result<Vec<(String, u64)>, StorageError> {
    let rows = sqlx::query(
        "SELECT status, COUNT(*) AS documents FROM documents WHERE status IN ('queued', 'extracting', 'chunking', \
         'embedding') GROUP BY status ORDER BY status",
    )
    .fetch_all(db.readers())
    .await?;
    rows.iter().map(|row| Ok((get(row, "status")?, count(row, "documents")?))).collect()
}

/// Documents whose time is over.
pub async fn expired(db: &Db, now: i64) -> Result<Vec<DocumentKey>, StorageError> {
    let rows = sqlx::query("SELECT collection, id FROM documents WHERE expires_at IS NOT NULL AND expires_at <= $1")
        .bind(now)
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| Ok(DocumentKey { collection: get(row, "collection")?, id: get(row, "id")? })).collect()
}

/// The text of the live version, in which offsets count.
pub async fn content(db: &Db, key: &DocumentKey) -> Result<Option<String>, StorageError> {
    Ok(sqlx::query_scalar(
        "SELECT v.content FROM documents d JOIN versions v ON v.collection = d.collection AND v.document_id = d.id \
         AND v.version = d.live_version WHERE d.collection = $1 AND d.id = $2",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_optional(db.readers())
    .await?)
}

/// Where each page begins in the live version's content; empty for formats without pages.
pub async fn pages(db: &Db, key: &DocumentKey) -> Result<Vec<u64>, StorageError> {
    let row = sqlx::query(
        "SELECT v.pages FROM documents d JOIN versions v ON v.collection = d.collection AND v.document_id = d.id \
         AND v.version = d.live_version WHERE d.collection = $1 AND d.id = $2",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_optional(db.readers())
    .await?;
    row.map_or_else(|| Ok(Vec::new()), |row| json(&row, "pages"))
}

/// Begins a version: makes the document's row if need be. The number has not been used while points
/// of it may still be around. `job`: the one that this is the work of.
///
/// # Errors
/// [`StorageError::NotFound`] where there is no such collection, or it is being deleted; [`StorageError::Conflict`] where
/// the job has ended: who deleted the document meanwhile must not find it again.
pub async fn begin(
    db: &Db,
    key: DocumentKey,
    description: Description,
    status: DocumentStatus,
    job: Option<Uuid>,
) -> Result<i64, StorageError> {
    db.write(move |connection| {
        async move {
            collections::must_take_documents(connection, &key.collection).await?;
            if let Some(job) = job {
                must_run(connection, job).await?;
            }
            let used: i64 = sqlx::query_scalar(
                "SELECT COALESCE(MAX(n), 0) FROM (SELECT version AS n FROM versions WHERE collection = $1 \
                 AND document_id = $2 UNION ALL SELECT version FROM tombstones WHERE collection = $1 \
                 AND document_id = $2 UNION ALL SELECT building FROM documents WHERE collection = $1 AND id = $2) u",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .fetch_one(&mut *connection)
            .await?;
            upsert(connection, &key, &description, status, Some(used + 1)).await?;
            Ok(used + 1)
        }
        .boxed()
    })
    .await
}

async fn must_run(connection: &mut Connection, job: Uuid) -> Result<(), StorageError> {
    let runs: Option<i64> = sqlx::query_scalar("SELECT 1 FROM jobs WHERE id = $1 AND ended_ms IS NULL")
        .bind(job.to_string())
        .fetch_optional(connection)
        .await?;
    runs.map(|_| ()).ok_or_else(|| StorageError::Conflict(format!("job `{job}` has ended")))
}

/// A row that is there keeps its description until the new version is complete.
pub(super) async fn upsert(
    connection: &mut Connection,
    key: &DocumentKey,
    description: &Description,
    status: DocumentStatus,
    building: Option<i64>,
) -> Result<(), StorageError> {
    sqlx::query(
        "INSERT INTO documents (collection, id, title, uri, metadata, scope, expires_at, status, building, seq, \
         created_ms, updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $10) \
         ON CONFLICT (collection, id) DO UPDATE SET status = excluded.status, \
         building = COALESCE(excluded.building, documents.building), error_code = NULL, error = NULL, updated_ms = excluded.updated_ms",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(&description.title)
    .bind(&description.uri)
    .bind(column::to_json(&description.metadata)?)
    .bind(&description.scope)
    .bind(description.expires_at)
    .bind(status.as_str())
    .bind(building)
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// Says how far the attempt has come. Nothing happens where the document is gone.
pub async fn set_status(db: &Db, key: DocumentKey, status: DocumentStatus) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query(
                "UPDATE documents SET status = $3, error_code = NULL, error = NULL WHERE collection = $1 AND id = $2",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .bind(status.as_str())
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// The collections in which a scope has documents.
pub async fn collections_of_scope(db: &Db, scope: &str) -> Result<Vec<String>, StorageError> {
    Ok(sqlx::query_scalar("SELECT DISTINCT collection FROM documents WHERE scope = $1 ORDER BY collection")
        .bind(scope)
        .fetch_all(db.readers())
        .await?)
}
