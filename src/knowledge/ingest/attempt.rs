//! One attempt to build a version, and what is left if it does not come to an end.
//! Invariant: every point that an attempt put into the store is either in a row of a live version or
//! becomes a tombstone, whether the attempt fails or its future is dropped.

use super::super::error::KnowledgeError;
use super::{Ingest, Inner};
use crate::storage::documents::{self, DocumentKey};
use crate::storage::tombstones;
use std::sync::{Arc, PoisonError};
use uuid::Uuid;

/// What a dropped attempt leaves behind.
#[derive(Debug)]
pub(super) struct Abandoned {
    key: DocumentKey,
    version: i64,
    points: Vec<Uuid>,
}

pub(super) struct Attempt {
    inner: Arc<Inner>,
    pub(super) key: DocumentKey,
    pub(super) version: i64,
    /// Given to the store and not yet in a row.
    pub(super) points: Vec<Uuid>,
    open: bool,
    /// Of the text that is live already: if it fails, nothing is wrong with the document.
    is_anew: bool,
}

impl Attempt {
    pub(super) fn new(inner: &Arc<Inner>, key: DocumentKey, version: i64) -> Self {
        Self { inner: Arc::clone(inner), key, version, points: Vec::new(), open: true, is_anew: false }
    }

    /// To build what is live once more.
    pub(super) fn anew(inner: &Arc<Inner>, key: DocumentKey, version: i64) -> Self {
        let mut attempt = Self::new(inner, key, version);
        attempt.is_anew = true;
        attempt
    }

    /// The version is live: nothing is left behind.
    pub(super) fn succeeded(mut self) {
        self.open = false;
    }

    /// Writes down why it failed and takes its points back. The error again, for the caller.
    pub(super) async fn failed(mut self, error: KnowledgeError) -> KnowledgeError {
        let (key, points) = (self.key.clone(), std::mem::take(&mut self.points));
        let (db, why) = (&self.inner.base.db, (error.code(), error.to_string()));
        let noted = tombstones::fail(db, key, self.version, points.clone(), why, self.is_anew).await;
        match noted {
            Ok(()) => self.open = false,
            Err(unstored) => {
                tracing::warn!(document.id = %self.key.id, error = %unstored, "a failed document could not be noted");
                self.points = points;
            }
        }
        self.inner.stirred.notify_one();
        error
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.open {
            let left =
                Abandoned { key: self.key.clone(), version: self.version, points: std::mem::take(&mut self.points) };
            self.inner.abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(left);
            self.inner.stirred.notify_one();
        }
    }
}

impl Ingest {
    /// Cleans up after attempts whose future was dropped, and after rows of attempts that had not even
    /// begun when it was.
    pub(super) async fn bury_abandoned(&self) -> Result<(), KnowledgeError> {
        let why = || ("cancelled", "it was cancelled before it was complete".to_owned());
        let db = &self.inner.base.db;
        let left = std::mem::take(&mut *self.inner.abandoned.lock().unwrap_or_else(PoisonError::into_inner));
        for one in left {
            tombstones::fail(db, one.key, one.version, one.points, why(), true).await?;
        }
        for document in documents::building(db).await? {
            let (Some(_inside), Some(version)) = (self.inner.turnstile.try_enter(&document.key), document.building)
            else {
                continue;
            };
            tombstones::fail(db, document.key, version, Vec::new(), why(), true).await?;
        }
        Ok(())
    }
}
