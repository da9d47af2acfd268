//! Keys that the operator gave out, as hashes.

use super::StorageError;
use super::column::{self, get, time, uuid};
use super::db::{Db, Row};
use futures_util::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

/// A key without itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    pub id: Uuid,
    pub name: String,
    /// SHA-256 in hexadecimal.
    pub hash: String,
    pub scopes: Vec<String>,
    /// `None`: all.
    pub collections: Option<Vec<String>>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

pub async fn insert(db: &Db, key: StoredKey) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query(
                "INSERT INTO api_keys (id, name, hash, scopes, collections, created_ms, expires_ms) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(key.id.to_string())
            .bind(&key.name)
            .bind(&key.hash)
            .bind(column::to_json(&key.scopes)?)
            .bind(key.collections.as_ref().map(column::to_json).transpose()?)
            .bind(key.created.as_millisecond())
            .bind(key.expires.map(Timestamp::as_millisecond))
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// `false`: there is no such key.
pub async fn delete(db: &Db, id: Uuid) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let done =
                sqlx::query("DELETE FROM api_keys WHERE id = $1").bind(id.to_string()).execute(connection).await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// The oldest first.
pub async fn all(db: &Db) -> Result<Vec<StoredKey>, StorageError> {
    let rows = sqlx::query("SELECT * FROM api_keys ORDER BY created_ms, id").fetch_all(db.readers()).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<StoredKey, StorageError> {
    let expires = get::<Option<i64>>(row, "expires_ms")?.map(|_| time(row, "expires_ms")).transpose()?;
    Ok(StoredKey {
        id: uuid(row, "id")?,
        name: get(row, "name")?,
        hash: get(row, "hash")?,
        scopes: column::json(row, "scopes")?,
        collections: column::optional_json(row, "collections")?,
        created: time(row, "created_ms")?,
        expires,
    })
}
