//! What must go, and the tombstones it leaves: a point that was once in the store is either a live
//! chunk's or has a tombstone, until the store has forgotten it.
//! Invariant: a tombstone's row goes only when its caller knows that the store forgot the point for good.

use super::column::{bigint, get, now_ms, uuid};
use super::db::{Connection, Db};
use super::documents::DocumentKey;
use super::{StorageError, collections, jobs};
use futures_util::FutureExt;
use uuid::Uuid;

/// An attempt has failed: its chunks go, `points` and theirs become tombstones, and the row says why
/// unless another attempt has begun since. A version that was live stays so, and so does this one if it has become
/// live: whoever gave the attempt up may not have heard of its last commit. With `restores`, a document with a
/// live version is then as it was before the attempt: that was only given up, or would have changed nothing.
pub async fn fail(
    db: &Db,
    key: DocumentKey,
    version: i64,
    points: Vec<Uuid>,
    (code, error): (&'static str, String),
    restores: bool,
) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            let live: Option<Option<i64>> =
                sqlx::query_scalar("SELECT live_version FROM documents WHERE collection = $1 AND id = $2")
                    .bind(&key.collection)
                    .bind(&key.id)
                    .fetch_optional(&mut *connection)
                    .await?;
            let live = live.flatten();
            if live == Some(version) {
                return Ok(());
            }
            let is_as_before = restores && live.is_some();
            let seq = collections::next_seq(connection).await?;
            bury_version(connection, &key, version, seq).await?;
            for point in points {
                // A collection that is gone has taken its points along.
                sqlx::query(
                    "INSERT INTO tombstones (point_id, collection, document_id, version, seq) \
                     SELECT $1, name, $3, $4, $5 FROM collections WHERE name = $2 AND deleting = 0 \
                     ON CONFLICT (point_id) DO NOTHING",
                )
                .bind(point.to_string())
                .bind(&key.collection)
                .bind(&key.id)
                .bind(version)
                .bind(seq)
                .execute(&mut *connection)
                .await?;
            }
            sqlx::query(
                "UPDATE documents SET status = CASE WHEN $7 THEN 'indexed' ELSE 'failed' END, \
                 error_code = CASE WHEN $7 THEN NULL ELSE $3 END, error = CASE WHEN $7 THEN NULL ELSE $4 END, \
                 building = NULL, updated_ms = $5 WHERE collection = $1 AND id = $2 AND building = $6",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .bind(code)
            .bind(error)
            .bind(now_ms())
            .bind(version)
            .bind(is_as_before)
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Tombstones for the points of one version, which then has no chunks any more.
async fn bury_version(
    connection: &mut Connection,
    key: &DocumentKey,
    version: i64,
    seq: i64,
) -> Result<(), StorageError> {
    for statement in [
        "INSERT INTO tombstones (point_id, collection, document_id, version, seq) SELECT point_id, collection, \
         document_id, version, $4 FROM chunks WHERE collection = $1 AND document_id = $2 AND version = $3 \
         ON CONFLICT (point_id) DO NOTHING",
        "DELETE FROM chunks WHERE collection = $1 AND document_id = $2 AND version = $3",
        "DELETE FROM rebuilt WHERE collection = $1 AND document_id = $2 AND version = $3",
        "DELETE FROM versions WHERE collection = $1 AND document_id = $2 AND version = $3",
    ] {
        sqlx::query(statement)
            .bind(&key.collection)
            .bind(&key.id)
            .bind(version)
            .bind(seq)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Buries every version but these.
pub(super) async fn bury_versions_except(
    connection: &mut Connection,
    key: &DocumentKey,
    kept: &[i64],
    seq: i64,
) -> Result<(), StorageError> {
    let versions: Vec<i64> = sqlx::query_scalar(
        "SELECT version FROM versions WHERE collection = $1 AND document_id = $2 UNION \
         SELECT version FROM chunks WHERE collection = $1 AND document_id = $2",
    )
    .bind(&key.collection)
    .bind(&key.id)
    .fetch_all(&mut *connection)
    .await?;
    for version in versions.into_iter().filter(|version| !kept.contains(version)) {
        bury_version(connection, key, version, seq).await?;
    }
    Ok(())
}

/// What was deleted of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Points that could be found, kept versions included.
    pub points: u64,
    /// Jobs that this has ended.
    pub jobs: Vec<Uuid>,
}

/// Deletes the document with its rows and texts, leaving tombstones of its points; `None`: there is none.
pub async fn delete(db: &Db, key: DocumentKey) -> Result<Option<Gone>, StorageError> {
    db.write(move |connection| {
        async move {
            let live: Option<i64> = sqlx::query_scalar(
                "SELECT COUNT(c.point_id) FROM documents d JOIN collections k ON k.name = d.collection \
                 LEFT JOIN chunks c ON c.collection = d.collection AND c.document_id = d.id \
                 AND c.generation = k.generation AND EXISTS (SELECT 1 FROM versions v WHERE \
                 v.collection = c.collection AND v.document_id = c.document_id AND v.version = c.version) \
                 WHERE d.collection = $1 AND d.id = $2 GROUP BY d.id",
            )
            .bind(&key.collection)
            .bind(&key.id)
            .fetch_optional(&mut *connection)
            .await?;
            let seq = collections::next_seq(connection).await?;
            let jobs = delete_rows(connection, &key, seq).await?;
            Ok(live.map(|n| Gone { points: u64::try_from(n).unwrap_or_default(), jobs }))
        }
        .boxed()
    })
    .await
}

/// The jobs that this has ended.
async fn delete_rows(connection: &mut Connection, key: &DocumentKey, seq: i64) -> Result<Vec<Uuid>, StorageError> {
    bury_versions_except(connection, key, &[], seq).await?;
    let ended = jobs::forget_document(connection, key).await?;
    sqlx::query("DELETE FROM documents WHERE collection = $1 AND id = $2")
        .bind(&key.collection)
        .bind(&key.id)
        .execute(connection)
        .await?;
    Ok(ended)
}

/// Deletes every document of one scope, leaving tombstones of their points.
pub(super) async fn delete_scope(connection: &mut Connection, scope: &str) -> Result<(), StorageError> {
    let seq = collections::next_seq(connection).await?;
    let rows = sqlx::query("SELECT collection, id FROM documents WHERE scope = $1")
        .bind(scope)
        .fetch_all(&mut *connection)
        .await?;
    for row in rows {
        let key = DocumentKey { collection: get(&row, "collection")?, id: get(&row, "id")? };
        delete_rows(connection, &key, seq).await?;
    }
    Ok(())
}

/// Tombstones of a collection, oldest first: at most `limit` after the first `skip`.
pub async fn list(db: &Db, collection: &str, skip: u64, limit: u32) -> Result<Vec<Uuid>, StorageError> {
    let page = "SELECT point_id FROM tombstones WHERE collection = $1 ORDER BY seq, point_id LIMIT $2 OFFSET $3";
    let rows =
        sqlx::query(page).bind(collection).bind(i64::from(limit)).bind(bigint(skip)).fetch_all(db.readers()).await?;
    rows.iter().map(|row| uuid(row, "point_id")).collect()
}

/// Tombstones of one document.
pub async fn of_document(db: &Db, key: &DocumentKey) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query("SELECT point_id FROM tombstones WHERE collection = $1 AND document_id = $2")
        .bind(&key.collection)
        .bind(&key.id)
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| uuid(row, "point_id")).collect()
}

/// Drops the rows of these tombstones.
pub async fn clear(db: &Db, ids: Vec<Uuid>) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            for id in ids {
                sqlx::query("DELETE FROM tombstones WHERE point_id = $1")
                    .bind(id.to_string())
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}
