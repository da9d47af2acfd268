//! Word documents: paragraphs, headings, lists and tables in reading order. Deleted and hidden text is left out,
//! inserted text is in; notes and comments stand where they are referred to; a text box appears once.

use super::ExtractError;
use super::archive::Archive;
use super::grid::{Grid, plain};
use super::markdown;
use super::markup::{Tag, Token, Tokens};
use std::collections::HashMap;

/// A table with a longer cell is a layout: its cells become paragraphs.
const LAYOUT_CELL: usize = 2000;
/// Bytes that repeating the text of merged cells may add.
const REPEATS: usize = 64 << 10;
/// Columns that a merged cell may span.
const MOST_SPAN: usize = 64;

pub(super) fn read(archive: &mut Archive<'_>, main: &str) -> Result<(String, Option<String>), ExtractError> {
    let relations = archive.relations(main)?;
    let mut side = |kind: &str, element: &str| -> Result<HashMap<String, String>, ExtractError> {
        let Some(path) = relations.of_kind(kind).map(str::to_owned) else { return Ok(HashMap::new()) };
        archive.xml(&path)?.map_or_else(|| Ok(HashMap::new()), |xml| notes(&xml, element))
    };
    let mut walk = Walk {
        footnotes: side("footnotes", "footnote")?,
        endnotes: side("endnotes", "endnote")?,
        comments: side("comments", "comment")?,
        repeats: REPEATS,
        ..Walk::default()
    };
    let styles = relations.of_kind("styles").map(str::to_owned);
    if let Some(xml) = styles.map(|path| archive.xml(&path)).transpose()?.flatten() {
        walk.headings = heading_styles(&xml)?;
    }
    let xml = archive.must(main)?;
    let mut tokens = Tokens::new(&xml);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) => {
                if SKIPPED.contains(&tag.name()) {
                    tokens.skip()?;
                } else {
                    walk.open(&tag);
                }
            }
            Token::Close(name) => walk.close(&name),
            Token::Text(text) => walk.text(&text),
        }
        archive.budget.check_text(walk.out.len())?;
    }
    walk.finish();
    let title = archive.core_title()?.or_else(|| markdown::first_heading(&walk.out));
    Ok((walk.out, title))
}

/// What is there twice, was taken out, or tells of former states.
const SKIPPED: &[&str] = &[
    "del",
    "moveFrom",
    "Fallback",
    "rPrChange",
    "pPrChange",
    "tblPrChange",
    "trPrChange",
    "tcPrChange",
    "sectPrChange",
    "rt",
    "instrText",
    "delText",
    "sectPr",
    "tblGrid",
];

