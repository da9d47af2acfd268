//! The structure of a Markdown text: its headings, its tables, where its blocks begin. Read by the parser that
//! text-splitter uses, so that both see the same.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// Characters of a heading that are kept.
const HEADING_CHARS: usize = 160;

/// Headings in a row, one level below the other.
const MOST_HEADINGS: usize = 6;

#[derive(Debug, Default)]
pub(super) struct Outline {
    headings: Vec<Heading>,
    tables: Vec<Table>,
    /// Fenced code blocks: where each begins, where its opening line ends, where its closing line begins.
    fences: Vec<(usize, usize, usize)>,
    /// Where top-level blocks begin, and whether they are headings.
    pub blocks: Vec<(usize, bool)>,
}

#[derive(Debug)]
struct Heading {
    range: Range<usize>,
    name: String,
    /// Index of the heading it stands under.
    parent: Option<usize>,
}

#[derive(Debug)]
struct Table {
    /// The header row, without its line end.
    header: Range<usize>,
    end: usize,
}

/// The headings that hold where a chunk begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// Outermost first.
    pub names: Vec<String>,
    /// How many of them stand before the chunk, not in it.
    pub above: usize,
}

impl Outline {
    pub fn of(text: &str) -> Self {
        let mut outline = Self::default();
        let mut depth = 0usize;
        // The heading being read, and where the last one of each level is.
        let mut open: Option<String> = None;
        let mut last: [Option<usize>; 6] = [None; 6];
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        outline.blocks.push((range.start, matches!(tag, Tag::Heading { .. })));
                    }
                    depth += 1;
                    match tag {
                        Tag::Heading { .. } => open = Some(String::new()),
                        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => outline.fences.push(fence(text, &range)),
                        Tag::Table(_) => {
                            outline.tables.push(Table { header: range.start..range.start, end: range.end })
                        }
                        Tag::TableHead => {
                            if let Some(table) = outline.tables.last_mut() {
                                let row = text.get(range.clone()).unwrap_or_default().trim_end();
                                table.header = range.start..range.start + row.len();
                            }
                        }
                        _ => {}
                    }
                }
                Event::End(TagEnd::Heading(level)) => {
                    depth = depth.saturating_sub(1);
                    let at = level as usize - 1;
                    let parent = last.iter().take(at).flatten().max().copied();
                    if let Some(rest) = last.get_mut(at..) {
                        rest.fill(None);
                    }
                    if let Some(slot) = last.get_mut(at) {
                        *slot = Some(outline.headings.len());
                    }
                    let name = open.take().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
                    outline.headings.push(Heading { range, name, parent });
                }
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Text(piece) | Event::Code(piece) => {
                    if let Some(name) = &mut open {
                        let room = HEADING_CHARS.saturating_sub(name.chars().count());
                        name.extend(piece.chars().take(room));
                    }
                }
                Event::SoftBreak | Event::HardBreak => {
                    if let Some(name) = &mut open {
                        name.push(' ');
                    }
                }
                Event::Rule if depth == 0 => outline.blocks.push((range.start, false)),
                _ => {}
            }
        }
        outline
    }

    /// The headings above `range`, and those it begins with.
    pub fn path(&self, text: &str, range: &Range<usize>) -> Path {
        let mut next = self.headings.partition_point(|h| h.range.start < range.start);
        let mut at = range.start;
        while let Some(heading) = self.headings.get(next) {
            let gap = text.get(at..heading.range.start).unwrap_or("-");
            if heading.range.start >= range.end || !gap.trim().is_empty() {
                break;
            }
            at = heading.range.end;
            next += 1;
        }
        let mut path = Path::default();
        let mut current = next.checked_sub(1);
        while let Some(heading) = current.and_then(|at| self.headings.get(at)) {
            if !heading.name.is_empty() {
                path.names.push(heading.name.clone());
                path.above += usize::from(heading.range.start < range.start);
            }
            current = heading.parent;
        }
        path.names.reverse();
        path
    }

    /// Where a chunk should end that would be `cut`: before headings and the opening line of a code
    /// block, whose content the next chunk has, and after a closing line that would begin the next one.
    pub fn better_end(&self, text: &str, cut: &Range<usize>) -> usize {
        let end = cut.end;
        let is_blank = |range: Range<usize>| text.get(range).is_some_and(|between| between.trim().is_empty());
        if let Some((start, opened, closing)) =
            self.fences.partition_point(|(start, ..)| *start < end).checked_sub(1).and_then(|i| self.fences.get(i))
        {
            if end <= *opened || is_blank(*opened..end) {
                return *start;
            }
            let closed = closing + text.get(*closing..).and_then(|rest| rest.lines().next()).map_or(0, str::len);
            if end <= *closing && is_blank(end..*closing) {
                return closed;
            }
        }
        let mut better = end;
        let mut next = self.headings.partition_point(|h| h.range.start < end);
        for _ in 0..MOST_HEADINGS {
            let Some(heading) = next.checked_sub(1).and_then(|i| self.headings.get(i)) else { break };
            if heading.range.start < cut.start || (heading.range.end < better && !is_blank(heading.range.end..better)) {
                break;
            }
            better = heading.range.start;
            next -= 1;
        }
        better
    }

    /// The header row of the table in whose rows `at` is; the table's place in the text tells tables apart.
    pub fn table_header(&self, at: usize) -> Option<Range<usize>> {
        let table = self
            .tables
            .partition_point(|table| table.header.start < at)
            .checked_sub(1)
            .and_then(|i| self.tables.get(i))?;
        (at >= table.header.end && at < table.end).then(|| table.header.clone())
    }
}

