//! Where a text may be cut: large texts into pieces first, and never inside a grapheme.

use super::measure::{Measure, is_mark};
use super::outline::Outline;
use crate::knowledge::extract::Form;
use std::ops::Range;
use unicode_segmentation::GraphemeCursor;

/// Pieces are at most this long: splitters take more than linear time over more, most of all over Markdown.
const PIECE: usize = 64 << 10;
const MARKDOWN_PIECE: usize = 32 << 10;
/// A longer line is a piece of its own, and no Markdown: to find its sentences and words takes time.
const LONG_LINE: usize = 16 << 10;
/// More white space than this is a border. It costs no tokens, so a splitter would creep through it.
const WIDE_BLANK: usize = 256;
/// Bytes around a place in which the end of its grapheme is looked for.
const GRAPHEME: usize = 16 << 10;

/// A part of a document that is cut by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub range: Range<usize>,
    /// Part of a line or of a block: not to be read as Markdown.
    pub is_plain: bool,
}

/// The text in pieces, none of them blank, cut at the best border in the second half of each: headings and blocks
/// in Markdown, else blank lines (before an unindented line in code), else line ends, white space, graphemes.
pub(super) fn pieces(text: &str, outline: &Outline, form: Form) -> Vec<Piece> {
    let is_markdown = form == Form::Markdown;
    let most = if is_markdown { MARKDOWN_PIECE } else { PIECE };
    let begins_block = |at: usize| at == 0 || outline.blocks.binary_search_by_key(&at, |(start, _)| *start).is_ok();
    let mut pieces = Vec::new();
    for run in runs(text) {
        let mut start = run.range.start;
        while run.range.end - start > most {
            let window = start + most / 2..text.floor_char_boundary(start + most);
            let end = block_border(outline, &window)
                .filter(|_| !run.is_plain)
                .or_else(|| line_border(text, &window, form))
                .unwrap_or_else(|| grapheme_border(text, window.end));
            // A grapheme that reaches out of the window is cut with the window.
            let end = if end > start { end } else { window.end };
            pieces.push(Piece { range: start..end, is_plain: run.is_plain || !begins_block(start) });
            start = end;
        }
        pieces.push(Piece { range: start..run.range.end, is_plain: run.is_plain || !begins_block(start) });
    }
    pieces.retain(|piece| !text.get(piece.range.clone()).unwrap_or_default().trim().is_empty());
    pieces
}

/// The pieces cut where pages begin as well.
pub(super) fn split_at(text: &str, pieces: Vec<Piece>, pages: &[usize]) -> Vec<Piece> {
    if pages.is_empty() {
        return pieces;
    }
    let mut split = Vec::with_capacity(pieces.len().max(pages.len()));
    for Piece { range, is_plain } in pieces {
        let mut start = range.start;
        let first = pages.partition_point(|page| *page <= start);
        let inside = pages.iter().skip(first).take_while(|page| **page < range.end);
        for end in inside.copied().chain([range.end]).filter(|at| text.is_char_boundary(*at)) {
            split.push(Piece { range: start..end, is_plain });
            start = end;
        }
    }
    split.retain(|piece| !text.get(piece.range.clone()).unwrap_or_default().trim().is_empty());
    split
}

/// What is between wide blanks, with long lines apart.
fn runs(text: &str) -> Vec<Piece> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut blank_from = None;
    for (at, c) in text.char_indices().chain([(text.len(), 'x')]) {
        match (c.is_whitespace(), blank_from) {
            (true, None) => blank_from = Some(at),
            (false, Some(from)) => {
                if at - from > WIDE_BLANK {
                    lines(text, start..from, &mut runs);
                    start = at;
                }
                blank_from = None;
            }
            _ => {}
        }
    }
    lines(text, start..text.len(), &mut runs);
    runs
}

/// `range` as runs of usual lines and long lines.
fn lines(text: &str, range: Range<usize>, runs: &mut Vec<Piece>) {
    let mut start = range.start;
    let mut at = range.start;
    for line in text.get(range).unwrap_or_default().split_inclusive('\n') {
        if line.len() > LONG_LINE {
            runs.push(Piece { range: start..at, is_plain: false });
            runs.push(Piece { range: at..at + line.len(), is_plain: true });
            start = at + line.len();
        }
        at += line.len();
    }
    runs.push(Piece { range: start..at, is_plain: false });
}

