//! How jobs come in, are begun and kept.
//! Invariant: of one document at most one job is worked on at a time, and an older one before a newer one.

use super::super::column::{get, now_ms, to_json, uuid};
use super::super::db::Db;
use super::super::documents::{self, Description, DocumentKey, DocumentStatus};
use super::super::{StorageError, collections};
use super::end::{End, end_row};
use super::{COLUMNS, Job, JobRequest, read};
use bytes::Bytes;
use futures_util::FutureExt;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

/// A document to be accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: Uuid,
    pub key: DocumentKey,
    pub owner: Option<String>,
    pub request: JobRequest,
    pub bytes: Bytes,
    /// Somebody waits for its end.
    pub waited: bool,
    /// It could be begun at once, with a lease until then.
    pub begin: Option<i64>,
}

/// A job that its caller now works on.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub job: Job,
    pub key: DocumentKey,
}

/// What became of the jobs that nobody works on any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// They wait now, as others that waited already.
    pub queued: u64,
    /// They were begun too often.
    pub failed: u64,
}

/// Accepts a document: its row says `queued`, its bytes are kept. `true`: it has been begun.
///
/// # Errors
/// [`StorageError::NotFound`] where there is no such collection, or it is being deleted.
pub async fn accept(db: &Db, new: NewJob) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let (key, request, now) = (&new.key, &new.request, now_ms());
            collections::must_take_documents(connection, &key.collection).await?;
            let description = Description {
                title: request.title.clone().unwrap_or_else(|| request.uri.clone()),
                uri: request.uri.clone(),
                metadata: request.metadata.clone(),
                scope: "collection".to_owned(),
                expires_at: None,
            };
            documents::upsert(connection, key, &description, DocumentStatus::Queued, None).await?;
            // A newer upload of the same document makes one pointless that has not begun and nobody waits for.
            sqlx::query(
                "DELETE FROM job_contents WHERE job_id IN (SELECT id FROM jobs WHERE collection = $1 \
                 AND document_id = $2 AND status = 'queued' AND waited = 0)",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .execute(&mut *connection)
            .await?;
            sqlx::query(
                "UPDATE jobs SET status = 'cancelled', error_code = 'superseded', \
                 error = 'the same document was sent again before its turn came', updated_ms = $3, ended_ms = $3 \
                 WHERE collection = $1 AND document_id = $2 AND status = 'queued' AND waited = 0",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .bind(now)
            .execute(&mut *connection)
            .await?;
            let others: i64 = sqlx::query_scalar(
                "SELECT COUNT(*) FROM jobs WHERE collection = $1 AND document_id = $2 AND ended_ms IS NULL",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .fetch_one(&mut *connection)
            .await?;
            let lease = new.begin.filter(|_| others == 0);
            sqlx::query(
                "INSERT INTO jobs (id, kind, collection, document_id, owner, request, status, stage, waited, lease_ms, \
                 attempts, created_ms, updated_ms) VALUES ($1, 'ingest', $2, $3, $4, $5, $6, $6, $7, $8, $9, $10, $10)",
            )
            .bind(new.id.to_string())
            .bind(&key.collection)
            .bind(&key.id)
            .bind(&new.owner)
            .bind(to_json(request)?)
            .bind(if lease.is_some() { "extracting" } else { "queued" })
            .bind(i64::from(new.waited))
            .bind(lease)
            .bind(i64::from(lease.is_some()))
            .bind(now)
            .execute(&mut *connection)
            .await?;
            sqlx::query("INSERT INTO job_contents (job_id, bytes) VALUES ($1, $2)")
                .bind(new.id.to_string())
                .bind(&new.bytes[..])
                .execute(connection)
                .await?;
            Ok(lease.is_some())
        }
        .boxed()
    })
    .await
}

/// Notes a job that has ended as it began: there was nothing to do.
pub async fn record(db: &Db, new: NewJob, how: End) -> Result<(), StorageError> {
    let id = new.id;
    db.write(move |connection| {
        async move {
            sqlx::query(
                "INSERT INTO jobs (id, kind, collection, document_id, owner, request, status, stage, created_ms, \
                 updated_ms) VALUES ($1, 'ingest', $2, $3, $4, $5, 'queued', 'queued', $6, $6)",
            )
            .bind(new.id.to_string())
            .bind(&new.key.collection)
            .bind(&new.key.id)
            .bind(&new.owner)
            .bind(to_json(&new.request)?)
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            end_row(connection, id, how).await
        }
        .boxed()
    })
    .await
}

