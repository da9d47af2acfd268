//! What a build aside has of each version that can be found, and what it lacks.
//! Invariant: a row of `rebuilt` says that all chunks of that version, as it was at `seq`, are stored and their points
//! are in the build's part of the store.

use super::chunks::{self, NewChunk};
use super::column::{bigint, count, get};
use super::db::{Connection, Db};
use super::documents::{Description, DocumentKey};
use super::generations::Build;
use super::jobs::reindex;
use super::points::{self, StoredPoint};
use super::{StorageError, collections, column};
use futures_util::FutureExt;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

/// A version that a build lacks, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Behind {
    pub key: DocumentKey,
    pub version: i64,
    /// `versions.seq`: grows when the version's points change.
    pub seq: i64,
    pub description: Description,
    pub content: String,
    /// Where each page begins in the content.
    pub pages: Vec<u64>,
}

/// What a build has of a version once its last chunks are stored.
#[derive(Clone, Debug)]
pub struct FinishedRebuild {
    pub key: DocumentKey,
    pub version: i64,
    pub seq: i64,
    pub chunks: u64,
    pub keyword_language: String,
    /// Chunks that have not been stored yet.
    pub last: Vec<NewChunk>,
}

pub(super) const LACKS: &str = "FROM versions v LEFT JOIN rebuilt r ON r.collection = v.collection AND r.generation = $2 \
     AND r.document_id = v.document_id AND r.version = v.version WHERE v.collection = $1 \
     AND (r.seq IS NULL OR r.seq <> v.seq)";

/// Versions that the build lacks or has as they were: their number, and of how many.
pub async fn lacking(db: &Db, build: &Build) -> Result<(u64, u64), StorageError> {
    let row = sqlx::query(AssertSqlSafe(format!(
        "SELECT (SELECT COUNT(*) {LACKS}) AS lacking, (SELECT COUNT(*) FROM versions WHERE collection = $1) AS versions"
    )))
    .bind(&build.collection)
    .bind(build.generation)
    .fetch_one(db.readers())
    .await?;
    Ok((count(&row, "lacking")?, count(&row, "versions")?))
}

/// The next version after this one, in the order of ids, that the build lacks; empty: from the first.
pub async fn next_behind(db: &Db, build: &Build, after: &(String, i64)) -> Result<Option<Behind>, StorageError> {
    let next = format!(
        "SELECT v.document_id, v.version {LACKS} AND (v.document_id, v.version) > ($3, $4) \
         ORDER BY v.document_id, v.version LIMIT 1"
    );
    let row = sqlx::query(AssertSqlSafe(next))
        .bind(&build.collection)
        .bind(build.generation)
        .bind(&after.0)
        .bind(after.1)
        .fetch_optional(db.readers())
        .await?;
    let Some(row) = row else { return Ok(None) };
    let (document, version): (String, i64) = (get(&row, "document_id")?, get(&row, "version")?);
    let row = sqlx::query(
        "SELECT v.seq, v.content, v.pages, d.title, d.uri, d.metadata, d.expires_at, CASE WHEN v.superseded_ms IS NULL \
         THEN d.scope ELSE 'kept' END AS scope FROM versions v JOIN documents d ON d.collection = v.collection \
         AND d.id = v.document_id WHERE v.collection = $1 AND v.document_id = $2 AND v.version = $3",
    )
    .bind(&build.collection)
    .bind(&document)
    .bind(version)
    .fetch_optional(db.readers())
    .await?;
    // Deleted since: whoever asks again hears of the next one.
    let row = row.ok_or_else(|| StorageError::Conflict(format!("document `{document}` has changed meanwhile")))?;
    Ok(Some(Behind {
        key: DocumentKey { collection: build.collection.clone(), id: document },
        version,
        seq: get(&row, "seq")?,
        description: Description {
            title: get(&row, "title")?,
            uri: get(&row, "uri")?,
            metadata: column::json(&row, "metadata")?,
            scope: get(&row, "scope")?,
            expires_at: get(&row, "expires_at")?,
        },
        content: get(&row, "content")?,
        pages: column::json(&row, "pages")?,
    }))
}

/// Takes away what the build has of a version.
pub async fn clear(db: &Db, build: &Build, key: DocumentKey, version: i64) -> Result<(), StorageError> {
    let generation = build.generation;
    db.write(move |connection| {
        async move {
            for statement in [
                "DELETE FROM chunks WHERE collection = $1 AND document_id = $2 AND version = $3 AND generation = $4",
                "DELETE FROM rebuilt WHERE collection = $1 AND document_id = $2 AND version = $3 AND generation = $4",
            ] {
                sqlx::query(statement)
                    .bind(&key.collection)
                    .bind(&key.id)
                    .bind(version)
                    .bind(generation)
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Stores some chunks of a version, whose points are in the build's part of the store.
///
/// # Errors
/// [`StorageError::Conflict`] where the version has changed or gone, or the build was given up.
pub async fn insert(
    db: &Db,
    build: &Build,
    behind: (DocumentKey, i64, i64),
    chunks: Vec<NewChunk>,
) -> Result<(), StorageError> {
    let generation = build.generation;
    db.write(move |connection| {
        async move {
            let (key, version, seq) = behind;
            must_be_as_it_was(connection, &key, version, seq, generation).await?;
            let seq = collections::next_seq(connection).await?;
            chunks::insert_rows(connection, &key, version, generation, &chunks, seq).await
        }
        .boxed()
    })
    .await
}

/// The build has this version in full.
///
/// # Errors
/// As [`insert`].
pub async fn finish(db: &Db, build: &Build, done: FinishedRebuild) -> Result<(), StorageError> {
    let generation = build.generation;
    db.write(move |connection| {
        async move {
            let key = &done.key;
            must_be_as_it_was(connection, key, done.version, done.seq, generation).await?;
            let seq = collections::next_seq(connection).await?;
            chunks::insert_rows(connection, key, done.version, generation, &done.last, seq).await?;
            sqlx::query(
                "INSERT INTO rebuilt (collection, generation, document_id, version, chunks, keyword_language, seq) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(&key.collection)
            .bind(generation)
            .bind(&key.id)
            .bind(done.version)
            .bind(bigint(done.chunks))
            .bind(&done.keyword_language)
            .bind(done.seq)
            .execute(&mut *connection)
            .await?;
            reindex::one_more(connection, &key.collection).await
        }
        .boxed()
    })
    .await
}

async fn must_be_as_it_was(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    seq: i64,
    generation: i64,
) -> Result<(), StorageError> {
    let there: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM versions v JOIN generations g ON g.collection = v.collection AND g.generation = $5 \
         AND g.state = 'building' WHERE v.collection = $1 AND v.document_id = $2 AND v.version = $3 AND v.seq = $4",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(version)
    .bind(seq)
    .bind(generation)
    .fetch_optional(connection)
    .await?;
    there.map(|_| ()).ok_or_else(|| StorageError::Conflict(format!("document `{}` has changed meanwhile", key.id)))
}

/// Ids of the build's points.
pub async fn ids(db: &Db, build: &Build) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query("SELECT point_id FROM chunks WHERE collection = $1 AND generation = $2")
        .bind(&build.collection)
        .bind(build.generation)
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| column::uuid(row, "point_id")).collect()
}

/// The build's points with these ids.
pub async fn with_ids(db: &Db, build: &Build, ids: &[Uuid]) -> Result<Vec<StoredPoint>, StorageError> {
    points::with_ids_of_build(db, build, ids).await
}
