//! The database handle: one writer, a few readers.
//!
//! Writers queue jobs; the writer task puts everything that is queued into one transaction, each job but the first
//! in its own savepoint, and begins the next as soon as the last commit has ended. So one sync to disk
//! serves all who wait for it, and nobody waits for a timer.
//! Invariant: a job's caller hears `Ok` only after the commit that holds its work; a job that fails
//! takes only its own work back.

use super::{StorageError, folder};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The driver's connection, named here only: statements are written for SQLite and PostgreSQL alike.
pub(super) type Connection = SqliteConnection;
/// The driver's kind of database, for statements built at run time.
pub(super) type Driver = sqlx::Sqlite;
/// A row as the driver gives it.
pub(super) type Row = sqlx::sqlite::SqliteRow;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/sqlite");

/// Jobs that may wait for the writer; beyond it `write` waits for room.
const QUEUE: usize = 1024;
/// Jobs in one transaction: bounds how long the first of them waits for the others.
const BATCH: usize = 256;
const READERS: u32 = 4;
const BUSY: Duration = Duration::from_secs(10);

/// Where the database is.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// Locked for this process, and made if need be.
    pub data_dir: PathBuf,
    /// `sqlite://PATH`; `None`: `tailrace.db` in the data folder.
    pub url: Option<String>,
}

/// Cheap to clone; all clones share the writer and the readers.
#[derive(Clone, Debug)]
pub struct Db {
    jobs: mpsc::Sender<Box<dyn Job>>,
    readers: SqlitePool,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Db {
    /// Locks the data folder, opens or makes the database and brings its schema up to date.
    ///
    /// # Errors
    /// [`StorageError::FolderInUse`], [`StorageError::NewerVersion`], [`StorageError::Address`], and
    /// what the file system or the database say.
    pub async fn open(options: &DbOptions) -> Result<Self, StorageError> {
        let connect = connect_options(options)?;
        let data_dir = options.data_dir.clone();
        let lock = tokio::task::spawn_blocking(move || folder::lock(&data_dir))
            .await
            .map_err(|cause| StorageError::Failed(cause.to_string()))??;
        let mut writer = connect.connect().await?;
        migrate(&mut writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            // A file in this process does not go away; asking first would double what a small read costs.
            .test_before_acquire(false)
            .acquire_timeout(BUSY)
            .connect_lazy_with(connect.pragma("query_only", "1"));
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(run_writer(writer, queue, closing.clone(), lock));
        tasks.close();
        Ok(Self { jobs, readers, closing, tasks })
    }

    /// Runs `work` in the writer's next transaction and resolves once that is on disk.
    ///
    /// # Errors
    /// What `work` returned (its statements are taken back), or why the commit failed.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StorageError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T, StorageError>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(TypedJob { work: Some(work), outcome: None, reply });
        self.jobs.send(job).await.map_err(|_| StorageError::Closed)?;
        answer.await.map_err(|_| StorageError::Closed)?
    }

    /// The readers. They see every commit that had ended when their statement began.
    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// What the database takes, in bytes.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bytes(&self) -> Result<u64, StorageError> {
        let sizes = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let bytes: i64 = sqlx::query_scalar(sizes).fetch_one(&self.readers).await?;
        Ok(u64::try_from(bytes).unwrap_or_default())
    }

    /// Writes what is queued, refuses what comes later, closes the files and lets go of the folder.
    pub async fn close(&self) {
        self.closing.cancel();
        self.readers.close().await;
        self.tasks.wait().await;
    }
}

fn connect_options(options: &DbOptions) -> Result<SqliteConnectOptions, StorageError> {
    let refused = |address: &str, why| StorageError::Address { address: address.to_owned(), why };
    let base = match options.url.as_deref() {
        None => SqliteConnectOptions::new().filename(options.data_dir.join("tailrace.db")),
        Some(url) if url.contains(":memory:") || url.contains("mode=memory") => {
            return Err(refused(url, "nothing would outlive the process; give a file"));
        }
        Some(url) if url.starts_with("sqlite:") => {
            SqliteConnectOptions::from_str(url).map_err(|_| refused(url, "it is not of the form sqlite://PATH"))?
        }
        // The address may hold a password, so only its scheme is repeated.
        Some(url) => {
            let scheme = format!("{}://…", url.split(':').next().unwrap_or_default());
            return Err(refused(&scheme, "this version stores in SQLite only, addressed as sqlite://PATH"));
        }
    };
    Ok(base
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .disable_statement_logging())
}

/// The newest applied migration must be one we know; then the missing ones are applied.
async fn migrate(connection: &mut Connection) -> Result<(), StorageError> {
    let known = MIGRATIONS.iter().map(|m| m.version).max().unwrap_or_default();
    let has_table: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'")
            .fetch_one(&mut *connection)
            .await?;
    if has_table > 0 {
        let found: Option<i64> =
            sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&mut *connection).await?;
        if let Some(found) = found.filter(|found| *found > known) {
            return Err(StorageError::NewerVersion { found, known });
        }
    }
    MIGRATIONS.run_direct(None, connection, false).await?;
    Ok(())
}

