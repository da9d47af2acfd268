//! Who may write into a collection while it changes to another build: nobody. Writers go in together; the change
//! waits for them to come out, and those who come later wait for the change, which is short.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

#[derive(Debug, Default)]
pub(super) struct Gates {
    gates: Mutex<HashMap<String, Arc<RwLock<()>>>>,
}

/// The right to write into a collection, until dropped.
pub(super) type Writing = OwnedRwLockReadGuard<()>;

impl Gates {
    /// Not to be asked for again by who has it: a change that waits would wait for ever.
    pub(super) async fn write(&self, collection: &str) -> Writing {
        self.gate(collection).read_owned().await
    }

    /// Waits until nobody writes, and keeps others from it until dropped.
    pub(super) async fn close(&self, collection: &str) -> OwnedRwLockWriteGuard<()> {
        self.gate(collection).write_owned().await
    }

    /// One for each collection that was ever written to: there are few.
    fn gate(&self, collection: &str) -> Arc<RwLock<()>> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(collection) {
            return Arc::clone(gate);
        }
        Arc::clone(gates.entry(collection.to_owned()).or_default())
    }
}
