//! Re-indexing as a job: a row for each collection that is built anew, moved on by the rows of the build itself.
//! Invariant: one is open exactly while a build of its collection is being made; nobody claims it, for it does not wait.

use super::super::StorageError;
use super::super::column::{bigint, now_ms, to_json, uuid};
use super::super::db::{Connection, Db};
use super::{JobRequest, JobStatus};
use uuid::Uuid;

/// The collection's build has begun; `owner`: the API key that asked for it.
pub(in super::super) async fn begun(
    connection: &mut Connection,
    collection: &str,
    owner: Option<&str>,
) -> Result<(), StorageError> {
    ended(connection, collection, JobStatus::Cancelled, Some(("replaced", "another re-index was asked for"))).await?;
    let request = JobRequest { uri: collection.to_owned(), ..JobRequest::default() };
    sqlx::query(
        "INSERT INTO jobs (id, kind, collection, owner, request, status, stage, attempts, created_ms, updated_ms) \
         VALUES ($1, 'reindex', $2, $3, $4, 'embedding', 'embedding', 1, $5, $5)",
    )
    .bind(Uuid::now_v7().to_string())
    .bind(collection)
    .bind(owner)
    .bind(to_json(&request)?)
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// How far it has come, in versions of documents.
pub(in super::super) async fn at(
    connection: &mut Connection,
    collection: &str,
    done: u64,
    total: u64,
) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE jobs SET done = $2, total = $3, error_code = NULL, error = NULL, updated_ms = $4 \
         WHERE kind = 'reindex' AND collection = $1 AND ended_ms IS NULL",
    )
    .bind(collection)
    .bind(bigint(done))
    .bind(bigint(total))
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// One version more. What is built twice because it changed counts once.
pub(in super::super) async fn one_more(connection: &mut Connection, collection: &str) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE jobs SET done = CASE WHEN done < total THEN done + 1 ELSE done END, updated_ms = $2 \
         WHERE kind = 'reindex' AND collection = $1 AND ended_ms IS NULL",
    )
    .bind(collection)
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// It stopped and will be tried again.
pub(in super::super) async fn stopped(
    connection: &mut Connection,
    collection: &str,
    why: Option<&str>,
) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE jobs SET error_code = $2, error = $3, attempts = attempts + CASE WHEN $3 IS NULL THEN 0 ELSE 1 END, \
         updated_ms = $4 WHERE kind = 'reindex' AND collection = $1 AND ended_ms IS NULL",
    )
    .bind(collection)
    .bind(why.map(|_| "reindex_stopped"))
    .bind(why)
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

pub(in super::super) async fn ended(
    connection: &mut Connection,
    collection: &str,
    status: JobStatus,
    error: Option<(&str, &str)>,
) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE jobs SET status = $2, stage = CASE WHEN $2 = 'indexed' THEN $2 ELSE stage END, \
         done = CASE WHEN $2 = 'indexed' THEN total ELSE done END, error_code = $3, error = $4, updated_ms = $5, \
         ended_ms = $5 WHERE kind = 'reindex' AND collection = $1 AND ended_ms IS NULL",
    )
    .bind(collection)
    .bind(status.as_str())
    .bind(error.map(|(code, _)| code))
    .bind(error.map(|(_, why)| why))
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// The open one of a collection.
pub async fn open(db: &Db, collection: &str) -> Result<Option<Uuid>, StorageError> {
    let row = sqlx::query("SELECT id FROM jobs WHERE kind = 'reindex' AND collection = $1 AND ended_ms IS NULL")
        .bind(collection)
        .fetch_optional(db.readers())
        .await?;
    row.map(|row| uuid(&row, "id")).transpose()
}
