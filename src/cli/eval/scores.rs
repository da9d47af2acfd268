//! The measures of ranked lists, and how sure their means are. Pure.

use std::collections::HashMap;

/// The three measures of one query, or their means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    pub ndcg: f64,
    pub recall: f64,
    pub mrr: f64,
}

/// Resamples of a bootstrap.
const RESAMPLES: usize = 1000;

impl Scores {
    pub fn mean(all: &[Self]) -> Self {
        Self { ndcg: mean(all, |s| s.ndcg), recall: mean(all, |s| s.recall), mrr: mean(all, |s| s.mrr) }
    }

    /// Between which two values the mean nDCG lies in 95 of 100 draws of as many queries: a bootstrap with a fixed
    /// seed, so that the same results give the same interval.
    pub fn ndcg_interval(all: &[Self]) -> (f64, f64) {
        if all.is_empty() {
            return (0.0, 0.0);
        }
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or_default() % all.len()
        };
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn: Vec<Self> = (0..all.len()).map(|_| all[next()]).collect();
                mean(&drawn, |s| s.ndcg)
            })
            .collect();
        means.sort_by(f64::total_cmp);
        (means[RESAMPLES * 25 / 1000], means[RESAMPLES * 975 / 1000 - 1])
    }
}

/// The mean of a measure; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a count of queries")]
pub fn mean<T>(all: &[T], of: impl Fn(&T) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
}

/// nDCG@10 with linear gains, Recall@100 and MRR@10, as BEIR's own evaluation computes them.
pub fn score(ranked: &[String], relevant: &HashMap<String, f64>) -> Scores {
    let gain = |id: &String| relevant.get(id).copied().unwrap_or(0.0);
    let discounted = |gains: &[f64]| -> f64 { (2u32..).zip(gains).map(|(at, gain)| gain / f64::from(at).log2()).sum() };
    let gains: Vec<f64> = ranked.iter().take(10).map(gain).collect();
    let mut ideal: Vec<f64> = relevant.values().copied().collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    ideal.truncate(10);
    let best = discounted(&ideal);
    let found = ranked.iter().take(100).filter(|id| gain(id) > 0.0).count();
    let first = (1u32..).zip(&gains).find(|(_, gain)| **gain > 0.0).map_or(0.0, |(at, _)| 1.0 / f64::from(at));
    #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
    let recall = if relevant.is_empty() { 0.0 } else { found as f64 / relevant.len() as f64 };
    Scores { ndcg: if best > 0.0 { discounted(&gains) / best } else { 0.0 }, recall, mrr: first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_agree_with_hand_made_ones() {
        let relevant = HashMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]);
        let ranked = |ids: &[&str]| ids.iter().map(|i| (*i).to_owned()).collect::<Vec<_>>();
        assert_eq!(score(&ranked(&["a", "b"]), &relevant), Scores { ndcg: 1.0, recall: 1.0, mrr: 1.0 });
        let late = score(&ranked(&["x", "a"]), &relevant);
        assert_eq!((late.recall, late.mrr), (0.5, 0.5));
        let ideal = 1.0 + 1.0 / 3f64.log2();
        assert!((late.ndcg - (1.0 / 3f64.log2()) / ideal).abs() < 1e-12);
        assert_eq!(score(&[], &relevant), Scores::default());
    }

    #[test]
    fn the_interval_holds_the_mean_and_narrows_with_more_queries() {
        let half = |n: usize| -> Vec<Scores> {
            (0..n).map(|i| Scores { ndcg: if i % 2 == 0 { 1.0 } else { 0.0 }, ..Scores::default() }).collect()
        };
        let width = |n: usize| {
            let (low, high) = Scores::ndcg_interval(&half(n));
            assert!(low < 0.5 && high > 0.5, "{low} {high}");
            high - low
        };
        // Two standard errors of a fair coin on either side: 0.2 for 100, 0.05 for 1,600.
        let (few, many) = (width(100), width(1600));
        assert!((few - 0.2).abs() < 0.03 && (many - 0.05).abs() < 0.01, "{few} {many}");
        assert_eq!(Scores::ndcg_interval(&[]), (0.0, 0.0));
    }
}
