//! A slice of a document's chunks on its way: embedded, put into the store, ready for its rows. Slices
//! bound what a large document holds in memory: until its slice comes, a chunk is offsets and headings.

use super::super::chunker::ChunkText;
use super::super::error::KnowledgeError;
use super::super::keyword::Keywords;
use super::super::{Point, SparseVector, base, identity};
use super::attempt::Attempt;
use super::{Ingest, Task};
use crate::storage::chunks::{self, EmbedHash, NewChunk};
use crate::storage::documents::Description;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Chunks in a slice.
pub(super) const LENGTH: usize = 64;

/// A chunk without its text.
#[derive(Debug)]
pub(super) struct Piece {
    range: Range<usize>,
    heading_path: Vec<String>,
    /// What is embedded before the text.
    embed_prefix: String,
    /// What is shown before the text: the header of a table that was cut.
    shown_prefix: String,
    lines: Option<(u32, u32)>,
}

impl Piece {
    pub(super) fn of(chunk: &ChunkText<'_>) -> Self {
        let prefix = |whole: &str| whole.strip_suffix(chunk.text).unwrap_or_default().to_owned();
        let line = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            range: chunk.start..chunk.end,
            embed_prefix: prefix(&chunk.embed_text()),
            shown_prefix: prefix(&chunk.shown_text()),
            heading_path: chunk.heading_path.clone(),
            lines: chunk.lines.map(|(first, last)| (line(first), line(last))),
        }
    }

    fn embed_text(&self, content: &str) -> String {
        format!("{}{}", self.embed_prefix, &content[self.range.clone()])
    }
}

/// Pieces with the ordinal of the first.
pub(super) struct Slice {
    first: u32,
    pieces: Vec<Piece>,
}

/// A slice with its vectors, in the pieces' order.
pub(super) struct Embedded {
    slice: Slice,
    hashes: Vec<EmbedHash>,
    dense: Vec<Vec<f32>>,
    sparse: Vec<SparseVector>,
}

/// The document's slices, at least one.
pub(super) fn cut(pieces: Vec<Piece>) -> impl ExactSizeIterator<Item = Slice> + Send {
    let count = pieces.len().div_ceil(LENGTH).max(1);
    let mut pieces = pieces.into_iter();
    (0..count).map(move |n| Slice {
        first: u32::try_from(n * LENGTH).unwrap_or(u32::MAX),
        pieces: pieces.by_ref().take(LENGTH).collect(),
    })
}

impl Ingest {
    /// Vectors for a slice; what the collection has embedded before is not embedded again.
    pub(super) async fn embed(
        &self,
        task: &Task,
        content: &Arc<str>,
        keywords: &Keywords,
        slice: Slice,
    ) -> Result<Embedded, KnowledgeError> {
        let base = &self.inner.base;
        let texts: Vec<String> = slice.pieces.iter().map(|piece| piece.embed_text(content)).collect();
        let hashes: Vec<EmbedHash> = texts.iter().map(|text| *blake3::hash(text.as_bytes()).as_bytes()).collect();
        let mut known = chunks::embeddings(&base.db, &task.key.collection, &hashes).await?;
        let mut wanted = HashSet::new();
        let (missing, unknown): (Vec<EmbedHash>, Vec<String>) = hashes
            .iter()
            .zip(&texts)
            .filter(|(hash, _)| !known.contains_key(*hash) && wanted.insert(**hash))
            .map(|(hash, text)| (*hash, text.clone()))
            .unzip();
        let dense = async {
            if unknown.is_empty() { Ok(Vec::new()) } else { base.embedder.embed(unknown, task.priority).await }
        };
        let keywords = keywords.clone();
        let sparse = base.off_runtime(task.priority, move || {
            texts.iter().map(|text| keywords.document(text)).collect::<Vec<SparseVector>>()
        });
        let (dense, sparse) = tokio::join!(dense, sparse);
        known.extend(missing.into_iter().zip(dense?));
        let dense = hashes.iter().map(|hash| known.get(hash).cloned().unwrap_or_default()).collect();
        Ok(Embedded { slice, hashes, dense, sparse: sparse? })
    }

    /// Puts the slice's points into the store. What is left to do is to store the rows.
    pub(super) async fn put(
        &self,
        attempt: &mut Attempt,
        about: &Description,
        content: &str,
        embedded: Embedded,
    ) -> Result<Vec<NewChunk>, KnowledgeError> {
        let base = &self.inner.base;
        let (collection, document) = (attempt.key.collection.as_str(), attempt.key.id.as_str());
        let model = &base.embedder.model().name;
        let Embedded { slice, hashes, dense, sparse } = embedded;
        let mut points = Vec::with_capacity(slice.pieces.len());
        let mut rows = Vec::with_capacity(slice.pieces.len());
        let vectors = hashes.into_iter().zip(dense).zip(sparse);
        for ((ordinal, piece), ((embed_hash, dense), bm25)) in (slice.first..).zip(slice.pieces).zip(vectors) {
            let chunk_id = identity::chunk_id(collection, document, attempt.version, ordinal);
            let point_id = identity::point_id(collection, document, attempt.version, ordinal, model);
            let payload = base::payload(document.to_owned(), chunk_id, attempt.version, about)?;
            points.push(Point { id: point_id, dense: dense.clone(), bm25, payload });
            rows.push(NewChunk {
                point_id,
                chunk_id,
                ordinal,
                text: content[piece.range.clone()].to_owned(),
                shown_prefix: piece.shown_prefix,
                embed_prefix: piece.embed_prefix,
                heading_path: piece.heading_path,
                start: piece.range.start as u64,
                end: piece.range.end as u64,
                lines: piece.lines,
                page: None,
                embed_hash,
                embedding: dense,
            });
        }
        attempt.points.extend(points.iter().map(|point| point.id));
        base.store.upsert(collection, points).await?;
        Ok(rows)
    }
}
