//! Who may still run when the process is asked to stop. Every task of the service is spawned here, so
//! that stopping can tell it and wait for it; `tokio::spawn` is refused by a lint everywhere else.

use std::future::Future;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The owner of all tasks. Cheap to clone: each clone is the same owner.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    stopping: CancellationToken,
    tasks: TaskTracker,
    /// Cancelled when every task has ended, or has had its time: connections close.
    closing: CancellationToken,
    /// Clients' connections: once all tasks have ended, nobody waits long for what a client has not read.
    connections: TaskTracker,
}

/// How long connections may send what is left once every task has ended.
const LAST_BYTES: Duration = Duration::from_millis(100);

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a task that [`Shutdown::drain`] waits for. It is not aborted when stopping begins: what
    /// should end then watches [`Shutdown::token`]. Dropping the handle leaves it running.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Runs a client's connection, which does not hold up stopping as tasks do.
    pub fn spawn_connection<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.connections.spawn(task)
    }

    /// For a connection whose task somebody else spawns: it is open until this is dropped.
    pub fn connection(&self) -> TaskTrackerToken {
        self.connections.token()
    }

    /// The same for work that blocks; it runs on a thread of its own. It cannot be told to stop but by
    /// looking at the token.
    pub fn spawn_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tasks.spawn_blocking(work)
    }

    /// Cancelled when stopping begins. A child token of it ends with it, and can end earlier alone.
    pub fn token(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Cancelled when connections are to close: later than [`Shutdown::token`], because clients may follow running turns
    /// to their end.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Whether stopping has begun: new work is refused from then on.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// For parts that only spawn, and need not know who stops them.
    pub fn tracker(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Tasks that still run.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Begins to stop; again does nothing.
    pub fn begin(&self) {
        self.stopping.cancel();
    }

    /// Begins to stop and waits until every task has ended, also those spawned meanwhile, at most `limit`.
    /// Returns whether all have. Connections then have a moment more.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.begin();
        self.tasks.close();
        self.connections.close();
        let drained = tokio::time::timeout(limit, self.tasks.wait()).await.is_ok();
        if drained {
            self.closing.cancel();
            // Whoever does not read what is left may not hold the exit.
            drop(tokio::time::timeout(LAST_BYTES, self.connections.wait()).await);
        }
        drained
    }
}

/// Ends at the first SIGINT (Ctrl-C) or SIGTERM after the call; awaited again, at the second.
///
/// # Errors
/// Where the system does not let the process listen for signals.
pub async fn wait_for_signal() -> std::io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}

/// A listener that misses no signal between two waits: the first means "finish", the second "now".
#[derive(Debug)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// # Errors
    /// Where the system does not let the process listen for signals.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next SIGINT or SIGTERM. Cancel safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::sync::oneshot;

    /// Longer than any test may take: a wait that should end, ends before it.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn an_idle_service_stops_at_once() {
        assert!(Shutdown::new().drain(LONG).await);
    }

    #[tokio::test]
    async fn drain_waits_for_a_task_that_ends_when_told() {
        let shutdown = Shutdown::new();
        let token = shutdown.token();
        let (go, wait) = oneshot::channel::<()>();
        let task = shutdown.spawn(async move {
            token.cancelled().await;
            wait.await.is_ok()
        });
        assert_eq!((shutdown.running(), shutdown.is_stopping()), (1, false));
        // Told to stop, it has not ended yet: the drain's limit passes first.
        assert!(!shutdown.drain(SHORT).await);
        assert!(shutdown.is_stopping() && !task.is_finished());
        go.send(()).unwrap();
        assert!(shutdown.drain(LONG).await);
        assert!(task.is_finished() && task.await.unwrap());
    }

    #[tokio::test]
    async fn drain_ends_although_a_task_does_not() {
        let shutdown = Shutdown::new();
        let task = shutdown.spawn(std::future::pending::<()>());
        let begun = Instant::now();
        assert!(!shutdown.drain(SHORT).await);
        assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG);
        task.abort();
        assert!(shutdown.drain(LONG).await);
    }

    #[tokio::test]
    async fn a_task_spawned_while_draining_is_waited_for() {
        let shutdown = Shutdown::new();
        let inner = shutdown.clone();
        let (go, wait) = oneshot::channel::<()>();
        let outer = shutdown.spawn(async move {
            inner.token().cancelled().await;
            // In an array, so that the handle is not awaited by mistake.
            [inner.spawn(async move { wait.await.is_ok() })]
        });
        assert!(!shutdown.drain(SHORT).await);
        let [late] = outer.await.unwrap();
        go.send(()).unwrap();
        assert!(shutdown.drain(LONG).await);
        assert!(late.is_finished());
    }

    #[tokio::test]
    async fn blocking_work_is_waited_for_and_a_panic_stays_in_its_task() {
        let shutdown = Shutdown::new();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let work = shutdown.spawn_blocking(move || wait.recv());
        let broken = shutdown.spawn(async { panic!("contained") });
        assert!(broken.await.unwrap_err().is_panic());
        assert!(!shutdown.drain(SHORT).await);
        go.send(()).unwrap();
        assert!(shutdown.drain(LONG).await);
        work.await.unwrap().unwrap();
    }
}
