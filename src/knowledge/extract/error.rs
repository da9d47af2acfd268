//! Why a document is refused, in words for the person who sent it.

use serde::{Deserialize, Serialize};

/// It also travels from the process that reads to the one that asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ExtractError {
    #[error("the document has no text")]
    Empty,
    #[error("there is no file in the archive")]
    EmptyArchive,
    #[error("the archive holds another file of this name, and only the last of them can be read")]
    SameName,
    #[error("the content is binary ({0}), not text")]
    Binary(String),
    #[error(
        "{0} cannot be read; what works: PDF, Word, Excel and PowerPoint (docx, xlsx, pptx), EPUB, HTML, Markdown, \
         CSV, JSON, XML, e-mail, plain text, source code, and ZIP archives of these"
    )]
    UnsupportedType(String),
    #[error("the text's encoding could not be determined: convert it to UTF-8")]
    UnknownEncoding,
    #[error("elements are nested deeper than {0} levels")]
    TooDeep(usize),
    /// Archives and e-mails.
    #[error("documents are packed in one another deeper than {0} levels (`ingest.extract.max_nesting`)")]
    TooNested(usize),
    #[error("it is nested so deep that its reader ran out of stack")]
    StackOverflow,
    #[error("the document is damaged: {0}")]
    Corrupt(String),
    #[error("the document is encrypted: remove its password and send it again")]
    Encrypted,
    #[error(
        "the document has {pages} pages and no text on them but page numbers, so it is probably scanned: \
         run text recognition (OCR) over it and send the result"
    )]
    NoText { pages: usize },
    /// The message names the limit.
    #[error("{0}")]
    ExpandsTooFar(String),
    #[error("{0}")]
    TooMany(String),
    #[error("reading the document took longer than {seconds} s (`{setting}`)")]
    Timeout { seconds: u64, setting: String },
    #[error("the XML declares entities, and these are not expanded: send it without a document type")]
    Entities,
    /// The process that reads could not be started or understood: nothing that another document would mend.
    #[error("the reader of documents does not work: {0}")]
    ReaderFailed(String),
}

impl ExtractError {
    /// The problem's stable `code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty | Self::EmptyArchive => "empty_document",
            Self::Binary(_) => "binary_content",
            Self::UnsupportedType(_) => "unsupported_type",
            Self::UnknownEncoding => "unknown_encoding",
            Self::TooDeep(_) | Self::TooNested(_) | Self::StackOverflow => "too_deep",
            Self::Corrupt(_) | Self::SameName => "corrupt_document",
            Self::Encrypted => "encrypted_document",
            Self::NoText { .. } => "no_text",
            Self::ExpandsTooFar(_) => "expands_too_far",
            Self::TooMany(_) => "too_many_entries",
            Self::Timeout { .. } => "extraction_timeout",
            Self::Entities => "entity_declarations",
            Self::ReaderFailed(_) => "reader_failed",
        }
    }

    /// The HTTP status that says the same: 415 where another format would do, 413 where less would, else 422.
    pub fn status(&self) -> u16 {
        match self {
            Self::Binary(_) | Self::UnsupportedType(_) => 415,
            Self::ExpandsTooFar(_) | Self::TooMany(_) => 413,
            Self::ReaderFailed(_) => 500,
            _ => 422,
        }
    }
}
