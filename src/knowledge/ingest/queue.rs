//! Documents that are accepted now and ingested in their turn.
//! Invariant: what was accepted is ingested or has a row that says why not, whatever happens to the process.

use super::super::Priority;
use super::super::error::KnowledgeError;
use super::running::Done;
use super::{Ingest, IngestOutcome, NewDocument, Task};
use crate::storage::documents::{self, DocumentStatus};
use crate::storage::jobs::{self, JobRequest, NewJob};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use uuid::Uuid;

/// An accepted document.
#[derive(Debug)]
pub struct Accepted {
    pub document_id: String,
    pub job_id: Uuid,
    pub status: DocumentStatus,
    /// These bytes are what is live already: there is nothing to do.
    pub unchanged: bool,
    end: End,
}

#[derive(Debug)]
enum End {
    Known(Box<IngestOutcome>),
    /// Told once the job has ended; nothing is where nobody said that they would wait.
    Told(Option<oneshot::Receiver<Done>>),
}

impl Accepted {
    /// How its ingestion ended, for who said so when it was accepted. Not to wait for it does not stop it.
    ///
    /// # Errors
    /// As [`Ingest::document`].
    pub async fn end(self) -> Result<IngestOutcome, KnowledgeError> {
        match self.end {
            End::Known(outcome) => Ok(*outcome),
            // Where nobody is left to tell it, the service stops, and goes on with the job when it starts again.
            End::Told(Some(told)) => told.await.unwrap_or(Err(KnowledgeError::Stopping)),
            End::Told(None) => Err(KnowledgeError::Stopping),
        }
    }
}

/// A job that can begin without waiting for others.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) job: Uuid,
    pub(super) task: Task,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Ingest {
    /// Takes a document in; when this resolves, a crash does not lose it any more. It is ingested by
    /// [`Ingest::run_queue`]; where the caller waits for the end, before those for which nobody does. `owner`: the key
    /// that sent it.
    ///
    /// # Errors
    /// As [`Ingest::document`], as far as it can be known without reading the document.
    pub async fn accept(&self, new: NewDocument, owner: Option<&str>, waits: bool) -> Result<Accepted, KnowledgeError> {
        let task = self.task(new, Priority::Bulk).await?;
        self.usable(&task.key.collection).await?;
        let (job_id, document_id) = (Uuid::now_v7(), task.key.id.clone());
        let writing = self.inner.gates.write(&task.key.collection).await;
        // Where somebody is inside, or others wait, they decide what is there when its turn comes.
        if let Some(_inside) = self.inner.turnstile.try_enter(&task.key)
            && jobs::unfinished(&self.inner.base.db, &task.key).await?.is_empty()
        {
            let existing = documents::find(&self.inner.base.db, &task.key).await?;
            if let Some(same) = self.unchanged(&task, existing.as_ref()).await? {
                self.nothing_to_do(job_id, &task, owner, same.chunks).await?;
                let (status, end) = (same.status, End::Known(Box::new(same)));
                return Ok(Accepted { document_id, job_id, status, unchanged: true, end });
            }
        }
        drop(writing);
        let end = End::Told(waits.then(|| self.inner.running.wait_for(job_id)));
        self.take(job_id, task, owner, waits).await?;
        Ok(Accepted { document_id, job_id, status: DocumentStatus::Queued, unchanged: false, end })
    }

    async fn take(&self, id: Uuid, task: Task, owner: Option<&str>, waited: bool) -> Result<(), KnowledgeError> {
        let inner = &self.inner;
        let permit = inner.direct.permit();
        let new = NewJob {
            id,
            key: task.key.clone(),
            owner: owner.map(str::to_owned),
            request: request(&task),
            bytes: task.content.clone(),
            waited,
            begin: permit.as_ref().map(|_| super::runner::lease()),
        };
        let begun = jobs::accept(&inner.base.db, new).await;
        // A place that is not used is free before others are told to look for one.
        match permit.filter(|_| matches!(begun, Ok(true))) {
            Some(permit) => inner.direct.send(Direct { job: id, task, permit }),
            None => inner.direct.backlog(),
        }
        begun.inspect_err(|_| inner.running.not_taken(id))?;
        inner.running.changed();
        Ok(())
    }

    /// The job of a document that is there already: it has ended as it begins.
    async fn nothing_to_do(
        &self,
        id: Uuid,
        task: &Task,
        owner: Option<&str>,
        chunks: u64,
    ) -> Result<(), KnowledgeError> {
        let done = NewJob {
            id,
            key: task.key.clone(),
            owner: owner.map(str::to_owned),
            request: request(task),
            bytes: bytes::Bytes::new(),
            waited: false,
            begin: None,
        };
        Ok(jobs::record(&self.inner.base.db, done, jobs::End::Indexed(chunks)).await?)
    }
}

fn request(task: &Task) -> JobRequest {
    JobRequest {
        title: task.title.clone(),
        uri: task.uri.clone(),
        mime: task.mime.clone(),
        hash: task.hash.clone(),
        metadata: task.metadata.clone(),
    }
}
