//! Prose and Markdown: text-splitter cuts at structural borders, sizes come from the sums of `measure`.

use super::Limits;
use super::borders;
use super::measure::{Measure, Weight};
use super::outline::Outline;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use text_splitter::{ChunkConfig, ChunkSizer, MarkdownSplitter, TextSplitter};

/// A chunk that costs less than this share of the limit (1 of 8) joins a neighbour where both fit: a heading or an
/// opening fence says nothing alone.
const SMALL_SHARE: usize = 8;

/// Bytes in which plain text is cut at a time.
const WINDOW: usize = 8 << 10;

/// Bytes of a table's header row that are looked at.
const HEADER: usize = 2 << 10;

/// A table header as it is carried, with what it costs.
type Header = (String, Weight);

/// What a candidate costs: its own tokens, and those of the table header that it must carry.
pub(super) struct Sizes<'a, 't, 'c> {
    pub text: &'t str,
    pub measure: &'a Measure<'t, 'c>,
    pub outline: &'a Outline,
    pub limits: Limits,
    headers: RefCell<HashMap<usize, Header>>,
}

impl<'a, 't, 'c> Sizes<'a, 't, 'c> {
    pub fn new(text: &'t str, measure: &'a Measure<'t, 'c>, outline: &'a Outline, limits: Limits) -> Self {
        Self { text, measure, outline, limits, headers: RefCell::default() }
    }

    pub fn cost(&self, range: &Range<usize>) -> usize {
        self.measure.cost(range) + self.header(range.start).map_or(0, |(_, weight)| weight.cost)
    }

    /// The header row for a chunk that begins at `at`, in the middle of a table: at most half of the limit, cut
    /// between cells.
    pub fn header(&self, at: usize) -> Option<Header> {
        let row = self.outline.table_header(at)?;
        let mut headers = self.headers.borrow_mut();
        let header = headers.entry(row.start).or_insert_with(|| {
            let row = self.text.get(row.clone()).unwrap_or_default();
            let mut header = row.get(..row.floor_char_boundary(HEADER)).unwrap_or_default().trim();
            if header.len() < row.trim().len() {
                header = header.get(..header.rfind('|').map_or(0, |at| at + 1)).unwrap_or_default();
            }
            loop {
                let weight = self.measure.count(header);
                if weight.cost <= self.limits.text / 2 || header.is_empty() {
                    return (header.to_owned(), weight);
                }
                // Half of it, to the end of a cell.
                let half = header.floor_char_boundary(header.len() / 2);
                let cell = header.get(..half).and_then(|part| part.rfind('|')).map_or(0, |at| at + 1);
                header = header.get(..cell).unwrap_or_default();
                if header == "|" {
                    header = "";
                }
            }
        });
        (!header.0.is_empty()).then(|| header.clone())
    }

    fn config(&self) -> ChunkConfig<&Self> {
        let config = || ChunkConfig::new(self.limits.text).with_sizer(self);
        config().with_overlap(self.limits.overlap).unwrap_or_else(|_| config())
    }
}

impl ChunkSizer for Sizes<'_, '_, '_> {
    fn size(&self, chunk: &str) -> usize {
        let start = self.measure.offset_of(chunk);
        self.cost(&(start..start + chunk.len()))
    }
}

pub(super) fn markdown(sizes: &Sizes<'_, '_, '_>, range: &Range<usize>) -> Vec<Range<usize>> {
    let splitter = MarkdownSplitter::new(sizes.config());
    let cuts = splitter.chunk_indices(sizes.text.get(range.clone()).unwrap_or_default());
    cuts.map(|(at, chunk)| range.start + at..range.start + at + chunk.len()).collect()
}

/// Cuts what has no other structure than lines, sentences and words. A window slides over the range, because the
/// splitter looks for these in all that is left of its text, for each chunk anew.
pub(super) fn text(sizes: &Sizes<'_, '_, '_>, range: &Range<usize>) -> Vec<Range<usize>> {
    let splitter = TextSplitter::new(sizes.config());
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let mut end = range.end;
        if range.end - start > WINDOW {
            let window = sizes.text.floor_char_boundary(start + WINDOW);
            let border = borders::grapheme_border(sizes.text, window);
            end = if border > start { border } else { window };
        }
        let found = splitter.chunk_indices(sizes.text.get(start..end).unwrap_or_default());
        cuts.extend(found.map(|(at, chunk)| start + at..start + at + chunk.len()));
        // The last chunk may go on behind the window: it is cut anew from its start.
        start = match cuts.last() {
            Some(last) if end < range.end && last.start > start => last.start,
            _ => end,
        };
        if start < end {
            cuts.pop();
        }
    }
    cuts
}

/// Moves the ends of chunks so that a heading stands with what is below it, and a fence with what it encloses.
pub(super) fn mend_ends(mut cuts: Vec<Range<usize>>, sizes: &Sizes<'_, '_, '_>) -> Vec<Range<usize>> {
    let ends = cuts.len().saturating_sub(1);
    for at in 0..ends {
        let Some([cut, next]) = cuts.get_mut(at..at + 2) else { break };
        let end = sizes.outline.better_end(sizes.text, cut).min(next.end);
        if end < cut.end {
            next.start = next.start.min(end.max(cut.start));
        } else if end > cut.end {
            next.start = next.start.max(end);
        }
        cut.end = end.max(cut.start);
    }
    cuts.retain(|cut| !sizes.text.get(cut.clone()).unwrap_or_default().trim().is_empty());
    cuts
}

/// Joins chunks that are too small to say anything with the next one, or else the one before.
pub(super) fn merge_small(cuts: Vec<Range<usize>>, sizes: &Sizes<'_, '_, '_>) -> Vec<Range<usize>> {
    let limit = sizes.limits.text;
    let is_small = |range: &Range<usize>| sizes.measure.cost(range) * SMALL_SHARE < limit;
    let fits = |from: &Range<usize>, to: &Range<usize>| sizes.cost(&(from.start..to.end.max(from.end))) <= limit;
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(cuts.len());
    let mut cuts = cuts.into_iter().peekable();
    while let Some(cut) = cuts.next() {
        match (cuts.peek_mut(), merged.last_mut()) {
            (Some(next), _) if is_small(&cut) && fits(&cut, next) => next.start = cut.start,
            (_, Some(last)) if is_small(&cut) && fits(last, &cut) => last.end = cut.end.max(last.end),
            _ => merged.push(cut),
        }
    }
    merged
}
