//! Presentations: each slide under a heading with its number and title, then its text, its tables, its charts and
//! the speaker's notes. Slide numbers, dates and footers are furniture.

use super::ExtractError;
use super::archive::Archive;
use super::chart;
use super::grid::{Grid, plain};
use super::markup::{Token, Tokens};

pub(super) fn read(archive: &mut Archive<'_>, main: &str) -> Result<(String, Option<String>), ExtractError> {
    let relations = archive.relations(main)?;
    let xml = archive.must(main)?;
    let mut tokens = Tokens::new(&xml);
    let mut slides = Vec::new();
    while let Some(token) = tokens.next()? {
        if let Token::Open(tag) = token
            && tag.name() == "sldId"
        {
            // Two attributes end in `id`: the relation's is the one that leads somewhere.
            let path =
                tag.all().filter(|(key, _)| key == "id").find_map(|(_, id)| relations.path(&id).map(str::to_owned));
            slides.extend(path);
        }
    }
    archive.budget.check_entries(slides.len())?;
    let mut out = String::new();
    let mut first_title = None;
    for (at, path) in slides.iter().enumerate() {
        let Some(xml) = archive.xml(path)? else { continue };
        let slide = shapes(&xml)?;
        let heading = match &slide.title {
            Some(title) => format!("## Slide {}: {title}", at + 1),
            None => format!("## Slide {}", at + 1),
        };
        first_title = first_title.or(slide.title);
        let mut blocks = vec![heading];
        blocks.extend(slide.blocks);
        let relations = archive.relations(path)?;
        for chart in relations.all_of_kind("chart") {
            if let Some(xml) = archive.xml(&chart)? {
                let text = chart::read(&xml)?;
                blocks.extend((!text.is_empty()).then(|| format!("Chart:\n\n{text}")));
            }
        }
        if let Some(path) = relations.of_kind("notesSlide").map(str::to_owned)
            && let Some(xml) = archive.xml(&path)?
        {
            let notes = shapes(&xml)?.blocks.join("\n\n");
            if !notes.trim().is_empty() {
                blocks.push(format!("Notes: {notes}"));
            }
        }
        if blocks.len() > 1 || !slide_is_bare(&blocks) {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(&blocks.join("\n\n"));
        }
        archive.budget.check_text(out.len())?;
    }
    let title = archive.core_title()?.filter(|title| title != "PowerPoint Presentation").or(first_title);
    Ok((out, title))
}

/// Nothing but its number.
fn slide_is_bare(blocks: &[String]) -> bool {
    blocks.iter().all(|block| !block.contains(':'))
}

#[derive(Default)]
struct Slide {
    title: Option<String>,
    blocks: Vec<String>,
}

#[derive(Default)]
struct Shape {
    /// What the layout says it is for.
    placeholder: String,
    paragraphs: Vec<String>,
}

/// The texts of a slide's shapes, in their order.
fn shapes(xml: &str) -> Result<Slide, ExtractError> {
    let mut slide = Slide::default();
    let mut shape = Shape::default();
    let mut paragraph = String::new();
    // Rows of the table that is open, and the cell being read.
    let mut table: Option<(Vec<Vec<String>>, Vec<String>)> = None;
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) => match tag.name() {
                "Fallback" => tokens.skip()?,
                // A field that is only a slide's number or a date.
                "fld" if tag.get("type").is_some_and(|kind| kind == "slidenum" || kind.starts_with("datetime")) => {
                    tokens.skip()?;
                }
                "sp" | "graphicFrame" => shape = Shape::default(),
                "ph" => shape.placeholder = tag.get("type").unwrap_or_else(|| "body".to_owned()),
                "p" => paragraph.clear(),
                "br" => paragraph.push('\n'),
                "t" => paragraph.push_str(&tokens.text()?),
                "tbl" => table = Some((Vec::new(), Vec::new())),
                "tr" => {
                    if let Some((rows, _)) = &mut table {
                        rows.push(Vec::new());
                    }
                }
                "tc" => {
                    if let Some((_, cell)) = &mut table {
                        cell.clear();
                    }
                }
                _ => {}
            },
            Token::Close(name) => match (name.as_str(), &mut table) {
                ("p", Some((_, cell))) => cell.push(paragraph.trim().to_owned()),
                ("p", None) if !paragraph.trim().is_empty() => shape.paragraphs.push(paragraph.trim().to_owned()),
                ("tc", Some((rows, cell))) => {
                    if let Some(row) = rows.last_mut() {
                        row.push(cell.join(" "));
                    }
                }
                ("tbl", Some((rows, _))) => {
                    let mut grid = Grid::default();
                    rows.iter().for_each(|row| grid.row(row));
                    slide.blocks.push(grid.finish());
                    table = None;
                }
                ("sp", _) => slide.add(std::mem::take(&mut shape)),
                _ => {}
            },
            Token::Text(_) => {}
        }
    }
    slide.blocks.retain(|block| !block.trim().is_empty());
    Ok(slide)
}

impl Slide {
    fn add(&mut self, shape: Shape) {
        match (shape.placeholder.as_str(), shape.paragraphs.as_slice()) {
            ("sldNum" | "dt" | "ftr" | "hdr" | "sldImg", _) | (_, []) => {}
            ("title" | "ctrTitle", lines) if self.title.is_none() => {
                self.title = Some(lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" "));
            }
            (_, [only]) => self.blocks.push(plain(only)),
            (_, lines) => {
                let items: Vec<String> = lines.iter().map(|line| format!("- {}", line.replace('\n', " "))).collect();
                self.blocks.push(items.join("\n"));
            }
        }
    }
}
