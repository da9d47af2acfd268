//! A document that is there already: nothing is read or embedded. Its description may have changed;
//! then its points are written again from the stored vectors.

use super::super::Scope;
use super::super::error::KnowledgeError;
use super::super::extract::{self, RawDocument};
use super::super::watch::WATCHED;
use super::{Ingest, IngestOutcome, Task};
use crate::storage::collections;
use crate::storage::documents::{self, Description, DocumentStatus, StoredDocument};

/// What is added to the metadata on the way in; the rest is the client's.
pub(super) const READERS_OWN: [&str; 5] = ["format", "charset", "charset_guessed", "pages", WATCHED];

impl Ingest {
    /// The outcome if these bytes are what is live.
    pub(super) async fn unchanged(
        &self,
        task: &Task,
        existing: Option<&StoredDocument>,
    ) -> Result<Option<IngestOutcome>, KnowledgeError> {
        let db = &self.inner.base.db;
        let Some((document, live)) = existing.and_then(|d| d.live.as_ref().map(|live| (d, live))) else {
            return Ok(None);
        };
        if live.hash != task.hash || document.description.scope != task.scope.key() {
            return Ok(None);
        }
        let about = renewed(task, &document.description);
        if about != document.description {
            self.redescribe(&task.key, live.version, about).await?;
        }
        if document.status != DocumentStatus::Indexed {
            documents::set_status(db, task.key.clone(), DocumentStatus::Indexed).await?;
        }
        Ok(Some(IngestOutcome {
            document_id: task.key.id.clone(),
            version: live.version,
            chunks: live.chunks,
            status: DocumentStatus::Indexed,
            unchanged: true,
            watermark: collections::watermark(db).await?,
            notes: live.notes.clone(),
        }))
    }
}

/// The description after the same bytes came again with what the client says now. A title that is not
/// given stays; a life that grows by less than a day is left as it is.
fn renewed(task: &Task, stored: &Description) -> Description {
    let own = stored.metadata.iter().filter(|(key, _)| READERS_OWN.contains(&key.as_str()));
    let raw = RawDocument { bytes: &task.content, name: &task.uri, mime: task.mime.as_deref() };
    let mut metadata = extract::fields(&raw);
    metadata.remove(WATCHED);
    metadata.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    metadata.extend(task.metadata.clone());
    if task.metadata.is_empty() {
        // Nothing is said of it now: what was said before, or changed since, stays.
        metadata.clone_from(&stored.metadata);
    }
    if task.scope != Scope::Collection {
        // Which turn found it first says where it came from; a later one only keeps it longer.
        metadata.clone_from(&stored.metadata);
    }
    Description {
        title: task.title.clone().filter(|title| !title.trim().is_empty()).unwrap_or_else(|| stored.title.clone()),
        uri: task.uri.clone(),
        metadata,
        scope: stored.scope.clone(),
        expires_at: task.expires_at.zip(stored.expires_at).map(|(new, old)| if new > old + 86_400 { new } else { old }),
    }
}
