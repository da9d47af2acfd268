//! Turns that run, and bulk work that leaves them room: while somebody waits for an answer, no more than one piece of
//! bulk work computes at a time, and a piece is small.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shared by turns and ingestion. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attention {
    turns: Arc<AtomicUsize>,
    one: Arc<Semaphore>,
}

/// A turn that runs; it counts until dropped.
#[derive(Debug)]
pub struct Attending {
    turns: Arc<AtomicUsize>,
}

impl Default for Attention {
    fn default() -> Self {
        Self { turns: Arc::default(), one: Arc::new(Semaphore::new(1)) }
    }
}

impl Attention {
    pub fn begin(&self) -> Attending {
        self.turns.fetch_add(1, Ordering::Relaxed);
        Attending { turns: Arc::clone(&self.turns) }
    }

    /// Some turn runs.
    pub fn wanted(&self) -> bool {
        self.turns.load(Ordering::Relaxed) > 0
    }

    /// Held by bulk work while it computes; at once, and nothing, where no turn runs.
    pub async fn turn_aside(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        if self.wanted() { Arc::clone(&self.one).acquire_owned().await.ok() } else { None }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.turns.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn bulk_work_goes_one_at_a_time_while_a_turn_runs() {
        let attention = Attention::default();
        assert!(attention.turn_aside().await.is_none());
        let turns = [attention.begin(), attention.begin()];
        let first = attention.turn_aside().await;
        assert!(first.is_some() && attention.turn_aside().now_or_never().is_none());
        drop(first);
        assert!(attention.turn_aside().await.is_some());
        drop(turns);
        assert!(!attention.wanted() && attention.turn_aside().await.is_none());
    }
}
