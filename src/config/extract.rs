//! `[ingest.extract]`: what reading one document may cost. Documents come from anywhere, and some are made to harm.

use super::key::{Key, Rule};
use super::{filled, millis};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// What is started to read a document; `None`: this program itself.
    #[serde(deserialize_with = "filled")]
    pub program: Option<PathBuf>,
    /// Of the process that reads.
    pub max_memory_bytes: u64,
    #[serde(rename = "max_cpu_ms", deserialize_with = "millis")]
    pub max_cpu: Duration,
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Duration,
    /// All parts of a document, unpacked.
    pub max_inflated_bytes: u64,
    /// The same, in multiples of the document's size.
    pub max_inflate_ratio: u64,
    pub max_entries: usize,
    pub max_parts: usize,
    pub max_pages: usize,
    pub max_nesting: usize,
    pub max_text_bytes: usize,
}

pub(super) const KEYS: &[Key] = &[
    Key::text("ingest.extract.program", Rule::ANY),
    Key::whole("ingest.extract.max_memory_bytes", 64 << 20, 1 << 40),
    Key::whole("ingest.extract.max_cpu_ms", 1000, 3_600_000),
    Key::whole("ingest.extract.timeout_ms", 1000, 3_600_000),
    Key::whole("ingest.extract.max_inflated_bytes", 1 << 20, 1 << 40),
    Key::whole("ingest.extract.max_inflate_ratio", 1, 100_000),
    Key::whole("ingest.extract.max_entries", 1, 100_000),
    Key::whole("ingest.extract.max_parts", 10, 1_000_000),
    Key::whole("ingest.extract.max_pages", 1, 1_000_000),
    Key::whole("ingest.extract.max_nesting", 1, 16),
    Key::whole("ingest.extract.max_text_bytes", 1024, 1 << 31),
];
