//! One sheet: its cells, wherever they are, as one table for each region of rows.

use super::super::ExtractError;
use super::super::grid::Grid;
use super::super::limits::Budget;
use super::super::markup::{Tag, Token, Tokens};
use super::styles::Styles;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// That many empty rows begin a new table.
const GAP: u32 = 2;
/// Bytes and columns that repeating the text of merged cells may add.
const REPEATS: usize = 64 << 10;
const MOST_SPAN: u32 = 256;

/// Row and column, from 1.
type Place = (u32, u32);
type Rows = BTreeMap<u32, BTreeMap<u32, String>>;

/// Both corners of merged cells.
struct Merge {
    from: Place,
    to: Place,
}

pub(super) fn read(
    xml: &str,
    comments: Option<&str>,
    strings: &[String],
    styles: &Styles,
    budget: &Budget,
) -> Result<String, ExtractError> {
    let comments = comments.map_or_else(|| Ok(HashMap::new()), read_comments)?;
    let (mut rows, merges) = cells(xml, strings, styles, budget)?;
    for (place, comment) in comments {
        let cell = rows.entry(place.0).or_default().entry(place.1).or_default();
        let gap = if cell.is_empty() { "" } else { " " };
        cell.push_str(&format!("{gap}[comment: {comment}]"));
    }
    repeat(&mut rows, &merges);
    rows.retain(|_, row| row.values().any(|cell| !cell.is_empty()));
    let mut regions: Vec<Vec<(u32, BTreeMap<u32, String>)>> = Vec::new();
    for (at, row) in rows {
        match regions.last_mut() {
            Some(region) if region.last().is_some_and(|(last, _)| at - last <= GAP) => region.push((at, row)),
            _ => regions.push(vec![(at, row)]),
        }
    }
    let tables: Vec<String> = regions.into_iter().map(|region| table(region, &merges)).collect();
    Ok(tables.join("\n\n"))
}

/// Only columns that hold something. A header of two rows, the upper one merged over the lower, becomes one.
fn table(mut region: Vec<(u32, BTreeMap<u32, String>)>, merges: &[Merge]) -> String {
    let columns: BTreeSet<u32> = region.iter().flat_map(|(_, row)| row.keys().copied()).collect();
    let first = region.first().map_or(0, |(at, _)| *at);
    let is_split = |merge: &Merge| merge.from.0 == first && merge.to.0 == first && merge.to.1 > merge.from.1;
    if merges.iter().any(is_split)
        && let [(_, upper), (below, lower), _, ..] = region.as_mut_slice()
        && *below == first + 1
    {
        for (column, name) in lower.iter().filter(|(_, name)| !name.is_empty()) {
            let over = upper.entry(*column).or_default();
            if *over != *name {
                let gap = if over.is_empty() { "" } else { " " };
                over.push_str(&format!("{gap}{name}"));
            }
        }
        region.remove(1);
    }
    let mut grid = Grid::default();
    for (_, row) in &region {
        let last = row.iter().rev().find(|(_, cell)| !cell.is_empty()).map_or(0, |(column, _)| *column);
        let is_header = grid.len() == 0;
        let shown = columns.iter().filter(|column| is_header || **column <= last);
        let cells: Vec<&str> = shown.map(|column| row.get(column).map_or("", String::as_str)).collect();
        grid.row(&cells);
    }
    grid.finish()
}

fn cells(xml: &str, strings: &[String], styles: &Styles, budget: &Budget) -> Result<(Rows, Vec<Merge>), ExtractError> {
    let (mut rows, mut merges) = (Rows::new(), Vec::new());
    let mut tokens = Tokens::new(xml);
    // Where cells without a reference go, and how much text there is.
    let (mut row, mut column, mut size) = (0u32, 0u32, 0usize);
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "row" => {
                row = tag.get("r").and_then(|r| r.parse().ok()).unwrap_or(row + 1);
                column = 0;
            }
            "c" => {
                (row, column) = tag.get("r").and_then(|r| place(&r)).unwrap_or((row, column + 1));
                let text = cell(&tag, &mut tokens, strings, styles)?;
                if !text.is_empty() {
                    size += text.len();
                    budget.check_text(size)?;
                    rows.entry(row).or_default().insert(column, text);
                }
            }
            "mergeCell" => {
                let area = tag.get("ref").unwrap_or_default();
                if let Some((from, to)) = area.split_once(':')
                    && let (Some(from), Some(to)) = (place(from), place(to))
                {
                    merges.push(Merge { from, to });
                }
            }
            _ => {}
        }
    }
    Ok((rows, merges))
}

