//! What stands before a chunk's text when it is embedded: the document's title and the headings above, shortened
//! to what fits. The text is never shortened for it.

use super::measure::{Measure, Weight};
use super::outline::Path;

/// The parts from the outermost on.
pub(super) struct Context<'a> {
    parts: Vec<&'a str>,
}

impl<'a> Context<'a> {
    /// The title is left out where the first heading or the text itself says it.
    pub fn new(title: Option<&'a str>, path: &'a Path, text: &str) -> Self {
        let above = path.names.iter().take(path.above).map(String::as_str);
        let is_same = |a: &str, b: &str| a.trim().eq_ignore_ascii_case(b.trim());
        let says_title = |title: &str| {
            path.names.first().is_some_and(|name| is_same(name, title))
                || text.lines().next().is_some_and(|line| is_same(line.trim_start_matches('#'), title))
        };
        let title = title.map(str::trim).filter(|title| !title.is_empty() && !says_title(title));
        Self { parts: title.into_iter().chain(above).collect() }
    }

    /// The parts joined by ` > ` in at most `limit` tokens. Middle parts go first, then the longer of the last two;
    /// a single one loses words at its end.
    pub fn fitted(mut self, limit: usize, measure: &Measure<'_, '_>) -> (String, Weight) {
        loop {
            let joined = self.parts.join(" > ");
            let weight = measure.count(&joined);
            if weight.cost <= limit {
                return (joined, weight);
            }
            match self.parts.as_mut_slice() {
                [] => return (String::new(), Weight::NOTHING),
                [only] => {
                    *only = only
                        .get(..only.trim_end().rfind(char::is_whitespace).unwrap_or(0))
                        .unwrap_or_default()
                        .trim_end()
                }
                [first, last] => {
                    let longer = usize::from(last.len() > first.len());
                    self.parts.remove(longer);
                }
                _ => {
                    self.parts.remove(1);
                }
            }
        }
    }
}
