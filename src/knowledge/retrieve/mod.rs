//! Searching: the one path by which passages are found, for the tool, before a round, over HTTP.
//!
//! Invariants: every hit was checked in SQL (live version, not deleted, not expired, in scope) after the
//! store named it; a least similarity is compared with cosines, never with fused ranks; no passage is
//! shown twice.

mod fuse;
mod narrow;
mod neighbours;

use super::attention::Attending;
use super::base::Base;
use super::embed::cache::QueryCache;
use super::error::KnowledgeError;
use super::filter::Filter;
use super::store::builds::part_name;
use super::{Scope, StoreError, StoreQuery};
use crate::storage::chunks::{self, LiveChunk};
use crate::storage::collections::{self, Collection};
use crate::storage::versions;
use fuse::Candidate;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Candidates that are asked for at most when checks drop many of them.
const DEEPEST: usize = 2048;
/// Looks at a base that changes underfoot before what was found is taken as it is.
const LOOKS: usize = 4;

/// What every search is told by configuration.
#[derive(Clone, Copy, Debug)]
pub struct RetrieveOptions {
    /// Candidates of each leg before fusion, at least.
    pub prefetch: usize,
    /// Remembered query embeddings.
    pub query_cache: u64,
}

/// The way out of the knowledge base. Cheap to clone.
#[derive(Clone)]
pub struct Retrieve {
    base: Base,
    queries: QueryCache,
    options: RetrieveOptions,
}

/// Which legs a search has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// By meaning and by words, fused by rank.
    #[default]
    Hybrid,
    /// By meaning.
    Dense,
    /// By words.
    Sparse,
}

#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// At least one; hits of several are ranked together.
    pub collections: Vec<String>,
    pub query: String,
    /// At least 1.
    pub limit: usize,
    pub mode: SearchMode,
    /// What the user asked for; scope and expiry are added here.
    pub filter: Filter,
    /// Also what this conversation has found for itself.
    pub conversation: Option<Uuid>,
    /// Least cosine of query and passage; not with [`SearchMode::Sparse`].
    pub min_cosine: Option<f32>,
    /// Hits from one document at most.
    pub per_document: Option<usize>,
    /// Chunks before and after each hit that are joined to it.
    pub neighbours: u32,
    /// What the collections held then, as far as they keep versions; without what conversations found.
    pub as_of: Option<Timestamp>,
}

