//! `[ingest]`: how documents and tool results become chunks, and how long the latter are kept.

use super::key::Key;
use super::millis;
use serde::Deserialize;
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
    /// In the embedding model's own tokens.
    pub chunk_tokens: usize,
    pub chunk_overlap_percent: usize,
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
    Key::whole("ingest.chunk_tokens", 16, 8192),
    Key::whole("ingest.chunk_overlap_percent", 0, 50),
];
