//! Beginnings of prompts that have been read already. Every prompt of a conversation begins as the last one
//! did, and every conversation begins with the same instructions and examples: reading them again is most of
//! a small model's delay.
//!
//! States are kept only at multiples of [`PIECE`] tokens, where an uncached reading has a border too. So an
//! answer does not depend on what is cached: the same numbers are added in the same order.

/// Tokens read in one step; a cancelled turn waits for at most one.
pub(super) const PIECE: usize = 32;

/// Model states after prompts' beginnings, the last used last.
pub(super) struct Prefixes<S> {
    kept: Vec<(Vec<u32>, S)>,
    /// Tokens of all kept beginnings together.
    budget: usize,
}

impl<S: Clone> Prefixes<S> {
    pub(super) fn new(budget: usize) -> Self {
        Self { kept: Vec::new(), budget }
    }

    /// The longest kept beginning of `prompt`, shorter than it: its length and state.
    pub(super) fn longest(&mut self, prompt: &[u32]) -> Option<(usize, S)> {
        let fits = |tokens: &[u32]| tokens.len() < prompt.len() && prompt.starts_with(tokens);
        let best = self.kept.iter().enumerate().filter(|(_, (t, _))| fits(t)).max_by_key(|(_, (t, _))| t.len())?.0;
        let used = self.kept.remove(best);
        let found = (used.0.len(), used.1.clone());
        self.kept.push(used);
        Some(found)
    }

    /// Where reading `prompt` from `start` should be kept, ascending: at its end, before `last_message` (what
    /// comes before is the same in a conversation that starts with another question), and where it parts from
    /// a prompt seen before.
    pub(super) fn marks(&self, prompt: &[u32], start: usize, last_message: usize) -> Vec<usize> {
        let shared = |t: &[u32]| t.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let parting = self.kept.iter().map(|(t, _)| shared(t)).max().unwrap_or(0);
        let mut marks: Vec<usize> = [parting, last_message, prompt.len().saturating_sub(1)]
            .into_iter()
            .map(|n| n - n % PIECE)
            .filter(|n| *n > start)
            .collect();
        marks.sort_unstable();
        marks.dedup();
        marks
    }

    /// Keeps a state; forgets the ones that have not been used for longest while over the budget.
    pub(super) fn keep(&mut self, tokens: &[u32], state: S) {
        self.kept.retain(|(t, _)| t != tokens);
        self.kept.push((tokens.to_vec(), state));
        while self.kept.iter().map(|(t, _)| t.len()).sum::<usize>() > self.budget {
            self.kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: usize, from: u32) -> Vec<u32> {
        (from..).take(n).collect()
    }

    #[test]
    fn the_longest_true_beginning_is_found() {
        let mut prefixes = Prefixes::new(1000);
        prefixes.keep(&tokens(32, 0), "a");
        prefixes.keep(&tokens(64, 0), "b");
        prefixes.keep(&tokens(96, 7), "c");
        assert_eq!(prefixes.longest(&tokens(100, 0)), Some((64, "b")));
        assert_eq!(prefixes.longest(&tokens(64, 0)), Some((32, "a")), "one token must be left to read");
        assert_eq!(prefixes.longest(&tokens(32, 0)), None);
    }

    #[test]
    fn states_are_kept_on_borders_only() {
        let mut prefixes = Prefixes::new(1000);
        assert_eq!(prefixes.marks(&tokens(100, 0), 0, 50), [32, 96]);
        assert_eq!(prefixes.marks(&tokens(96, 0), 0, 50), [32, 64]);
        let mut other = tokens(70, 0);
        other.extend(tokens(30, 900));
        prefixes.keep(&other, ());
        assert_eq!(prefixes.marks(&tokens(200, 0), 32, 40), [64, 192]);
    }

    #[test]
    fn the_budget_holds_and_the_least_used_goes() {
        let mut prefixes = Prefixes::new(100);
        prefixes.keep(&tokens(32, 0), 1);
        prefixes.keep(&tokens(32, 100), 2);
        assert!(prefixes.longest(&tokens(40, 0)).is_some());
        prefixes.keep(&tokens(64, 200), 3);
        assert!(prefixes.longest(&tokens(40, 0)).is_some(), "used since");
        assert!(prefixes.longest(&tokens(40, 100)).is_none());
        prefixes.keep(&tokens(200, 300), 4);
        assert!(prefixes.kept.is_empty(), "nothing larger than the budget stays");
    }
}