/// Text of notes or comments by id.
fn notes(xml: &str, element: &str) -> Result<HashMap<String, String>, ExtractError> {
    let mut found = HashMap::new();
    let mut tokens = Tokens::new(xml);
    let mut current: Option<(String, String)> = None;
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) if tag.name() == element => {
                current = Some((tag.get("id").unwrap_or_default(), String::new()))
            }
            Token::Open(tag) if SKIPPED.contains(&tag.name()) => tokens.skip()?,
            Token::Open(tag) => {
                let said = match tag.name() {
                    "t" => tokens.text()?,
                    "tab" | "ptab" | "br" | "cr" => " ".to_owned(),
                    "noBreakHyphen" => "-".to_owned(),
                    _ => continue,
                };
                if let Some((_, note)) = &mut current {
                    note.push_str(&said);
                }
            }
            Token::Close(name) if name == "p" => {
                if let Some((_, note)) = &mut current {
                    note.push(' ');
                }
            }
            Token::Close(name) if name == element => {
                if let Some((id, note)) = current.take().filter(|(_, note)| !note.trim().is_empty()) {
                    found.insert(id, note.split_whitespace().collect::<Vec<_>>().join(" "));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Styles that are headings, by id: their English name says so in every language's Word.
fn heading_styles(xml: &str) -> Result<HashMap<String, u8>, ExtractError> {
    let mut found = HashMap::new();
    let mut tokens = Tokens::new(xml);
    let mut id = None;
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "style" => id = tag.get("styleId"),
            "name" | "outlineLvl" => {
                let value = tag.get("val").unwrap_or_default();
                let level = if tag.name() == "name" { heading_name(&value) } else { outline(&value) };
                if let (Some(id), Some(level)) = (&id, level) {
                    found.insert(id.clone(), level);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn heading_name(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase().replace(' ', "");
    if name == "title" {
        return Some(1);
    }
    name.strip_prefix("heading")?.parse().ok().filter(|level| (1..=6).contains(level))
}

/// 9 is body text.
fn outline(value: &str) -> Option<u8> {
    value.parse::<u8>().ok().filter(|level| *level < 6).map(|level| level + 1)
}

#[derive(Default)]
struct Walk {
    out: String,
    footnotes: HashMap<String, String>,
    endnotes: HashMap<String, String>,
    comments: HashMap<String, String>,
    headings: HashMap<String, u8>,
    /// Open paragraphs: one in a text box stands in another.
    paragraphs: Vec<Paragraph>,
    tables: Vec<Table>,
    repeats: usize,
    in_text: bool,
    in_paragraph_properties: bool,
    /// The run that is being read is not shown.
    hidden: bool,
    in_run: usize,
}

#[derive(Default)]
struct Paragraph {
    text: String,
    heading: Option<u8>,
    list: Option<usize>,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    cell: String,
    span: usize,
    /// The cell goes on from the one above.
    continues: bool,
}

impl Walk {
    fn open(&mut self, tag: &Tag<'_>) {
        let value = || tag.get("val").unwrap_or_default();
        match tag.name() {
            "p" => self.paragraphs.push(Paragraph::default()),
            "pPr" => self.in_paragraph_properties = true,
            "r" => {
                self.in_run += 1;
                self.hidden = false;
            }
            "vanish" if self.in_run > 0 && !self.in_paragraph_properties => self.hidden = tag.is_on(),
            "t" => self.in_text = true,
            "tab" | "ptab" if !self.in_paragraph_properties && self.in_run > 0 => self.push(" "),
            "br" | "cr" if self.in_run > 0 => self.push("\n"),
            "noBreakHyphen" => self.push("-"),
            "footnoteReference" => self.note(tag, "note"),
            "endnoteReference" => self.note(tag, "endnote"),
            "commentReference" => self.note(tag, "comment"),
            "pStyle" => {
                let style = value();
                let heading = self.headings.get(&style).copied().or_else(|| heading_name(&style));
                self.paragraph(|p| p.heading = p.heading.or(heading));
            }
            "outlineLvl" => {
                let level = outline(&value());
                self.paragraph(|p| p.heading = level.or(p.heading));
            }
            "numPr" => self.paragraph(|p| p.list = p.list.or(Some(0))),
            "ilvl" => {
                let level = value().parse().unwrap_or(0).min(8);
                self.paragraph(|p| p.list = Some(level));
            }
            "tbl" => self.tables.push(Table::default()),
            "tc" => self.table(|t| (t.span, t.continues) = (1, false)),
            "gridSpan" => {
                let span = value().parse().unwrap_or(1).clamp(1, MOST_SPAN);
                self.table(|t| t.span = span);
            }
            "vMerge" => {
                let continues = value() != "restart";
                self.table(|t| t.continues = continues);
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" => self.end_paragraph(),
            "pPr" => self.in_paragraph_properties = false,
            "r" => {
                self.in_run = self.in_run.saturating_sub(1);
                self.hidden = false;
            }
            "t" => self.in_text = false,
            "tc" => self.end_cell(),
            "tr" => self.table(|t| {
                let row = std::mem::take(&mut t.row);
                t.rows.push(row);
            }),
            "tbl" => self.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_text {
            self.push(text);
        }
    }

    fn push(&mut self, text: &str) {
        if !self.hidden {
            self.paragraph(|p| p.text.push_str(text));
        }
    }

    fn paragraph(&mut self, change: impl FnOnce(&mut Paragraph)) {
        if let Some(open) = self.paragraphs.last_mut() {
            change(open);
        }
    }

    fn table(&mut self, change: impl FnOnce(&mut Table)) {
        if let Some(open) = self.tables.last_mut() {
            change(open);
        }
    }

    /// Each note once, where it is first referred to.
    fn note(&mut self, tag: &Tag<'_>, word: &str) {
        let Some(id) = tag.get("id") else { return };
        let from = match word {
            "note" => &mut self.footnotes,
            "endnote" => &mut self.endnotes,
            _ => &mut self.comments,
        };
        if let Some(note) = from.remove(&id) {
            self.push(&format!(" [{word}: {note}]"));
        }
    }

    fn end_paragraph(&mut self) {
        let Some(done) = self.paragraphs.pop() else { return };
        let text = done.text.trim();
        if text.is_empty() {
            return;
        }
        if !self.tables.is_empty() {
            self.table(|t| add(&mut t.cell, text));
            return;
        }
        let block = match (done.heading, done.list) {
            (Some(level), _) => {
                let heading = text.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{} {heading}", "#".repeat(level.into()))
            }
            (None, Some(level)) => format!("{}- {}", "  ".repeat(level), text.replace('\n', " ")),
            (None, None) => plain(text),
        };
        self.block(&block, done.list.is_some() && done.heading.is_none());
    }

    /// Items of a list stand on lines of their own, everything else is apart.
    fn block(&mut self, block: &str, is_item: bool) {
        if !self.out.is_empty() {
            let last = self.out.rsplit('\n').next().unwrap_or_default();
            let after_item = is_item && last.trim_start().starts_with("- ");
            self.out.push_str(if after_item { "\n" } else { "\n\n" });
        }
        self.out.push_str(block);
    }

    fn end_cell(&mut self) {
        let mut repeats = self.repeats;
        self.table(|t| {
            let mut cell = std::mem::take(&mut t.cell);
            if t.continues && cell.is_empty() {
                cell = t.rows.last().and_then(|above| above.get(t.row.len())).cloned().unwrap_or_default();
                repeats = repeats.saturating_sub(cell.len());
            }
            for _ in 1..t.span {
                let repeated = if cell.len() <= repeats { cell.clone() } else { String::new() };
                repeats -= repeated.len();
                t.row.push(repeated);
            }
            t.row.push(cell);
        });
        self.repeats = repeats;
    }

    fn end_table(&mut self) {
        let Some(done) = self.tables.pop() else { return };
        // A table in a table becomes a part of the cell.
        if !self.tables.is_empty() {
            let lines: Vec<String> = done.rows.iter().map(|row| row.join(", ")).collect();
            self.table(|t| add(&mut t.cell, &lines.join("; ")));
            return;
        }
        let is_layout = done.rows.iter().flatten().any(|cell| cell.len() > LAYOUT_CELL);
        if is_layout {
            for cell in done.rows.iter().flatten().filter(|cell| !cell.is_empty()) {
                self.block(&plain(cell), false);
            }
            return;
        }
        let mut grid = Grid::default();
        done.rows.iter().for_each(|row| grid.row(row));
        let table = grid.finish();
        if !table.is_empty() {
            self.block(&table, false);
        }
    }

    /// What a cut document left open is still text.
    fn finish(&mut self) {
        while !self.paragraphs.is_empty() {
            self.end_paragraph();
        }
        while !self.tables.is_empty() {
            self.end_cell();
            self.table(|t| {
                let row = std::mem::take(&mut t.row);
                t.rows.push(row);
            });
            self.end_table();
        }
    }
}

fn add(cell: &mut String, text: &str) {
    if !cell.is_empty() {
        cell.push('\n');
    }
    cell.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_note_stay_apart() {
        let xml = "<footnotes><footnote id='2'><p><r><t>one</t><tab/><t>two</t><br/><t>th</t></r><r><t>ree</t></r></p>\
                   <p><r><t>four</t><noBreakHyphen/><t>five</t></r></p></footnote></footnotes>";
        let found = notes(xml, "footnote").unwrap();
        assert_eq!(found.get("2").map(String::as_str), Some("one two three four-five"));
    }
}
