//! What the vector store should hold: the points of live and kept versions in the build that answers, read in pages.
//! Invariant: whatever is newer than a collection's `flushed_seq` comes up in the pages after it.

use super::column::{self, get, json, uuid};
use super::db::{Connection, Db, Driver, Row};
use super::documents::{Description, DocumentKey};
use super::generations::Build;
use super::{StorageError, collections};
use futures_util::FutureExt;
use sqlx::{AssertSqlSafe, QueryBuilder};
use std::collections::HashSet;
use uuid::Uuid;

/// What a point is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPoint {
    pub point_id: Uuid,
    pub chunk_id: Uuid,
    pub document_id: String,
    pub version: i64,
    pub description: Description,
    pub embed_text: String,
    pub embedding: Vec<f32>,
    pub seq: i64,
}

/// Where a page of points ended; the default is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointCursor {
    pub seq: i64,
    pub point_id: Option<Uuid>,
}

impl StoredPoint {
    /// The cursor after this point.
    pub fn cursor(&self) -> PointCursor {
        PointCursor { seq: self.seq, point_id: Some(self.point_id) }
    }
}

const SELECT: &str = "SELECT c.point_id, c.chunk_id, c.document_id, c.version, c.embed_prefix, c.text, \
     c.embedding, c.seq, d.title, d.uri, d.metadata, CASE WHEN v.superseded_ms IS NULL THEN d.scope ELSE 'kept' END \
     AS scope, d.expires_at FROM chunks c JOIN documents d ON d.collection = c.collection AND d.id = c.document_id \
     JOIN versions v ON v.collection = c.collection AND v.document_id = c.document_id AND v.version = c.version \
     JOIN collections k ON k.name = c.collection AND k.generation = c.generation WHERE c.collection = $1 ";

fn read(row: &Row) -> Result<StoredPoint, StorageError> {
    Ok(StoredPoint {
        point_id: uuid(row, "point_id")?,
        chunk_id: uuid(row, "chunk_id")?,
        document_id: get(row, "document_id")?,
        version: get(row, "version")?,
        description: Description {
            title: get(row, "title")?,
            uri: get(row, "uri")?,
            metadata: json(row, "metadata")?,
            scope: get(row, "scope")?,
            expires_at: get(row, "expires_at")?,
        },
        embed_text: format!("{}{}", get::<&str>(row, "embed_prefix")?, get::<&str>(row, "text")?),
        embedding: column::vector(row, "embedding")?,
        seq: get(row, "seq")?,
    })
}

/// Points after the cursor, by sequence.
pub async fn page(db: &Db, collection: &str, after: PointCursor, limit: u32) -> Result<Vec<StoredPoint>, StorageError> {
    let sql =
        format!("{SELECT} AND (c.seq > $2 OR (c.seq = $2 AND c.point_id > $3)) ORDER BY c.seq, c.point_id LIMIT $4");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(collection)
        .bind(after.seq)
        // Without an id all of that sequence number has been seen: a text after every id.
        .bind(after.point_id.map_or_else(|| "g".to_owned(), |id| id.to_string()))
        .bind(i64::from(limit))
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(read).collect()
}

/// Points of one finished version, by ordinal, at most `limit` from `from` on.
pub async fn of_version(
    db: &Db,
    key: &DocumentKey,
    version: i64,
    from: u32,
    limit: u32,
) -> Result<Vec<StoredPoint>, StorageError> {
    let sql =
        format!("{SELECT} AND c.document_id = $2 AND c.version = $3 AND c.ordinal >= $4 ORDER BY c.ordinal LIMIT $5");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(&key.collection)
        .bind(&key.id)
        .bind(version)
        .bind(i64::from(from))
        .bind(i64::from(limit))
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(read).collect()
}

/// Points with these ids.
pub async fn with_ids(db: &Db, collection: &str, ids: &[Uuid]) -> Result<Vec<StoredPoint>, StorageError> {
    select_ids(db, SELECT, collection, ids).await
}

/// Points with these ids in a build that does not answer.
pub(super) async fn with_ids_of_build(db: &Db, build: &Build, ids: &[Uuid]) -> Result<Vec<StoredPoint>, StorageError> {
    let of_build = format!("c.generation = {}", build.generation);
    select_ids(db, &SELECT.replace("k.generation = c.generation", &of_build), &build.collection, ids).await
}

async fn select_ids(db: &Db, select: &str, collection: &str, ids: &[Uuid]) -> Result<Vec<StoredPoint>, StorageError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = QueryBuilder::<Driver>::new(select.trim_end_matches("c.collection = $1 "));
    sql.push(" c.collection = ").push_bind(collection).push(" AND c.point_id IN (");
    let mut list = sql.separated(", ");
    for id in ids {
        list.push_bind(id.to_string());
    }
    sql.push(")");
    sql.build().fetch_all(db.readers()).await?.iter().map(read).collect()
}

