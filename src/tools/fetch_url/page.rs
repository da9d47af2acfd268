//! A fetched page as text: what the model reads, and what the knowledge base keeps.
//! Invariant: the text is never longer than its cap, and says so to the model where it was cut.

use super::hop::Body;
use crate::knowledge::extract::{ExtractError, Extracted, Origin, RawDocument, Reader};
use crate::tools::{IngestText, ToolError, ToolOutput};
use bytes::Bytes;
use reqwest::Url;

/// Longest title, in characters.
const TITLE_CHARS: usize = 200;

/// A page that was read.
pub struct Page {
    /// Where the redirects ended.
    url: Url,
    title: Option<String>,
    text: String,
    /// The page goes on after `text`.
    cut: bool,
}

/// Extracts a page's readable text, off the runtime's threads.
pub async fn read(body: Body, url: Url, max_text_bytes: usize, reader: &Reader) -> Result<Page, ToolError> {
    let Body { bytes, content_type, cut } = body;
    let bytes = Bytes::from(bytes);
    let here = {
        let (reader, bytes, mime, name) = (reader.clone(), bytes.clone(), content_type.clone(), url.to_string());
        move || reader.here(&RawDocument { bytes: &bytes, name: &name, mime: mime.as_deref() }, Origin::Page)
    };
    // A panic on a hostile page costs this call, not the turn.
    let here = tokio::task::spawn_blocking(here).await.map_err(|error| {
        tracing::error!(error.cause = %error, "reading a fetched page was broken off");
        ToolError("the page cannot be read".into())
    })?;
    let unreadable = |error: ExtractError| ToolError(format!("the page cannot be read: {error}"));
    let extracted: Extracted = match here {
        Some(read) => read.map_err(unreadable)?,
        // Half of a PDF or of an archive is none.
        None if cut => {
            let limit = bytes.len();
            return Err(ToolError(format!(
                "the file has more than {limit} bytes (`tools.fetch_url.max_bytes`), and its kind cannot be read in part"
            )));
        }
        None => reader.apart(bytes, url.as_str(), content_type.as_deref(), Origin::Page).await.map_err(unreadable)?,
    };
    let mut text = extracted.text;
    let whole = text.len();
    text.truncate(text.floor_char_boundary(max_text_bytes));
    let title = extracted.title.and_then(|title| one_line(&title));
    Ok(Page { title, cut: cut || text.len() < whole, text, url })
}

fn one_line(title: &str) -> Option<String> {
    let words: Vec<&str> = title.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(TITLE_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

impl Page {
    /// Bytes in memory, nearly.
    pub fn bytes(&self) -> usize {
        self.url.as_str().len() + self.text.len()
    }

    pub fn output(&self) -> ToolOutput {
        let Self { url, title, text, cut } = self;
        let head = title.as_ref().map(|title| format!("Title: {title}\n")).unwrap_or_default();
        let note = if *cut { "\n\n[The page is longer: this is its beginning.]" } else { "" };
        ToolOutput {
            text: format!("{head}URL: {url}\n\n{text}{note}"),
            sources: Vec::new(),
            ingest: Some(IngestText {
                title: title.clone().unwrap_or_else(|| url.to_string()),
                uri: url.to_string(),
                text: text.clone(),
            }),
        }
    }
}
