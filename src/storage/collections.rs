//! Collections: what each records of its model and language, how far its points are safe, its end.
//! Invariant: a collection that is being deleted takes no documents and is not listed.

use super::StorageError;
use super::column::{bigint, count, get, now_ms, small, time};
use super::db::{Connection, Db, Row};
use futures_util::FutureExt;
use jiff::Timestamp;
use sqlx::AssertSqlSafe;

/// A named knowledge base.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    pub name: String,
    pub embedding_model: String,
    /// Numbers in a vector.
    pub dimension: u64,
    /// As asked for: a language, `multilingual` or `auto`.
    pub language: String,
    /// What points and queries are written with now; empty until the first document decides.
    pub keyword_language: String,
    /// Documents there were when the language was last looked at.
    pub language_seen: u64,
    /// Rows up to this sequence are safe in the store.
    pub flushed_seq: i64,
    pub deleting: bool,
    /// Versions of a document that are kept, the live one included.
    pub keep_versions: u32,
    /// Which build of the collection answers.
    pub generation: i64,
    pub created: Timestamp,
    /// Documents of the collection's scope that can be found.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
}

/// A collection to be made.
#[derive(Clone, Debug)]
pub struct NewCollection {
    pub name: String,
    pub embedding_model: String,
    pub dimension: u64,
    pub language: String,
    pub keyword_language: String,
    pub keep_versions: u32,
}

const COLUMNS: &str = "c.name, c.embedding_model, c.dimension, c.language, c.keyword_language, \
     c.language_seen, c.flushed_seq, c.deleting, c.keep_versions, c.generation, c.created_ms, \
     (SELECT COUNT(*) FROM documents d WHERE d.collection = c.name AND d.scope = 'collection' \
     AND d.live_version IS NOT NULL) AS documents, \
     (SELECT COALESCE(SUM(v.chunks), 0) FROM versions v JOIN documents d ON d.collection = v.collection \
     AND d.id = v.document_id AND d.live_version = v.version WHERE d.collection = c.name \
     AND d.scope = 'collection') AS chunks";

/// Makes the row; `false`: it was there, and is as it was.
///
/// # Errors
/// [`StorageError::Conflict`] while a collection of that name is being deleted.
pub async fn create(db: &Db, new: NewCollection) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let deleting: Option<i64> = sqlx::query_scalar("SELECT deleting FROM collections WHERE name = $1")
                .bind(&new.name)
                .fetch_optional(&mut *connection)
                .await?;
            match deleting {
                Some(0) => return Ok(false),
                Some(_) => {
                    let message = format!("collection `{}` is being deleted: try again in a moment", new.name);
                    return Err(StorageError::Conflict(message));
                }
                None => {}
            }
            sqlx::query(
                "INSERT INTO collections (name, embedding_model, dimension, language, keyword_language, keep_versions, \
                 created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(new.name)
            .bind(new.embedding_model)
            .bind(bigint(new.dimension))
            .bind(new.language)
            .bind(new.keyword_language)
            .bind(i64::from(new.keep_versions))
            .bind(now_ms())
            .execute(connection)
            .await?;
            Ok(true)
        }
        .boxed()
    })
    .await
}

/// Also one that is being deleted.
pub async fn find(db: &Db, name: &str) -> Result<Option<Collection>, StorageError> {
    let row = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM collections c WHERE c.name = $1")))
        .bind(name)
        .fetch_optional(db.readers())
        .await?;
    row.as_ref().map(read).transpose()
}

