//! What reading one document may cost. The numbers are settings (`ingest.extract.*`); each error that one of
//! them causes names it.

use super::ExtractError;
use crate::config;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io::Read;
use std::time::Duration;

/// The settings of `[ingest.extract]`; the fields' defaults are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of the process that reads a document.
    pub max_memory_bytes: u64,
    /// Processor time of that process.
    pub max_cpu: Duration,
    /// Wall time of that process.
    pub timeout: Duration,
    /// What all parts of a document may unpack to.
    pub max_inflated_bytes: u64,
    /// The same in multiples of the document's size.
    pub max_inflate_ratio: u64,
    /// Documents in an archive, attachments of an e-mail, slides, sheets.
    pub max_entries: usize,
    /// Files that an office document or a book may consist of.
    pub max_parts: usize,
    /// Of a PDF.
    pub max_pages: usize,
    /// Archives and e-mails in one another.
    pub max_nesting: usize,
    pub max_text_bytes: usize,
}

/// Below this the ratio does not count: small XML files shrink a lot.
const ALWAYS_INFLATED: u64 = 4 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_memory_bytes: 512 << 20,
            max_cpu: Duration::from_secs(60),
            timeout: Duration::from_secs(120),
            max_inflated_bytes: 256 << 20,
            max_inflate_ratio: 100,
            max_entries: 1000,
            max_parts: 20_000,
            max_pages: 20_000,
            max_nesting: 3,
            max_text_bytes: 32 << 20,
        }
    }
}

impl Limits {
    pub fn from_config(section: &config::Extract) -> Self {
        Self {
            max_memory_bytes: section.max_memory_bytes,
            max_cpu: section.max_cpu,
            timeout: section.timeout,
            max_inflated_bytes: section.max_inflated_bytes,
            max_inflate_ratio: section.max_inflate_ratio,
            max_entries: section.max_entries,
            max_parts: section.max_parts,
            max_pages: section.max_pages,
            max_nesting: section.max_nesting,
            max_text_bytes: section.max_text_bytes,
        }
    }
}

/// What is left of the limits while one document is read.
pub(super) struct Budget {
    pub limits: Limits,
    inflated: Cell<u64>,
    most_inflated: u64,
    depth: Cell<usize>,
}

impl Budget {
    /// For a document of `bytes`.
    pub fn new(limits: Limits, bytes: usize) -> Self {
        let by_ratio = (bytes as u64).saturating_mul(limits.max_inflate_ratio).max(ALWAYS_INFLATED);
        Self {
            limits,
            inflated: Cell::new(0),
            most_inflated: by_ratio.min(limits.max_inflated_bytes),
            depth: Cell::new(0),
        }
    }

    /// Reads to the end of what a decompressor really yields: what an archive says of sizes does not count.
    pub fn inflate(&self, packed: impl Read) -> Result<Vec<u8>, ExtractError> {
        let left = self.most_inflated - self.inflated.get();
        let mut out = Vec::new();
        packed.take(left + 1).read_to_end(&mut out).map_err(unreadable)?;
        let taken = out.len() as u64;
        if taken > left {
            return Err(self.expands());
        }
        self.inflated.set(self.inflated.get() + taken);
        Ok(out)
    }

    fn expands(&self) -> ExtractError {
        let by_ratio = self.most_inflated < self.limits.max_inflated_bytes;
        let setting = if by_ratio { "max_inflate_ratio" } else { "max_inflated_bytes" };
        ExtractError::ExpandsTooFar(format!(
            "unpacked it is larger than {} bytes (`ingest.extract.{setting}`)",
            self.most_inflated
        ))
    }

    pub fn check_entries(&self, count: usize) -> Result<(), ExtractError> {
        too_many(count, self.limits.max_entries, "entries")
    }

    pub fn check_parts(&self, count: usize) -> Result<(), ExtractError> {
        too_many(count, self.limits.max_parts, "parts")
    }

    pub fn check_pages(&self, count: usize) -> Result<(), ExtractError> {
        too_many(count, self.limits.max_pages, "pages")
    }

    pub fn check_text(&self, bytes: usize) -> Result<(), ExtractError> {
        let most = self.limits.max_text_bytes;
        if bytes <= most {
            return Ok(());
        }
        Err(ExtractError::ExpandsTooFar(format!(
            "its text is longer than {most} bytes (`ingest.extract.max_text_bytes`)"
        )))
    }

    /// Reads a document in a document.
    pub fn inside<T>(&self, read: impl FnOnce() -> Result<T, ExtractError>) -> Result<T, ExtractError> {
        let depth = self.depth.get();
        if depth >= self.limits.max_nesting {
            return Err(ExtractError::TooNested(self.limits.max_nesting));
        }
        self.depth.set(depth + 1);
        let done = read();
        self.depth.set(depth);
        done
    }
}

/// Nobody writes wrong sizes by accident.
fn unreadable(error: std::io::Error) -> ExtractError {
    let why = error.to_string();
    if why.contains("larger than its declared") {
        return ExtractError::ExpandsTooFar("a part of it unpacks to more than the archive says it does".to_owned());
    }
    if why.to_ascii_lowercase().contains("not supported") {
        return ExtractError::UnsupportedType(format!("a part that is packed like this ({why})"));
    }
    ExtractError::Corrupt(format!("a part cannot be unpacked: {why}"))
}

fn too_many(count: usize, most: usize, what: &str) -> Result<(), ExtractError> {
    if count <= most {
        return Ok(());
    }
    Err(ExtractError::TooMany(format!("it has {count} {what}, at most {most} are read (`ingest.extract.max_{what}`)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, LoadArgs};

    #[test]
    fn the_defaults_are_the_settings() {
        let loaded = Config::load_from(&LoadArgs::default(), []).expect("a configuration");
        assert_eq!(Limits::from_config(&loaded.config.ingest.extract), Limits::default());
    }

    #[test]
    fn what_is_really_unpacked_counts() {
        let limits = Limits { max_inflated_bytes: 10, ..Limits::default() };
        let budget = Budget::new(limits, 1);
        assert_eq!(budget.inflate(&b"1234567"[..]), Ok(b"1234567".to_vec()));
        assert_eq!(budget.inflate(&b"890"[..]), Ok(b"890".to_vec()));
        let refused = budget.inflate(&b"1"[..]).unwrap_err();
        assert_eq!((refused.code(), refused.status()), ("expands_too_far", 413));
        assert!(refused.to_string().contains("ingest.extract.max_inflated_bytes"), "{refused}");
        let by_ratio = Budget::new(Limits::default(), 1000);
        let refused = by_ratio.inflate(std::io::repeat(0)).unwrap_err();
        assert!(refused.to_string().contains("ingest.extract.max_inflate_ratio"), "{refused}");
    }

    #[test]
    fn documents_in_documents_end_somewhere() {
        fn nest(budget: &Budget) -> Result<(), ExtractError> {
            budget.inside(|| nest(budget))
        }
        let budget = Budget::new(Limits::default(), 1);
        assert_eq!(nest(&budget).map_err(|e| e.code()), Err("too_deep"));
        assert_eq!(budget.inside(|| Ok(7)), Ok(7));
    }
}