impl SearchRequest {
    /// A hybrid search of one collection with no conditions.
    pub fn new(collection: &str, query: &str, limit: usize) -> Self {
        Self {
            collections: vec![collection.to_owned()],
            query: query.to_owned(),
            limit,
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            conversation: None,
            min_cosine: None,
            per_document: None,
            neighbours: 0,
            as_of: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchAnswer {
    /// Best first.
    pub hits: Vec<Hit>,
    pub took: Duration,
    /// Everything ingested up to this number was searched.
    pub watermark: i64,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub collection: String,
    pub document_id: String,
    pub chunk_id: Uuid,
    pub title: String,
    pub uri: String,
    pub text: String,
    /// By the mode: the fused rank sum (1 is first in both legs), the cosine, or the BM25 sum.
    pub score: f32,
    /// Similarity of query and passage; `None` for a search by words alone.
    pub cosine: Option<f32>,
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

/// What one look found.
#[derive(Default)]
struct Chosen {
    hits: Vec<Hit>,
    /// The store named points that may not be shown.
    dropped: bool,
    /// There are hits of two versions of one document: it changed between two checks.
    torn: bool,
}

impl Retrieve {
    pub fn new(base: Base, options: RetrieveOptions) -> Self {
        Self { base, queries: QueryCache::new(options.query_cache), options }
    }

    /// A turn runs until this is dropped: bulk work leaves it room.
    pub fn attend(&self) -> Attending {
        self.base.attention.begin()
    }

    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::Model`], [`KnowledgeError::BadSearch`]; what the
    /// model, the store and the database say.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, KnowledgeError> {
        let began = Instant::now();
        check(request)?;
        let mut looks = 0;
        loop {
            looks += 1;
            let watermark = collections::watermark(&self.base.db).await?;
            let searched = try_join_all(request.collections.iter().map(|name| self.base.collection(name))).await?;
            let dense = self.query_vectors(request, &searched).await?;
            let found = self.look(request, &searched, &dense).await;
            // The build that was asked may have been replaced and taken away meanwhile.
            if matches!(found, Err(KnowledgeError::NoCollection(_)))
                && looks < LOOKS
                && self.replaced(&searched).await?
            {
                continue;
            }
            let found = found?;
            // A version that became live between the store's answer and the check may be missing from the
            // former: then its predecessor was dropped and nothing of it is among the candidates.
            let torn = found.torn || (found.dropped && watermark != collections::watermark(&self.base.db).await?);
            if torn && looks < LOOKS {
                continue;
            }
            let mut hits = found.hits;
            if request.neighbours > 0 {
                hits = self.join_neighbours(hits, request.neighbours).await?;
            }
            return Ok(SearchAnswer { hits, took: began.elapsed(), watermark });
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

    /// The query's vector for each collection, by its own model; none for a search by words.
    async fn query_vectors(
        &self,
        request: &SearchRequest,
        searched: &[Collection],
    ) -> Result<Vec<Arc<[f32]>>, KnowledgeError> {
        let mut vectors = Vec::new();
        for collection in searched.iter().filter(|_| request.mode != SearchMode::Sparse) {
            let embedder = self.base.embedder_of(collection)?;
            vectors.push(self.queries.embed(embedder.as_ref(), &request.query).await?);
        }
        Ok(vectors)
    }

    async fn look(
        &self,
        request: &SearchRequest,
        searched: &[Collection],
        dense: &[Arc<[f32]>],
    ) -> Result<Chosen, KnowledgeError> {
        let now = Timestamp::now().as_second();
        let filter = match request.as_of {
            None => narrow::filter(request.filter.clone(), request.conversation, now),
            Some(_) => narrow::past(request.filter.clone()),
        };
        let mut depth = self.options.prefetch.max(2 * request.limit);
        loop {
            let candidates = self.candidates(request, searched, dense, &filter, depth).await?;
            // Fewer than asked for: there are no others, however deep one looks.
            let exhausted = candidates.len() < depth || depth >= DEEPEST;
            let chosen = self.choose(request, candidates, dense, now).await?;
            if chosen.hits.len() >= request.limit || exhausted {
                return Ok(chosen);
            }
            depth = (4 * depth).min(DEEPEST);
        }
    }

    /// What the store names, best first, of all collections together. In one collection the store fuses
    /// the legs; over several the legs are merged by their own scores first, so that a passage that is
    /// only the best of a poor collection does not count like the best of all.
    async fn candidates(
        &self,
        request: &SearchRequest,
        searched: &[Collection],
        dense: &[Arc<[f32]>],
        filter: &Filter,
        depth: usize,
    ) -> Result<Vec<Candidate>, KnowledgeError> {
        let legs: &[SearchMode] = match (request.mode, searched) {
            (SearchMode::Hybrid, [_, _, ..]) => &[SearchMode::Dense, SearchMode::Sparse],
            (SearchMode::Hybrid, _) => &[SearchMode::Hybrid],
            (SearchMode::Dense, _) => &[SearchMode::Dense],
            (SearchMode::Sparse, _) => &[SearchMode::Sparse],
        };
        let mut ranked = Vec::with_capacity(legs.len());
        for leg in legs {
            let searches = searched.iter().enumerate().map(async |(at, collection)| {
                let keywords = self.base.keywords(&collection.keyword_language)?;
                let query = StoreQuery {
                    dense: dense.get(at).filter(|_| *leg != SearchMode::Sparse).map(|query| query.to_vec()),
                    bm25: (*leg != SearchMode::Dense).then(|| keywords.query(&request.query)),
                    filter: filter.clone(),
                    limit: depth,
                    prefetch: depth,
                };
                // By the build whose model the query's vector is of, not by the one that answers by now.
                let part = part_name(&collection.name, collection.generation);
                let found = self.base.builds.parts().search(&part, &query).await.map_err(|error| match error {
                    StoreError::NoCollection(_) => KnowledgeError::NoCollection(collection.name.clone()),
                    other => other.into(),
                })?;
                Ok::<_, KnowledgeError>(found.into_iter().map(move |p| Candidate {
                    collection: at,
                    point: p.id,
                    score: p.score,
                }))
            });
            let found = try_join_all(searches).await?;
            // Cosines of different models say nothing about each other: those are fused by rank too.
            let mut alike: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
            for (collection, candidates) in searched.iter().zip(found) {
                let model = if *leg == SearchMode::Dense { collection.embedding_model.as_str() } else { "" };
                alike.entry(model).or_default().extend(candidates);
            }
            ranked.extend(alike.into_values().map(|list| fuse::merge(list.into_iter(), depth)));
        }
        Ok(fuse::fuse(ranked))
    }

    /// The candidates that may be shown, in their order, at most as many as asked for.
    async fn choose(
        &self,
        request: &SearchRequest,
        candidates: Vec<Candidate>,
        dense: &[Arc<[f32]>],
        now: i64,
    ) -> Result<Chosen, KnowledgeError> {
        let scopes = [Some(Scope::Collection), request.conversation.map(Scope::Conversation)];
        let scopes: Vec<String> = scopes.iter().flatten().map(Scope::key).collect();
        let mut chosen = Chosen::default();
        let mut shown: HashSet<blake3::Hash> = HashSet::new();
        // Of each document the version that is shown, and how many chunks of it.
        let mut of_document: HashMap<(usize, String), (i64, usize)> = HashMap::new();
        for page in candidates.chunks(2 * request.limit.max(8)) {
            let mut live = self.live(request, page, &scopes, now).await?;
            for candidate in page {
                if chosen.hits.len() == request.limit {
                    return Ok(chosen);
                }
                let Some(chunk) = live.remove(&(candidate.collection, candidate.point)) else {
                    chosen.dropped = true;
                    continue;
                };
                let cosine = dense.get(candidate.collection).map(|query| dot(query, &chunk.embedding));
                if request.min_cosine.zip(cosine).is_some_and(|(least, cosine)| cosine < least) {
                    continue;
                }
                let key = (candidate.collection, chunk.document_id.clone());
                let (version, seen) = of_document.entry(key).or_insert((chunk.version, 0));
                chosen.torn |= *version != chunk.version;
                let crowded = request.per_document.is_some_and(|most| *seen >= most);
                if crowded || !shown.insert(blake3::hash(chunk.text.as_bytes())) {
                    continue;
                }
                *seen += 1;
                let collection = request.collections[candidate.collection].clone();
                chosen.hits.push(hit(collection, chunk, candidate.score, cosine));
            }
        }
        Ok(chosen)
    }

    async fn live(
        &self,
        request: &SearchRequest,
        page: &[Candidate],
        scopes: &[String],
        now: i64,
    ) -> Result<HashMap<(usize, Uuid), LiveChunk>, KnowledgeError> {
        let mut found = HashMap::new();
        for (at, name) in request.collections.iter().enumerate() {
            let points: Vec<Uuid> = page.iter().filter(|c| c.collection == at).map(|c| c.point).collect();
            let live = match request.as_of {
                None => chunks::live(&self.base.db, name, &points, scopes, now).await?,
                Some(at) => versions::live_at(&self.base.db, name, &points, at).await?,
            };
            for chunk in live {
                found.insert((at, chunk.point_id), chunk);
            }
        }
        Ok(found)
    }
}

fn check(request: &SearchRequest) -> Result<(), KnowledgeError> {
    if request.collections.is_empty() {
        return Err(KnowledgeError::BadSearch("a search needs a collection"));
    }
    if request.query.trim().is_empty() {
        return Err(KnowledgeError::BadSearch("a search needs a query"));
    }
    if request.limit == 0 {
        return Err(KnowledgeError::BadSearch("a search needs a limit of at least 1"));
    }
    if request.min_cosine.is_some() && request.mode == SearchMode::Sparse {
        return Err(KnowledgeError::BadSearch("a least score needs a search by meaning: mode hybrid or dense"));
    }
    Ok(())
}

/// Both are unit vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn hit(collection: String, chunk: LiveChunk, score: f32, cosine: Option<f32>) -> Hit {
    Hit {
        collection,
        document_id: chunk.document_id,
        chunk_id: chunk.chunk_id,
        title: chunk.title,
        uri: chunk.uri,
        text: format!("{}{}", chunk.shown_prefix, chunk.text),
        score,
        cosine,
        start: chunk.start,
        end: chunk.end,
        page: chunk.page,
        metadata: chunk.metadata,
        heading_path: chunk.heading_path,
        lines: chunk.lines,
        ordinal: chunk.ordinal,
    }
}
