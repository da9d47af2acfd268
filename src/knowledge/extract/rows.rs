//! Tables as text: each row keeps the names of its columns. The separator is what makes the rows equally long; a
//! first line `sep=;` names it and is no data.

use super::ExtractError;
use super::grid::Grid;
use super::limits::Budget;
use csv::{ReaderBuilder, StringRecord};

/// Records that are looked at to find the separator.
const SAMPLE: usize = 50;

pub(super) fn read(text: &str, budget: &Budget, notes: &mut Vec<String>) -> Result<String, ExtractError> {
    let (named, body) = named_separator(text);
    let Some(separator) = named.or_else(|| likely_separator(body)) else {
        return Ok(super::text::read(body.to_owned()));
    };
    let (sound, rest) = body.split_at(unclosed(body, separator).unwrap_or(body.len()));
    if !rest.is_empty() {
        let line = sound.lines().count() + 1;
        notes.push(format!("a quote in line {line} is not closed: from there on quotes were read as they stand"));
    }
    let mut grid = Grid::default();
    for record in records(sound, separator, true).chain(records(rest, separator, false)) {
        grid.row(&record.iter().collect::<Vec<_>>());
        budget.check_text(grid.len())?;
    }
    Ok(grid.finish())
}

/// Where the row begins in which a quote opens that nothing closes.
fn unclosed(text: &str, separator: u8) -> Option<usize> {
    let (mut row, mut row_of_quote) = (0, None);
    let mut begins_field = true;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (row_of_quote, byte) {
            (Some(_), b'"') if bytes.get(at + 1) == Some(&b'"') => at += 1,
            (Some(_), b'"') => row_of_quote = None,
            (Some(_), _) => {}
            (None, b'"') if begins_field => row_of_quote = Some(row),
            (None, b'\n') => row = at + 1,
            (None, _) => {}
        }
        begins_field = *byte == separator || *byte == b'\n';
        at += 1;
    }
    row_of_quote
}

/// What spreadsheets write for themselves.
fn named_separator(text: &str) -> (Option<u8>, &str) {
    let Some((first, rest)) = text.split_once('\n') else { return (None, text) };
    match first.trim_matches(['"', ' ', '\r']).strip_prefix("sep=").map(str::as_bytes) {
        Some([separator]) => (Some(*separator), rest),
        _ => (None, text),
    }
}

/// Of the usual separators the one with which most rows are as long as the first, and longer than one field.
fn likely_separator(text: &str) -> Option<u8> {
    let score = |separator: u8| {
        let mut sample =
            records(text, separator, true).take(SAMPLE).filter(|record| record.iter().any(|f| !f.is_empty()));
        let columns = sample.next().map_or(0, |header| header.len());
        let (mut rows, mut alike) = (1usize, 1usize);
        for record in sample {
            rows += 1;
            alike += usize::from(record.len() == columns);
        }
        (columns > 1).then(|| (alike * 100 / rows, columns))
    };
    // The first of equals: commas are the most common.
    let best = b",;\t|".iter().filter_map(|separator| Some((score(*separator)?, *separator))).rev();
    best.max_by_key(|(score, _)| *score).map(|(_, separator)| separator)
}

/// Rows of any length; a broken one ends the table, and there is none that the reader calls broken in text.
fn records(text: &str, separator: u8, quotes: bool) -> impl Iterator<Item = StringRecord> {
    let mut reader = ReaderBuilder::new();
    reader.delimiter(separator).has_headers(false).flexible(true).quoting(quotes);
    reader.from_reader(text.as_bytes()).into_records().map_while(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::extract::Limits;

    fn check(text: &str, want: &str) {
        let found = read(text, &Budget::new(Limits::default(), text.len()), &mut Vec::new());
        assert_eq!(found.as_deref(), Ok(want), "{text}");
    }

    #[test]
    fn rows_keep_their_columns() {
        check("a,b\n1,2\n", "| a | b |\n| --- | --- |\n| 1 | 2 |");
        check("a;b\n1,5;2\n", "| a | b |\n| --- | --- |\n| 1,5 | 2 |");
        check("a\tb\nx, y\tz\n", "| a | b |\n| --- | --- |\n| x, y | z |");
        check("sep=|\na|b\n1|2", "| a | b |\n| --- | --- |\n| 1 | 2 |");
        check("a,b\n\"one\ntwo\",04\nshort\n", "| a | b |\n| --- | --- |\n| one two | 04 |\n| short |");
        check(
            "a,b\n\"x\"\"y\",1\n\"open,2\n3,4\n",
            "| a | b |\n| --- | --- |\n| x\"y | 1 |\n| \"open | 2 |\n| 3 | 4 |",
        );
        check("just a line\nand one more\n", "just a line\nand one more");
    }
}
