//! Ranks of several searches as one. Pure.
//! Invariant: the same formula as the stores' own fusion: each list gives 1 / (k + place), places from 0.

use std::collections::HashMap;
use uuid::Uuid;

/// As in the stores.
const K: f32 = 2.0;

/// A point that a store named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Position of its collection in the request.
    pub collection: usize,
    pub point: Uuid,
    pub score: f32,
}

/// One list of several that were scored alike: best first, ties by id, at most `limit`.
pub(super) fn merge(candidates: impl Iterator<Item = Candidate>, limit: usize) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = candidates.collect();
    sort(&mut all);
    all.truncate(limit);
    all
}

/// One list of several that were scored each in its own way. A single list keeps its scores.
pub(super) fn fuse(mut lists: Vec<Vec<Candidate>>) -> Vec<Candidate> {
    if lists.len() == 1 {
        return lists.pop().unwrap_or_default();
    }
    let mut sums: HashMap<(usize, Uuid), f32> = HashMap::new();
    for list in &lists {
        for (place, candidate) in (0u16..).zip(list) {
            *sums.entry((candidate.collection, candidate.point)).or_default() += 1.0 / (K + f32::from(place));
        }
    }
    let mut all: Vec<Candidate> =
        sums.into_iter().map(|((collection, point), score)| Candidate { collection, point, score }).collect();
    sort(&mut all);
    all
}

fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.point.cmp(&b.point)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(usize, u128, f32)]) -> Vec<Candidate> {
        items
            .iter()
            .map(|(c, id, score)| Candidate { collection: *c, point: Uuid::from_u128(*id), score: *score })
            .collect()
    }

    #[test]
    fn what_stands_high_in_both_lists_comes_first() {
        let dense = list(&[(0, 1, 0.9), (1, 2, 0.8), (0, 3, 0.1)]);
        let words = list(&[(1, 2, 12.0), (0, 4, 3.0)]);
        let fused = fuse(vec![dense, words]);
        assert_eq!(fused, list(&[(1, 2, 1.0 / 3.0 + 0.5), (0, 1, 0.5), (0, 4, 1.0 / 3.0), (0, 3, 0.25)]));
    }

    #[test]
    fn one_list_keeps_its_scores_and_merging_cuts() {
        let one = list(&[(0, 1, 0.9), (0, 2, 0.1)]);
        assert_eq!(fuse(vec![one.clone()]), one);
        let both = list(&[(0, 5, 0.2), (1, 6, 0.9), (0, 7, 0.9)]);
        assert_eq!(merge(both.into_iter(), 2), list(&[(1, 6, 0.9), (0, 7, 0.9)]));
        assert!(fuse(Vec::new()).is_empty());
    }
}
