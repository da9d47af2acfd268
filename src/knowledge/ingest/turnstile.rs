//! One at a time through each document: what would interleave, waits.
//! Invariant: two holders of the same key never run at once; a place is kept only while somebody
//! holds it or waits for it.

use crate::storage::documents::DocumentKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Keys nobody uses any more are swept once there are this many.
const SWEEP: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Turnstile {
    places: Mutex<HashMap<DocumentKey, Weak<Semaphore>>>,
}

/// The right to change one document, until dropped.
#[derive(Debug)]
pub(super) struct Inside {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turnstile {
    /// Waits for those who came before. Cancel safe.
    pub(super) async fn enter(&self, key: &DocumentKey) -> Inside {
        let place = self.place(key);
        // The semaphore is never closed; were it, there would be nobody to wait for.
        Inside { _permit: place.acquire_owned().await.ok() }
    }

    /// Enters if nobody is inside.
    pub(super) fn try_enter(&self, key: &DocumentKey) -> Option<Inside> {
        self.place(key).try_acquire_owned().ok().map(|permit| Inside { _permit: Some(permit) })
    }

    fn place(&self, key: &DocumentKey) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(key).and_then(Weak::upgrade) {
            return place;
        }
        if places.len() >= SWEEP {
            places.retain(|_, place| place.strong_count() > 0);
        }
        let place = Arc::new(Semaphore::new(1));
        places.insert(key.clone(), Arc::downgrade(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn key(id: &str) -> DocumentKey {
        DocumentKey { collection: "c".to_owned(), id: id.to_owned() }
    }

    #[tokio::test]
    async fn one_at_a_time_for_each_key() {
        let stile = Turnstile::default();
        let first = stile.enter(&key("a")).await;
        assert!(stile.enter(&key("a")).now_or_never().is_none());
        let other = stile.enter(&key("b")).now_or_never();
        assert!(other.is_some());
        drop(first);
        assert!(stile.enter(&key("a")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn places_of_the_past_are_swept() {
        let stile = Turnstile::default();
        let held = stile.enter(&key("held")).await;
        for n in 0..3 * SWEEP {
            stile.enter(&key(&n.to_string())).await;
        }
        assert!(stile.places.lock().unwrap().len() <= SWEEP + 1);
        assert!(stile.enter(&key("held")).now_or_never().is_none());
        drop(held);
    }
}
