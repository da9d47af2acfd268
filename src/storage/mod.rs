//! SQL: the truth of everything that must outlive the process. One file per table family; no other
//! module names the database or its driver.
//! Invariant: when a write's future resolves with `Ok`, its rows have survived kill -9.

pub mod api_keys;
pub mod audit;
pub mod chunks;
pub mod collections;
mod column;
pub mod conversations;
mod db;
pub mod documents;
mod folder;
pub mod generations;
pub mod jobs;
pub mod mapped;
pub mod messages;
pub mod points;
pub mod rebuilt;
pub mod summaries;
pub mod tombstones;
pub mod turn_log;
pub mod turns;
pub mod versions;

pub use db::{Db, DbOptions};

use std::path::PathBuf;

/// Why a read or a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(
        "the data folder {} is in use by another Tailrace process: stop that one, or choose another \
         folder with `storage.data_dir`",
        .0.display()
    )]
    FolderInUse(PathBuf),
    #[error("cannot use the data folder {}: {cause}", .path.display())]
    Folder { path: PathBuf, cause: std::io::Error },
    #[error("cannot use the database address `{address}`: {why}")]
    Address { address: String, why: &'static str },
    #[error(
        "the database has schema version {found}, and this Tailrace knows versions up to {known}: it was \
         used by a newer Tailrace; start that one, or restore a backup made before"
    )]
    NewerVersion { found: i64, known: i64 },
    /// What was asked for is not there.
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// The rows are in a state in which this cannot be done; the message says which.
    #[error("{0}")]
    Conflict(String),
    /// A stored value cannot be read back.
    #[error("the database holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// The process is shutting down.
    #[error("the database is closed")]
    Closed,
    /// Another process holds it; it may work later. Nothing was stored.
    #[error("the database is busy: another process writes to it")]
    Busy,
    /// The statement, or the commit that held it, failed; nothing of it was stored.
    #[error("database: {0}")]
    Failed(String),
}

impl From<sqlx::Error> for StorageError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::Database(error) if error.code().is_some_and(|code| is_busy(&code)) => Self::Busy,
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Corrupt(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// SQLite's codes for a lock that somebody else holds, among them the extended ones.
fn is_busy(code: &str) -> bool {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    code.parse::<i32>().is_ok_and(|code| matches!(code & 0xff, BUSY | LOCKED))
}

impl From<sqlx::migrate::MigrateError> for StorageError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests;
