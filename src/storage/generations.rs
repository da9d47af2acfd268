//! Builds of a collection beside the one that answers: one that is being made, those that are being taken away.
//! Invariants: the build that answers is `collections.generation` and changes in one commit, only when the new one has
//! every version that can be found, as it is now; rows of other builds are seen by nobody but this file's callers.

use super::column::{bigint, count, get, now_ms};
use super::db::{Connection, Db, Row};
use super::jobs::{JobStatus, reindex};
use super::rebuilt::LACKS;
use super::{StorageError, collections};
use futures_util::FutureExt;
use sqlx::AssertSqlSafe;

/// A build that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub collection: String,
    pub generation: i64,
    pub embedding_model: String,
    pub dimension: u64,
    /// It is being taken away; else it is being made.
    pub leaving: bool,
    /// Why the last try to make it stopped.
    pub error: Option<String>,
}

fn read(row: &Row) -> Result<Build, StorageError> {
    Ok(Build {
        collection: get(row, "collection")?,
        generation: get(row, "generation")?,
        embedding_model: get(row, "embedding_model")?,
        dimension: count(row, "dimension")?,
        leaving: get::<&str>(row, "state")? == "leaving",
        error: get(row, "error")?,
    })
}

const SELECT: &str = "SELECT collection, generation, embedding_model, dimension, state, error FROM generations ";

/// All, by collection and number.
pub async fn list(db: &Db) -> Result<Vec<Build>, StorageError> {
    let all = format!("{SELECT} ORDER BY collection, generation");
    sqlx::query(AssertSqlSafe(all)).fetch_all(db.readers()).await?.iter().map(read).collect()
}

/// Those of one collection.
pub async fn of_collection(db: &Db, collection: &str) -> Result<Vec<Build>, StorageError> {
    let one = format!("{SELECT} WHERE collection = $1 ORDER BY generation");
    sqlx::query(AssertSqlSafe(one)).bind(collection).fetch_all(db.readers()).await?.iter().map(read).collect()
}