/// Of these points those that no row knows, whether its version is live, kept or being built.
pub async fn without_rows(db: &Db, ids: &[Uuid]) -> Result<Vec<Uuid>, StorageError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = QueryBuilder::<Driver>::new("SELECT point_id FROM chunks WHERE point_id IN (");
    let mut list = sql.separated(", ");
    for id in ids {
        list.push_bind(id.to_string());
    }
    sql.push(")");
    let rows = sql.build().fetch_all(db.readers()).await?;
    let known = rows.iter().map(|row| uuid(row, "point_id")).collect::<Result<HashSet<_>, _>>()?;
    Ok(ids.iter().filter(|id| !known.contains(*id)).copied().collect())
}

/// Ids of all points of a collection, in no order.
pub async fn ids(db: &Db, collection: &str) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query(
        "SELECT c.point_id FROM chunks c JOIN versions v ON v.collection = c.collection \
         AND v.document_id = c.document_id AND v.version = c.version JOIN collections k ON k.name = c.collection \
         AND k.generation = c.generation WHERE c.collection = $1",
    )
    .bind(collection)
    .fetch_all(db.readers())
    .await?;
    rows.iter().map(|row| uuid(row, "point_id")).collect()
}

/// Whether anything changed in the collection after its `flushed_seq`.
pub async fn unflushed(db: &Db, collection: &str) -> Result<bool, StorageError> {
    let n: i64 = sqlx::query_scalar(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM chunks c JOIN collections k ON k.name = c.collection \
         AND k.generation = c.generation \
         WHERE c.collection = $1 AND c.seq > k.flushed_seq LIMIT 1) u) + \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tombstones WHERE collection = $1 LIMIT 1) t)",
    )
    .bind(collection)
    .fetch_one(db.readers())
    .await?;
    Ok(n > 0)
}

/// Documents whose points were written for another keyword language than the collection's.
pub async fn behind(db: &Db, collection: &str, limit: u32) -> Result<Vec<DocumentKey>, StorageError> {
    let rows = sqlx::query(
        "SELECT v.collection, v.document_id FROM versions v JOIN collections k ON k.name = v.collection \
         AND k.keyword_language <> v.keyword_language JOIN documents d ON d.collection = v.collection \
         AND d.id = v.document_id AND d.live_version = v.version WHERE v.collection = $1 \
         ORDER BY v.document_id LIMIT $2",
    )
    .bind(collection)
    .bind(i64::from(limit))
    .fetch_all(db.readers())
    .await?;
    rows.iter()
        .map(|row| Ok(DocumentKey { collection: get(row, "collection")?, id: get(row, "document_id")? }))
        .collect()
}

/// The points of the document's live version have been written again, with this description and for
/// this keyword language: notes both, and that the points are newer than any flush.
///
/// # Errors
/// [`StorageError::Conflict`] where another version is live by now.
pub async fn rewritten(
    db: &Db,
    key: DocumentKey,
    version: i64,
    description: Description,
    keyword_language: String,
) -> Result<i64, StorageError> {
    db.write(move |connection| {
        async move {
            let seq = collections::next_seq(connection).await?;
            let done = sqlx::query(
                "UPDATE documents SET title = $4, uri = $5, metadata = $6, scope = $7, expires_at = $8, seq = $9 \
                 WHERE collection = $1 AND id = $2 AND live_version = $3",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .bind(version)
            .bind(&description.title)
            .bind(&description.uri)
            .bind(column::to_json(&description.metadata)?)
            .bind(&description.scope)
            .bind(description.expires_at)
            .bind(seq)
            .execute(&mut *connection)
            .await?;
            if done.rows_affected() == 0 {
                return Err(StorageError::Conflict(format!("document `{}` has changed meanwhile", key.id)));
            }
            touch(connection, &key, version, &keyword_language, seq).await?;
            Ok(seq)
        }
        .boxed()
    })
    .await
}

async fn touch(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    keyword_language: &str,
    seq: i64,
) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE versions SET keyword_language = $4, seq = $5 \
         WHERE collection = $1 AND document_id = $2 AND version = $3",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(version)
    .bind(keyword_language)
    .bind(seq)
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE chunks SET seq = $4 WHERE collection = $1 AND document_id = $2 AND version = $3")
        .bind(&key.collection)
        .bind(&key.id)
        .bind(version)
        .bind(seq)
        .execute(connection)
        .await?;
    Ok(())
}

/// Points that the collection should have.
pub async fn count(db: &Db, collection: &str) -> Result<u64, StorageError> {
    let n: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM chunks c JOIN versions v ON v.collection = c.collection \
         AND v.document_id = c.document_id AND v.version = c.version JOIN collections k ON k.name = c.collection \
         AND k.generation = c.generation WHERE c.collection = $1",
    )
    .bind(collection)
    .fetch_one(db.readers())
    .await?;
    u64::try_from(n).map_err(|_| column::corrupt("count", "negative"))
}