/// Begins up to `limit` jobs: those first that somebody waits for, then the oldest.
pub async fn claim(db: &Db, limit: usize, lease: i64) -> Result<Vec<Claimed>, StorageError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut begun: Vec<Claimed> = db
        .write(move |connection| {
            async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE jobs SET status = 'extracting', stage = 'extracting', attempts = attempts + 1, \
                     lease_ms = $2, updated_ms = $3, done = 0, total = 0, error_code = NULL, error = NULL \
                     WHERE id IN (SELECT j.id FROM jobs j WHERE j.status = 'queued' AND j.not_before_ms <= $3 \
                     AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.collection = j.collection \
                     AND o.document_id = j.document_id AND o.ended_ms IS NULL \
                     AND (o.id < j.id OR (o.lease_ms IS NOT NULL AND o.id > j.id))) \
                     ORDER BY j.waited DESC, j.id LIMIT $1) RETURNING {COLUMNS}"
                )))
                .bind(limit)
                .bind(lease)
                .bind(now_ms())
                .fetch_all(connection)
                .await?;
                let jobs = rows.iter().map(read).collect::<Result<Vec<Job>, _>>()?;
                Ok(jobs.into_iter().filter_map(|job| Some(Claimed { key: job.key()?, job })).collect())
            }
            .boxed()
        })
        .await?;
    begun.sort_by_key(|claimed| claimed.job.id);
    Ok(begun)
}

/// When the next job that waits may be begun, in milliseconds since 1970.
pub async fn next_due(db: &Db) -> Result<Option<i64>, StorageError> {
    Ok(sqlx::query_scalar("SELECT MIN(not_before_ms) FROM jobs WHERE status = 'queued' AND not_before_ms > $1")
        .bind(now_ms())
        .fetch_one(db.readers())
        .await?)
}

/// What was sent with the job; `None`: it is not kept any more.
pub async fn content(db: &Db, id: Uuid) -> Result<Option<Bytes>, StorageError> {
    let row = sqlx::query("SELECT bytes FROM job_contents WHERE job_id = $1")
        .bind(id.to_string())
        .fetch_optional(db.readers())
        .await?;
    row.map(|row| Ok(Bytes::from(get::<Vec<u8>>(&row, "bytes")?))).transpose()
}

/// They are still being worked on.
pub async fn beat(db: &Db, ids: Vec<Uuid>, lease: i64) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            for id in ids {
                sqlx::query("UPDATE jobs SET lease_ms = $2 WHERE id = $1 AND lease_ms IS NOT NULL")
                    .bind(id.to_string())
                    .bind(lease)
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Gives back jobs whose lease ended before `now`: nobody works on them. Those that were begun `most` times have
/// failed: the process may be dying of them.
pub async fn release(db: &Db, now: i64, most: u32) -> Result<Released, StorageError> {
    db.write(move |connection| {
        async move {
            let rows = sqlx::query(
                "UPDATE jobs SET status = 'failed', lease_ms = NULL, updated_ms = $3, ended_ms = $3, \
                 error_code = 'interrupted', error = 'the server stopped each time while it was being read' \
                 WHERE lease_ms IS NOT NULL AND lease_ms < $1 AND attempts >= $2 RETURNING collection, document_id, id",
            )
            .bind(now)
            .bind(i64::from(most))
            .bind(now_ms())
            .fetch_all(&mut *connection)
            .await?;
            for row in &rows {
                sqlx::query(
                    "UPDATE documents SET status = 'failed', error_code = 'interrupted', building = NULL, \
                     error = 'the server stopped each time while it was being read' \
                     WHERE collection = $1 AND id = $2",
                )
                .bind(get::<&str>(row, "collection")?)
                .bind(get::<Option<&str>>(row, "document_id")?)
                .execute(&mut *connection)
                .await?;
                tracing::warn!(job.id = %uuid(row, "id")?, "a document that was begun too often is given up");
            }
            sqlx::query(
                "UPDATE jobs SET status = 'queued', stage = 'queued', done = 0, total = 0, lease_ms = NULL, waited = 0, \
                 updated_ms = $2 WHERE lease_ms IS NOT NULL AND lease_ms < $1",
            )
            .bind(now)
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            sqlx::query(
                "UPDATE documents SET status = 'queued', error_code = NULL, error = NULL WHERE status <> 'queued' AND EXISTS \
                 (SELECT 1 FROM jobs j WHERE j.collection = documents.collection AND j.document_id = documents.id \
                 AND j.status = 'queued' AND j.kind = 'ingest')",
            )
            .execute(&mut *connection)
            .await?;
            let queued: i64 =
                sqlx::query_scalar("SELECT COUNT(*) FROM jobs WHERE status = 'queued'").fetch_one(connection).await?;
            Ok(Released { queued: queued.unsigned_abs(), failed: rows.len() as u64 })
        }
        .boxed()
    })
    .await
}
