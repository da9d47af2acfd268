//! The legs of a search as one list. Pure.
//!
//! Scores, not ranks, are fused, by their distribution (DBSF): a leg's score counts by where it lies between three
//! standard deviations below and above the mean of the leg's best ones, and a passage's score is the sum over the
//! legs, weighed by how much of the query each can read. docs/retrieval.md has what this was measured against.
//! Invariants: the order depends on what the legs named alone, whatever store that was, and how many candidates were
//! asked for does not change the order of those that were named before.

use super::Place;
use std::collections::HashMap;
use uuid::Uuid;

/// A point that a leg of a store named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Named {
    /// Position of its collection in the request.
    pub collection: usize,
    pub point: Uuid,
    pub score: f32,
}

/// A point with all that the legs said of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub collection: usize,
    pub point: Uuid,
    pub score: f32,
    pub dense: Option<Place>,
    pub bm25: Option<Place>,
}

/// What one model finds near the query.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    /// Best first.
    pub named: Vec<Named>,
    /// Share of the query that the model cannot read, 0 to 1: so much of its weight goes to the words.
    pub unread: f32,
}

/// One leg's hits in several collections: best first, ties by id, at most `limit`.
pub(super) fn merge(named: &mut Vec<Named>, limit: usize) {
    named.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.point.cmp(&b.point)));
    named.truncate(limit);
}

/// All legs' hits, best first. `meaning_of`: which of `meanings` a collection's are; empty for a search by words.
/// `span`: so many of a leg's best scores make its distribution and count, however many candidates are asked for.
/// Where only one leg found anything, its scores stay as they are.
pub(super) fn fuse(meanings: Vec<Meaning>, meaning_of: &[usize], words: Vec<Named>, span: usize) -> Vec<Candidate> {
    let filled = meanings.iter().filter(|meaning| !meaning.named.is_empty()).count() + usize::from(!words.is_empty());
    // By collection's model: how its scores are stretched, and what they weigh.
    let by_meaning: Vec<(Stretch, f32)> = meanings
        .iter()
        .map(|meaning| (Stretch::of(&meaning.named, span, 0), 0.5 * (1.0 - meaning.unread.clamp(0.0, 1.0))))
        .collect();
    // Whatever holds none of the words has the score 0, and is as much a part of the distribution: the one passage with
    // a rare word stands far out.
    let places = meanings.iter().map(|meaning| meaning.named.len()).fold(words.len(), usize::max).min(span);
    let by_words = Stretch::of(&words, span, places);
    let mut all: HashMap<(usize, Uuid), Candidate> = HashMap::new();
    let legs = meanings.into_iter().map(|meaning| (meaning.named, true)).chain([(words, false)]);
    for (list, is_meaning) in legs {
        for (rank, Named { collection, point, score }) in (1..).zip(list) {
            let none = Candidate { collection, point, score, dense: None, bm25: None };
            let candidate = all.entry((collection, point)).or_insert(none);
            let place = Some(Place { rank, score });
            if is_meaning { candidate.dense = place } else { candidate.bm25 = place }
        }
    }
    let mut all: Vec<Candidate> = all.into_values().collect();
    if filled > 1 {
        let counts = |place: &Place| usize::try_from(place.rank).is_ok_and(|rank| rank <= span);
        for candidate in &mut all {
            let [dense, bm25] = [candidate.dense, candidate.bm25].map(|p| p.filter(counts).map(|place| place.score));
            let meaning = meaning_of.get(candidate.collection).and_then(|at| by_meaning.get(*at));
            let (near, weight) = meaning.map_or((0.0, 0.0), |(stretch, weight)| (stretch.apply(dense), *weight));
            candidate.score = weight * near + (1.0 - weight) * by_words.apply(bm25);
        }
    }
    // Behind those that count, and where all scores of a leg are equal, the places decide.
    let nearest = |candidate: &Candidate| [candidate.dense, candidate.bm25].iter().flatten().map(|p| p.rank).min();
    all.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| nearest(a).cmp(&nearest(b))).then(a.point.cmp(&b.point))
    });
    all
}

/// How a leg's scores are stretched: what lies three standard deviations below the mean counts 0, above it 1.
#[derive(Clone, Copy)]
struct Stretch {
    floor: f32,
    width: f32,
}

const DEVIATIONS: f32 = 3.0;

impl Stretch {
    #[expect(clippy::cast_precision_loss, reason = "a count of candidates")]
    /// `places`: where the leg has fewer, the rest count as 0.
    fn of(leg: &[Named], span: usize, places: usize) -> Self {
        let best = &leg[..leg.len().min(span.max(1))];
        let rest = places.saturating_sub(best.len()) as f32;
        let count = (best.len() as f32 + rest).max(1.0);
        let mean = best.iter().map(|named| named.score).sum::<f32>() / count;
        let squares = best.iter().map(|named| (named.score - mean).powi(2)).sum::<f32>() + rest * mean * mean;
        let variance = squares / count;
        let reach = DEVIATIONS * variance.sqrt();
        Self { floor: mean - reach, width: 2.0 * reach }
    }

