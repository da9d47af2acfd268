//! What `[n]` in an answer refers to. `n` is stable within a conversation: a chunk keeps its number.

use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// One cited passage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub n: u32,
    pub document_id: String,
    pub chunk_id: Uuid,
    pub title: String,
    pub uri: String,
    /// The passage, cut to [`SNIPPET_CHARS`].
    pub snippet: String,
    pub score: f32,
    /// UTF-8 byte offsets into the document's extracted text.
    pub start: u64,
    pub end: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
}

/// Longest snippet in a `sources` frame, in characters.
pub const SNIPPET_CHARS: usize = 280;

/// The numbers a conversation has given to chunks so far. Shared by the tools of a turn.
#[derive(Debug, Default)]
pub struct SourceBook {
    numbers: Mutex<HashMap<Uuid, u32>>,
}

impl SourceBook {
    /// Starts from what earlier turns of the conversation were given.
    pub fn new(known: impl IntoIterator<Item = (Uuid, u32)>) -> Self {
        Self { numbers: Mutex::new(known.into_iter().collect()) }
    }

    /// The chunk's number, from 1; a new one if the conversation has not seen it.
    pub fn number(&self, chunk_id: Uuid) -> u32 {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.values().max().map_or(1, |n| n + 1);
        *numbers.entry(chunk_id).or_insert(next)
    }

    /// The chunk that has the number.
    pub fn chunk(&self, n: u32) -> Option<Uuid> {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.iter().find(|(_, given)| **given == n).map(|(chunk, _)| *chunk)
    }

    /// Every number that was given.
    pub fn known(&self) -> HashSet<u32> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

/// `text` cut to [`SNIPPET_CHARS`] at a word's end, white space joined.
pub fn snippet(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((cut, _)) = joined.char_indices().nth(SNIPPET_CHARS) else { return joined };
    let end = joined[..cut].rfind(' ').unwrap_or(cut);
    format!("{}…", &joined[..end])
}
