//! Searching: the one path by which passages are found, for the tool, before a round, over HTTP.
//!
//! Invariants: every hit was checked in SQL (live version, not deleted, not expired, in scope) after the
//! store named it; a least score is compared with cosines or with a reranker's scores, never with fused ones; no
//! passage is shown twice.

mod choose;
mod cite;
mod fuse;
mod narrow;
mod neighbours;
mod request;
mod rerank;

pub use cite::Hit;
pub use request::{SearchMode, SearchRequest};

use super::attention::Attending;
use super::base::Base;
use super::embed::cache::QueryCache;
use super::error::KnowledgeError;
use super::filter::Filter;
use super::store::builds::part_name;
use super::{Embedder, Legs, Reranker, ScoredPoint, StoreError, StoreQuery};
use crate::storage::collections::{self, Collection};
use choose::Chosen;
use fuse::{Candidate, Meaning, Named};
use futures_util::future::try_join_all;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Candidates that are asked for at most when checks drop many of them.
const DEEPEST: usize = 2048;
/// Looks at a base that changes underfoot before what was found is taken as it is.
const LOOKS: usize = 4;

/// So much of a query says what language it is in.
const QUERY_HEAD: usize = 1024;
/// How tokenizers call what they have no word for.
const UNKNOWN: [&str; 2] = ["[UNK]", "<unk>"];

/// What every search is told by configuration.
#[derive(Clone, Copy, Debug)]
pub struct RetrieveOptions {
    /// Candidates of each leg before fusion, at least; their scores are what a score is held against.
    pub prefetch: usize,
    /// Remembered query embeddings.
    pub query_cache: u64,
    /// Hits that a reranker reads.
    pub rerank: usize,
}

/// The way out of the knowledge base. Cheap to clone.
#[derive(Clone)]
pub struct Retrieve {
    base: Base,
    queries: QueryCache,
    options: RetrieveOptions,
    reranker: Option<Arc<dyn Reranker>>,
}

/// A query as one model reads it.
#[derive(Clone, Debug)]
struct Read {
    model: String,
    vector: Arc<[f32]>,
    /// Share of it that the model has no words for, 0 to 1.
    unread: f32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchAnswer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// What the legs named and the answer left out, best first; empty unless asked for.
    pub dropped: Vec<Dropped>,
    pub took: Duration,
    /// Everything ingested up to this number was searched.
    pub watermark: i64,
}

/// Where a leg saw a passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// From 1.
    pub rank: u32,
    /// Cosine or BM25 sum.
    pub score: f32,
}

/// A candidate that is not among the hits.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    pub why: DropReason,
    /// The document and the chunk; `None` for what may not be shown.
    pub chunk: Option<(String, Uuid)>,
    pub score: f32,
    pub dense: Option<Place>,
    pub bm25: Option<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Replaced, deleted, expired, or another conversation's.
    NotLive,
    /// Below the least score that was asked for.
    BelowMinScore,
    /// Its document has as many hits as one may have.
    PerDocument,
    /// The same text stands higher up.
    SameText,
    /// It was joined to a hit next to it.
    Joined,
    /// The answer was full, or the reranker put it behind.
    BeyondLimit,
}

impl DropReason {
    /// As clients see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotLive => "not_live",
            Self::BelowMinScore => "below_min_score",
            Self::PerDocument => "per_document",
            Self::SameText => "same_text",
            Self::Joined => "joined",
            Self::BeyondLimit => "beyond_limit",
        }
    }
}

impl Retrieve {
    pub fn new(base: Base, options: RetrieveOptions, reranker: Option<Arc<dyn Reranker>>) -> Self {
        Self { base, queries: QueryCache::new(options.query_cache), options, reranker }
    }

    /// Whether a reranking model is configured.
    pub fn can_rerank(&self) -> bool {
        self.reranker.is_some()
    }

