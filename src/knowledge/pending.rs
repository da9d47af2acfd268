//! Read your writes: which ingestions of a turn have begun and not yet been applied.
//! A search of the same turn waits for them, bounded, and says whether it saw them all.

use std::time::Duration;
use tokio::sync::watch;

/// Shared by a turn's tools. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PendingIngests {
    running: watch::Sender<usize>,
}

impl Default for PendingIngests {
    fn default() -> Self {
        Self { running: watch::Sender::new(0) }
    }
}

/// One running ingestion; it counts until dropped.
#[derive(Debug)]
pub struct Begun {
    running: watch::Sender<usize>,
}

impl PendingIngests {
    /// Counts one ingestion as begun until the guard is dropped.
    pub fn begin(&self) -> Begun {
        self.running.send_modify(|n| *n += 1);
        Begun { running: self.running.clone() }
    }

    /// Waits until none is running, at most `limit`; `true` if so.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut seen = self.running.subscribe();
        tokio::time::timeout(limit, seen.wait_for(|n| *n == 0)).await.is_ok()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.running.send_modify(|n| *n -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_search_waits_for_what_has_begun_and_no_longer() {
        let pending = PendingIngests::default();
        assert!(pending.settled(Duration::ZERO).await);
        let one = pending.begin();
        assert!(!pending.settled(Duration::from_millis(20)).await);
        drop(one);
        assert!(pending.settled(Duration::from_secs(5)).await);
    }
}
