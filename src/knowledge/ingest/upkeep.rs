//! What happens in the background: making the store's points durable, forgetting what is deleted or
//! expired, following languages, cleaning up after dropped attempts.
//! Invariant: `flushed_seq` is read before the flush it stands for and stored after it; a tombstone goes
//! after the flush that followed its delete.

use super::super::error::KnowledgeError;
use super::{Ingest, manage};
use crate::storage::collections::{self, Collection};
use crate::storage::{documents, jobs, points, tombstones};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks while there is something to do.
const EVERY: Duration = Duration::from_secs(5);
/// Between two looks while nothing happens: documents expire by themselves.
const IDLE: Duration = Duration::from_secs(600);

impl Ingest {
    /// Runs until `stop` is cancelled, and once more then. One task of the service.
    pub async fn run_upkeep(self, stop: CancellationToken) {
        loop {
            let stirred = async {
                // Not at the first stir but some seconds after it: work that comes in bursts is flushed once.
                tokio::select! {
                    () = self.inner.stirred.notified() => tokio::time::sleep(EVERY).await,
                    () = tokio::time::sleep(IDLE) => {}
                }
            };
            let ended = tokio::select! {
                () = stop.cancelled() => true,
                () = stirred => false,
            };
            if let Err(error) = self.upkeep().await {
                tracing::warn!(error = %error, "upkeep of the knowledge base");
                self.inner.stirred.notify_one();
            }
            if ended {
                return;
            }
        }
    }

    /// Does now what is to be done in the background; afterwards everything ingested so far outlives a
    /// crash without being replayed.
    ///
    /// # Errors
    /// What the store or the database say; the rest of the work was tried all the same.
    pub async fn upkeep(&self) -> Result<(), KnowledgeError> {
        let db = &self.inner.base.db;
        let mut outcome = self.bury_abandoned().await;
        let now = jiff::Timestamp::now().as_second();
        for key in documents::expired(db, now).await? {
            let gone = self.delete_document(&key.collection, &key.id).await;
            if !matches!(gone, Err(KnowledgeError::NoDocument(_) | KnowledgeError::NoCollection(_))) {
                outcome = outcome.and(gone.map(|_| ()));
            }
        }
        let forgotten = now - i64::from(self.inner.options.keep_jobs_days) * 86_400;
        jobs::prune(db, forgotten * 1000).await?;
        for collection in collections::list(db).await? {
            outcome = outcome.and(self.tend(&collection).await);
        }
        outcome
    }

    async fn tend(&self, collection: &Collection) -> Result<(), KnowledgeError> {
        if collection.deleting {
            let _inside = self.inner.turnstile.enter(&manage::collection_key(&collection.name)).await;
            return self.finish_deleting(&collection.name).await;
        }
        if self.inner.base.check_model(collection).is_err() {
            // Nothing can go in or out until the old model runs again.
            return Ok(());
        }
        self.follow_language(collection).await?;
        self.make_durable(&collection.name).await
    }

    async fn make_durable(&self, name: &str) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        if !points::unflushed(&base.db, name).await? {
            return Ok(());
        }
        let _alone = self.inner.sweeping.acquire().await;
        let seq = collections::watermark(&base.db).await?;
        let dead = self.delete_tombstoned(name).await?;
        if base.store.needs_flush() {
            base.store.flush(name).await?;
            collections::set_flushed(&base.db, name.to_owned(), seq).await?;
        }
        Ok(tombstones::clear(&base.db, dead).await?)
    }
}