    /// A turn runs until this is dropped: bulk work leaves it room.
    pub fn attend(&self) -> Attending {
        self.base.attention.begin()
    }

    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::Model`], [`KnowledgeError::BadSearch`]; what the
    /// models, the store and the database say.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, KnowledgeError> {
        let began = Instant::now();
        request.check()?;
        let reranker = match (&self.reranker, request.rerank) {
            (Some(reranker), true) => Some(reranker.as_ref()),
            (None, true) => return Err(KnowledgeError::NoReranker),
            (_, false) => None,
        };
        let wide = reranker.map(|_| request.wide(self.options.rerank));
        let asked = wide.as_ref().unwrap_or(request);
        let mut looks = 0;
        loop {
            looks += 1;
            let watermark = collections::watermark(&self.base.db).await?;
            let searched = try_join_all(request.collections.iter().map(|name| self.base.collection(name))).await?;
            let query = self.query(request, &searched).await?;
            let found = self.look(asked, &searched, &query).await;
            // The build that was asked may have been replaced and taken away meanwhile.
            if matches!(found, Err(KnowledgeError::NoCollection(_)))
                && looks < LOOKS
                && self.replaced(&searched).await?
            {
                continue;
            }
            let mut found = found?;
            // A version that became live between the store's answer and the check may be missing from the
            // former: then its predecessor was dropped and nothing of it is among the candidates.
            let torn = found.torn || (found.not_live && watermark != collections::watermark(&self.base.db).await?);
            if torn && looks < LOOKS {
                continue;
            }
            if let Some(reranker) = reranker {
                rerank::apply(reranker, request, &mut found).await?;
            }
            if request.neighbours > 0 {
                self.join_neighbours(&mut found, request.neighbours).await?;
            }
            let dropped = if request.explain { found.dropped } else { Vec::new() };
            return Ok(SearchAnswer { hits: found.hits, dropped, took: began.elapsed(), watermark });
        }
    }

    /// Whether another build of one of these answers by now.
    async fn replaced(&self, searched: &[Collection]) -> Result<bool, KnowledgeError> {
        for before in searched {
            let now = collections::find(&self.base.db, &before.name).await?;
            if now.is_some_and(|now| now.generation != before.generation) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The query as each collection's own model reads it; none for a search by words.
    async fn query(&self, request: &SearchRequest, searched: &[Collection]) -> Result<Vec<Read>, KnowledgeError> {
        let mut read: Vec<Read> = Vec::new();
        for collection in searched.iter().filter(|_| request.mode != SearchMode::Sparse) {
            let known = read.iter().find(|read| read.model == collection.embedding_model).cloned();
            read.push(match known {
                Some(known) => known,
                None => {
                    let embedder = self.base.embedder_of(collection)?;
                    let vector = self.queries.embed(embedder.as_ref(), &request.query).await?;
                    let unread = unread(embedder.as_ref(), &request.query);
                    Read { model: collection.embedding_model.clone(), vector, unread }
                }
            });
        }
        Ok(read)
    }

    async fn look(
        &self,
        request: &SearchRequest,
        searched: &[Collection],
        query: &[Read],
    ) -> Result<Chosen, KnowledgeError> {
        let now = Timestamp::now().as_second();
        let filter = match request.as_of {
            None => narrow::filter(request.filter.clone(), request.conversation, now),
            Some(_) => narrow::past(request.filter.clone()),
        };
        let mut depth = self.options.prefetch.max(2 * request.limit);
        loop {
            let (candidates, exhausted) = self.candidates(request, searched, query, &filter, depth).await?;
            let chosen = self.choose(request, candidates, query, now).await?;
            if chosen.hits.len() >= request.limit || exhausted || depth >= DEEPEST {
                return Ok(chosen);
            }
            depth = (4 * depth).min(DEEPEST);
        }
    }

    /// What the store names, best first, of all collections together, and whether there are no others however deep
    /// one looks. Over several collections each leg is merged by its own scores before the legs are fused, so that a
    /// passage that is only the best of a poor collection does not count like the best of all. Cosines of different
    /// models say nothing about each other: each model's are a leg of their own.
    async fn candidates(
        &self,
        request: &SearchRequest,
        searched: &[Collection],
        query: &[Read],
        filter: &Filter,
        depth: usize,
    ) -> Result<(Vec<Candidate>, bool), KnowledgeError> {
        let searches = searched.iter().enumerate().map(async |(at, collection)| {
            let keywords = match request.mode {
                SearchMode::Dense => None,
                SearchMode::Hybrid | SearchMode::Sparse => Some(self.base.keywords(&collection.keyword_language)?),
            };
            let legs = StoreQuery {
                dense: query.get(at).map(|read| read.vector.to_vec()),
                bm25: keywords.map(|keywords| keywords.query(&request.query)),
                filter: filter.clone(),
                limit: depth,
            };
            // By the build whose model the query's vector is of, not by the one that answers by now.
            let part = part_name(&collection.name, collection.generation);
            self.base.builds.parts().search(&part, &legs).await.map_err(|error| match error {
                StoreError::NoCollection(_) => KnowledgeError::NoCollection(collection.name.clone()),
                other => other.into(),
            })
        });
        let mut meanings: Vec<Meaning> = Vec::new();
        let mut words: Vec<Named> = Vec::new();
        let mut meaning_of: Vec<usize> = Vec::new();
        let mut models: Vec<&str> = Vec::new();
        for (collection, Legs { dense, bm25 }) in try_join_all(searches).await?.into_iter().enumerate() {
            let named = |point: ScoredPoint| Named { collection, point: point.id, score: point.score };
            words.extend(bm25.into_iter().map(named));
            let Some(read) = query.get(collection) else { continue };
            let known = models.iter().position(|model| *model == read.model);
            let at = known.unwrap_or_else(|| {
                models.push(&read.model);
                meanings.push(Meaning { named: Vec::new(), unread: read.unread });
                meanings.len() - 1
            });
            meanings[at].named.extend(dense.into_iter().map(named));
            meaning_of.push(at);
        }
        for meaning in &mut meanings {
            fuse::merge(&mut meaning.named, depth);
        }
        fuse::merge(&mut words, depth);
        let exhausted = words.len() < depth && meanings.iter().all(|meaning| meaning.named.len() < depth);
        Ok((fuse::fuse(meanings, &meaning_of, words, self.options.prefetch), exhausted))
    }
}

/// Share of the query's tokens that are the model's word for "unknown": 0 for a model whose tokenizer nobody has here.
fn unread(embedder: &dyn Embedder, query: &str) -> f32 {
    let head = &query[..query.floor_char_boundary(QUERY_HEAD)];
    let Ok(tokenizer) = embedder.tokenizer() else { return 0.0 };
    let Ok(encoded) = tokenizer.encode_fast(head, false) else { return 0.0 };
    let unknown: Vec<u32> = UNKNOWN.iter().filter_map(|word| tokenizer.token_to_id(word)).collect();
    let unread = encoded.get_ids().iter().filter(|id| unknown.contains(id)).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of tokens in a kilobyte")]
    let share = unread as f32 / encoded.len().max(1) as f32;
    share
}
