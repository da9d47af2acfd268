//! Which family of formats a document belongs to. What the bytes say counts most: containers have their magic
//! numbers, and texts their marks, whatever they are called. Where they say nothing, the name, then the declared
//! MIME type.

mod marks;
mod names;

use super::RawDocument;
use marks::{begins_as_html, begins_as_mail, begins_as_xml, begins_with_a_header, is_json};
use names::by_name;
use serde::{Deserialize, Serialize};

/// A family of formats that are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Markdown,
    Html,
    Text,
    Code,
    Csv,
    Json,
    Ndjson,
    Xml,
    Email,
    Pdf,
    Docx,
    Xlsx,
    Pptx,
    Epub,
    /// Any ZIP container until it has been opened; after that, an archive of documents.
    Zip,
}

/// What the text that was read of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Markdown,
    Text,
    Code,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Text => "text",
            Self::Code => "code",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Xml => "xml",
            Self::Email => "email",
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
            Self::Pptx => "pptx",
            Self::Epub => "epub",
            Self::Zip => "zip",
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }

    /// What its text is, once it has been read.
    pub fn form(self) -> Form {
        match self {
            Self::Code => Form::Code,
            Self::Text | Self::Json | Self::Ndjson | Self::Xml | Self::Pdf | Self::Zip => Form::Text,
            Self::Markdown
            | Self::Html
            | Self::Csv
            | Self::Email
            | Self::Docx
            | Self::Xlsx
            | Self::Pptx
            | Self::Epub => Form::Markdown,
        }
    }

    /// Whether reading it could end the process: formats with readers that others wrote, or that unpack.
    pub fn is_hazardous(self) -> bool {
        matches!(self, Self::Pdf | Self::Zip | Self::Docx | Self::Xlsx | Self::Pptx | Self::Epub | Self::Email)
    }

    /// Whether what is read of it is much larger in memory than it is.
    pub fn grows(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson | Self::Xml | Self::Csv)
    }
}

/// The kind of a file. A declared HTML type counts where the bytes agree: browsers and command-line clients
/// guess the type from the name, so it seldom knows more. `Err`: the format's name.
pub(super) fn of_document(raw: &RawDocument<'_>) -> Result<Kind, String> {
    if let Some(kind) = by_magic(raw.bytes) {
        return kind;
    }
    match by_name(raw.name) {
        Some(Ok(kind))
            if kind != Kind::Html && by_mime(raw.mime) == Some(Ok(Kind::Html)) && begins_as_html(raw.bytes) =>
        {
            Ok(Kind::Html)
        }
        Some(kind) => kind.map(|kind| in_truth(kind, raw.bytes)),
        None => by_mime(raw.mime)
            .map_or_else(|| Ok(by_content(raw.bytes)), |kind| kind.map(|kind| in_truth(kind, raw.bytes))),
    }
}

/// What a text is that is called one of a kind. Source code may hold anything, so there the name counts.
fn in_truth(called: Kind, bytes: &[u8]) -> Kind {
    match called {
        Kind::Text | Kind::Markdown | Kind::Csv | Kind::Json | Kind::Ndjson if begins_as_html(bytes) => Kind::Html,
        Kind::Text if begins_as_xml(bytes) => Kind::Xml,
        Kind::Text if begins_as_mail(bytes) => Kind::Email,
        Kind::Text if is_json(bytes) => Kind::Json,
        Kind::Email if !begins_with_a_header(bytes) => by_content(bytes),
        other => other,
    }
}

/// The kind of a fetched page: the declared type first, but `text/plain` says no more than "text".
pub(super) fn of_page(raw: &RawDocument<'_>) -> Result<Kind, String> {
    if let Some(kind) = by_magic(raw.bytes) {
        return kind;
    }
    match by_mime(raw.mime) {
        Some(Ok(Kind::Text)) => match by_name(raw.name) {
            Some(Ok(kind)) if kind != Kind::Html => Ok(kind),
            _ => Ok(Kind::Text),
        },
        Some(kind) => kind,
        None => match by_name(raw.name) {
            // `/page.php` serves HTML, and so may anything else.
            Some(Ok(_)) | None if begins_as_html(raw.bytes) => Ok(Kind::Html),
            Some(kind) => kind,
            None => Ok(by_content(raw.bytes)),
        },
    }
}

/// Junk before a PDF's header that readers forgive.
const PDF_WITHIN: usize = 1024;

/// Containers that can be read, told by their first bytes.
fn by_magic(bytes: &[u8]) -> Option<Result<Kind, String>> {
    let head = bytes.get(..PDF_WITHIN).unwrap_or(bytes);
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Some(Ok(Kind::Zip));
    }
    // A text about PDF says so in words first.
    let at = memchr::memmem::find(head, b"%PDF-")?;
    let is_start = head
        .get(..at)
        .is_some_and(|before| at == 0 || !before.iter().all(|b| is_text_byte(*b)) || before.trim_ascii().is_empty());
    is_start.then_some(Ok(Kind::Pdf))
}

fn is_text_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')
}

/// `None` where the type says nothing: absent, any bytes, or a container that its bytes would have told.
fn by_mime(mime: Option<&str>) -> Option<Result<Kind, String>> {
    let essence = mime?.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match essence.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" | "application/unknown" => return None,
        "application/pdf" | "application/zip" | "application/x-zip-compressed" | "application/epub+zip" => return None,
        office if office.starts_with("application/vnd.openxmlformats-officedocument.") => return None,
        "text/html" | "application/xhtml+xml" => Ok(Kind::Html),
        "text/markdown" | "text/x-markdown" => Ok(Kind::Markdown),
        "text/csv" | "text/tab-separated-values" | "application/csv" => Ok(Kind::Csv),
        "message/rfc822" => Ok(Kind::Email),
        "text/javascript"
        | "application/javascript"
        | "application/x-javascript"
        | "application/ecmascript"
        | "text/css" => Ok(Kind::Code),
        "application/x-sh" | "application/x-httpd-php" | "application/sql" | "application/typescript" => Ok(Kind::Code),
        "application/json" => Ok(Kind::Json),
        "application/x-ndjson" | "application/jsonl" => Ok(Kind::Ndjson),
        "application/xml" | "text/xml" | "image/svg+xml" => Ok(Kind::Xml),
        "application/yaml" | "application/x-yaml" | "application/toml" => Ok(Kind::Text),
        other if other.starts_with("text/x-") || other.starts_with("text/rust") => Ok(Kind::Code),
        "text/rtf" => Err("text/rtf".to_owned()),
        other if other.ends_with("+json") => Ok(Kind::Json),
        other if other.ends_with("+xml") => Ok(Kind::Xml),
        other if other.starts_with("text/") => Ok(Kind::Text),
        other => Err(other.to_owned()),
    })
}

fn by_content(bytes: &[u8]) -> Kind {
    if begins_as_html(bytes) {
        Kind::Html
    } else if begins_as_xml(bytes) {
        Kind::Xml
    } else if is_json(bytes) {
        Kind::Json
    } else if begins_as_mail(bytes) {
        Kind::Email
    } else {
        Kind::Text
    }
}
