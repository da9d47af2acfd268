//! Bytes to text with structure: one file per family of formats.
//!
//! Invariants: the text that leaves here is clean (no control characters but `\n` and `\t`, lines end in
//! `\n`, nothing undecodable shown as U+FFFD), every offset of the knowledge base counts in it, and work is
//! linear in the input. Runs synchronously: callers put it on a blocking thread and bound the input's size.

mod charset;
mod code;
mod control;
mod html;
mod kind;
mod markdown;
mod sniff;
mod text;

#[cfg(test)]
mod tests;

pub use kind::Kind;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// Plain text, Markdown (also from HTML) or source code, as `kind` says. Never blank.
    pub text: String,
    /// From the document itself: front matter, `<title>` or the first heading.
    pub title: Option<String>,
    pub kind: Kind,
    /// The charset's name in lower case, as WHATWG names it.
    pub charset: String,
    /// Neither a byte order mark, nor valid UTF-8, nor a declaration that holds: detection chose it.
    pub charset_guessed: bool,
    /// What was mended or dropped, one sentence each, for the document's status.
    pub notes: Vec<String>,
}

impl Extracted {
    /// What belongs into the document's metadata: `format`, `charset`, and `charset_guessed` where true.
    pub fn metadata(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("format".into(), self.kind.name().into());
        out.insert("charset".into(), self.charset.as_str().into());
        if self.charset_guessed {
            out.insert("charset_guessed".into(), true.into());
        }
        out
    }
}

/// Why a document is refused. The message is for the person who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    #[error("the document has no text")]
    Empty,
    #[error("the content is binary ({0}), not text")]
    Binary(String),
    #[error("{0} cannot be read; what works: Markdown, HTML, plain text and source code")]
    UnsupportedType(String),
    #[error("the text's encoding could not be determined: convert it to UTF-8")]
    UnknownEncoding,
    #[error("elements are nested deeper than {0} levels")]
    TooDeep(usize),
}

impl ExtractError {
    /// The problem's stable `code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty_document",
            Self::Binary(_) => "binary_content",
            Self::UnsupportedType(_) => "unsupported_type",
            Self::UnknownEncoding => "unknown_encoding",
            Self::TooDeep(_) => "too_deep",
        }
    }

    /// The HTTP status that says the same: 415 where another format would do, else 422.
    pub fn status(&self) -> u16 {
        match self {
            Self::Binary(_) | Self::UnsupportedType(_) => 415,
            Self::Empty | Self::UnknownEncoding | Self::TooDeep(_) => 422,
        }
    }
}

/// Reads a document that somebody put into a collection.
pub fn extract(raw: &RawDocument<'_>) -> Result<Extracted, ExtractError> {
    read(raw, kind::of_document(raw))
}

/// Whether a file that begins with `raw.bytes` can be worth reading: not empty, not binary, not of a type that
/// cannot be read.
pub fn may_be_read(raw: &RawDocument<'_>) -> Result<(), ExtractError> {
    if raw.bytes.is_empty() {
        return Err(ExtractError::Empty);
    }
    sniff::refuse_binary(raw.bytes)?;
    kind::of_document(raw).map(|_| ()).map_err(ExtractError::UnsupportedType)
}

/// Reads a fetched page: what the server says of it outweighs how its URL ends.
pub fn readable(bytes: &[u8], content_type: Option<&str>, url: &str) -> Result<Extracted, ExtractError> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    // Without a path, what follows the last dot is a domain, not a file's kind.
    let name = match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => path,
    };
    let raw = RawDocument { bytes, name, mime: content_type };
    read(&raw, kind::of_page(&raw))
}

fn read(raw: &RawDocument<'_>, kind: Result<Kind, String>) -> Result<Extracted, ExtractError> {
    sniff::refuse_binary(raw.bytes)?;
    let kind = kind.map_err(ExtractError::UnsupportedType)?;
    let declared = charset::declared(raw, kind);
    let decoded = charset::decode(raw.bytes, declared.as_deref())?;
    let mut notes = decoded.notes;
    let mut removed = 0;
    let clean = control::clean(decoded.text, &mut removed);
    let (text, title) = match kind {
        Kind::Markdown => markdown::read(&clean, &mut notes)?,
        Kind::Html => html::read(&clean, &mut notes)?,
        Kind::Text => (text::read(clean), None),
        Kind::Code => (code::read(clean), None),
    };
    // A character reference (`&#1;`) can name what the bytes did not hold.
    let text = control::clean(text, &mut removed);
    let title = title.map(|title| control::clean(title, &mut removed));
    if removed > 0 {
        notes.push(format!("{removed} control characters removed"));
    }
    if text.chars().all(control::is_blank) {
        return Err(ExtractError::Empty);
    }
    Ok(Extracted { text, title, kind, charset: decoded.charset, charset_guessed: decoded.guessed, notes })
}
