//! A slice of a document's chunks on its way: embedded, put into the store, ready for its rows. Slices
//! bound what a large document holds in memory: until its slice comes, a chunk is offsets and headings.

use super::super::chunker::ChunkText;
use super::super::error::KnowledgeError;
use super::super::keyword::Keywords;
use super::super::store::builds::part_name;
use super::super::{EmbedError, Embedder, Point, Priority, SparseVector, base, identity};
use super::Ingest;
use crate::storage::chunks::{self, EmbedHash, NewChunk};
use crate::storage::documents::Description;
use std::collections::{HashMap, HashSet};
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
    page: Option<u32>,
}

impl Piece {
    /// `pages`: where each page of the document begins.
    pub(super) fn of(chunk: &ChunkText<'_>, pages: &[usize]) -> Self {
        let prefix = |whole: &str| whole.strip_suffix(chunk.text).unwrap_or_default().to_owned();
        let page = pages.partition_point(|page| *page <= chunk.start);
        let line = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            range: chunk.start..chunk.end,
            embed_prefix: prefix(&chunk.embed_text()),
            shown_prefix: prefix(&chunk.shown_text()),
            heading_path: chunk.heading_path.clone(),
            lines: chunk.lines.map(|(first, last)| (line(first), line(last))),
            page: (page > 0).then(|| line(page)),
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

/// Where a version's chunks go: a build of the collection, with the model that it is made with.
#[derive(Clone)]
pub(super) struct Target {
    pub collection: String,
    pub generation: i64,
    pub embedder: Arc<dyn Embedder>,
    pub priority: Priority,
    /// Nothing that was embedded before is taken over.
    pub anew: bool,
}

impl Target {
    /// The build's part of the store.
    pub(super) fn part(&self) -> String {
        part_name(&self.collection, self.generation)
    }
}

/// Which version of which document, and what is said of it.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub document: &'a str,
    pub version: i64,
    pub about: &'a Description,
    pub content: &'a str,
}

impl Ingest {
    /// Vectors for a slice; what the collection has embedded before is not embedded again.
    pub(super) async fn embed(
        &self,
        target: &Target,
        content: &Arc<str>,
        keywords: &Keywords,
        slice: Slice,
    ) -> Result<Embedded, KnowledgeError> {
        let base = &self.inner.base;
        let texts: Vec<String> = slice.pieces.iter().map(|piece| piece.embed_text(content)).collect();
        let hashes: Vec<EmbedHash> = texts.iter().map(|text| *blake3::hash(text.as_bytes()).as_bytes()).collect();
        let mut known = match target.anew {
            true => HashMap::new(),
            false => chunks::embeddings(&base.db, &target.collection, target.generation, &hashes).await?,
        };
        let prefix = &target.embedder.model().passage_prefix;
        let mut wanted = HashSet::new();
        let (missing, unknown): (Vec<EmbedHash>, Vec<String>) = hashes
            .iter()
            .zip(&texts)
            .filter(|(hash, _)| !known.contains_key(*hash) && wanted.insert(**hash))
            .map(|(hash, text)| (*hash, format!("{prefix}{text}")))
            .unzip();
        let dense = async {
            match target.priority {
                _ if unknown.is_empty() => Ok(Vec::new()),
                Priority::Turn => target.embedder.embed(unknown, Priority::Turn).await,
                Priority::Bulk => self.embed_bulk(&*target.embedder, unknown).await,
            }
        };
        let keywords = keywords.clone();
        let sparse = base.off_runtime(target.priority, move || {
            texts.iter().map(|text| keywords.document(text)).collect::<Vec<SparseVector>>()
        });
        let (dense, sparse) = tokio::join!(dense, sparse);
        known.extend(missing.into_iter().zip(dense?));
        let dense = hashes.iter().map(|hash| known.get(hash).cloned().unwrap_or_default()).collect();
        Ok(Embedded { slice, hashes, dense, sparse: sparse? })
    }

    /// While turns run, text by text, so that a core is left to them.
    async fn embed_bulk(&self, embedder: &dyn Embedder, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut left = texts.into_iter().peekable();
        while left.peek().is_some() {
            let aside = self.inner.base.attention.turn_aside().await;
            let piece = left.by_ref().take(if aside.is_some() { 1 } else { LENGTH }).collect();
            vectors.extend(embedder.embed(piece, Priority::Bulk).await?);
        }
        Ok(vectors)
    }
}

impl Embedded {
    /// The slice's points for the store, and its rows, which may be stored once those are there.
    pub(super) fn made(self, target: &Target, of: Subject<'_>) -> Result<(Vec<Point>, Vec<NewChunk>), KnowledgeError> {
        let (collection, document) = (target.collection.as_str(), of.document);
        let model = build_name(&target.embedder.model().name, target.generation);
        let Self { slice, hashes, dense, sparse } = self;
        let mut points = Vec::with_capacity(slice.pieces.len());
        let mut rows = Vec::with_capacity(slice.pieces.len());
        let vectors = hashes.into_iter().zip(dense).zip(sparse);
        for ((ordinal, piece), ((embed_hash, dense), bm25)) in (slice.first..).zip(slice.pieces).zip(vectors) {
            let chunk_id = identity::chunk_id(collection, document, of.version, ordinal);
            let point_id = identity::point_id(collection, document, of.version, ordinal, &model);
            let payload = base::payload(document.to_owned(), chunk_id, of.version, of.about)?;
            points.push(Point { id: point_id, dense: dense.clone(), bm25, payload });
            rows.push(NewChunk {
                point_id,
                chunk_id,
                ordinal,
                text: of.content[piece.range.clone()].to_owned(),
                shown_prefix: piece.shown_prefix,
                embed_prefix: piece.embed_prefix,
                heading_path: piece.heading_path,
                start: piece.range.start as u64,
                end: piece.range.end as u64,
                lines: piece.lines,
                page: piece.page,
                embed_hash,
                embedding: dense,
            });
        }
        Ok((points, rows))
    }
}

/// The model as point ids name it: two builds with one model have points of their own.
fn build_name(model: &str, generation: i64) -> String {
    if generation == 0 { model.to_owned() } else { format!("{model}@{generation}") }
}
