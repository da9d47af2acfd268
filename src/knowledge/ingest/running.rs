//! Jobs that run in this process: how far each has come, how it is told to stop, who waits for its end.
//! Invariant: what is told of a running job is never older than its row.

use super::super::error::KnowledgeError;
use super::IngestOutcome;
use crate::storage::jobs::{Job, JobStatus};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How an ingestion ended, for the one who waits.
pub(super) type Done = Result<IngestOutcome, KnowledgeError>;

#[derive(Debug, Default)]
pub(super) struct Running {
    jobs: Mutex<HashMap<Uuid, Live>>,
    waiting: Mutex<HashMap<Uuid, oneshot::Sender<Done>>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Live {
    status: JobStatus,
    done: u64,
    total: u64,
    cancel: CancellationToken,
}

/// Takes the job out of the list when dropped, however its task ends.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    running: &'a Running,
    job: Uuid,
    /// Cancelled when somebody cancels the job.
    pub(super) cancel: CancellationToken,
}

impl Running {
    pub(super) fn begin(&self, job: Uuid) -> Entry<'_> {
        let cancel = CancellationToken::new();
        let live = Live { status: JobStatus::Extracting, done: 0, total: 0, cancel: cancel.clone() };
        self.jobs().insert(job, live);
        self.changed();
        Entry { running: self, job, cancel }
    }

    /// How far a job has come. Nothing for what is no job, or does not run.
    pub(super) fn reached(&self, job: Option<Uuid>, status: JobStatus, done: u64, total: u64) {
        let Some(job) = job else { return };
        if let Some(live) = self.jobs().get_mut(&job) {
            (live.status, live.done, live.total) = (status, done, total);
        }
        self.changed();
    }

    pub(super) fn status(&self, job: Uuid) -> Option<JobStatus> {
        self.jobs().get(&job).map(|live| live.status)
    }

    /// A job's row, brought up to date.
    pub(super) fn refresh(&self, job: &mut Job) {
        if job.status.has_ended() {
            return;
        }
        if let Some(live) = self.jobs().get(&job.id) {
            (job.status, job.stage, job.done, job.total) = (live.status, live.status, live.done, live.total);
        }
    }

    /// `false`: it does not run.
    pub(super) fn cancel(&self, job: Uuid) -> bool {
        let jobs = self.jobs();
        let found = jobs.get(&job);
        found.inspect(|live| live.cancel.cancel()).is_some()
    }

    pub(super) fn wait_for(&self, job: Uuid) -> oneshot::Receiver<Done> {
        let (tell, told) = oneshot::channel();
        self.waiting().insert(job, tell);
        told
    }

    pub(super) fn somebody_waits_for(&self, job: Uuid) -> bool {
        self.waiting().get(&job).is_some_and(|tell| !tell.is_closed())
    }

    /// Whoever waits hears how it ended, and everybody else that it has.
    pub(super) fn ended(&self, job: Uuid, how: Done) {
        let tell = self.waiting().remove(&job);
        if let Some(tell) = tell {
            // The client may have gone away meanwhile.
            drop(tell.send(how));
        }
        self.changed();
    }

    /// It was refused: there will be no end of it.
    pub(super) fn not_taken(&self, job: Uuid) {
        self.waiting().remove(&job);
    }

    /// Nobody works on jobs any more: whoever waits hears that.
    pub(super) fn stop(&self) {
        self.waiting().clear();
        self.changed();
    }

    /// Something about some job has changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<Uuid, Live>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Uuid, oneshot::Sender<Done>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.running.jobs().remove(&self.job);
        self.running.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_is_known_while_it_runs_and_its_end_is_told_once() {
        let running = Running::default();
        let job = Uuid::now_v7();
        assert!(!running.cancel(job));
        let told = running.wait_for(job);
        let entry = running.begin(job);
        running.reached(Some(job), JobStatus::Embedding, 1, 2);
        assert_eq!(running.status(job), Some(JobStatus::Embedding));
        assert!(running.cancel(job) && entry.cancel.is_cancelled());
        drop(entry);
        assert_eq!(running.status(job), None);
        assert!(running.somebody_waits_for(job));
        running.ended(job, Err(KnowledgeError::Overtaken));
        assert!(matches!(told.await, Ok(Err(KnowledgeError::Overtaken))));
        assert!(!running.somebody_waits_for(job));
    }
}
