//! Documents that were accepted and wait to be read, with the bytes that were sent.
//! Invariant: an accepted document is either in here or has been dealt with; a crash loses none.

use super::column::{get, json, now_ms, to_json, uuid};
use super::db::Db;
use super::documents::{Description, DocumentKey, DocumentStatus};
use super::{StorageError, collections, documents};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// An accepted document.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    pub job_id: Uuid,
    pub key: DocumentKey,
    pub request: UploadRequest,
    pub bytes: Vec<u8>,
}

/// What the client said of it, as it was said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UploadRequest {
    pub title: Option<String>,
    pub uri: String,
    pub mime: Option<String>,
    /// BLAKE3 of the bytes, in hex.
    pub hash: String,
    pub metadata: Map<String, Value>,
}

/// Accepts a document: its row says `queued`, its bytes are kept.
///
/// # Errors
/// [`StorageError::NotFound`] where there is no such collection, or it is being deleted.
pub async fn accept(db: &Db, upload: Upload) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            let (key, request) = (&upload.key, &upload.request);
            collections::must_take_documents(connection, &key.collection).await?;
            let description = Description {
                title: request.title.clone().unwrap_or_else(|| request.uri.clone()),
                uri: request.uri.clone(),
                metadata: request.metadata.clone(),
                scope: "collection".to_owned(),
                expires_at: None,
            };
            documents::upsert(connection, key, &description, DocumentStatus::Queued, None).await?;
            // A newer upload of the same document makes the one before it pointless.
            sqlx::query("DELETE FROM uploads WHERE collection = $1 AND document_id = $2")
                .bind(&key.collection)
                .bind(&key.id)
                .execute(&mut *connection)
                .await?;
            sqlx::query(
                "INSERT INTO uploads (job_id, collection, document_id, request, bytes, created_ms) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(upload.job_id.to_string())
            .bind(&key.collection)
            .bind(&key.id)
            .bind(to_json(request)?)
            .bind(&upload.bytes)
            .bind(now_ms())
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Ids of what waits, oldest first.
pub async fn waiting(db: &Db, limit: u32) -> Result<Vec<Uuid>, StorageError> {
    let rows = sqlx::query("SELECT job_id FROM uploads ORDER BY created_ms, job_id LIMIT $1")
        .bind(i64::from(limit))
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| uuid(row, "job_id")).collect()
}

pub async fn find(db: &Db, job_id: Uuid) -> Result<Option<Upload>, StorageError> {
    let row = sqlx::query("SELECT job_id, collection, document_id, request, bytes FROM uploads WHERE job_id = $1")
        .bind(job_id.to_string())
        .fetch_optional(db.readers())
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Upload {
        job_id: uuid(&row, "job_id")?,
        key: DocumentKey { collection: get(&row, "collection")?, id: get(&row, "document_id")? },
        request: json(&row, "request")?,
        bytes: get(&row, "bytes")?,
    }))
}

/// It has been dealt with.
pub async fn remove(db: &Db, job_id: Uuid) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("DELETE FROM uploads WHERE job_id = $1").bind(job_id.to_string()).execute(connection).await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Whether the document waits.
pub async fn waits(db: &Db, key: &DocumentKey) -> Result<bool, StorageError> {
    let n: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM uploads WHERE collection = $1 AND document_id = $2")
        .bind(&key.collection)
        .bind(&key.id)
        .fetch_one(db.readers())
        .await?;
    Ok(n > 0)
}

/// Every document that waits.
pub async fn documents(db: &Db) -> Result<Vec<DocumentKey>, StorageError> {
    let rows = sqlx::query("SELECT collection, document_id FROM uploads ORDER BY created_ms, job_id")
        .fetch_all(db.readers())
        .await?;
    rows.iter()
        .map(|row| Ok(DocumentKey { collection: get(row, "collection")?, id: get(row, "document_id")? }))
        .collect()
}
