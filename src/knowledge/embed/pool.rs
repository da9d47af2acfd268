//! Threads that run a model, the bounded queue before them, and who goes first.
//!
//! A request is cut into batches; each batch is one job. A thread that becomes free takes the oldest job
//! of a turn, else the oldest bulk job: so a turn waits for at most the batches that are running. Jobs whose
//! asker has gone are dropped unrun. A panic in the model ends as that job's error, and the thread loads
//! the model anew.

use super::super::{EmbedError, Priority};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::Span;

/// A loaded model: vectors for texts, in order.
pub(super) type Run = Box<dyn FnMut(&[String]) -> Result<Vec<Vec<f32>>, EmbedError> + Send>;
/// Loads one; called on the thread that will use it, and again after a failure.
pub(super) type Load = Box<dyn Fn() -> Result<Run, EmbedError> + Send + Sync>;

/// Sizes of a [`Pool`], each at least 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolSize {
    /// Threads, each with a model of its own.
    pub threads: usize,
    /// Texts that may wait, for each priority.
    pub queue: usize,
    /// Texts run together. Above 1, a request's texts are sorted by length first, so that little is padded.
    pub batch: usize,
}

/// The threads start with the first request or [`Pool::start`], and end when the pool is dropped.
pub(super) struct Pool {
    size: PoolSize,
    shared: Arc<Shared>,
    turn_room: Arc<Semaphore>,
    bulk_room: Arc<Semaphore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    load: Load,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    turn: VecDeque<Job>,
    bulk: VecDeque<Job>,
    closed: bool,
}

struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Result<Vec<Vec<f32>>, EmbedError>>,
    span: Span,
    /// Given back when a thread takes the job.
    room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(size: PoolSize, load: Load) -> Self {
        let size = PoolSize {
            threads: size.threads.max(1),
            batch: size.batch.max(1),
            queue: size.queue.max(size.batch).clamp(1, u32::MAX as usize),
        };
        Self {
            size,
            shared: Arc::new(Shared { load, queue: Mutex::default(), changed: Condvar::new() }),
            turn_room: Arc::new(Semaphore::new(size.queue)),
            bulk_room: Arc::new(Semaphore::new(size.queue)),
            threads: Mutex::default(),
        }
    }

    /// Starts the threads, each of which loads the model. Nothing if they run.
    pub(super) fn start(&self) -> Result<(), EmbedError> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        while threads.len() < self.size.threads {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new()
                .name(format!("embed-{}", threads.len()))
                .spawn(move || shared.work())
                .map_err(|e| EmbedError::Failed(format!("no thread could be started: {e}")))?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Vectors for `texts`, in order. Waits for room batch by batch; dropping the future takes the jobs
    /// that have not begun out of the queue.
    pub(super) async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.start()?;
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut texts: Vec<(usize, String)> = texts.into_iter().enumerate().collect();
        if self.size.batch > 1 {
            texts.sort_by_key(|(_, text)| text.len());
        }
        let mut waiting = Vec::with_capacity(texts.len().div_ceil(self.size.batch));
        let mut texts = texts.into_iter().peekable();
        while texts.peek().is_some() {
            let (places, texts): (Vec<usize>, Vec<String>) = texts.by_ref().take(self.size.batch).unzip();
            waiting.push((places, self.submit(texts, priority).await?));
        }
        for (places, answer) in waiting {
            let found = answer.await.map_err(|_| closed())??;
            for (place, vector) in places.into_iter().zip(found) {
                vectors[place] = vector;
            }
        }
        Ok(vectors)
    }

    async fn submit(
        &self,
        texts: Vec<String>,
        priority: Priority,
    ) -> Result<oneshot::Receiver<Result<Vec<Vec<f32>>, EmbedError>>, EmbedError> {
        let room = match priority {
            Priority::Turn => &self.turn_room,
            Priority::Bulk => &self.bulk_room,
        };
        let wanted = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(room).acquire_many_owned(wanted).await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let job = Job { texts, reply, span: Span::current(), room };
        let mut queue = self.shared.queue();
        match priority {
            Priority::Turn => queue.turn.push_back(job),
            Priority::Bulk => queue.bulk.push_back(job),
        }
        drop(queue);
        self.shared.changed.notify_one();
        Ok(answer)
    }
}

/// Waits for the batches that are running, so that no model is used while the process takes itself apart.
impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        queue.turn.clear();
        queue.bulk.clear();
        drop(queue);
        self.shared.changed.notify_all();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A thread's panic was reported by its hook; there is nobody else to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job that somebody waits for; `None` once the pool is closed.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            match queue.turn.pop_front().or_else(|| queue.bulk.pop_front()) {
                Some(job) if job.reply.is_closed() => {}
                Some(job) => return Some(job),
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn work(&self) {
        // Loading before the first job is only a head start: whoever asks is told what failed.
        let mut model = catch_unwind(AssertUnwindSafe(|| (self.load)())).ok().and_then(Result::ok);
        while let Some(Job { texts, reply, span, room }) = self.next() {
            drop(room);
            let _entered = span.enter();
            let run = catch_unwind(AssertUnwindSafe(|| match &mut model {
                Some(run) => run(&texts),
                None => model.insert((self.load)()?)(&texts),
            }));
            let found = match run {
                Ok(Ok(vectors)) if vectors.len() != texts.len() => {
                    Err(EmbedError::Failed(format!("{} vectors for {} texts", vectors.len(), texts.len())))
                }
                Ok(found) => found,
                Err(_) => {
                    // Nobody knows what state the panic left it in.
                    model = None;
                    Err(EmbedError::Failed("the model panicked".to_owned()))
                }
            };
            // The asker may have gone meanwhile.
            let _ = reply.send(found);
        }
    }
}

fn closed() -> EmbedError {
    EmbedError::Failed("the embedder was shut down".to_owned())
}

#[cfg(test)]
mod tests;