/// All, by name; also those that are being deleted.
pub async fn list(db: &Db) -> Result<Vec<Collection>, StorageError> {
    let rows = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM collections c ORDER BY c.name")))
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Collection, StorageError> {
    Ok(Collection {
        name: get(row, "name")?,
        embedding_model: get(row, "embedding_model")?,
        dimension: count(row, "dimension")?,
        language: get(row, "language")?,
        keyword_language: get(row, "keyword_language")?,
        language_seen: count(row, "language_seen")?,
        flushed_seq: get(row, "flushed_seq")?,
        deleting: get::<i64>(row, "deleting")? != 0,
        keep_versions: small(row, "keep_versions")?,
        generation: get(row, "generation")?,
        created: time(row, "created_ms")?,
        documents: count(row, "documents")?,
        chunks: count(row, "chunks")?,
    })
}

/// From now on nothing is found in it and nothing goes in. `false`: there is none.
pub async fn mark_deleting(db: &Db, name: String) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let done = sqlx::query("UPDATE collections SET deleting = 1 WHERE name = $1")
                .bind(name)
                .execute(connection)
                .await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// The last step of a delete, once the store has dropped its part. Only of one marked before.
pub async fn delete_rows(db: &Db, name: String) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            for statement in [
                "DELETE FROM chunks WHERE collection = $1",
                "DELETE FROM rebuilt WHERE collection = $1",
                "DELETE FROM generations WHERE collection = $1",
                "DELETE FROM versions WHERE collection = $1",
                "DELETE FROM job_contents WHERE job_id IN (SELECT id FROM jobs WHERE collection = $1)",
                "DELETE FROM jobs WHERE collection = $1",
                "DELETE FROM tombstones WHERE collection = $1",
                "DELETE FROM documents WHERE collection = $1",
                "DELETE FROM collections WHERE name = $1 AND deleting = 1",
            ] {
                sqlx::query(statement).bind(&name).execute(&mut *connection).await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Notes that rows up to `seq` are safe in the store. It never goes back by this.
pub async fn set_flushed(db: &Db, name: String, seq: i64) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("UPDATE collections SET flushed_seq = $2 WHERE name = $1 AND flushed_seq < $2")
                .bind(name)
                .bind(seq)
                .execute(connection)
                .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Nothing of the collection is known to be in the store any more: all of it will be replayed.
pub async fn reset_flushed(db: &Db, name: String) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("UPDATE collections SET flushed_seq = 0 WHERE name = $1")
                .bind(name)
                .execute(connection)
                .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Decides the keyword language of a collection that has none yet. The one that holds, which may be
/// somebody else's choice of the same moment.
///
/// # Errors
/// [`StorageError::NotFound`] where there is no such collection.
pub async fn decide_language(db: &Db, name: String, language: String) -> Result<String, StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("UPDATE collections SET keyword_language = $2 WHERE name = $1 AND keyword_language = ''")
                .bind(&name)
                .bind(language)
                .execute(&mut *connection)
                .await?;
            sqlx::query_scalar("SELECT keyword_language FROM collections WHERE name = $1")
                .bind(&name)
                .fetch_optional(connection)
                .await?
                .ok_or(StorageError::NotFound { what: "collection", id: name })
        }
        .boxed()
    })
    .await
}

/// From now on new points and queries are written with `language`, which was found with `seen`
/// documents; old points follow version by version (`versions.keyword_language` says which are left).
pub async fn set_language(db: &Db, name: String, language: String, seen: u64) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("UPDATE collections SET keyword_language = $2, language_seen = $3 WHERE name = $1")
                .bind(name)
                .bind(language)
                .bind(bigint(seen))
                .execute(connection)
                .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Beginnings of some of the collection's chunks, as if drawn by lot: point ids are hashes.
pub async fn sample_texts(db: &Db, name: &str, limit: u32) -> Result<Vec<String>, StorageError> {
    Ok(sqlx::query_scalar(
        "SELECT SUBSTR(c.text, 1, 1000) FROM chunks c JOIN documents d ON d.collection = c.collection \
         AND d.id = c.document_id AND d.live_version = c.version AND d.scope = 'collection' \
         JOIN collections k ON k.name = c.collection AND k.generation = c.generation \
         WHERE c.collection = $1 ORDER BY c.point_id LIMIT $2",
    )
    .bind(name)
    .bind(i64::from(limit))
    .fetch_all(db.readers())
    .await?)
}

/// Gives a collection without chunks to another model. `false`: it has some, or there is none.
pub async fn change_model(db: &Db, name: String, model: String, dimension: u64) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let done = sqlx::query(
                "UPDATE collections SET embedding_model = $2, dimension = $3 WHERE name = $1 \
                 AND NOT EXISTS (SELECT 1 FROM chunks WHERE collection = $1)",
            )
            .bind(name)
            .bind(model)
            .bind(bigint(dimension))
            .execute(connection)
            .await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// The newest number of the sequence: every change up to it has been committed.
pub async fn watermark(db: &Db) -> Result<i64, StorageError> {
    Ok(sqlx::query_scalar("SELECT value FROM sequence WHERE name = 'knowledge'").fetch_one(db.readers()).await?)
}

/// The next number of the one sequence that orders all changes to what a search can find.
pub(super) async fn next_seq(connection: &mut Connection) -> Result<i64, StorageError> {
    Ok(sqlx::query_scalar("UPDATE sequence SET value = value + 1 WHERE name = 'knowledge' RETURNING value")
        .fetch_one(connection)
        .await?)
}

/// # Errors
/// [`StorageError::NotFound`] where there is no such collection, or it is being deleted.
pub(super) async fn must_take_documents(connection: &mut Connection, name: &str) -> Result<(), StorageError> {
    let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM collections WHERE name = $1 AND deleting = 0")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    found.map(|_| ()).ok_or_else(|| StorageError::NotFound { what: "collection", id: name.to_owned() })
}
