//! Whether what an answer says stands in its sources: each finished sentence against the passages, by names, numbers
//! and words, and where those leave it open by the similarity of meaning.
//!
//! Nothing here asks a language model. docs/retrieval.md says how often it is right.

pub mod sentences;
mod verdict;

use super::base::Base;
use super::error::KnowledgeError;
use super::keyword::{self, Keywords};
use super::{Embedder, Priority};
use sentences::Sentence;
use std::sync::Arc;
use verdict::{COVERED, Evidence, Match, Parts};

/// Similarity of a sentence and a passage that say the same in other words.
const SAME_MEANING: f32 = 0.7;
/// Below this they are about something else.
const OTHER_MEANING: f32 = 0.5;
/// Shares of a claim's words: enough beside a similar meaning, too few to be a hint.
const PARTLY: f32 = 0.4;
const HARDLY: f32 = 0.3;
/// Places that are compared by meaning, best first.
const COMPARED: usize = 2;

/// What a claim is held against.
#[derive(Clone, Debug)]
pub struct Support {
    /// Its number in the conversation; `None` for a tool's result.
    pub n: Option<u32>,
    pub title: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    Supported,
    Weak,
    Unsupported,
}

/// What became of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub standing: Standing,
    /// The sources that support it, or come nearest.
    pub sources: Vec<u32>,
}

/// Reads claims. Cheap to clone.
#[derive(Clone)]
pub struct Claims {
    base: Base,
}

/// Sources that are ready to be looked through.
#[derive(Clone)]
pub struct Ground {
    keywords: Keywords,
    evidence: Arc<[Numbered]>,
}

/// A source with its number.
struct Numbered {
    n: Option<u32>,
    evidence: Evidence,
}

impl Claims {
    pub fn new(base: Base) -> Self {
        Self { base }
    }

    /// # Errors
    /// Where the keyword model cannot be made or a worker stopped.
    pub async fn ground(&self, supports: Vec<Support>) -> Result<Ground, KnowledgeError> {
        let base = self.base.clone();
        self.base
            .off_runtime(Priority::Turn, move || {
                let texts: Vec<&str> = supports.iter().map(|support| support.text.as_str()).collect();
                let keywords = base.keywords(keyword::detect(&texts).name())?;
                let read = |s: &Support| Numbered { n: s.n, evidence: Evidence::of(&keywords, &s.title, &s.text) };
                let evidence = supports.iter().map(read).collect();
                Ok(Ground { keywords, evidence })
            })
            .await?
    }

    /// One judgement for each sentence, in order.
    ///
    /// # Errors
    /// A worker that stopped.
    pub async fn judge(&self, ground: &Ground, claims: Vec<Sentence>) -> Result<Vec<Judgement>, KnowledgeError> {
        let ground = ground.clone();
        let open = move || claims.into_iter().map(|claim| Open::of(&ground, claim)).collect::<Vec<_>>();
        let open = self.base.off_runtime(Priority::Turn, open).await?;
        let mut judged = Vec::with_capacity(open.len());
        for claim in open {
            let similar = match claim.by_words() {
                Some(_) => None,
                None => claim.similarity(self.base.embedders.default().as_ref()).await,
            };
            judged.push(claim.judge(similar));
        }
        Ok(judged)
    }
}

/// A claim with what every source has of it, the best first.
struct Open {
    claim: Sentence,
    found: Vec<(Option<u32>, Match)>,
}

impl Open {
    fn of(ground: &Ground, claim: Sentence) -> Self {
        let parts = Parts::of(&ground.keywords, &claim.text);
        let found = ground.evidence.iter().filter_map(|source| Some((source.n, source.evidence.look_for(&parts)?)));
        let mut found: Vec<(Option<u32>, Match)> = found.collect();
        found.sort_by(|(_, a), (_, b)| {
            a.missing_here.cmp(&b.missing_here).then(b.covered.total_cmp(&a.covered)).then(a.missing.cmp(&b.missing))
        });
        Self { claim, found }
    }

    /// `None` where the words leave it open.
    fn by_words(&self) -> Option<Standing> {
        let Some((_, best)) = self.found.first() else { return Some(Standing::Unsupported) };
        if self.found.iter().all(|(_, found)| found.missing > 0) {
            return Some(Standing::Unsupported);
        }
        if best.missing_here > 0 {
            // All names and numbers are there, but not together.
            return Some(Standing::Weak);
        }
        (best.covered >= COVERED).then_some(Standing::Supported)
    }

    /// Of the claim and the places that have most of it; `None` where the embedding model cannot say.
    async fn similarity(&self, embedder: &dyn Embedder) -> Option<f32> {
        let places = self.found.iter().take(COMPARED).map(|(_, found)| found.text.clone());
        let texts: Vec<String> = std::iter::once(self.claim.text.clone()).chain(places).map(short).collect();
        let vectors = embedder.embed(texts, Priority::Turn).await.ok()?;
        let (claim, places) = vectors.split_first()?;
        places.iter().map(|place| claim.iter().zip(place).map(|(x, y)| x * y).sum::<f32>()).max_by(f32::total_cmp)
    }

    fn judge(self, similar: Option<f32>) -> Judgement {
        let covered = self.found.first().map_or(0.0, |(_, found)| found.covered);
        let similar = similar.unwrap_or(0.0);
        let standing = self.by_words().unwrap_or(match (covered, similar) {
            (covered, similar) if covered >= PARTLY && similar >= SAME_MEANING => Standing::Supported,
            (covered, similar) if covered < HARDLY && similar < OTHER_MEANING => Standing::Unsupported,
            _ => Standing::Weak,
        });
        if standing == Standing::Unsupported {
            return Judgement { standing, sources: Vec::new() };
        }
        // Those that have as much of it as the best one.
        let alike = |found: &Match| {
            self.found.first().is_some_and(|(_, best)| {
                found.missing_here == best.missing_here && (found.covered - best.covered).abs() < 0.05
            })
        };
        let mut sources: Vec<u32> =
            self.found.iter().filter(|(_, found)| alike(found)).filter_map(|(n, _)| *n).collect();
        sources.sort_unstable();
        // It cites others than those that support it.
        let elsewhere = !self.claim.cites.is_empty()
            && !sources.is_empty()
            && !self.claim.cites.iter().any(|n| sources.contains(n));
        let standing = if elsewhere { Standing::Weak } else { standing };
        Judgement { standing, sources }
    }
}

/// What surely fits an embedding model's window: nobody is helped by an error here.
fn short(text: String) -> String {
    let end = text.floor_char_boundary(400);
    if end == text.len() { text } else { text[..end].to_owned() }
}