/// A queued write without its result type.
trait Job: Send {
    /// Does the work; `true` if it is to be kept. Never panics.
    fn run<'a>(&'a mut self, connection: &'a mut Connection) -> BoxFuture<'a, bool>;
    /// Tells the caller: its own outcome, or why the transaction around it failed.
    fn settle(self: Box<Self>, transaction: Result<(), Broken>);
}

/// Why a transaction came to nothing: each of its jobs is told.
#[derive(Clone, Debug, thiserror::Error)]
enum Broken {
    #[error("another process holds the database")]
    Busy,
    #[error("{0}")]
    Failed(String),
}

struct TypedJob<T, F> {
    work: Option<F>,
    outcome: Option<Result<T, StorageError>>,
    reply: oneshot::Sender<Result<T, StorageError>>,
}

impl<T, F> Job for TypedJob<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T, StorageError>> + Send + 'static,
{
    fn run<'a>(&'a mut self, connection: &'a mut Connection) -> BoxFuture<'a, bool> {
        async move {
            let Some(work) = self.work.take() else { return false };
            // A panic in one job must not end the writer that all others depend on.
            let outcome = AssertUnwindSafe(async { work(connection).await })
                .catch_unwind()
                .await
                .unwrap_or_else(|_| Err(StorageError::Failed("a write panicked".to_owned())));
            self.outcome.insert(outcome).is_ok()
        }
        .boxed()
    }

    fn settle(self: Box<Self>, transaction: Result<(), Broken>) {
        let answer = match (self.outcome, transaction) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(Broken::Busy)) => Err(StorageError::Busy),
            (_, Err(Broken::Failed(why))) => Err(StorageError::Failed(why)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StorageError::Closed),
        };
        // A caller that has gone away does not hear it; the work stands all the same.
        drop(self.reply.send(answer));
    }
}

/// Owns the one connection that writes, and the folder's lock, until it is told to close or every
/// handle is gone.
async fn run_writer(
    mut connection: Connection,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    closing: CancellationToken,
    lock: File,
) {
    loop {
        let first = tokio::select! {
            biased;
            job = queue.recv() => job,
            () = closing.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        let Some(first) = first else { break };
        run_batch(&mut connection, &mut queue, first).await;
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(error = %error, "closing the database");
    }
    drop(lock);
}

/// One transaction: the first job and what is queued behind it by the time it has run. The first one needs no
/// savepoint: if it fails, there is nothing else to keep.
async fn run_batch(connection: &mut Connection, queue: &mut mpsc::Receiver<Box<dyn Job>>, mut first: Box<dyn Job>) {
    let mut outcome = control(connection, "BEGIN IMMEDIATE").await;
    if outcome.is_ok() && !first.run(connection).await {
        let undone = control(connection, "ROLLBACK").await;
        return first.settle(undone);
    }
    let mut jobs = vec![first];
    while outcome.is_ok()
        && jobs.len() < BATCH
        && let Ok(mut job) = queue.try_recv()
    {
        // The savepoint of the last job is of no use any more.
        let mark = if jobs.len() == 1 { "SAVEPOINT job" } else { "RELEASE SAVEPOINT job; SAVEPOINT job" };
        outcome = run_job(connection, job.as_mut(), mark).await;
        jobs.push(job);
    }
    if outcome.is_ok() {
        outcome = control(connection, "COMMIT").await;
    }
    if let Err(error) = &outcome {
        tracing::error!(error = %error, storage.jobs = jobs.len(), "a transaction failed");
        // The database may have rolled back by itself (disk full): then there is nothing to do.
        let _ = control(connection, "ROLLBACK").await;
    }
    for job in jobs {
        job.settle(outcome.clone());
    }
}

/// `Err`: the transaction itself is broken. A job's own failure is its own.
async fn run_job(connection: &mut Connection, job: &mut dyn Job, mark: &'static str) -> Result<(), Broken> {
    control(connection, mark).await?;
    if !job.run(connection).await {
        control(connection, "ROLLBACK TO SAVEPOINT job").await?;
    }
    Ok(())
}

/// One or more statements without values, in one exchange with the driver.
async fn control(connection: &mut Connection, statements: &'static str) -> Result<(), Broken> {
    let done = sqlx::raw_sql(statements).execute(connection).await;
    done.map(|_| ()).map_err(|error| match StorageError::from(error) {
        StorageError::Busy => Broken::Busy,
        StorageError::Failed(why) => Broken::Failed(why),
        other => Broken::Failed(other.to_string()),
    })
}