/// The borders of a fenced code block; a block without a closing line closes at its end.
fn fence(text: &str, range: &Range<usize>) -> (usize, usize, usize) {
    let block = text.get(range.clone()).unwrap_or_default();
    let opened = block.find('\n').unwrap_or(block.len());
    let last = block.trim_end().rfind('\n').map_or(opened, |at| at + 1);
    let is_closing = last > opened
        && block.get(last..).is_some_and(|line| line.trim().trim_matches(['`', '~', '>', ' ']).is_empty());
    (range.start, range.start + opened, if is_closing { range.start + last } else { range.end })
}

/// The line below a table's header.
pub(super) fn is_delimiter_row(line: &str) -> bool {
    line.contains("--") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Columns of a pipe table's row.
pub(super) fn columns(row: &str) -> usize {
    let mut cells = 1;
    let mut escaped = false;
    for c in row.trim().trim_start_matches('|').chars() {
        cells += usize::from(c == '|' && !escaped);
        escaped = c == '\\' && !escaped;
    }
    if row.trim_end().ends_with('|') { cells - 1 } else { cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, at: &str) -> (Vec<String>, usize) {
        let start = text.find(at).unwrap();
        let path = Outline::of(text).path(text, &(start..text.len()));
        (path.names, path.above)
    }

    #[test]
    fn a_path_follows_both_heading_forms() {
        let text = "Main *title*\n====\n\nintro\n\nSub\n---\n\nin sub\n\n#### Deep `x`\n\n## Next\n### Third\nin third\n\n```\n# no heading\n```\nend";
        assert_eq!(names(text, "intro"), (vec!["Main title".into()], 1));
        assert_eq!(names(text, "Main"), (vec!["Main title".into()], 0));
        assert_eq!(names(text, "in sub"), (vec!["Main title".into(), "Sub".into()], 2));
        assert_eq!(names(text, "#### Deep"), (vec!["Main title".into(), "Next".into(), "Third".into()], 1));
        assert_eq!(names(text, "in third"), (vec!["Main title".into(), "Next".into(), "Third".into()], 3));
        assert_eq!(names(text, "end"), (vec!["Main title".into(), "Next".into(), "Third".into()], 3));
    }

    #[test]
    fn a_table_is_known_inside_its_rows_only() {
        let text = "before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nafter";
        let outline = Outline::of(text);
        let header = |at: &str| outline.table_header(text.find(at).unwrap()).and_then(|r| text.get(r));
        assert_eq!(header("| a"), None);
        assert_eq!(header("before"), None);
        assert_eq!(header("| 1"), Some("| a | b |"));
        assert_eq!(header("4 |"), Some("| a | b |"));
        assert_eq!(header("after"), None);
    }

    #[test]
    fn columns_are_counted() {
        for (row, count) in [("| a | b |", 2), ("a|b", 2), ("| a \\| b | c |", 2), ("|a", 1), ("| |", 1)] {
            assert_eq!(columns(row), count, "{row}");
        }
    }
}
