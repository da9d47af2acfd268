//! The task that works on jobs: a few at a time, those first that somebody waits for.
//! Invariants: a job that runs is leased, and the lease moves on while it runs; one that this process does not get to
//! its end is begun again by the next.

use super::super::error::KnowledgeError;
use super::super::{Priority, Scope};
use super::queue::Direct;
use super::{Ingest, IngestOutcome, Task};
use crate::storage::StorageError;
use crate::storage::jobs::{self, Claimed, End, Job, JobStatus};
use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a job belongs to whoever began it without a sign of life.
const LEASE: Duration = Duration::from_secs(60);
/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(20);
/// The first pause before a job is begun again whose trouble was not the document's; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// The way from those who accept to the one who runs: places for jobs, and a word that some wait.
#[derive(Debug)]
pub(super) struct Hand {
    places: Arc<Semaphore>,
    direct: mpsc::Sender<Direct>,
    taken: Mutex<Option<mpsc::Receiver<Direct>>>,
    /// A runner takes what is handed over.
    open: AtomicBool,
    /// Jobs wait in SQL: nobody passes them.
    waiting: AtomicBool,
    arrived: Notify,
}

impl Hand {
    pub(super) fn new(places: usize) -> Self {
        let places = places.max(1);
        let (direct, taken) = mpsc::channel(places);
        Self {
            places: Arc::new(Semaphore::new(places)),
            direct,
            taken: Mutex::new(Some(taken)),
            open: AtomicBool::new(false),
            waiting: AtomicBool::new(true),
            arrived: Notify::new(),
        }
    }

    /// A place for a job that comes now, where one is free and nobody has waited longer for it.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let free = self.open.load(Ordering::Acquire) && !self.waiting.load(Ordering::Acquire);
        free.then(|| Arc::clone(&self.places).try_acquire_owned().ok()).flatten()
    }

    /// There is room: each holds a permit. Where the runner has ended meanwhile, the job's lease ends with it.
    pub(super) fn send(&self, direct: Direct) {
        drop(self.direct.try_send(direct));
    }

    /// Jobs wait in SQL.
    pub(super) fn backlog(&self) {
        self.waiting.store(true, Ordering::Release);
        self.arrived.notify_one();
    }
}

/// Until when a job that is begun now belongs to who begins it, in milliseconds since 1970.
pub(super) fn lease() -> i64 {
    in_future(LEASE)
}

fn in_future(by: Duration) -> i64 {
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::now().as_millisecond().saturating_add(by)
}

impl Ingest {
    /// Ingests what was accepted, a few documents at a time, until `stop` is cancelled; what is not done by then
    /// stays accepted. One task of the service.
    pub async fn run_queue(self, stop: CancellationToken) {
        let hand = &self.inner.direct;
        let Some(mut handed) = hand.taken.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            tracing::error!("the queue of documents is run twice");
            return;
        };
        hand.open.store(true, Ordering::Release);
        let mut running: JoinSet<()> = JoinSet::new();
        let mut begun: HashMap<tokio::task::Id, Uuid> = HashMap::new();
        let mut beat = interval_at(Instant::now() + BEAT, BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = None;
        loop {
            if hand.waiting.swap(false, Ordering::AcqRel) {
                due = self.begin_waiting(&mut running, &mut begun).await;
            }
            tokio::select! {
                // Dropping the set aborts what runs; its rows are cleaned and its bytes kept.
                () = stop.cancelled() => break,
                () = hand.arrived.notified() => {}
                Some(direct) = handed.recv() => {
                    let ingest = self.clone();
                    let job = direct.job;
                    let task = running.spawn(async move {
                        ingest.work(job, Some(direct.task), 1).await;
                        drop(direct.permit);
                    });
                    begun.insert(task.id(), job);
                }
                Some(ended) = running.join_next_with_id() => {
                    let (id, panicked) = match ended {
                        Ok((id, ())) => (id, false),
                        Err(error) => (error.id(), true),
                    };
                    if let Some(job) = begun.remove(&id)
                        && panicked
                    {
                        tracing::error!(job.id = %job, "ingesting a document panicked");
                        let why = KnowledgeError::Reader("the reader stopped unexpectedly".to_owned());
                        self.ended(job, Err(why), u32::MAX).await;
                    }
                    hand.waiting.store(true, Ordering::Release);
                }
                _ = beat.tick() => self.move_leases_on(begun.values().copied().collect()).await,
                () = at(due) => hand.waiting.store(true, Ordering::Release),
            }
        }
        hand.open.store(false, Ordering::Release);
        self.inner.running.stop();
    }