/// Begins a build. One that is being made with the same model goes on; with another it is given up.
///
/// # Errors
/// [`StorageError::NotFound`] where there is no such collection, or it is being deleted.
pub async fn begin(
    db: &Db,
    collection: String,
    model: String,
    dimension: u64,
    owner: Option<String>,
) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            collections::must_take_documents(connection, &collection).await?;
            sqlx::query(
                "UPDATE generations SET state = 'leaving' WHERE collection = $1 AND state = 'building' \
                 AND (embedding_model <> $2 OR dimension <> $3)",
            )
            .bind(&collection)
            .bind(&model)
            .bind(bigint(dimension))
            .execute(&mut *connection)
            .await?;
            let made = sqlx::query(
                "INSERT INTO generations (collection, generation, embedding_model, dimension, state, created_ms) \
                 SELECT k.name, 1 + (SELECT MAX(n) FROM (SELECT k.generation AS n UNION ALL SELECT g.generation \
                 FROM generations g WHERE g.collection = k.name) u), $2, $3, 'building', $4 FROM collections k \
                 WHERE k.name = $1 AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.collection = k.name \
                 AND g.state = 'building')",
            )
            .bind(&collection)
            .bind(&model)
            .bind(bigint(dimension))
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            if made.rows_affected() > 0 {
                reindex::begun(connection, &collection, owner.as_deref()).await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Why the build stopped, or that it goes on.
pub async fn set_error(db: &Db, build: &Build, error: Option<String>) -> Result<(), StorageError> {
    let (collection, generation) = (build.collection.clone(), build.generation);
    db.write(move |connection| {
        async move {
            sqlx::query("UPDATE generations SET error = $3 WHERE collection = $1 AND generation = $2")
                .bind(&collection)
                .bind(generation)
                .bind(&error)
                .execute(&mut *connection)
                .await?;
            reindex::stopped(connection, &collection, error.as_deref()).await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Makes the build the one that answers, if it lacks nothing; the one before leaves. `flushed_seq`: rows up to it are
/// safe in the store. `false`: something is lacking, or the build was given up.
pub async fn switch(db: &Db, build: &Build, flushed_seq: i64) -> Result<bool, StorageError> {
    let build = build.clone();
    db.write(move |connection| async move { switch_rows(connection, &build, flushed_seq).await }.boxed()).await
}

async fn switch_rows(connection: &mut Connection, build: &Build, flushed_seq: i64) -> Result<bool, StorageError> {
    let (name, generation) = (&build.collection, build.generation);
    let ready: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT COUNT(*) FROM generations g JOIN collections k ON k.name = g.collection AND k.deleting = 0 \
         WHERE g.collection = $1 AND g.generation = $2 AND g.state = 'building' AND NOT EXISTS (SELECT 1 {LACKS})"
    )))
    .bind(name)
    .bind(generation)
    .fetch_one(&mut *connection)
    .await?;
    if ready == 0 {
        return Ok(false);
    }
    reindex::ended(connection, name, JobStatus::Indexed, None).await?;
    // What a client is told changes too: a search that began before looks again.
    collections::next_seq(connection).await?;
    for statement in [
        "UPDATE versions SET chunks = (SELECT r.chunks FROM rebuilt r WHERE r.collection = $1 AND r.generation = $2 \
         AND r.document_id = versions.document_id AND r.version = versions.version), keyword_language = (SELECT \
         r.keyword_language FROM rebuilt r WHERE r.collection = $1 AND r.generation = $2 \
         AND r.document_id = versions.document_id AND r.version = versions.version) WHERE collection = $1",
        "INSERT INTO generations (collection, generation, embedding_model, dimension, state, created_ms) \
         SELECT name, generation, embedding_model, dimension, 'leaving', created_ms FROM collections WHERE name = $1",
        "UPDATE collections SET generation = $2, embedding_model = $3, dimension = $4, flushed_seq = $5 \
         WHERE name = $1",
        "DELETE FROM generations WHERE collection = $1 AND generation = $2",
        "DELETE FROM rebuilt WHERE collection = $1 AND generation = $2",
    ] {
        sqlx::query(statement)
            .bind(name)
            .bind(generation)
            .bind(&build.embedding_model)
            .bind(bigint(build.dimension))
            .bind(flushed_seq)
            .execute(&mut *connection)
            .await?;
    }
    Ok(true)
}

/// Notes how much of the build there is, for whoever looks at its job.
pub async fn set_progress(db: &Db, build: &Build, done: u64, total: u64) -> Result<(), StorageError> {
    let collection = build.collection.clone();
    db.write(move |connection| async move { reindex::at(connection, &collection, done, total).await }.boxed()).await
}

/// Gives up the build that is being made of a collection. `false`: there is none.
pub async fn give_up(db: &Db, collection: String) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let given_up = "UPDATE generations SET state = 'leaving' WHERE collection = $1 AND state = 'building'";
            let done = sqlx::query(given_up).bind(&collection).execute(&mut *connection).await?;
            let why = ("cancelled", "it was cancelled; the old build answers");
            reindex::ended(connection, &collection, JobStatus::Cancelled, Some(why)).await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// Takes some rows of a leaving build away; `true`: there are more.
pub async fn thin_out(db: &Db, build: &Build, limit: u32) -> Result<bool, StorageError> {
    let (collection, generation) = (build.collection.clone(), build.generation);
    db.write(move |connection| {
        async move {
            let done = sqlx::query(
                "DELETE FROM chunks WHERE point_id IN (SELECT point_id FROM chunks WHERE collection = $1 \
                 AND generation = $2 LIMIT $3)",
            )
            .bind(collection)
            .bind(generation)
            .bind(i64::from(limit))
            .execute(connection)
            .await?;
            Ok(done.rows_affected() == u64::from(limit))
        }
        .boxed()
    })
    .await
}

/// The last step of a leaving build's end.
pub async fn forget(db: &Db, build: &Build) -> Result<(), StorageError> {
    let (collection, generation) = (build.collection.clone(), build.generation);
    db.write(move |connection| {
        async move {
            for statement in [
                "DELETE FROM rebuilt WHERE collection = $1 AND generation = $2",
                "DELETE FROM generations WHERE collection = $1 AND generation = $2 AND state = 'leaving'",
            ] {
                sqlx::query(statement).bind(&collection).bind(generation).execute(&mut *connection).await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}
