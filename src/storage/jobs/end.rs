//! How far jobs come, and how they end: indexed, failed, cancelled; tried again; forgotten.
//! Invariant: a job ends once for each time that it is begun, and the bytes of an indexed one are gone.

use super::super::StorageError;
use super::super::column::{bigint, get, now_ms, uuid};
use super::super::db::{Connection, Db};
use super::super::documents::DocumentKey;
use super::JobStatus;
use futures_util::FutureExt;
use uuid::Uuid;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Chunks.
    Indexed(u64),
    Failed {
        stage: JobStatus,
        code: &'static str,
        why: String,
    },
    Cancelled {
        /// `None`: it had not begun.
        stage: Option<JobStatus>,
        code: &'static str,
        why: String,
    },
}

/// Whether a job can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    Yes,
    /// It runs, waits, or was done.
    NotFailed,
    /// The document was sent again since.
    Superseded,
    /// What was sent is not kept any more.
    ContentGone,
    Unknown,
}

/// How far it has come.
pub async fn progress(db: &Db, id: Uuid, status: JobStatus, done: u64, total: u64) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query(
                "UPDATE jobs SET status = $2, stage = $2, done = $3, total = $4, updated_ms = $5 \
                 WHERE id = $1 AND lease_ms IS NOT NULL",
            )
            .bind(id.to_string())
            .bind(status.as_str())
            .bind(bigint(done))
            .bind(bigint(total))
            .bind(now_ms())
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// The job is done; what was sent is not needed any more.
pub(in super::super) async fn indexed(connection: &mut Connection, id: Uuid, chunks: u64) -> Result<(), StorageError> {
    sqlx::query("DELETE FROM job_contents WHERE job_id = $1").bind(id.to_string()).execute(&mut *connection).await?;
    sqlx::query(
        "UPDATE jobs SET status = 'indexed', stage = 'indexed', done = $2, total = $2, lease_ms = NULL, \
         error_code = NULL, error = NULL, updated_ms = $3, ended_ms = $3 WHERE id = $1",
    )
    .bind(id.to_string())
    .bind(bigint(chunks))
    .bind(now_ms())
    .execute(connection)
    .await?;
    Ok(())
}

/// Nothing happens to one that has ended already.
pub async fn end(db: &Db, id: Uuid, how: End) -> Result<(), StorageError> {
    db.write(move |connection| async move { end_row(connection, id, how).await }.boxed()).await
}

pub(super) async fn end_row(connection: &mut Connection, id: Uuid, how: End) -> Result<(), StorageError> {
    let (status, stage, code, why) = match how {
        End::Indexed(chunks) => return indexed(connection, id, chunks).await,
        End::Failed { stage, code, why } => (JobStatus::Failed, Some(stage), code, why),
        End::Cancelled { stage, code, why } => (JobStatus::Cancelled, stage, code, why),
    };
    let done = sqlx::query(
        "UPDATE jobs SET status = $2, stage = COALESCE($3, stage), error_code = $4, error = $5, lease_ms = NULL, \
         updated_ms = $6, ended_ms = $6 WHERE id = $1 AND ended_ms IS NULL",
    )
    .bind(id.to_string())
    .bind(status.as_str())
    .bind(stage.map(JobStatus::as_str))
    .bind(code)
    .bind(&why)
    .bind(now_ms())
    .execute(&mut *connection)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(());
    }
    document_not_built(connection, id, status, code, &why).await
}

/// A document that still waits for a job that has ended without touching it: it has failed; one of which a version is
/// live is as it was if the job was cancelled.
async fn document_not_built(
    connection: &mut Connection,
    job: Uuid,
    how: JobStatus,
    code: &'static str,
    why: &str,
) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE documents SET status = CASE WHEN live_version IS NOT NULL AND $2 = 'cancelled' THEN 'indexed' \
         ELSE 'failed' END, error_code = CASE WHEN live_version IS NOT NULL AND $2 = 'cancelled' THEN NULL ELSE $3 END, \
         error = CASE WHEN live_version IS NOT NULL AND $2 = 'cancelled' THEN NULL ELSE $4 END \
         WHERE status = 'queued' AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = $1 \
         AND j.collection = documents.collection AND j.document_id = documents.id) AND NOT EXISTS \
         (SELECT 1 FROM jobs o WHERE o.collection = documents.collection AND o.document_id = documents.id \
         AND o.ended_ms IS NULL)",
    )
    .bind(job.to_string())
    .bind(how.as_str())
    .bind(code)
    .bind(why)
    .execute(connection)
    .await?;
    Ok(())
}

