//! Bytes to text with structure: one file per family of formats.
//!
//! Invariants: the text that leaves here is clean (no control characters but `\n` and `\t`, lines end in
//! `\n`, nothing undecodable shown as U+FFFD), every offset of the knowledge base counts in it, and work is
//! linear in the input. What a reader could do to the process that runs it, it does to one of its own
//! ([`Reader`]); everything here runs synchronously in that, or on a blocking thread.

mod apart;
mod archive;
mod charset;
mod chart;
mod code;
mod control;
mod docx;
mod email;
mod epub;
mod error;
mod front_matter;
mod grid;
mod html;
mod json;
mod kind;
mod limits;
mod markdown;
mod markup;
mod office;
mod pdf;
mod pptx;
mod rows;
mod sniff;
mod text;
mod unpack;
mod xlsx;
mod xml;

#[cfg(test)]
mod tests;

pub use apart::{COMMAND, Origin, Reader, Unpacking, worker};
pub use error::ExtractError;
pub use html::{Links, links};
pub use kind::{Form, Kind};
pub use limits::Limits;
pub use unpack::{is_archive, is_damaged_archive};
pub use xml::locations;

use limits::Budget;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A document as it arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawDocument<'a> {
    pub bytes: &'a [u8],
    /// File name, path or URL: only its end is looked at.
    pub name: &'a str,
    /// As declared by the client or server, parameters (`; charset=…`) included.
    pub mime: Option<&'a str>,
}

/// What a document says, ready to be chunked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extracted {
    /// Plain text, Markdown or source code, as `kind` says. Never blank.
    pub text: String,
    /// From the document itself: front matter, `<title>`, its properties or the first heading.
    pub title: Option<String>,
    pub kind: Kind,
    /// The charset's name in lower case, as WHATWG names it; empty for formats that have no single one.
    pub charset: String,
    /// Neither a byte order mark, nor valid UTF-8, nor a declaration that holds: detection chose it.
    pub charset_guessed: bool,
    /// Where each page begins in the text; empty for formats without pages.
    pub pages: Vec<usize>,
    /// What the document says of itself: a Markdown file's front matter.
    pub fields: Map<String, Value>,
    /// What was mended or dropped, one sentence each, for the document's status.
    pub notes: Vec<String>,
}

/// Metadata that the reader gives, so that no document can claim it.
const READERS_OWN: [&str; 4] = ["format", "charset", "charset_guessed", "pages"];

impl Extracted {
    /// What belongs into the document's metadata: its own fields, `format`, `charset`, `pages`, and `charset_guessed`
    /// where true.
    pub fn metadata(&self) -> Map<String, Value> {
        let mut out = self.fields.clone();
        out.insert("format".into(), self.kind.name().into());
        if !self.charset.is_empty() {
            out.insert("charset".into(), self.charset.as_str().into());
        }
        if self.charset_guessed {
            out.insert("charset_guessed".into(), true.into());
        }
        if !self.pages.is_empty() {
            out.insert("pages".into(), self.pages.len().into());
        }
        out
    }
}

/// Reads a document that somebody put into a collection, in this process and with the default limits.
pub fn extract(raw: &RawDocument<'_>) -> Result<Extracted, ExtractError> {
    read(raw, Origin::Document, Limits::default())
}

/// Reads what was sent or fetched, in this process.
fn read(raw: &RawDocument<'_>, origin: Origin, limits: Limits) -> Result<Extracted, ExtractError> {
    read_part(raw, origin, &Budget::new(limits, raw.bytes.len()))
}

/// Bytes in which a document says something of itself.
const HEAD: usize = 64 << 10;

/// The fields that reading the document would find, without reading all of it.
pub fn fields(raw: &RawDocument<'_>) -> Map<String, Value> {
    if kind_of(raw, Origin::Document) != Ok(Kind::Markdown) {
        return Map::new();
    }
    let head = raw.bytes.get(..HEAD).unwrap_or(raw.bytes);
    let Ok(decoded) = charset::decode(head, charset::declared(raw, Kind::Markdown).as_deref()) else {
        return Map::new();
    };
    let text = control::clean(decoded.text, &mut 0);
    front_matter::split(&text).0.map(|front| without_own(front.read().fields)).unwrap_or_default()
}