    /// 0 for what is not among the leg's best.
    fn apply(self, score: Option<f32>) -> f32 {
        match score {
            None => 0.0,
            // All are equal: ordinary.
            Some(_) if self.width <= f32::EPSILON => 0.5,
            Some(score) => ((score - self.floor) / self.width).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fused(dense: Vec<Named>, words: Vec<Named>, unread: f32) -> Vec<Candidate> {
        let collections = dense.iter().chain(&words).map(|named| named.collection + 1).max().unwrap_or(0);
        fuse(vec![Meaning { named: dense, unread }], &vec![0; collections], words, 100)
    }

    fn list(items: &[(usize, u128, f32)]) -> Vec<Named> {
        items
            .iter()
            .map(|(c, id, score)| Named { collection: *c, point: Uuid::from_u128(*id), score: *score })
            .collect()
    }

    fn order(fused: &[Candidate]) -> Vec<(usize, u128)> {
        fused.iter().map(|c| (c.collection, c.point.as_u128())).collect()
    }

    #[test]
    fn what_stands_out_in_both_legs_comes_first() {
        let dense = list(&[(0, 1, 0.9), (1, 2, 0.8), (0, 3, 0.4)]);
        let words = list(&[(1, 2, 12.0), (0, 4, 9.0), (0, 5, 3.0)]);
        let all = fused(dense.clone(), words.clone(), 0.0);
        assert_eq!(order(&all), [(1, 2), (0, 1), (0, 4), (0, 5), (0, 3)]);
        // Means 0.7 and 8, deviations 0.216 and 3.742, three of them on either side.
        for (candidate, score) in all.iter().zip([0.577_15 + 0.678_17, 0.654_3, 0.544_54, 0.277_3, 0.268_5]) {
            assert!((candidate.score - 0.5 * score).abs() < 1e-3, "{score} {all:?}");
        }
        assert_eq!(all[0].dense, Some(Place { rank: 2, score: 0.8 }));
        assert_eq!(all[0].bm25, Some(Place { rank: 1, score: 12.0 }));
        assert_eq!(all[1].bm25, None);
        let unread = fused(dense, words, 1.0);
        assert_eq!(order(&unread)[..3], [(1, 2), (0, 4), (0, 5)], "only words count");
        assert!(unread[3].score.abs() < 1e-6 && unread[4].score.abs() < 1e-6, "{unread:?}");
    }

    #[test]
    fn one_leg_keeps_its_scores_and_merging_cuts() {
        let one = list(&[(0, 1, 0.9), (0, 2, 0.1)]);
        let scores = |candidates: Vec<Candidate>| candidates.iter().map(|c| c.score).collect::<Vec<_>>();
        assert_eq!(scores(fused(one.clone(), Vec::new(), 0.0)), [0.9, 0.1]);
        assert_eq!(scores(fused(Vec::new(), one.clone(), 0.0)), [0.9, 0.1]);
        let mut merged = list(&[(0, 5, 0.2), (1, 6, 0.9), (0, 7, 0.9)]);
        merge(&mut merged, 2);
        assert_eq!(merged, list(&[(1, 6, 0.9), (0, 7, 0.9)]));
        assert_eq!(scores(fuse(Vec::new(), &[], one, 100)), [0.9, 0.1], "a search by words");
        assert!(fused(Vec::new(), Vec::new(), 0.0).is_empty());
        let equal = fused(list(&[(0, 1, 0.5), (0, 2, 0.5)]), list(&[(0, 2, 3.0)]), 0.0);
        assert_eq!(equal[0].point.as_u128(), 2, "{equal:?}");
    }

    #[test]
    fn the_only_passage_with_a_rare_word_comes_first() {
        for others in [1, 3, 30, 200] {
            let near: Vec<_> = (0..others).map(|at| (0, 10 + at, 0.9 - at as f32 / 300.0)).collect();
            for in_both in [false, true] {
                let mut dense = list(&near);
                if in_both {
                    dense.extend(list(&[(0, 1, 0.0)]));
                }
                let all = fused(dense, list(&[(0, 1, 7.0)]), 0.0);
                assert_eq!(all[0].point.as_u128(), 1, "{others} {in_both}");
            }
        }
    }

    /// Cosines of two models cannot be compared: what stands out for its own model comes first.
    #[test]
    fn each_models_scores_are_a_leg_of_their_own() {
        let high = Meaning { named: list(&[(0, 1, 0.90), (0, 2, 0.89), (0, 3, 0.88)]), unread: 0.0 };
        let low = Meaning { named: list(&[(1, 4, 0.50), (1, 5, 0.11), (1, 6, 0.10)]), unread: 0.0 };
        let all = fuse(vec![high, low], &[0, 1], Vec::new(), 100);
        assert_eq!(order(&all)[..2], [(1, 4), (0, 1)], "{all:?}");
    }

    #[test]
    fn asking_for_more_changes_nothing_above() {
        let leg = |seed: u128, n: u128| -> Vec<Named> {
            let items: Vec<_> = (0..n).map(|i| (0, (i * seed) % 997, 1.0 / (1.0 + i as f32))).collect();
            list(&items)
        };
        let few = fused(leg(7, 100), leg(11, 100), 0.0);
        let many = fused(leg(7, 400), leg(11, 400), 0.0);
        assert_eq!(order(&few)[..20], order(&many)[..20]);
    }
}
