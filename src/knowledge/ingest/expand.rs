//! Archives of documents: each file in one becomes a document of its own, named `archive.zip/folder/file`.
//! Unpacked in a process of its own, one file at a time, so that a large archive is never in memory whole.

use super::super::error::KnowledgeError;
use super::super::extract::{Unpacking, is_archive};
use super::{Ingest, NewDocument};

/// Bytes of a document's id.
const MOST_ID: usize = 255;

/// What was sent, as documents.
pub enum Expanded {
    /// It was one.
    One(Option<Box<NewDocument>>),
    Archive {
        archive: Box<NewDocument>,
        unpacking: Box<Unpacking>,
    },
}

impl Ingest {
    /// Takes an archive apart; what is none stays as it is.
    ///
    /// # Errors
    /// The process that unpacks cannot be started.
    pub async fn expand(&self, mut new: NewDocument) -> Result<Expanded, KnowledgeError> {
        if !is_archive(&new.content) {
            return Ok(Expanded::One(Some(Box::new(new))));
        }
        let limit = self.inner.options.max_document_bytes;
        if new.content.len() > limit {
            return Err(KnowledgeError::TooLarge { bytes: new.content.len(), limit });
        }
        let unpacking = self.inner.reader.unpack(std::mem::take(&mut new.content)).await?;
        Ok(Expanded::Archive { archive: Box::new(new), unpacking: Box::new(unpacking) })
    }
}

impl Expanded {
    /// The next document with its URI, or why there is none; `None` after the last.
    pub async fn next(&mut self) -> Option<(String, Result<NewDocument, KnowledgeError>)> {
        match self {
            Self::One(one) => {
                let one = one.take()?;
                Some((one.uri.clone().unwrap_or_default(), Ok(*one)))
            }
            Self::Archive { archive, unpacking } => {
                let of = archive.uri.clone().or_else(|| archive.id.clone()).unwrap_or_else(|| "archive.zip".to_owned());
                match unpacking.next().await {
                    Ok(None) => None,
                    Err(refused) => Some((of, Err(refused.into()))),
                    Ok(Some((name, Err(refused)))) => Some((format!("{of}/{name}"), Err(refused.into()))),
                    Ok(Some((name, Ok(content)))) => {
                        let uri = format!("{of}/{name}");
                        let id = archive.id.as_ref().map(|id| format!("{id}/{name}")).filter(|id| id.len() <= MOST_ID);
                        let metadata = archive.metadata.clone();
                        let collection = archive.collection.clone();
                        let new = NewDocument {
                            collection,
                            id,
                            uri: Some(uri.clone()),
                            content,
                            metadata,
                            ..NewDocument::default()
                        };
                        Some((uri, Ok(new)))
                    }
                }
            }
        }
    }
}
