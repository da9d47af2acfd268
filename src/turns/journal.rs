//! Stores what running turns append, all turns in one commit. What tools did is written at once, text waits a moment
//! for company: a frame may be seen before it is stored, a turn's end may not (that has a write of its own).

use super::log::TurnLog;
use crate::storage::{Db, turn_log};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest time that text is only in memory.
const TEXT_WAIT: Duration = Duration::from_millis(50);
/// Between two times that rows of ended turns are forgotten.
const CLEANING: Duration = Duration::from_secs(10);
/// Pause after a commit that failed; what it held is tried again.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Where logs announce that they have something new. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Logs with something new, each once.
    list: Mutex<Vec<Arc<TurnLog>>>,
    /// Turns by the id of their first row: what is before the first that runs is not needed.
    running: Mutex<BTreeMap<(i64, Uuid), Weak<TurnLog>>>,
    some: Notify,
    urgent: Notify,
}

impl Journal {
    /// `log`: to be put on the list; `urgent`: something was appended that does not wait.
    pub(super) fn note(&self, log: Option<Arc<TurnLog>>, urgent: bool) {
        let is_new = log.is_some();
        if let Some(log) = log {
            self.list().push(log);
        }
        if urgent {
            self.shared.urgent.notify_one();
        }
        if is_new {
            self.shared.some.notify_one();
        }
    }

    /// Stores until `stop`, and then once more.
    pub async fn run(self, db: Db, stop: CancellationToken) {
        let mut next_id = match turn_log::next_id(&db).await {
            Ok(id) => id,
            Err(error) => {
                tracing::error!(%error, "the log of turns cannot be read: until a restart, a crash loses answers");
                return;
            }
        };
        let mut clean = Instant::now() + CLEANING;
        loop {
            let going_on = stop.run_until_cancelled(self.shared.some.notified()).await.is_some();
            if going_on {
                tokio::select! {
                    () = tokio::time::sleep(TEXT_WAIT) => {}
                    () = self.shared.urgent.notified() => {}
                    () = stop.cancelled() => {}
                }
            }
            if !self.store(&db, &mut next_id).await {
                tokio::time::sleep(FAILURE_PAUSE).await;
                self.shared.some.notify_one();
            }
            if Instant::now() >= clean || !going_on {
                clean = Instant::now() + CLEANING;
                self.clean(&db, next_id).await;
            }
            if !going_on {
                return;
            }
        }
    }

    /// Forgets what only turns that have ended had appended.
    async fn clean(&self, db: &Db, next_id: i64) {
        let needed = {
            let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|_, log| log.upgrade().is_some_and(|log| !log.has_ended()));
            running.keys().next().map_or(next_id, |(first_id, _)| *first_id)
        };
        if let Err(error) = turn_log::forget_before(db, needed).await {
            tracing::warn!(%error, "rows of ended turns could not be deleted; it is tried again");
        }
    }

    /// `false`: the commit failed, and its logs are on the list again.
    async fn store(&self, db: &Db, next_id: &mut i64) -> bool {
        let listed = std::mem::take(&mut *self.list());
        let (logs, additions): (Vec<_>, Vec<_>) =
            listed.into_iter().filter_map(|log| log.addition().map(|addition| (log, addition))).unzip();
        if additions.is_empty() {
            return true;
        }
        let ends: Vec<u64> = additions.iter().map(|addition| addition.frames.last_seq).collect();
        let first_id = *next_id;
        *next_id += i64::try_from(additions.len()).unwrap_or(i64::MAX);
        match turn_log::append(db, first_id, additions).await {
            Ok(()) => {
                let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
                for (id, log) in (first_id..).zip(&logs).filter(|(_, log)| log.is_new()) {
                    running.insert((id, log.turn_id()), Arc::downgrade(log));
                }
                drop(running);
                logs.iter().zip(ends).for_each(|(log, last_seq)| log.stored(last_seq));
                true
            }
            Err(error) => {
                tracing::warn!(%error, turns = logs.len(), "what was said could not be stored; it is tried again");
                self.list().extend(logs.into_iter().filter(|log| log.not_stored()));
                false
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<TurnLog>>> {
        self.shared.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
