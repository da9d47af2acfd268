//! `[ingest]`: how documents and tool results become chunks, and how long the latter are kept.

use super::extract::Extract;
use super::key::{Key, Rule};
use super::millis;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    pub tool_results: ToolResults,
    /// How long a turn waits for a tool result to become searchable.
    #[serde(rename = "wait_ms", deserialize_with = "millis")]
    pub wait: Duration,
    /// Days that a conversation's tool results are kept.
    pub keep_days: u32,
    pub max_document_bytes: usize,
    /// Of one uploaded file; the rest waits on disk until its turn.
    pub upload_memory_bytes: usize,
    /// In the embedding model's own tokens.
    pub chunk_tokens: usize,
    pub chunk_overlap_percent: usize,
    /// Folders that collections follow while the server runs.
    pub watch: Vec<WatchedFolder>,
    /// Documents that are worked on at the same time.
    pub parallel: usize,
    /// How often a document is begun before it is given up.
    pub max_attempts: u32,
    /// Days that a job is remembered after its end.
    pub keep_jobs_days: u32,
    /// Between two audits; zero: none.
    #[serde(rename = "audit_ms", deserialize_with = "millis")]
    pub audit: Duration,
    /// Of one host, by `tailrace ingest URL`.
    pub max_crawl_pages: usize,
    pub extract: Extract,
}

/// A folder, and the collection that follows it; written `FOLDER=COLLECTION`, or `FOLDER` for `default`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(from = "String")]
pub struct WatchedFolder {
    pub folder: PathBuf,
    pub collection: String,
}

impl From<String> for WatchedFolder {
    fn from(text: String) -> Self {
        let (folder, collection) = text.rsplit_once('=').unwrap_or((&text, "default"));
        Self { folder: folder.into(), collection: collection.to_owned() }
    }
}

fn is_watched_folder(text: &str) -> bool {
    let WatchedFolder { folder, collection } = text.to_owned().into();
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    folder.is_absolute() && (1..=63).contains(&collection.len()) && collection.chars().all(word)
}

/// Who may find what tools brought.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ToolResults {
    /// The conversation that fetched it.
    Conversation,
    Collection,
    /// It is not stored.
    Off,
}

pub(super) const KEYS: &[Key] = &[
    Key::word("ingest.tool_results", &["conversation", "collection", "off"]),
    Key::whole("ingest.wait_ms", 0, 600_000),
    Key::whole("ingest.keep_days", 1, 36_500),
    Key::whole("ingest.max_document_bytes", 1024, 1 << 31),
    Key::whole("ingest.upload_memory_bytes", 0, 1 << 31),
    Key::whole("ingest.chunk_tokens", 16, 8192),
    Key::whole("ingest.chunk_overlap_percent", 0, 50),
    Key::list("ingest.watch", Rule { works: "an absolute FOLDER=COLLECTION", accepts: is_watched_folder }),
    Key::whole("ingest.parallel", 1, 64),
    Key::whole("ingest.max_attempts", 1, 1000),
    Key::whole("ingest.keep_jobs_days", 1, 36_500),
    Key::whole("ingest.audit_ms", 0, 31_536_000_000),
    Key::whole("ingest.max_crawl_pages", 1, 1_000_000),
];