/// The text of the cell that has just opened.
fn cell(tag: &Tag<'_>, tokens: &mut Tokens<'_>, strings: &[String], styles: &Styles) -> Result<String, ExtractError> {
    let (mut value, mut inline) = (String::new(), String::new());
    let mut open = 1usize;
    while open > 0 {
        match tokens.next()? {
            Some(Token::Open(inner)) => match inner.name() {
                "v" => value = tokens.text()?,
                "t" => inline.push_str(&tokens.text()?),
                "rPh" | "f" => tokens.skip()?,
                _ => open += 1,
            },
            Some(Token::Close(_)) => open -= 1,
            Some(Token::Text(_)) => {}
            None => break,
        }
    }
    let value = value.trim();
    Ok(match tag.get("t").as_deref() {
        Some("s") => value.parse().ok().and_then(|at: usize| strings.get(at)).cloned().unwrap_or_default(),
        Some("inlineStr") => inline,
        Some("b") => if value == "1" {
            "TRUE"
        } else if value.is_empty() {
            ""
        } else {
            "FALSE"
        }
        .to_owned(),
        Some("str" | "e" | "d") => value.to_owned(),
        _ => styles.shown(value, tag.get("s").and_then(|s| s.parse().ok()).unwrap_or(0)),
    })
}

/// `B7` is row 7, column 2.
fn place(reference: &str) -> Option<Place> {
    let digits = reference.find(|c: char| c.is_ascii_digit())?;
    let (letters, row) = reference.split_at(digits);
    let mut column = 0u32;
    for letter in letters.bytes().filter(|b| *b != b'$') {
        let digit = u32::from(letter.to_ascii_uppercase().checked_sub(b'A')?) + 1;
        column = column.checked_mul(26)?.checked_add(digit)?;
    }
    Some((row.trim_start_matches('$').parse().ok()?, column)).filter(|(_, column)| *column > 0)
}

/// Gives each of merged cells the text that is shown over all of them, in rows that exist.
fn repeat(rows: &mut Rows, merges: &[Merge]) {
    let mut left = REPEATS;
    for merge in merges {
        let ((top, first), (bottom, last)) = (merge.from, merge.to);
        let Some(text) = rows.get(&top).and_then(|row| row.get(&first)).cloned() else { continue };
        if bottom < top || last < first || last - first > MOST_SPAN {
            continue;
        }
        for (_, row) in rows.range_mut(top..=bottom) {
            for column in first..=last {
                let cell = row.entry(column).or_default();
                if cell.is_empty() && text.len() <= left {
                    left -= text.len();
                    cell.push_str(&text);
                }
            }
        }
    }
}

fn read_comments(xml: &str) -> Result<HashMap<Place, String>, ExtractError> {
    let mut found = HashMap::new();
    let mut tokens = Tokens::new(xml);
    let mut at = None;
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "comment" => at = tag.get("ref").and_then(|r| place(&r)),
            "text" => {
                let words = tokens.text()?.split_whitespace().collect::<Vec<_>>().join(" ");
                if let Some(at) = at.take().filter(|_| !words.is_empty()) {
                    found.insert(at, words);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_places() {
        for (reference, want) in [
            ("A1", Some((1, 1))),
            ("$B$7", Some((7, 2))),
            ("XFD1048576", Some((1_048_576, 16_384))),
            ("7", None),
            ("A", None),
            ("AAAAAAAA1", None),
        ] {
            assert_eq!(place(reference), want, "{reference}");
        }
    }
}
