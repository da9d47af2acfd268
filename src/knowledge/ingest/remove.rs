//! Documents, collections and conversations out.
//! Invariant: the commit comes first and is enough for no search to find them; what the store still
//! holds goes after it, and again at the next start if the process dies in between.

use super::super::base::DEFAULT_COLLECTION;
use super::super::error::KnowledgeError;
use super::super::filter::{Condition, Filter};
use super::super::store::builds::part_name;
use super::super::{Scope, StoreError};
use super::Ingest;
use super::manage::collection_key;
use crate::storage::documents::{self, DocumentKey};
use crate::storage::{collections, conversations, generations, jobs, tombstones};
use serde_json::json;
use uuid::Uuid;

/// Tombstones that go to the store at a time.
const PAGE: u32 = 1000;

/// What a delete found and left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    pub document_id: String,
    pub points_before: u64,
    /// Counted in the store; 0 unless the store is broken.
    pub points_after: u64,
}

impl Ingest {
    /// Deletes a document with its points, rows and text. Work on it that runs or waits is stopped.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::NoDocument`]; where the store fails the document
    /// is gone for searches all the same, and its points go later.
    pub async fn delete_document(&self, collection: &str, id: &str) -> Result<Deleted, KnowledgeError> {
        let base = &self.inner.base;
        let key = DocumentKey { collection: collection.to_owned(), id: id.to_owned() };
        let there = collections::find(&base.db, collection).await?.filter(|c| !c.deleting);
        there.ok_or_else(|| KnowledgeError::NoCollection(collection.to_owned()))?;
        let Some(gone) = tombstones::delete(&base.db, key.clone()).await? else {
            return Err(KnowledgeError::NoDocument(id.to_owned()));
        };
        // Exactly those whose rows have ended with it: nobody else would tell who waits for them.
        for job in gone.jobs {
            self.stop_job(job);
        }
        self.inner.stirred.notify_one();
        // An attempt without a job sees at its next slice that its row is gone, and buries its points.
        let _inside = self.inner.turnstile.enter(&key).await;
        let dead = tombstones::of_document(&base.db, &key).await?;
        base.store.delete(collection, &dead).await?;
        let of_document = Condition::Match { key: "document_id".to_owned(), value: json!(id) };
        let filter = Filter { must: vec![of_document], ..Filter::default() };
        let points_after = base.store.count(collection, &filter).await?;
        Ok(Deleted { document_id: id.to_owned(), points_before: gone.points, points_after })
    }

    /// Deletes a collection with all its documents.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::DefaultStays`]; where the store fails the collection
    /// is gone for everybody all the same, and the rest goes later.
    pub async fn delete_collection(&self, name: &str) -> Result<(), KnowledgeError> {
        if name == DEFAULT_COLLECTION {
            return Err(KnowledgeError::DefaultStays);
        }
        let db = &self.inner.base.db;
        let there = collections::find(db, name).await?.filter(|c| !c.deleting);
        there.ok_or_else(|| KnowledgeError::NoCollection(name.to_owned()))?;
        collections::mark_deleting(db, name.to_owned()).await?;
        for job in jobs::unfinished_in(db, name).await? {
            self.stop_job(job);
        }
        let _inside = self.inner.turnstile.enter(&collection_key(name)).await;
        self.finish_deleting(name).await
    }

    /// The caller is inside the collection's turnstile, or alone.
    pub(in super::super) async fn finish_deleting(&self, name: &str) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let live = collections::find(&base.db, name).await?.map(|c| c.generation);
        let others = generations::of_collection(&base.db, name).await?;
        for generation in others.iter().map(|build| build.generation).chain(live) {
            match base.builds.parts().delete_collection(&part_name(name, generation)).await {
                Ok(()) | Err(StoreError::NoCollection(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        collections::delete_rows(&base.db, name.to_owned()).await?;
        base.builds.forget(name);
        Ok(())
    }

    /// Deletes a conversation with its messages and what only it could find. `false`: there is none.
    ///
    /// # Errors
    /// As [`Ingest::delete_document`].
    pub async fn delete_conversation(&self, id: Uuid) -> Result<bool, KnowledgeError> {
        let base = &self.inner.base;
        let touched = documents::collections_of_scope(&base.db, &Scope::Conversation(id).key()).await?;
        let deleted = conversations::delete(&base.db, id).await?;
        let _alone = self.inner.sweeping.acquire().await;
        for collection in touched {
            self.delete_tombstoned(&collection).await?;
        }
        self.inner.stirred.notify_one();
        Ok(deleted)
    }

    /// Tells the store of all tombstones of a collection; the ids that were told. The caller sweeps alone.
    pub(super) async fn delete_tombstoned(&self, collection: &str) -> Result<Vec<Uuid>, KnowledgeError> {
        let base = &self.inner.base;
        let mut told: Vec<Uuid> = Vec::new();
        loop {
            let page = tombstones::list(&base.db, collection, told.len() as u64, PAGE).await?;
            if page.is_empty() {
                return Ok(told);
            }
            base.store.delete(collection, &page).await?;
            told.extend(page);
        }
    }
}
