//! Which candidates become hits: those that SQL lets through, in their order, each text once.

use super::super::Scope;
use super::super::error::KnowledgeError;
use super::fuse::Candidate;
use super::{DropReason, Dropped, Hit, Read, Retrieve, SearchRequest};
use crate::storage::chunks::{self, LiveChunk};
use crate::storage::versions;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// What one look found.
#[derive(Default)]
pub(super) struct Chosen {
    pub hits: Vec<Hit>,
    pub dropped: Vec<Dropped>,
    /// The store named points that may not be shown.
    pub not_live: bool,
    /// There are hits of two versions of one document: it changed between two checks.
    pub torn: bool,
}

impl Retrieve {
    /// The candidates that may be shown, in their order, at most as many as asked for.
    pub(super) async fn choose(
        &self,
        request: &SearchRequest,
        candidates: Vec<Candidate>,
        query: &[Read],
        now: i64,
    ) -> Result<Chosen, KnowledgeError> {
        let scopes = [Some(Scope::Collection), request.conversation.map(Scope::Conversation)];
        let scopes: Vec<String> = scopes.iter().flatten().map(Scope::key).collect();
        let mut chosen = Chosen::default();
        let mut shown: HashSet<blake3::Hash> = HashSet::new();
        // Of each document the version that is shown, and how many chunks of it.
        let mut of_document: HashMap<(usize, String), (i64, usize)> = HashMap::new();
        for page in candidates.chunks(2 * request.limit.max(8)) {
            if chosen.hits.len() == request.limit && !request.explain {
                break;
            }
            let mut live = self.live(request, page, &scopes, now).await?;
            for candidate in page {
                if chosen.hits.len() == request.limit && !request.explain {
                    break;
                }
                let Some(chunk) = live.remove(&(candidate.collection, candidate.point)) else {
                    chosen.not_live = true;
                    chosen.drop(DropReason::NotLive, candidate, None);
                    continue;
                };
                let cosine = query.get(candidate.collection).map(|read| dot(&read.vector, &chunk.embedding));
                let key = (candidate.collection, chunk.document_id.clone());
                let (version, seen) = of_document.entry(key).or_insert((chunk.version, 0));
                chosen.torn |= *version != chunk.version;
                let why = if request.min_cosine.zip(cosine).is_some_and(|(least, cosine)| cosine < least) {
                    Some(DropReason::BelowMinScore)
                } else if chosen.hits.len() == request.limit {
                    Some(DropReason::BeyondLimit)
                } else if request.per_document.is_some_and(|most| *seen >= most) {
                    Some(DropReason::PerDocument)
                } else if !shown.insert(blake3::hash(chunk.text.as_bytes())) {
                    Some(DropReason::SameText)
                } else {
                    None
                };
                if let Some(why) = why {
                    chosen.drop(why, candidate, Some((chunk.document_id, chunk.chunk_id)));
                    continue;
                }
                *seen += 1;
                let collection = request.collections[candidate.collection].clone();
                let places = [candidate.dense, candidate.bm25];
                chosen.hits.push(Hit::new(collection, chunk, candidate.score, cosine, places));
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

impl Chosen {
    fn drop(&mut self, why: DropReason, candidate: &Candidate, chunk: Option<(String, Uuid)>) {
        let Candidate { score, dense, bm25, .. } = *candidate;
        self.dropped.push(Dropped { why, chunk, score, dense, bm25 });
    }

    /// A hit that goes after all.
    pub(super) fn drop_hit(&mut self, why: DropReason, hit: Hit) {
        let Hit { document_id, chunk_id, fused, dense, bm25, .. } = hit;
        self.dropped.push(Dropped { why, chunk: Some((document_id, chunk_id)), score: fused, dense, bm25 });
    }
}

/// Both are unit vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