fn block_border(outline: &Outline, window: &Range<usize>) -> Option<usize> {
    let from = outline.blocks.partition_point(|(at, _)| *at <= window.start);
    let to = outline.blocks.partition_point(|(at, _)| *at <= window.end);
    let inside = outline.blocks.get(from..to)?;
    inside.iter().rev().find(|(_, is_heading)| *is_heading).or(inside.last()).map(|(at, _)| *at)
}

fn line_border(text: &str, window: &Range<usize>, form: Form) -> Option<usize> {
    let start = text.ceil_char_boundary(window.start);
    let inside = text.get(start..window.end)?;
    let blank_line = if form == Form::Code {
        inside
            .rmatch_indices("\n\n")
            .map(|(at, _)| at + 2)
            .find(|at| inside.get(*at..).is_some_and(|rest| !rest.starts_with([' ', '\t', '\n', '}'])))
    } else {
        inside.rfind("\n\n").map(|at| at + 2)
    };
    let at = blank_line
        .or_else(|| inside.rfind('\n').map(|at| at + 1))
        .or_else(|| inside.rmatch_indices(' ').next().map(|(at, _)| at + 1))?;
    Some(start + at)
}

/// The last border of graphemes at or before `at`.
pub(super) fn grapheme_border(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if is_border(text, at) { at } else { previous(text, at) }
}

/// Whether no grapheme spans `at`, and what follows is no mark.
pub(super) fn is_border(text: &str, at: usize) -> bool {
    let (base, near) = nearby(text, at);
    at == 0
        || at >= text.len()
        || (!begins_with_mark(text, at)
            && GraphemeCursor::new(at - base, near.len(), true).is_boundary(near, 0).unwrap_or(true))
}

/// Where the grapheme begins that spans `at`; a mark that nothing carries belongs to the character before it.
fn previous(text: &str, at: usize) -> usize {
    let (base, near) = nearby(text, at);
    let mut cursor = GraphemeCursor::new(at - base, near.len(), true);
    while let Ok(Some(before)) = cursor.prev_boundary(near, 0) {
        if !begins_with_mark(text, base + before) {
            return base + before;
        }
    }
    base
}

/// Where the grapheme ends that spans `at`.
fn following(text: &str, at: usize) -> usize {
    let (base, near) = nearby(text, at);
    let mut cursor = GraphemeCursor::new(at - base, near.len(), true);
    while let Ok(Some(after)) = cursor.next_boundary(near, 0) {
        if !begins_with_mark(text, base + after) {
            return base + after;
        }
    }
    base + near.len()
}

fn begins_with_mark(text: &str, at: usize) -> bool {
    text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(is_mark)
}

/// The text around `at`, and where it begins.
fn nearby(text: &str, at: usize) -> (usize, &str) {
    let base = text.floor_char_boundary(at.saturating_sub(GRAPHEME));
    let end = text.ceil_char_boundary(at.saturating_add(GRAPHEME).min(text.len()));
    (base, text.get(base..end).unwrap_or_default())
}

/// The ranges with ends that lie in a grapheme moved before it, unless the grapheme alone costs more than `limit`.
pub(super) fn mend(
    text: &str,
    ranges: Vec<Range<usize>>,
    measure: &Measure<'_, '_>,
    limit: usize,
) -> Vec<Range<usize>> {
    let moved = |at: usize| {
        if is_border(text, at) {
            return at;
        }
        let grapheme = previous(text, at)..following(text, at);
        let fits = grapheme.start >= measure.piece.start && measure.cost(&grapheme) <= limit;
        if fits { grapheme.start } else { at }
    };
    let mended = ranges.into_iter().map(|range| moved(range.start)..moved(range.end));
    mended.filter(|range| !text.get(range.clone()).unwrap_or_default().trim().is_empty()).collect()
}

/// A place in the middle of a range to cut it: white space near the middle, else a grapheme's border, else any
/// character's. `None` for a single character.
pub(super) fn middle(text: &str, range: &Range<usize>) -> Option<usize> {
    let half = text.floor_char_boundary(range.start + range.len() / 2);
    let near = text.ceil_char_boundary(range.start + range.len() / 4)..half;
    let blank = text.get(near.clone()).and_then(|part| part.rfind(char::is_whitespace)).map(|at| near.start + at);
    let inside = |at: &usize| *at > range.start && *at < range.end;
    [
        blank,
        Some(grapheme_border(text, half)),
        Some(following(text, half)),
        Some(half),
        Some(text.ceil_char_boundary(half + 1)),
    ]
    .into_iter()
    .flatten()
    .find(inside)
}
