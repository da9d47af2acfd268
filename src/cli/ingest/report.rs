//! What `tailrace ingest` tells: a bar where somebody watches, else a line a file; then a summary that names what was left
//! out and why.

use super::super::Failure;
use super::super::output::Output;
use crate::knowledge::walk::Skipped;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::time::Instant;

/// What became of one file.
pub struct Done {
    pub unchanged: bool,
    pub chunks: u64,
    pub notes: Vec<String>,
}

pub struct Report<'a> {
    output: &'a Output,
    began: Instant,
    bar: Option<ProgressBar>,
    files: u64,
    ingested: u64,
    unchanged: u64,
    chunks: u64,
    notes: Vec<(String, String)>,
    failed: Vec<(String, String)>,
    skipped: Vec<Skipped>,
}

impl<'a> Report<'a> {
    pub fn new(output: &'a Output, files: u64, skipped: Vec<Skipped>) -> Self {
        Self {
            output,
            began: Instant::now(),
            bar: output.watched_bar(files),
            files,
            ingested: 0,
            unchanged: 0,
            chunks: 0,
            notes: Vec::new(),
            failed: Vec::new(),
            skipped,
        }
    }

    /// One file has ended, however it did.
    pub fn add(&mut self, uri: String, outcome: Result<Done, Failure>) {
        let (value, word) = match &outcome {
            Ok(done) => {
                let status = if done.unchanged { "unchanged" } else { "indexed" };
                let value =
                    json!({"uri": uri, "status": status, "chunks": done.chunks, "notes": done.notes.as_slice()});
                (value, format!("{status} {uri} ({} chunks)", done.chunks))
            }
            Err(why) => {
                let why = why.to_string();
                (json!({"uri": uri, "status": "failed", "error": why}), format!("refused {uri}: {why}"))
            }
        };
        match outcome {
            Ok(done) if done.unchanged => self.unchanged += 1,
            Ok(done) => {
                self.ingested += 1;
                self.chunks += done.chunks;
                self.notes.extend(done.notes.into_iter().map(|note| (uri.clone(), note)));
            }
            Err(why) => self.failed.push((uri.clone(), why.to_string())),
        }
        let dealt = self.ingested + self.unchanged + self.failed.len() as u64;
        match &self.bar {
            Some(bar) => {
                bar.set_position(dealt);
                bar.set_message(format!("{} chunks, {:.0}/s, {uri}", self.chunks, self.speed()));
            }
            None if self.output.json() => self.output.result(&value, ""),
            None => self.output.note(&format!("[{dealt}/{}] {word}", self.files)),
        }
    }

    fn speed(&self) -> f64 {
        let chunks = u32::try_from(self.chunks).unwrap_or(u32::MAX);
        f64::from(chunks) / self.began.elapsed().as_secs_f64().max(0.001)
    }

    /// # Errors
    /// Where documents were refused: which, or how many.
    pub fn finish(self) -> Result<(), Failure> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let mut lines = vec![format!(
            "{} ingested ({} chunks, {:.0}/s), {} unchanged, {} refused, {} skipped in {seconds:.1} s",
            self.ingested,
            self.chunks,
            self.speed(),
            self.unchanged,
            self.failed.len(),
            self.skipped.len()
        )];
        lines.extend(self.skipped.iter().map(|s| format!("  skipped {}: {}", s.path.display(), s.why)));
        lines.extend(self.failed.iter().map(|(uri, why)| format!("  refused {uri}: {why}")));
        lines.extend(self.notes.iter().map(|(uri, note)| format!("  {uri}: {note}")));
        let pairs = |list: &[(String, String)], what: &str| -> Vec<Value> {
            list.iter().map(|(uri, why)| json!({"uri": uri, what: why})).collect()
        };
        let value = json!({
            "ingested": self.ingested, "chunks": self.chunks, "unchanged": self.unchanged,
            "failed": pairs(&self.failed, "error"), "notes": pairs(&self.notes, "note"),
            "skipped": self.skipped.iter().map(|s| json!({"path": s.path.to_string_lossy(), "why": s.why.to_string()})).collect::<Vec<_>>(),
            "took_ms": u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        self.output.result(&value, &lines.join("\n"));
        match self.failed.as_slice() {
            [] => Ok(()),
            [(uri, why)] => Err(format!("{uri} was refused: {why}").into()),
            failed => Err(format!("{} documents were refused", failed.len()).into()),
        }
    }
}
