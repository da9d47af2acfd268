//! Documents that are accepted now and ingested in their turn: for clients that do not wait.
//! Invariant: what was accepted is ingested or has a row that says why not, whatever happens to the process.

use super::super::error::KnowledgeError;
use super::super::{Priority, Scope};
use super::{Ingest, NewDocument, Task};
use crate::storage::documents::{self, DocumentStatus};
use crate::storage::uploads::{self, Upload, UploadRequest};
use bytes::Bytes;
use std::collections::HashMap;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Documents of the queue that are ingested at the same time.
const AT_ONCE: usize = 4;
/// Rows of the queue that are looked at: those that run and as many that could be next.
const AT_ONCE_ROWS: u32 = 8;

/// What a client hears that does not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub document_id: String,
    pub job_id: Uuid,
    pub status: DocumentStatus,
    /// These bytes are what is live already: there is nothing to do.
    pub unchanged: bool,
}

impl Ingest {
    /// Takes a document in; when this resolves, a crash does not lose it any more. It is ingested by
    /// [`Ingest::run_queue`].
    ///
    /// # Errors
    /// As [`Ingest::document`], as far as it can be known without reading the document.
    pub async fn accept(&self, new: NewDocument) -> Result<Accepted, KnowledgeError> {
        let task = self.task(new, Priority::Bulk).await?;
        self.usable(&task.key.collection).await?;
        let db = &self.inner.base.db;
        let (job_id, document_id) = (Uuid::now_v7(), task.key.id.clone());
        // Where somebody is inside, the answer would have to wait: then the queue finds out.
        if let Some(_inside) = self.inner.turnstile.try_enter(&task.key) {
            let _writing = self.inner.gates.write(&task.key.collection).await;
            let existing = documents::find(db, &task.key).await?;
            if let Some(same) = self.unchanged(&task, existing.as_ref()).await? {
                return Ok(Accepted { document_id, job_id, status: same.status, unchanged: true });
            }
        }
        let request = UploadRequest {
            title: task.title,
            uri: task.uri,
            mime: task.mime,
            hash: task.hash,
            metadata: task.metadata,
        };
        uploads::accept(db, Upload { job_id, key: task.key, request, bytes: Vec::from(task.content) }).await?;
        self.inner.arrived.notify_one();
        Ok(Accepted { document_id, job_id, status: DocumentStatus::Queued, unchanged: false })
    }

    /// Ingests what was accepted, oldest first, a few at a time, until `stop` is cancelled; what is not
    /// done by then stays accepted. One task of the service.
    pub async fn run_queue(self, stop: CancellationToken) {
        let mut running: JoinSet<()> = JoinSet::new();
        let mut begun: HashMap<tokio::task::Id, Uuid> = HashMap::new();
        loop {
            match uploads::waiting(&self.inner.base.db, AT_ONCE_ROWS).await {
                Ok(waiting) => {
                    for job in waiting {
                        if running.len() < AT_ONCE && !begun.values().any(|other| *other == job) {
                            let ingest = self.clone();
                            let task = running.spawn(async move { ingest.upload(job).await });
                            begun.insert(task.id(), job);
                        }
                    }
                }
                Err(error) => tracing::error!(error = %error, "the queue of documents cannot be read"),
            }
            tokio::select! {
                // Dropping the set aborts what runs; its rows are cleaned and its bytes kept.
                () = stop.cancelled() => return,
                () = self.inner.arrived.notified() => {}
                Some(ended) = running.join_next_with_id() => {
                    let (id, panicked) = match ended {
                        Ok((id, ())) => (id, false),
                        Err(error) => (error.id(), true),
                    };
                    if let Some(job) = begun.remove(&id)
                        && panicked
                    {
                        tracing::error!(job.id = %job, "ingesting a document panicked");
                        self.take_off(job).await;
                    }
                }
            }
        }
    }

    /// Ingests one upload; how it went is in the document's row.
    async fn upload(&self, job: Uuid) {
        let db = &self.inner.base.db;
        let ingested = async {
            let Some(upload) = uploads::find(db, job).await? else { return Ok(()) };
            let request = upload.request;
            let task = Task {
                key: upload.key,
                title: request.title,
                uri: request.uri,
                metadata: request.metadata,
                scope: Scope::Collection,
                expires_at: None,
                content: Bytes::from(upload.bytes),
                mime: request.mime,
                hash: request.hash,
                priority: Priority::Bulk,
            };
            self.run(task).await.map(|_| ())
        };
        let outcome = ingested.await;
        if let Err(error) = &outcome {
            tracing::info!(job.id = %job, code = error.code(), "a document could not be ingested");
        }
        self.take_off(job).await;
    }

    async fn take_off(&self, job: Uuid) {
        if let Err(error) = uploads::remove(&self.inner.base.db, job).await {
            tracing::error!(error = %error, job.id = %job, "an upload could not be taken off the queue");
        }
    }
}