/// Back to those that wait, until then at least: what failed may work later.
pub async fn requeue(db: &Db, id: Uuid, not_before: i64, code: &'static str, why: String) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query(
                "UPDATE jobs SET status = 'queued', stage = 'queued', lease_ms = NULL, not_before_ms = $2, \
                 error_code = $3, error = $4, updated_ms = $5 WHERE id = $1 AND ended_ms IS NULL",
            )
            .bind(id.to_string())
            .bind(not_before)
            .bind(code)
            .bind(why)
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            document_waits(connection, id).await
        }
        .boxed()
    })
    .await
}

async fn document_waits(connection: &mut Connection, id: Uuid) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE documents SET status = 'queued', error_code = NULL, error = NULL WHERE EXISTS (SELECT 1 FROM jobs j \
         WHERE j.id = $1 AND j.collection = documents.collection AND j.document_id = documents.id)",
    )
    .bind(id.to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// Cancels one that has not begun; `false`: there is no such job that waits. Its document is as it was: what was
/// live stays so, else it has failed.
pub async fn cancel_queued(db: &Db, id: Uuid) -> Result<bool, StorageError> {
    const WHY: &str = "it was cancelled before it was read";
    db.write(move |connection| {
        async move {
            let done = sqlx::query(
                "UPDATE jobs SET status = 'cancelled', error_code = 'cancelled', error = $2, updated_ms = $3, \
                 ended_ms = $3 WHERE id = $1 AND status = 'queued'",
            )
            .bind(id.to_string())
            .bind(WHY)
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            if done.rows_affected() == 0 {
                return Ok(false);
            }
            document_not_built(connection, id, JobStatus::Cancelled, "cancelled", WHY).await?;
            Ok(true)
        }
        .boxed()
    })
    .await
}

/// Lets a job that failed or was cancelled wait for its turn again.
pub async fn retry(db: &Db, id: Uuid) -> Result<Retried, StorageError> {
    db.write(move |connection| {
        async move {
            let row = sqlx::query(
                "SELECT j.status, (SELECT COUNT(*) FROM job_contents b WHERE b.job_id = j.id) AS kept, \
                 (SELECT COUNT(*) FROM jobs o WHERE o.collection = j.collection AND o.document_id = j.document_id \
                 AND o.id > j.id) AS newer FROM jobs j WHERE j.id = $1",
            )
            .bind(id.to_string())
            .fetch_optional(&mut *connection)
            .await?;
            let Some(row) = row else { return Ok(Retried::Unknown) };
            let status: &str = get(&row, "status")?;
            if !matches!(JobStatus::of_word(status), Some(JobStatus::Failed | JobStatus::Cancelled)) {
                return Ok(Retried::NotFailed);
            }
            if get::<i64>(&row, "newer")? > 0 {
                return Ok(Retried::Superseded);
            }
            if get::<i64>(&row, "kept")? == 0 {
                return Ok(Retried::ContentGone);
            }
            sqlx::query(
                "UPDATE jobs SET status = 'queued', stage = 'queued', done = 0, total = 0, error_code = NULL, \
                 error = NULL, not_before_ms = 0, waited = 0, updated_ms = $2, ended_ms = NULL WHERE id = $1",
            )
            .bind(id.to_string())
            .bind(now_ms())
            .execute(&mut *connection)
            .await?;
            document_waits(connection, id).await?;
            Ok(Retried::Yes)
        }
        .boxed()
    })
    .await
}

/// The document is being deleted: what was sent of it goes too, and whoever asks after a job hears why. The jobs that
/// this has ended.
pub(in super::super) async fn forget_document(
    connection: &mut Connection,
    key: &DocumentKey,
) -> Result<Vec<Uuid>, StorageError> {
    sqlx::query(
        "DELETE FROM job_contents WHERE job_id IN (SELECT id FROM jobs WHERE collection = $1 AND document_id = $2)",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .execute(&mut *connection)
    .await?;
    let ended = sqlx::query(
        "UPDATE jobs SET status = 'cancelled', error_code = 'deleted', error = 'the document was deleted', \
         lease_ms = NULL, updated_ms = $3, ended_ms = $3 WHERE collection = $1 AND document_id = $2 \
         AND ended_ms IS NULL RETURNING id",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .bind(now_ms())
    .fetch_all(connection)
    .await?;
    ended.iter().map(|row| uuid(row, "id")).collect()
}

/// Forgets jobs that ended before then. How many there were.
pub async fn prune(db: &Db, before: i64) -> Result<u64, StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("DELETE FROM job_contents WHERE job_id IN (SELECT id FROM jobs WHERE ended_ms < $1)")
                .bind(before)
                .execute(&mut *connection)
                .await?;
            let done = sqlx::query("DELETE FROM jobs WHERE ended_ms < $1").bind(before).execute(connection).await?;
            Ok(done.rows_affected())
        }
        .boxed()
    })
    .await
}
