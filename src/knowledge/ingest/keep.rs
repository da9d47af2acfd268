//! A conversation's finding, kept: put into a collection for everybody, from the text that is stored.

use super::super::error::KnowledgeError;
use super::super::{Priority, Scope};
use super::{Ingest, IngestOutcome, NewDocument};
use crate::storage::documents::{self, DocumentKey};
use serde_json::Value;

impl Ingest {
    /// Puts what one conversation has found into `collection`; the finding stays with its conversation for its time.
    /// The same text in the same collection is not embedded again.
    ///
    /// # Errors
    /// [`KnowledgeError::NoDocument`]; [`KnowledgeError::NotAFinding`] where everybody finds it already; as
    /// [`Ingest::document`].
    pub async fn keep(&self, finding: &DocumentKey, collection: &str) -> Result<IngestOutcome, KnowledgeError> {
        let db = &self.inner.base.db;
        let missing = || KnowledgeError::NoDocument(finding.id.clone());
        let found = documents::find(db, finding).await?.ok_or_else(missing)?;
        if found.description.scope == Scope::Collection.key() {
            return Err(KnowledgeError::NotAFinding(finding.id.clone()));
        }
        let content = documents::content(db, finding).await?;
        let content = content.ok_or_else(|| KnowledgeError::NotIndexed(finding.id.clone()))?;
        let about = found.description;
        let mime = match about.metadata.get("format").and_then(Value::as_str) {
            // Both are stored as Markdown.
            Some("markdown" | "html") => Some("text/markdown"),
            Some("text") => Some("text/plain"),
            _ => None,
        };
        let new = NewDocument {
            collection: collection.to_owned(),
            id: None,
            uri: Some(about.uri),
            title: Some(about.title),
            content: content.into(),
            mime: mime.map(str::to_owned),
            metadata: about.metadata,
        };
        self.document(new, Priority::Turn).await
    }
}
