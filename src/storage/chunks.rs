//! Chunks with their vectors: what a version is built of, what a hit is checked against, what the
//! vector store is rebuilt from.
//! Invariant: a version's chunks can be found from the commit in which it becomes live, all at once,
//! and those of the version before from that commit on no more.

use super::column::{self, bigint, count, get, json, now_ms, optional_count, small, uuid};
use super::db::{Connection, Db, Driver, Row};
use super::documents::{Description, DocumentKey};
use super::{StorageError, collections, jobs, versions};
use futures_util::FutureExt;
use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// BLAKE3 of what was embedded.
pub type EmbedHash = [u8; 32];

/// A chunk to be stored.
#[derive(Clone, Debug)]
pub struct NewChunk {
    pub point_id: Uuid,
    pub chunk_id: Uuid,
    pub ordinal: u32,
    /// The piece of the content between `start` and `end`, UTF-8 byte offsets.
    pub text: String,
    /// Shown before the text.
    pub shown_prefix: String,
    /// Embedded before the text.
    pub embed_prefix: String,
    /// Outermost first.
    pub heading_path: Vec<String>,
    pub start: u64,
    pub end: u64,
    pub page: Option<u32>,
    /// First and last, from 1; source code only.
    pub lines: Option<(u32, u32)>,
    /// Of prefix and text.
    pub embed_hash: EmbedHash,
    pub embedding: Vec<f32>,
}

/// A version whose points are all in the store, about to become live.
#[derive(Clone, Debug)]
pub struct FinishedVersion {
    pub key: DocumentKey,
    pub version: i64,
    /// The collection's build that its chunks belong to.
    pub generation: i64,
    pub description: Description,
    /// BLAKE3 of the bytes that were sent, in hex.
    pub hash: String,
    pub bytes: u64,
    pub mime: String,
    pub content: Arc<str>,
    pub notes: Vec<String>,
    /// Where each page begins in the content; empty for formats without pages.
    pub pages: Vec<u64>,
    /// Of all its chunks, those already stored included.
    pub chunks: u64,
    pub keyword_language: String,
    /// The same text cut and embedded again: it stands for the version before, of which nothing is kept.
    pub rebuilt: bool,
    /// Chunks that have not been stored yet.
    pub last: Vec<NewChunk>,
    /// The job that this ends.
    pub job: Option<Uuid>,
}

/// A chunk that a search may show, with its document's description.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveChunk {
    pub point_id: Uuid,
    pub chunk_id: Uuid,
    pub document_id: String,
    pub version: i64,
    pub ordinal: u32,
    pub title: String,
    pub uri: String,
    pub metadata: Map<String, Value>,
    /// The exact piece of the content.
    pub text: String,
    /// To be shown before it.
    pub shown_prefix: String,
    pub heading_path: Vec<String>,
    pub start: u64,
    pub end: u64,
    pub page: Option<u32>,
    pub lines: Option<(u32, u32)>,
    pub embedding: Vec<f32>,
}

/// Stores chunks of a version that is being built. Their points must be in the store already: that is
/// what makes `flushed_seq` true.
///
/// # Errors
/// [`StorageError::Conflict`] where that version is not being built any more.
pub async fn insert(
    db: &Db,
    key: DocumentKey,
    version: i64,
    generation: i64,
    chunks: Vec<NewChunk>,
) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            must_be_building(connection, &key, version, generation).await?;
            let seq = collections::next_seq(connection).await?;
            insert_rows(connection, &key, version, generation, &chunks, seq).await
        }
        .boxed()
    })
    .await
}

/// Makes the version live and buries the ones before it that are not to be kept. The sequence number of that commit.
///
/// # Errors
/// [`StorageError::NotFound`] where the collection, or the conversation whose scope it has, is gone;
/// [`StorageError::Conflict`] where that version is not being built any more.
pub async fn finish(db: &Db, done: FinishedVersion) -> Result<i64, StorageError> {
    db.write(move |connection| async move { finish_rows(connection, &done).await }.boxed()).await
}

