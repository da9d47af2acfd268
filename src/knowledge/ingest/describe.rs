//! What is said of a document besides its text, changed; and points written again from what SQL holds, because of that
//! or for another keyword language. Nothing is read or embedded for it.

use super::super::base::{self, Base};
use super::super::error::KnowledgeError;
use super::super::{Priority, Scope};
use super::Ingest;
use super::unchanged::READERS_OWN;
use crate::storage::documents::{self, Description, DocumentKey, StoredDocument};
use crate::storage::{collections, points, versions};
use serde_json::{Map, Value};
use std::time::Duration;

/// Points that are written again at a time.
const PAGE: u32 = 256;
/// For a version that is being built. Clients give up soon after.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// What a client wants to be said of a document from now on.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub title: Option<String>,
    /// Merged into what is there; a null takes the key away.
    pub metadata: Map<String, Value>,
}

impl Ingest {
    /// Changes title and metadata of a document that can be found; filters follow at once. The document as it is then.
    ///
    /// # Errors
    /// [`KnowledgeError::NoDocument`]; [`KnowledgeError::NotIndexed`] where no version is live yet;
    /// [`KnowledgeError::Busy`] where a new one is being built; what the store and the database say.
    pub async fn describe(&self, key: &DocumentKey, change: Change) -> Result<StoredDocument, KnowledgeError> {
        let db = &self.inner.base.db;
        let _writing = self.inner.gates.write(&key.collection).await;
        self.usable(&key.collection).await?;
        let find = async || documents::find(db, key).await?.ok_or_else(|| KnowledgeError::NoDocument(key.id.clone()));
        if find().await?.live.is_none() {
            return Err(KnowledgeError::NotIndexed(key.id.clone()));
        }
        // A long document takes minutes, and whoever asks should not wait that long without a word.
        let entered = tokio::time::timeout(MOST_WAIT, self.inner.turnstile.enter(key)).await;
        let Ok(_inside) = entered else { return Err(KnowledgeError::Busy(key.id.clone())) };
        let document = find().await?;
        let live = document.live.as_ref().ok_or_else(|| KnowledgeError::NotIndexed(key.id.clone()))?.version;
        let about = changed(&document.description, change);
        if about == document.description {
            return Ok(document);
        }
        self.redescribe(key, live, about).await?;
        find().await
    }

    /// Gives all versions of a document this description. The caller is inside the document's turnstile.
    pub(super) async fn redescribe(
        &self,
        key: &DocumentKey,
        live: i64,
        about: Description,
    ) -> Result<(), KnowledgeError> {
        self.rewrite(key, live, about).await?;
        self.set_aside(key).await;
        Ok(())
    }

    /// Writes the points of a live version again: with this description, and for the collection's keyword language of
    /// now. The caller is inside the document's turnstile.
    pub(super) async fn rewrite(
        &self,
        key: &DocumentKey,
        version: i64,
        about: Description,
    ) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let collection = base.collection(&key.collection).await?;
        self.write_again(key, version, &collection.keyword_language, &about).await?;
        let language = base.keywords(&collection.keyword_language)?.language().name().to_owned();
        points::rewritten(&base.db, key.clone(), version, about, language).await?;
        self.inner.stirred.notify_one();
        Ok(())
    }

    /// Tells the store which points belong to versions that are kept: only searches of the past find them. If the
    /// store cannot, nothing wrong is shown: each hit is checked in SQL.
    pub(super) async fn set_aside(&self, key: &DocumentKey) {
        let base = &self.inner.base;
        let written = async {
            let kept = versions::kept(&base.db, key).await?;
            if kept.is_empty() {
                return Ok(());
            }
            let document = documents::find(&base.db, key).await?;
            let collection = collections::find(&base.db, &key.collection).await?;
            let (Some(document), Some(collection)) = (document, collection) else { return Ok(()) };
            let about = Description { scope: Scope::Kept.key(), ..document.description };
            for version in kept {
                self.write_again(key, version, &collection.keyword_language, &about).await?;
            }
            Ok::<_, KnowledgeError>(())
        };
        if let Err(error) = written.await {
            tracing::warn!(document.id = %key.id, error = %error, "kept versions are marked in the store later");
        }
    }

    async fn write_again(
        &self,
        key: &DocumentKey,
        version: i64,
        language: &str,
        about: &Description,
    ) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let keywords = base.keywords(language)?;
        let mut from = 0;
        loop {
            let mut page = points::of_version(&base.db, key, version, from, PAGE).await?;
            let read = page.len();
            for point in &mut page {
                point.description = about.clone();
            }
            let keywords = keywords.clone();
            let made = base.off_runtime(Priority::Bulk, move || Base::points(&keywords, page)).await??;
            base.store.upsert(&key.collection, made).await?;
            if read < PAGE as usize {
                return Ok(());
            }
            from += PAGE;
        }
    }
}

/// An empty title is none: then the name that the URI ends in stands for it.
fn changed(stored: &Description, change: Change) -> Description {
    let mut about = stored.clone();
    if let Some(title) = change.title {
        about.title = if title.trim().is_empty() { base::last_part(&stored.uri).to_owned() } else { title };
    }
    for (key, value) in change.metadata.into_iter().filter(|(key, _)| !READERS_OWN.contains(&key.as_str())) {
        match value {
            Value::Null => drop(about.metadata.remove(&key)),
            value => drop(about.metadata.insert(key, value)),
        }
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_merges_and_leaves_what_the_reader_found() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let stored = Description {
            title: "Old".to_owned(),
            uri: "a/b.md".to_owned(),
            metadata: map(json!({"format": "markdown", "lang": "en", "team": "ops"})),
            scope: "collection".to_owned(),
            expires_at: None,
        };
        let check = |title: Option<&str>, metadata: Value, want_title: &str, want: Value| {
            let change = Change { title: title.map(str::to_owned), metadata: map(metadata) };
            let got = changed(&stored, change);
            assert_eq!((got.title.as_str(), Value::Object(got.metadata)), (want_title, want));
        };
        let all = json!({"format": "markdown", "lang": "en", "team": "ops"});
        check(None, json!({}), "Old", all.clone());
        check(Some("New"), json!({}), "New", all.clone());
        check(Some("  "), json!({}), "b.md", all.clone());
        check(None, json!({"format": "text"}), "Old", all);
        check(None, json!({"lang": null, "year": 7}), "Old", json!({"format": "markdown", "team": "ops", "year": 7}));
    }
}
