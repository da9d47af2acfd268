//! Jobs as clients see them: looked at, cancelled, tried again.

use super::super::error::KnowledgeError;
use super::Ingest;
use crate::storage::jobs::{self, Job, JobFilter, Retried};
use tokio::sync::watch;
use uuid::Uuid;

impl Ingest {
    /// The job as it is now.
    ///
    /// # Errors
    /// What the database says.
    pub async fn job(&self, id: Uuid) -> Result<Option<Job>, KnowledgeError> {
        let mut found = jobs::find(&self.inner.base.db, id).await?;
        if let Some(job) = &mut found {
            self.inner.running.refresh(job);
        }
        Ok(found)
    }

    /// The newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn jobs(&self, filter: &JobFilter, limit: u32) -> Result<Vec<Job>, KnowledgeError> {
        let mut found = jobs::list(&self.inner.base.db, filter, limit).await?;
        found.iter_mut().for_each(|job| self.inner.running.refresh(job));
        Ok(found)
    }

    /// The newest job of each of these documents that has one.
    ///
    /// # Errors
    /// What the database says.
    pub async fn jobs_of(&self, collection: &str, documents: &[&str]) -> Result<Vec<Job>, KnowledgeError> {
        let mut found = jobs::latest(&self.inner.base.db, collection, documents).await?;
        found.iter_mut().for_each(|job| self.inner.running.refresh(job));
        Ok(found)
    }

    /// Changes whenever something about some job has.
    pub fn job_changes(&self) -> watch::Receiver<u64> {
        self.inner.running.changes()
    }

    /// Stops a job, whether it waits or runs; what was live of its document stays so. `false`: it has ended, or there is
    /// none.
    ///
    /// # Errors
    /// What the database says.
    pub async fn cancel_job(&self, id: Uuid) -> Result<bool, KnowledgeError> {
        let (db, running) = (&self.inner.base.db, &self.inner.running);
        if let Some(job) = jobs::find(db, id).await?.filter(|job| job.kind == "reindex" && job.ended.is_none()) {
            return self.give_up_reindex(&job.collection).await;
        }
        // It may be begun between the two looks: then the second finds it running.
        for _ in 0..2 {
            if jobs::cancel_queued(db, id).await? {
                running.ended(id, Err(KnowledgeError::Cancelled));
                return Ok(true);
            }
            if running.cancel(id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For one whose document is gone: its row says so already.
    pub(super) fn stop_job(&self, id: Uuid) {
        if !self.inner.running.cancel(id) {
            self.inner.running.ended(id, Err(KnowledgeError::Overtaken));
        }
    }

    /// Lets a job that failed or was cancelled wait for its turn again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn retry_job(&self, id: Uuid) -> Result<Retried, KnowledgeError> {
        let retried = jobs::retry(&self.inner.base.db, id).await?;
        if retried == Retried::Yes {
            self.inner.direct.backlog();
            self.inner.running.changed();
        }
        Ok(retried)
    }
}