    /// Begins as many of the jobs in SQL as there are places. When to look again, if not before.
    async fn begin_waiting(
        &self,
        running: &mut JoinSet<()>,
        begun: &mut HashMap<tokio::task::Id, Uuid>,
    ) -> Option<Duration> {
        let (hand, db) = (&self.inner.direct, &self.inner.base.db);
        let mut places = Vec::new();
        while let Ok(place) = Arc::clone(&hand.places).try_acquire_owned() {
            places.push(place);
        }
        if places.is_empty() {
            // Whoever gives one back looks again.
            return None;
        }
        let claimed = match jobs::claim(db, places.len(), lease()).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::error!(error = %error, "the queue of documents cannot be read");
                return Some(FIRST_PAUSE);
            }
        };
        if claimed.len() == places.len() {
            hand.waiting.store(true, Ordering::Release);
        }
        for (Claimed { job, .. }, place) in claimed.into_iter().zip(places) {
            let ingest = self.clone();
            let (id, attempts) = (job.id, job.attempts);
            let task = running.spawn(async move {
                ingest.work(id, None, attempts).await;
                drop(place);
            });
            begun.insert(task.id(), id);
        }
        let next = jobs::next_due(db).await.ok().flatten()?;
        let left = next.saturating_sub(jiff::Timestamp::now().as_millisecond());
        Some(Duration::from_millis(u64::try_from(left).unwrap_or_default().saturating_add(1)))
    }

    async fn move_leases_on(&self, running: Vec<Uuid>) {
        let db = &self.inner.base.db;
        let kept = async {
            if !running.is_empty() {
                jobs::beat(db, running, lease()).await?;
            }
            let now = jiff::Timestamp::now().as_millisecond();
            jobs::release(db, now, self.max_attempts()).await
        };
        match kept.await {
            Ok(released) if released.queued > 0 => self.inner.direct.backlog(),
            Ok(_) => {}
            Err(error) => tracing::error!(error = %error, "the leases of running jobs cannot be moved on"),
        }
    }

    /// Works on one job until it has ended, or waits for another time.
    async fn work(&self, id: Uuid, task: Option<Task>, attempts: u32) {
        let entry = self.inner.running.begin(id);
        let ingested = async {
            let task = match task {
                Some(task) => Some(task),
                None => self.stored_task(id).await?,
            };
            match task {
                Some(task) => self.run(Task { job: Some(id), ..task }).await,
                // It was deleted between its claim and now.
                None => Err(KnowledgeError::Overtaken),
            }
        };
        let outcome = tokio::select! {
            biased;
            () = entry.cancel.cancelled() => Err(KnowledgeError::Cancelled),
            outcome = ingested => outcome,
        };
        self.ended(id, outcome, attempts).await;
    }

    async fn stored_task(&self, id: Uuid) -> Result<Option<Task>, KnowledgeError> {
        let db = &self.inner.base.db;
        let (Some(job), Some(content)) = (jobs::find(db, id).await?, jobs::content(db, id).await?) else {
            return Ok(None);
        };
        let Some(key) = job.key() else { return Ok(None) };
        let Job { request, .. } = job;
        Ok(Some(Task {
            key,
            title: request.title,
            uri: request.uri,
            metadata: request.metadata,
            scope: Scope::Collection,
            expires_at: None,
            content,
            mime: request.mime,
            hash: request.hash,
            priority: Priority::Bulk,
            job: Some(id),
        }))
    }

    /// Writes down how a job went and tells who waits.
    async fn ended(&self, id: Uuid, outcome: Result<IngestOutcome, KnowledgeError>, attempts: u32) {
        let (db, running) = (&self.inner.base.db, &self.inner.running);
        let stage = running.status(id).unwrap_or(JobStatus::Extracting);
        let noted = match &outcome {
            // A new version's commit has ended its job.
            Ok(done) if !done.unchanged => Ok(()),
            Ok(done) => jobs::end(db, id, End::Indexed(done.chunks)).await,
            // The process ends: the job stays what it is, and is begun again by the next.
            Err(KnowledgeError::Storage(StorageError::Closed)) => return running.not_taken(id),
            Err(error @ (KnowledgeError::Cancelled | KnowledgeError::Overtaken)) => {
                if let Err(error) = self.bury_abandoned().await {
                    tracing::warn!(error = %error, "what a cancelled job had stored goes later");
                }
                jobs::end(db, id, End::Cancelled { stage: Some(stage), code: error.code(), why: error.to_string() })
                    .await
            }
            Err(error) if error.may_pass() && attempts < self.max_attempts() && !running.somebody_waits_for(id) => {
                let pause = FIRST_PAUSE * 2_u32.saturating_pow(attempts.saturating_sub(1).min(16));
                tracing::warn!(job.id = %id, code = error.code(), error = %error, "a document is tried again later");
                let until = in_future(pause.min(LAST_PAUSE));
                jobs::requeue(db, id, until, error.code(), error.to_string()).await
            }
            Err(error) => {
                tracing::info!(job.id = %id, code = error.code(), "a document could not be ingested");
                jobs::end(db, id, End::Failed { stage, code: error.code(), why: error.to_string() }).await
            }
        };
        if let Err(error) = noted {
            tracing::error!(error = %error, job.id = %id, "how a job ended could not be stored");
        }
        running.ended(id, outcome);
    }

    /// How often a job is begun before it is given up.
    pub fn max_attempts(&self) -> u32 {
        self.inner.options.max_attempts
    }
}

async fn at(due: Option<Duration>) {
    match due {
        Some(due) => sleep(due).await,
        None => pending().await,
    }
}
