//! Rows that nothing leads to any more: found, and taken away.
//! Invariant: what is being built, is live or is kept is never taken for an orphan.

use super::StorageError;
use super::collections;
use super::column::now_ms;
use super::db::{Connection, Db};
use futures_util::FutureExt;
use sqlx::AssertSqlSafe;

/// How many rows of each kind nothing leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Of no document, or of a version that is neither there nor being built.
    pub chunks: u64,
    /// Of no document.
    pub versions: u64,
    /// What was sent with jobs that are done.
    pub contents: u64,
    /// Documents that say they are being worked on, and nobody does.
    pub stuck: u64,
}

impl Orphans {
    pub fn none(self) -> bool {
        self == Self::default()
    }
}

const CHUNKS: &str = "NOT EXISTS (SELECT 1 FROM documents d WHERE d.collection = chunks.collection \
     AND d.id = chunks.document_id AND (d.building = chunks.version OR d.live_version = chunks.version)) \
     AND NOT EXISTS (SELECT 1 FROM versions v JOIN documents d ON d.collection = v.collection AND d.id = v.document_id \
     WHERE v.collection = chunks.collection AND v.document_id = chunks.document_id AND v.version = chunks.version)";
const VERSIONS: &str = "NOT EXISTS (SELECT 1 FROM documents d WHERE d.collection = versions.collection \
     AND d.id = versions.document_id)";
const CONTENTS: &str = "NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = job_contents.job_id AND j.status <> 'indexed')";
const STUCK: &str = "status NOT IN ('indexed', 'failed') AND building IS NULL AND NOT EXISTS (SELECT 1 FROM jobs j \
     WHERE j.collection = documents.collection AND j.document_id = documents.id AND j.ended_ms IS NULL)";

/// Counts them.
pub async fn orphans(db: &Db) -> Result<Orphans, StorageError> {
    let count = async |table: &str, which: &str| {
        let n: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT COUNT(*) FROM {table} WHERE {which}")))
            .fetch_one(db.readers())
            .await?;
        Ok::<_, StorageError>(n.unsigned_abs())
    };
    Ok(Orphans {
        chunks: count("chunks", CHUNKS).await?,
        versions: count("versions", VERSIONS).await?,
        contents: count("job_contents", CONTENTS).await?,
        stuck: count("documents", STUCK).await?,
    })
}

/// Takes them away; points of such chunks become tombstones. How many there were.
pub async fn remove_orphans(db: &Db) -> Result<Orphans, StorageError> {
    db.write(|connection| {
        async move {
            let seq = collections::next_seq(connection).await?;
            sqlx::query(AssertSqlSafe(format!(
                "INSERT INTO tombstones (point_id, collection, document_id, version, seq) SELECT point_id, collection, \
                 document_id, version, $1 FROM chunks WHERE {CHUNKS} ON CONFLICT (point_id) DO NOTHING"
            )))
            .bind(seq)
            .execute(&mut *connection)
            .await?;
            let chunks = run(connection, format!("DELETE FROM chunks WHERE {CHUNKS}")).await?;
            let versions = run(connection, format!("DELETE FROM versions WHERE {VERSIONS}")).await?;
            let contents = run(connection, format!("DELETE FROM job_contents WHERE {CONTENTS}")).await?;
            let stuck = sqlx::query(AssertSqlSafe(format!(
                "UPDATE documents SET status = CASE WHEN live_version IS NULL THEN 'failed' ELSE 'indexed' END, \
                 error_code = CASE WHEN live_version IS NULL THEN 'interrupted' END, \
                 error = CASE WHEN live_version IS NULL THEN 'nobody works on it any more: send it again' END, \
                 updated_ms = $1 WHERE {STUCK}"
            )))
            .bind(now_ms())
            .execute(connection)
            .await?
            .rows_affected();
            Ok(Orphans { chunks, versions, contents, stuck })
        }
        .boxed()
    })
    .await
}

async fn run(connection: &mut Connection, statement: String) -> Result<u64, StorageError> {
    Ok(sqlx::query(AssertSqlSafe(statement)).execute(connection).await?.rows_affected())
}