fn without_own(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|key, _| !READERS_OWN.contains(&key.as_str()));
    fields
}

/// Whether a file that begins with `raw.bytes` can be worth reading: not empty, not binary, not of a type that
/// cannot be read.
pub fn may_be_read(raw: &RawDocument<'_>) -> Result<(), ExtractError> {
    if raw.bytes.is_empty() {
        return Err(ExtractError::Empty);
    }
    kind_of(raw, Origin::Document).map(|_| ())
}

/// The kind by which a document will be read; refused where the bytes are none that can be.
fn kind_of(raw: &RawDocument<'_>, origin: Origin) -> Result<Kind, ExtractError> {
    let kind = match origin {
        Origin::Document => kind::of_document(raw),
        Origin::Page => kind::of_page(&RawDocument { name: path_of(raw.name), ..*raw }),
    };
    if !matches!(kind, Ok(Kind::Pdf | Kind::Zip)) {
        sniff::refuse_binary(raw.bytes)?;
    }
    kind.map_err(ExtractError::UnsupportedType)
}

/// The path of a URL. Without one, what follows the last dot is a domain, not a file's kind.
fn path_of(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => path,
    }
}

/// What a format's reader makes of a document.
struct Content {
    text: String,
    title: Option<String>,
    kind: Kind,
    /// Of pages.
    starts: Vec<usize>,
    fields: Map<String, Value>,
}

impl Content {
    fn new(text: String, title: Option<String>, kind: Kind) -> Self {
        Self { text, title, kind, starts: Vec::new(), fields: Map::new() }
    }
}

/// Reads a document, or one inside another, within what the budget has left.
fn read_part(raw: &RawDocument<'_>, origin: Origin, budget: &Budget) -> Result<Extracted, ExtractError> {
    let kind = kind_of(raw, origin)?;
    let mut notes = Vec::new();
    let (mut charset, mut charset_guessed, mut removed) = (String::new(), false, 0);
    let content = match kind {
        Kind::Pdf => {
            let pages = pdf::read(raw.bytes, budget, &mut notes)?;
            Content { starts: pages.starts, ..Content::new(pages.text, pages.title, kind) }
        }
        Kind::Zip | Kind::Docx | Kind::Xlsx | Kind::Pptx | Kind::Epub => office::read(raw.bytes, budget, &mut notes)?,
        Kind::Email => {
            let (text, title) = email::read(raw.bytes, budget, &mut notes)?;
            Content::new(text, title, kind)
        }
        _ => {
            let declared = charset::declared(raw, kind);
            let decoded = charset::decode(raw.bytes, declared.as_deref())?;
            notes = decoded.notes;
            (charset, charset_guessed) = (decoded.charset, decoded.guessed);
            text_content(control::clean(decoded.text, &mut removed), kind, budget, &mut notes)?
        }
    };
    let Content { text, title, kind, starts: pages, fields } = content;
    // A character reference (`&#1;`) can name what the bytes did not hold.
    let text = control::clean(text, &mut removed);
    let title = title.map(|title| control::clean(title, &mut removed));
    if removed > 0 {
        notes.push(format!("{removed} control characters removed"));
    }
    if text.chars().all(control::is_blank) {
        return Err(ExtractError::Empty);
    }
    Ok(Extracted { text, title, kind, charset, charset_guessed, pages, fields: without_own(fields), notes })
}

fn text_content(clean: String, kind: Kind, budget: &Budget, notes: &mut Vec<String>) -> Result<Content, ExtractError> {
    let (text, title) = match kind {
        Kind::Markdown => {
            let page = markdown::read(&clean, notes)?;
            return Ok(Content { fields: page.fields, ..Content::new(page.text, page.title, kind) });
        }
        Kind::Html => html::read(&clean, notes)?,
        Kind::Code => (code::read(clean), None),
        Kind::Csv => (rows::read(&clean, budget, notes)?, None),
        Kind::Json => {
            let (text, kind) = json::read(&clean, budget, notes)?;
            return Ok(Content::new(text, None, kind));
        }
        Kind::Ndjson => (json::read_lines(&clean, budget, notes)?, None),
        Kind::Xml => xml::read(&clean, budget, notes)?,
        _ => (text::read(clean), None),
    };
    Ok(Content::new(text, title, kind))
}
