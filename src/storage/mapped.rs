//! What a map of a collection is drawn from: its live chunks with their vectors, or a sample of them.

use super::StorageError;
use super::column::{self, count, get, uuid};
use super::db::Db;
use uuid::Uuid;

/// Which state of a collection a map shows: another one, another map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub generation: i64,
    /// The newest change of a document that is there, and how many chunks there are: less when one was deleted.
    pub seq: i64,
    pub chunks: u64,
}

/// A live chunk of the collection's own scope.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedChunk {
    pub chunk_id: Uuid,
    pub document_id: String,
    pub title: String,
    pub uri: String,
    /// Its beginning.
    pub text: String,
    pub embedding: Vec<f32>,
}

pub async fn state(db: &Db, collection: &str) -> Result<State, StorageError> {
    let row = sqlx::query(
        "SELECT k.generation, (SELECT COALESCE(MAX(d.seq), 0) FROM documents d WHERE d.collection = k.name \
         AND d.scope = 'collection') AS seq, (SELECT COALESCE(SUM(v.chunks), 0) FROM versions v JOIN documents d \
         ON d.collection = v.collection AND d.id = v.document_id AND d.live_version = v.version \
         WHERE d.collection = k.name AND d.scope = 'collection') AS chunks FROM collections k WHERE k.name = $1",
    )
    .bind(collection)
    .fetch_optional(db.readers())
    .await?;
    let missing = || StorageError::NotFound { what: "collection", id: collection.to_owned() };
    let row = row.ok_or_else(missing)?;
    Ok(State { generation: get(&row, "generation")?, seq: get(&row, "seq")?, chunks: count(&row, "chunks")? })
}

/// At most `limit` chunks, as if drawn by lot where there are more: point ids are hashes.
pub async fn sample(db: &Db, collection: &str, limit: u32) -> Result<Vec<MappedChunk>, StorageError> {
    let rows = sqlx::query(
        "SELECT c.chunk_id, c.document_id, SUBSTR(c.text, 1, 800) AS text, c.embedding, d.title, d.uri FROM chunks c \
         JOIN documents d ON d.collection = c.collection AND d.id = c.document_id AND d.live_version = c.version \
         AND d.scope = 'collection' JOIN collections k ON k.name = c.collection AND k.generation = c.generation \
         WHERE c.collection = $1 ORDER BY c.point_id LIMIT $2",
    )
    .bind(collection)
    .bind(i64::from(limit))
    .fetch_all(db.readers())
    .await?;
    rows.iter()
        .map(|row| {
            Ok(MappedChunk {
                chunk_id: uuid(row, "chunk_id")?,
                document_id: get(row, "document_id")?,
                title: get(row, "title")?,
                uri: get(row, "uri")?,
                text: get(row, "text")?,
                embedding: column::vector(row, "embedding")?,
            })
        })
        .collect()
}
