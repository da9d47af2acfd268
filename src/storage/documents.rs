//! Documents: rows, versions, chunks. (What ingestion needs of them comes with it.)

use super::StorageError;
use super::db::Connection;

/// The next number of the one sequence that orders all changes to what a search can find.
pub(super) async fn next_seq(connection: &mut Connection) -> Result<i64, StorageError> {
    Ok(sqlx::query_scalar("UPDATE sequence SET value = value + 1 WHERE name = 'knowledge' RETURNING value")
        .fetch_one(connection)
        .await?)
}

/// Deletes every document of one scope, leaving tombstones of their points.
pub(super) async fn delete_scope(connection: &mut Connection, scope: &str) -> Result<(), StorageError> {
    let seq = next_seq(connection).await?;
    sqlx::query(
        "INSERT INTO tombstones (point_id, collection, document_id, version, seq) \
         SELECT c.point_id, c.collection, c.document_id, c.version, $2 FROM chunks c \
         JOIN documents d ON d.collection = c.collection AND d.id = c.document_id WHERE d.scope = $1",
    )
    .bind(scope)
    .bind(seq)
    .execute(&mut *connection)
    .await?;
    for statement in [
        "DELETE FROM chunks WHERE EXISTS (SELECT 1 FROM documents d WHERE d.collection = chunks.collection \
         AND d.id = chunks.document_id AND d.scope = $1)",
        "DELETE FROM versions WHERE EXISTS (SELECT 1 FROM documents d WHERE d.collection = versions.collection \
         AND d.id = versions.document_id AND d.scope = $1)",
        "DELETE FROM documents WHERE scope = $1",
    ] {
        sqlx::query(statement).bind(scope).execute(&mut *connection).await?;
    }
    Ok(())
}
