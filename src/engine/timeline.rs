//! When things ran, in milliseconds since the turn began: what was hidden behind what. Pure.

/// Half-open `[from, to)` spans in milliseconds since the turn began.
pub type Interval = (u64, u64);

/// Silences shorter than this do not end a spell of speaking.
pub const SILENCE_MS: u64 = 200;

/// Spells in which text or reasoning arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    spells: Vec<Interval>,
}

impl Spoken {
    /// Notes that something arrived at `now_ms`; times never go back.
    pub fn note(&mut self, now_ms: u64) {
        match self.spells.last_mut() {
            Some((_, to)) if now_ms < *to + SILENCE_MS => *to = now_ms,
            _ => self.spells.push((now_ms, now_ms)),
        }
    }

    pub fn into_spells(self) -> Vec<Interval> {
        self.spells
    }
}

/// The same time without overlaps, in order.
pub fn union(intervals: &[Interval]) -> Vec<Interval> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<Interval> = Vec::with_capacity(sorted.len());
    for (from, to) in sorted {
        match out.last_mut() {
            Some((_, end)) if from <= *end => *end = (*end).max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Length of disjoint intervals.
pub fn length(disjoint: &[Interval]) -> u64 {
    disjoint.iter().map(|(from, to)| to.saturating_sub(*from)).sum()
}

/// Time in both; each side disjoint and in order.
pub fn common(a: &[Interval], b: &[Interval]) -> u64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some((a_from, a_to)), Some((b_from, b_to))) = (a.get(i), b.get(j)) {
        sum += (*a_to.min(b_to)).saturating_sub(*a_from.max(b_from));
        if a_to < b_to { i += 1 } else { j += 1 }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_counted_once() {
        let tools = union(&[(10, 30), (20, 40), (60, 70)]);
        assert_eq!(tools, [(10, 40), (60, 70)]);
        assert_eq!(length(&tools), 40);
        assert_eq!(common(&tools, &[(0, 35), (65, 100)]), 25 + 5);
        assert_eq!(common(&tools, &[]), 0);
    }

    #[test]
    fn short_silences_join() {
        let mut spoken = Spoken::default();
        for at in [0, 150, 349, 600, 700] {
            spoken.note(at);
        }
        assert_eq!(spoken.into_spells(), [(0, 349), (600, 700)]);
    }
}
