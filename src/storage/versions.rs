//! Versions of documents: the live one, and those before it that the collection keeps.
//! Invariant: a version's row is there from the commit in which it becomes live until it is buried; exactly the live
//! one has not been superseded, so at each time since the first at most one version of a document was live.

use super::chunks::{self, FinishedVersion, LiveChunk};
use super::column::{bigint, count, get, small, time};
use super::db::{Connection, Db, Driver, Row};
use super::documents::DocumentKey;
use super::{StorageError, tombstones};
use jiff::Timestamp;
use sqlx::QueryBuilder;
use std::ops::Range;
use uuid::Uuid;

/// A version without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInShort {
    pub version: i64,
    /// BLAKE3 of the bytes that were sent, in hex.
    pub hash: String,
    pub bytes: u64,
    pub chunks: u64,
    /// When it became live.
    pub created: Timestamp,
    /// When another took its place; `None`: it is live.
    pub superseded: Option<Timestamp>,
}

/// Versions of a document, the newest first.
pub async fn of_document(db: &Db, key: &DocumentKey) -> Result<Vec<VersionInShort>, StorageError> {
    let rows = sqlx::query(
        "SELECT version, hash, bytes, chunks, created_ms, superseded_ms FROM versions WHERE collection = $1 \
         AND document_id = $2 ORDER BY version DESC",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_all(db.readers())
    .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<VersionInShort, StorageError> {
    let superseded = match get::<Option<i64>>(row, "superseded_ms")? {
        None => None,
        Some(_) => Some(time(row, "superseded_ms")?),
    };
    Ok(VersionInShort {
        version: get(row, "version")?,
        hash: get(row, "hash")?,
        bytes: count(row, "bytes")?,
        chunks: count(row, "chunks")?,
        created: time(row, "created_ms")?,
        superseded,
    })
}

/// Numbers of the versions that are kept beside the live one.
pub async fn kept(db: &Db, key: &DocumentKey) -> Result<Vec<i64>, StorageError> {
    Ok(sqlx::query_scalar(
        "SELECT version FROM versions WHERE collection = $1 AND document_id = $2 AND superseded_ms IS NOT NULL \
         ORDER BY version",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_all(db.readers())
    .await?)
}

/// The text of one version.
pub async fn content(db: &Db, key: &DocumentKey, version: i64) -> Result<Option<String>, StorageError> {
    Ok(sqlx::query_scalar("SELECT content FROM versions WHERE collection = $1 AND document_id = $2 AND version = $3")
        .bind(&key.collection)
        .bind(&key.id)
        .bind(version)
        .fetch_optional(db.readers())
        .await?)
}

/// A piece of the text of one version, in bytes; `None` where that is gone, or has no such piece.
pub async fn span(db: &Db, key: &DocumentKey, version: i64, bytes: Range<u64>) -> Result<Option<String>, StorageError> {
    let piece: Option<Vec<u8>> = sqlx::query_scalar(
        "SELECT substr(CAST(content AS BLOB), $4, $5) FROM versions WHERE collection = $1 AND document_id = $2 \
         AND version = $3",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(version)
    .bind(bigint(bytes.start + 1))
    .bind(bigint(bytes.end - bytes.start))
    .fetch_optional(db.readers())
    .await?;
    Ok(piece.and_then(|piece| String::from_utf8(piece).ok()))
}

/// Of these points those that a search at `at` would have shown to everybody: of the version that was live then.
/// What a document is called now is what they are called. In no order.
pub async fn live_at(
    db: &Db,
    collection: &str,
    points: &[Uuid],
    at: Timestamp,
) -> Result<Vec<LiveChunk>, StorageError> {
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let at = at.as_millisecond();
    let mut sql = QueryBuilder::<Driver>::new(
        "SELECT c.point_id, c.chunk_id, c.document_id, c.version, c.ordinal, c.text, c.shown_prefix, c.heading_path, \
         c.start_byte, c.end_byte, c.page, c.first_line, c.last_line, c.embedding, d.title, d.uri, d.metadata \
         FROM chunks c JOIN versions v ON v.collection = c.collection AND v.document_id = c.document_id \
         AND v.version = c.version JOIN documents d ON d.collection = c.collection AND d.id = c.document_id \
         AND d.scope = 'collection' AND d.expires_at IS NULL JOIN collections k ON k.name = c.collection \
         AND k.generation = c.generation AND k.deleting = 0 WHERE c.collection = ",
    );
    sql.push_bind(collection).push(" AND v.created_ms <= ").push_bind(at);
    sql.push(" AND (v.superseded_ms IS NULL OR v.superseded_ms > ").push_bind(at).push(") AND c.point_id IN (");
    let mut list = sql.separated(", ");
    for point in points {
        list.push_bind(point.to_string());
    }
    sql.push(")");
    sql.build().fetch_all(db.readers()).await?.iter().map(chunks::read_live).collect()
}

/// Before a version becomes live: the one that was is kept for as long as the collection wants, older ones go. When
/// the new one counts as having begun, in milliseconds.
pub(super) async fn make_way(
    connection: &mut Connection,
    done: &FinishedVersion,
    seq: i64,
    now: i64,
) -> Result<i64, StorageError> {
    let key = &done.key;
    let row = sqlx::query(
        "SELECT k.keep_versions, v.version, v.created_ms FROM collections k LEFT JOIN documents d \
         ON d.collection = k.name AND d.id = $2 LEFT JOIN versions v ON v.collection = d.collection \
         AND v.document_id = d.id AND v.version = d.live_version WHERE k.name = $1",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_one(&mut *connection)
    .await?;
    let live: Option<i64> = get(&row, "version")?;
    // The same text: searches of the past find it through the build that is there.
    let began = get::<Option<i64>>(&row, "created_ms")?.filter(|_| done.rebuilt).unwrap_or(now);
    let keeps = if done.description.scope == "collection" { small(&row, "keep_versions")? } else { 1 };
    if let Some(live) = live.filter(|_| keeps > 1 && !done.rebuilt) {
        supersede(connection, key, live, seq, now).await?;
    }
    let mut stay: Vec<i64> = sqlx::query_scalar(
        "SELECT version FROM versions WHERE collection = $1 AND document_id = $2 AND superseded_ms IS NOT NULL \
         ORDER BY version DESC LIMIT $3",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(bigint(u64::from(keeps.saturating_sub(1))))
    .fetch_all(&mut *connection)
    .await?;
    stay.push(done.version);
    tombstones::bury_versions_except(connection, key, &stay, seq).await?;
    Ok(began)
}

/// Its points are to be written again: they are found by searches of the past only.
async fn supersede(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    seq: i64,
    now: i64,
) -> Result<(), StorageError> {
    for statement in [
        "UPDATE versions SET superseded_ms = $5, seq = $4 WHERE collection = $1 AND document_id = $2 AND version = $3",
        "UPDATE chunks SET seq = $4 WHERE collection = $1 AND document_id = $2 AND version = $3",
    ] {
        sqlx::query(statement)
            .bind(&key.collection)
            .bind(&key.id)
            .bind(version)
            .bind(seq)
            .bind(now)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
