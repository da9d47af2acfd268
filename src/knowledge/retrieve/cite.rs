//! A passage that was found, and how it is shown: to the model as a numbered passage, to people as a source.

use super::Place;
use crate::message::passages::Passage;
use crate::message::sources::{Source, snippet};
use crate::storage::chunks::LiveChunk;
use serde_json::{Map, Value};
use uuid::Uuid;

/// A passage that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub collection: String,
    pub document_id: String,
    pub chunk_id: Uuid,
    pub title: String,
    pub uri: String,
    pub text: String,
    /// What the hits are ordered by: the reranker's score, else by the mode the fused score (of one search only), the
    /// cosine, or the BM25 sum.
    pub score: f32,
    /// Similarity of query and passage; `None` for a search by words alone.
    pub cosine: Option<f32>,
    /// The score before a reranker gave its own.
    pub fused: f32,
    pub rerank: Option<f32>,
    /// Where each leg saw it.
    pub dense: Option<Place>,
    pub bm25: Option<Place>,
    /// UTF-8 byte offsets in the document's content.
    pub start: u64,
    pub end: u64,
    pub page: Option<u32>,
    pub metadata: Map<String, Value>,
    /// Outermost first.
    pub heading_path: Vec<String>,
    /// First and last line in the file, from 1; source code only.
    pub lines: Option<(u32, u32)>,
    /// Position of the chunk in its document.
    pub ordinal: u32,
}

impl Hit {
    pub(super) fn new(
        collection: String,
        chunk: LiveChunk,
        score: f32,
        cosine: Option<f32>,
        [dense, bm25]: [Option<Place>; 2],
    ) -> Self {
        Self {
            collection,
            document_id: chunk.document_id,
            chunk_id: chunk.chunk_id,
            title: chunk.title,
            uri: chunk.uri,
            text: if chunk.shown_prefix.is_empty() { chunk.text } else { chunk.shown_prefix + &chunk.text },
            score,
            cosine,
            fused: score,
            rerank: None,
            dense,
            bm25,
            start: chunk.start,
            end: chunk.end,
            page: chunk.page,
            metadata: chunk.metadata,
            heading_path: chunk.heading_path,
            lines: chunk.lines,
            ordinal: chunk.ordinal,
        }
    }

    /// As the model reads it; the headings above it say where in the document it stands.
    pub fn passage(&self, n: u32) -> Passage {
        let inner = self.heading_path.iter().filter(|heading| **heading != self.title);
        let mut title = std::iter::once(&self.title).chain(inner).cloned().collect::<Vec<_>>().join(" > ");
        if let Some((first, last)) = self.lines {
            title.push_str(&format!(" (lines {first} to {last})"));
        }
        Passage { n, title, text: self.text.clone() }
    }

    /// As it is cited. `score`: the cosine where there is one, since it can be compared between searches.
    pub fn source(&self, n: u32) -> Source {
        Source {
            n,
            document_id: self.document_id.clone(),
            chunk_id: self.chunk_id,
            title: self.title.clone(),
            uri: self.uri.clone(),
            snippet: snippet(&self.text),
            score: self.cosine.unwrap_or(self.score),
            start: self.start,
            end: self.end,
            page: self.page,
        }
    }
}