async fn finish_rows(connection: &mut Connection, done: &FinishedVersion) -> Result<i64, StorageError> {
    let (key, about) = (&done.key, &done.description);
    collections::must_take_documents(connection, &key.collection).await?;
    must_be_building(connection, key, done.version, done.generation).await?;
    if about.scope != "collection" {
        let there: Option<i64> = sqlx::query_scalar("SELECT 1 FROM conversations WHERE id = $1")
            .bind(&about.scope)
            .fetch_optional(&mut *connection)
            .await?;
        there.ok_or_else(|| StorageError::NotFound { what: "conversation", id: about.scope.clone() })?;
    }
    let (seq, now) = (collections::next_seq(connection).await?, now_ms());
    let began = versions::make_way(connection, done, seq, now).await?;
    insert_rows(connection, key, done.version, done.generation, &done.last, seq).await?;
    sqlx::query(
        "INSERT INTO versions (collection, document_id, version, hash, bytes, mime, content, notes, chunks, \
         keyword_language, seq, created_ms, pages) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(done.version)
    .bind(&done.hash)
    .bind(bigint(done.bytes))
    .bind(&done.mime)
    .bind(Arc::clone(&done.content))
    .bind(column::to_json(&done.notes)?)
    .bind(bigint(done.chunks))
    .bind(&done.keyword_language)
    .bind(seq)
    .bind(began)
    .bind(column::to_json(&done.pages)?)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "UPDATE documents SET title = $3, uri = $4, metadata = $5, scope = $6, expires_at = $7, status = 'indexed', \
         error_code = NULL, error = NULL, live_version = $8, building = NULL, seq = $9, updated_ms = $10 \
         WHERE collection = $1 AND id = $2",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(&about.title)
    .bind(&about.uri)
    .bind(column::to_json(&about.metadata)?)
    .bind(&about.scope)
    .bind(about.expires_at)
    .bind(done.version)
    .bind(seq)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    if let Some(job) = done.job {
        jobs::indexed(connection, job, done.chunks).await?;
    }
    Ok(seq)
}

async fn must_be_building(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    generation: i64,
) -> Result<(), StorageError> {
    let building: Option<Option<i64>> = sqlx::query_scalar(
        "SELECT d.building FROM documents d JOIN collections k ON k.name = d.collection AND k.generation = $3 \
         WHERE d.collection = $1 AND d.id = $2",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(generation)
    .fetch_optional(connection)
    .await?;
    if building.flatten() == Some(version) {
        return Ok(());
    }
    Err(StorageError::Conflict(format!("document `{}` was deleted or replaced while it was being read", key.id)))
}

pub(super) async fn insert_rows(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    generation: i64,
    chunks: &[NewChunk],
    seq: i64,
) -> Result<(), StorageError> {
    for chunk in chunks {
        sqlx::query(
            "INSERT INTO chunks (point_id, chunk_id, collection, document_id, version, ordinal, text, \
             shown_prefix, heading_path, start_byte, end_byte, page, first_line, last_line, embed_prefix, embed_hash, \
             embedding, seq, generation) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
        )
        .bind(chunk.point_id.to_string())
        .bind(chunk.chunk_id.to_string())
        .bind(&key.collection)
        .bind(&key.id)
        .bind(version)
        .bind(i64::from(chunk.ordinal))
        .bind(&chunk.text)
        .bind(&chunk.shown_prefix)
        .bind(column::to_json(&chunk.heading_path)?)
        .bind(bigint(chunk.start))
        .bind(bigint(chunk.end))
        .bind(chunk.page.map(i64::from))
        .bind(chunk.lines.map(|(first, _)| i64::from(first)))
        .bind(chunk.lines.map(|(_, last)| i64::from(last)))
        .bind(&chunk.embed_prefix)
        .bind(chunk.embed_hash.as_slice())
        .bind(column::to_blob(&chunk.embedding))
        .bind(seq)
        .bind(generation)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Vectors that this build of the collection already has for these texts.
pub async fn embeddings(
    db: &Db,
    collection: &str,
    generation: i64,
    hashes: &[EmbedHash],
) -> Result<HashMap<EmbedHash, Vec<f32>>, StorageError> {
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = QueryBuilder::<Driver>::new("SELECT embed_hash, embedding FROM chunks WHERE collection = ");
    sql.push_bind(collection).push(" AND generation = ").push_bind(generation).push(" AND embed_hash IN (");
    let mut list = sql.separated(", ");
    for hash in hashes {
        list.push_bind(hash.as_slice());
    }
    sql.push(")");
    let rows = sql.build().fetch_all(db.readers()).await?;
    rows.iter().map(|row| Ok((column::hash(row, "embed_hash")?, column::vector(row, "embedding")?))).collect()
}

const LIVE: &str = "SELECT c.point_id, c.chunk_id, c.document_id, c.version, c.ordinal, c.text, c.shown_prefix, \
     c.heading_path, c.start_byte, c.end_byte, c.page, c.first_line, c.last_line, c.embedding, d.title, d.uri, d.metadata FROM chunks c JOIN documents d \
     ON d.collection = c.collection AND d.id = c.document_id AND d.live_version = c.version \
     JOIN collections k ON k.name = c.collection AND k.generation = c.generation AND k.deleting = 0 ";

/// Of these points those that may be shown: of a live version, not expired at `now` (Unix seconds),
/// in one of `scopes`. In no order.
pub async fn live(
    db: &Db,
    collection: &str,
    points: &[Uuid],
    scopes: &[String],
    now: i64,
) -> Result<Vec<LiveChunk>, StorageError> {
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = QueryBuilder::<Driver>::new(LIVE);
    sql.push("WHERE c.collection = ").push_bind(collection);
    sql.push(" AND (d.expires_at IS NULL OR d.expires_at > ").push_bind(now).push(") AND d.scope IN (");
    let mut list = sql.separated(", ");
    for scope in scopes {
        list.push_bind(scope);
    }
    sql.push(") AND c.point_id IN (");
    let mut list = sql.separated(", ");
    for point in points {
        list.push_bind(point.to_string());
    }
    sql.push(")");
    sql.build().fetch_all(db.readers()).await?.iter().map(read_live).collect()
}

/// Texts of chunks by id, as they are shown. Those that are gone are left out.
pub async fn texts(db: &Db, ids: &[Uuid]) -> Result<HashMap<Uuid, String>, StorageError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = QueryBuilder::<Driver>::new("SELECT chunk_id, shown_prefix, text FROM chunks WHERE chunk_id IN (");
    let mut list = sql.separated(", ");
    for id in ids {
        list.push_bind(id.to_string());
    }
    sql.push(")");
    let rows = sql.build().fetch_all(db.readers()).await?;
    let read = |row: &Row| {
        let (prefix, text): (String, String) = (get(row, "shown_prefix")?, get(row, "text")?);
        Ok((uuid(row, "chunk_id")?, prefix + &text))
    };
    rows.iter().map(read).collect()
}

/// The live chunks of one document with ordinals in `from..=to`, in order.
pub async fn of_document(db: &Db, key: &DocumentKey, from: u32, to: u32) -> Result<Vec<LiveChunk>, StorageError> {
    let mut sql = QueryBuilder::<Driver>::new(LIVE);
    sql.push("WHERE c.collection = ").push_bind(&key.collection);
    sql.push(" AND c.document_id = ").push_bind(&key.id);
    sql.push(" AND c.ordinal >= ").push_bind(i64::from(from));
    sql.push(" AND c.ordinal <= ").push_bind(i64::from(to)).push(" ORDER BY c.ordinal");
    sql.build().fetch_all(db.readers()).await?.iter().map(read_live).collect()
}

pub(super) fn read_live(row: &Row) -> Result<LiveChunk, StorageError> {
    let small_or_none = |name| match optional_count(row, name)? {
        None => Ok(None),
        Some(n) => u32::try_from(n).map(Some).map_err(|_| column::corrupt(name, "out of range")),
    };
    Ok(LiveChunk {
        point_id: uuid(row, "point_id")?,
        chunk_id: uuid(row, "chunk_id")?,
        document_id: get(row, "document_id")?,
        version: get(row, "version")?,
        ordinal: small(row, "ordinal")?,
        title: get(row, "title")?,
        uri: get(row, "uri")?,
        metadata: json(row, "metadata")?,
        text: get(row, "text")?,
        shown_prefix: get(row, "shown_prefix")?,
        heading_path: json(row, "heading_path")?,
        start: count(row, "start_byte")?,
        end: count(row, "end_byte")?,
        page: small_or_none("page")?,
        lines: small_or_none("first_line")?.zip(small_or_none("last_line")?),
        embedding: column::vector(row, "embedding")?,
    })
}
