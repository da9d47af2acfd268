//! Source code without a grammar: layout tells its structure. A blank line before the least indented lines ends an
//! item, so a comment stays with the function below it; what does not fit is cut at its own least indented lines.

use super::outline::Path;
use super::prose::{self, Sizes};
use std::ops::Range;

/// Enclosing lines that a chunk names, and characters of each.
const MOST_ENCLOSING: usize = 3;
const ENCLOSING_CHARS: usize = 80;
/// Columns that a tab is worth.
const TAB: usize = 4;

/// How finely a range is to be cut.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// At blank lines.
    Items,
    /// At any line.
    Lines,
}

/// Cuts `range`: each part is the largest run of items, then lines, that fits; a line that does not fit is cut as
/// text.
pub(super) fn cut(sizes: &Sizes<'_, '_, '_>, range: &Range<usize>) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    let mut todo = vec![(range.clone(), Level::Items)];
    while let Some((range, level)) = todo.pop() {
        let code = sizes.text.get(range.clone()).unwrap_or_default();
        if sizes.cost(&range) <= sizes.limits.text {
            cuts.push(trimmed(code, range.start));
            continue;
        }
        let borders = borders(code, level);
        if borders.is_empty() {
            match level {
                Level::Items => todo.push((range, Level::Lines)),
                Level::Lines => cuts.extend(prose::text(sizes, &range)),
            }
            continue;
        }
        let parts = packed(sizes, &range, borders.into_iter().map(|at| range.start + at));
        todo.extend(parts.into_iter().rev().map(|part| (part, level)));
    }
    cuts.retain(|cut| !cut.is_empty());
    cuts
}

/// Neighbouring parts joined as long as they fit.
fn packed(sizes: &Sizes<'_, '_, '_>, range: &Range<usize>, borders: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut start = range.start;
    for end in borders.chain([range.end]) {
        match parts.last_mut() {
            Some(last) if sizes.cost(&(last.start..end)) <= sizes.limits.text => last.end = end,
            _ => parts.push(start..end),
        }
        start = end;
    }
    parts
}

/// Where lines begin, after the first, at which `code` is best cut: of the candidates the least indented.
fn borders(code: &str, level: Level) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut least = usize::MAX;
    let mut at = 0;
    let mut after_blank = false;
    for line in code.split_inclusive('\n') {
        let bare = line.trim();
        // A closing bracket belongs to what it closes.
        let is_candidate =
            !bare.is_empty() && !bare.starts_with(['}', ')', ']']) && (after_blank || matches!(level, Level::Lines));
        if is_candidate && at > 0 {
            let indent = indent(line);
            if indent < least {
                least = indent;
                found.clear();
            }
            if indent == least {
                found.push(at);
            }
        }
        after_blank = bare.is_empty();
        at += line.len();
    }
    found
}

/// Without blank lines around it; the first line keeps its indentation.
fn trimmed(code: &str, start: usize) -> Range<usize> {
    let end = code.trim_end().len();
    let blank = code.get(..end).and_then(|code| code.find(|c: char| !c.is_whitespace())).unwrap_or(end);
    let first = code.get(..blank).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    start + first..start + end
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).map(|c| if c == '\t' { TAB } else { 1 }).sum()
}

/// Goes through the lines once, for chunks in the order of their starts.
pub(super) struct Lines<'t> {
    text: &'t str,
    /// How far line ends have been looked for, where the line there begins, how many are before it.
    seen: usize,
    line_start: usize,
    before: usize,
    /// The last line of each smaller indentation.
    open: Vec<(usize, &'t str)>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, seen: 0, line_start: 0, before: 0, open: Vec::new() }
    }

    /// The lines that enclose the one at `start`, outermost first: the nearest ones above with less indentation.
    pub fn enclosing(&mut self, start: usize) -> Path {
        self.advance(start);
        let own = indent(self.text.get(self.line_start..).unwrap_or_default());
        let outer = self.open.get(..self.open.partition_point(|(depth, _)| *depth < own)).unwrap_or_default();
        const COMMENTS: &[&str] = &["//", "#", "*", "/*", "--", ";", "%"];
        let is_code = |line: &&str| !COMMENTS.iter().any(|mark| line.trim_start().starts_with(mark));
        let mut names: Vec<String> =
            outer.iter().rev().map(|(_, line)| *line).filter(is_code).take(MOST_ENCLOSING).map(signature).collect();
        names.reverse();
        Path { above: names.len(), names }
    }

    /// The numbers, from 1, of the lines in which `start` and the end before `end` are.
    pub fn numbers(&mut self, start: usize, end: usize) -> (usize, usize) {
        self.advance(start);
        let inside = self.text.as_bytes().get(start..end.saturating_sub(1)).unwrap_or_default();
        (self.before + 1, self.before + 1 + memchr::memchr_iter(b'\n', inside).count())
    }

    fn advance(&mut self, to: usize) {
        let unseen = self.text.as_bytes().get(self.seen..to).unwrap_or_default();
        for at in memchr::memchr_iter(b'\n', unseen) {
            let end = self.seen + at + 1;
            let line = self.text.get(self.line_start..end).unwrap_or_default();
            if line.contains(|c: char| c.is_alphanumeric()) {
                let depth = indent(line);
                self.open.truncate(self.open.partition_point(|(outer, _)| *outer < depth));
                self.open.push((depth, line));
            }
            self.line_start = end;
            self.before += 1;
        }
        self.seen = self.seen.max(to);
    }
}

fn signature(line: &str) -> String {
    line.trim().trim_end_matches(['{', ' ']).chars().take(ENCLOSING_CHARS).collect()
}
