//! Collections: made, described, kept in step with the model that runs and with the language of their
//! documents.

use super::super::base::{AUTO, DEFAULT_COLLECTION};
use super::super::error::KnowledgeError;
use super::super::keyword::{self, Language};
use super::super::{Priority, StoreError};
use super::Ingest;
use crate::storage::collections::{self, Collection, NewCollection};
use crate::storage::documents::{self, DocumentKey};
use crate::storage::points;

/// Chunks that are looked at to tell a collection's language.
const SAMPLE: u32 = 256;
/// Documents that are written again for another language at a time.
const BEHIND: u32 = 64;

/// What can be chosen for a new collection.
#[derive(Clone, Debug)]
pub struct NewCollectionOptions {
    pub language: String,
    /// One of those that run here; `None`: the default.
    pub embedding_model: Option<String>,
    /// Versions of a document that are kept, the live one included.
    pub keep_versions: u32,
}

impl Default for NewCollectionOptions {
    fn default() -> Self {
        Self { language: AUTO.to_owned(), embedding_model: None, keep_versions: 1 }
    }
}

impl Ingest {
    /// Makes the collection with the default model, if it is not there. `language`: a name or code
    /// that [`Language`] reads, `multilingual`, or `auto`: it follows the documents. The language of a
    /// collection that is there is left as it is.
    ///
    /// # Errors
    /// [`KnowledgeError::BadName`], [`KnowledgeError::Language`]; [`KnowledgeError::Model`] where another
    /// model built it.
    pub async fn create_collection(&self, name: &str, language: &str) -> Result<Collection, KnowledgeError> {
        let options = NewCollectionOptions { language: language.to_owned(), ..NewCollectionOptions::default() };
        self.create_collection_with(name, options).await
    }

    /// The same with all that can be chosen.
    ///
    /// # Errors
    /// Also [`KnowledgeError::NoModel`], and [`KnowledgeError::OtherModel`] where it is there with another model than
    /// the one that was named.
    pub async fn create_collection_with(
        &self,
        name: &str,
        options: NewCollectionOptions,
    ) -> Result<Collection, KnowledgeError> {
        check_name(name)?;
        let fixed = if options.language == AUTO { None } else { Some(options.language.parse::<Language>()?.name()) };
        let base = &self.inner.base;
        let embedder = base.embedders.named(options.embedding_model.as_deref())?;
        let inside = self.inner.turnstile.enter(&collection_key(name)).await;
        let there = collections::find(&base.db, name).await?;
        if there.as_ref().is_none_or(|c| !c.deleting) {
            let model = embedder.model();
            if let Some(other) =
                there.as_ref().filter(|c| options.embedding_model.is_some() && c.embedding_model != model.name)
            {
                let recorded = other.embedding_model.clone();
                return Err(KnowledgeError::OtherModel { collection: name.to_owned(), recorded });
            }
            if there.is_none() {
                // First the store, then the row: a row promises that documents can go in.
                self.make_in_store(name, model.dimension).await?;
            }
            let new = NewCollection {
                name: name.to_owned(),
                embedding_model: model.name.clone(),
                dimension: model.dimension as u64,
                language: fixed.unwrap_or(AUTO).to_owned(),
                keyword_language: fixed.unwrap_or_default().to_owned(),
                keep_versions: options.keep_versions.max(1),
            };
            collections::create(&base.db, new).await?;
        } else {
            self.finish_deleting(name).await?;
            return Err(KnowledgeError::Overtaken);
        }
        drop(inside);
        self.usable(name).await
    }

    /// Makes `default` if it is not there.
    ///
    /// # Errors
    /// As [`Ingest::create_collection`], but a collection of another model is left for its users to hear of.
    pub async fn ensure_default(&self) -> Result<(), KnowledgeError> {
        match self.create_collection(DEFAULT_COLLECTION, AUTO).await {
            Ok(_) | Err(KnowledgeError::Model { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// An empty leftover of other dimension, of which SQL knows nothing, is replaced.
    async fn make_in_store(&self, name: &str, dimension: usize) -> Result<(), KnowledgeError> {
        let store = &self.inner.base.store;
        match store.create_collection(name, dimension).await {
            Err(StoreError::Dimension { .. }) => {
                store.delete_collection(name).await?;
                Ok(store.create_collection(name, dimension).await?)
            }
            other => Ok(other?),
        }
    }

    /// Gives a collection without chunks to the model that runs. `false`: it has chunks of another.
    pub(super) async fn follow_model(&self, name: &str) -> Result<bool, KnowledgeError> {
        let base = &self.inner.base;
        let _inside = self.inner.turnstile.enter(&collection_key(name)).await;
        let model = base.embedders.default().model();
        let given = collections::change_model(&base.db, name.to_owned(), model.name.clone(), model.dimension as u64);
        if !given.await? {
            return Ok(false);
        }
        self.make_in_store(name, model.dimension).await?;
        Ok(true)
    }

    /// Looks again at the language of a collection that follows its documents, each time their number
    /// has doubled; the first look is at the first document. Then brings points that were written for
    /// another language up to date.
    pub(super) async fn follow_language(&self, collection: &Collection) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let name = collection.name.as_str();
        let due = collection.documents >= (2 * collection.language_seen).max(1);
        if collection.language == AUTO && due {
            let texts = collections::sample_texts(&base.db, name, SAMPLE).await?;
            let found = base.off_runtime(Priority::Bulk, move || keyword::detect(&texts).name().to_owned()).await?;
            collections::set_language(&base.db, name.to_owned(), found, collection.documents).await?;
        }
        loop {
            let behind = points::behind(&base.db, name, BEHIND).await?;
            let last = behind.len() < BEHIND as usize;
            for key in behind {
                let _writing = self.inner.gates.write(name).await;
                let _inside = self.inner.turnstile.enter(&key).await;
                if let Some(document) = documents::find(&base.db, &key).await?
                    && let Some(live) = document.live
                {
                    self.rewrite(&key, live.version, document.description).await?;
                }
            }
            if last {
                return Ok(());
            }
        }
    }
}

/// The turnstile's key of a collection itself: no document has an empty id.
pub(super) fn collection_key(name: &str) -> DocumentKey {
    DocumentKey { collection: name.to_owned(), id: String::new() }
}

fn check_name(name: &str) -> Result<(), KnowledgeError> {
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fine = name.len() <= 63
        && name.bytes().next().is_some_and(word)
        && name.bytes().all(|c| word(c) || c == b'_' || c == b'-');
    if fine { Ok(()) } else { Err(KnowledgeError::BadName(name.to_owned())) }
}
