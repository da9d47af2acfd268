//! The turns that run now, by id.

use super::log::TurnLog;
use crate::engine::approval::Approvals;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Turns that began and that a subscriber of a conversation has not heard of yet; one that is further behind looks
/// up which of them run.
const ANNOUNCED: usize = 256;

/// A turn that runs.
#[derive(Debug)]
pub struct Live {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    /// Id of the API key that began it, where one was given.
    pub owner: Option<String>,
    /// The connection that asked for it, where that follows it by itself.
    pub asked_by: Option<Uuid>,
    pub log: Arc<TurnLog>,
    /// Stops the provider, the tools and their ingestion; the partial answer is kept.
    pub cancel: CancellationToken,
    /// Where the user's answers about calls arrive.
    pub approvals: Arc<Approvals>,
}

/// All of them.
#[derive(Debug)]
pub struct LiveTurns {
    turns: Mutex<HashMap<Uuid, Arc<Live>>>,
    begun: broadcast::Sender<Arc<Live>>,
    stopped: CancellationToken,
}

impl Default for LiveTurns {
    fn default() -> Self {
        Self { turns: Mutex::default(), begun: broadcast::Sender::new(ANNOUNCED), stopped: CancellationToken::new() }
    }
}

impl LiveTurns {
    pub(super) fn insert(&self, turn: Arc<Live>) {
        self.lock().insert(turn.turn_id, turn);
    }

    /// Tells that a turn has begun: its first event is in its log.
    pub(super) fn announce(&self, turn: Arc<Live>) {
        // Nobody listens: nobody is told.
        drop(self.begun.send(turn));
    }

    pub(super) fn remove(&self, turn_id: Uuid) {
        self.lock().remove(&turn_id);
    }

    pub fn get(&self, turn_id: Uuid) -> Option<Arc<Live>> {
        self.lock().get(&turn_id).cloned()
    }

    pub fn of_conversation(&self, conversation_id: Uuid) -> Vec<Arc<Live>> {
        self.lock().values().filter(|turn| turn.conversation_id == conversation_id).cloned().collect()
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Every turn that begins from now on.
    pub fn begun(&self) -> broadcast::Receiver<Arc<Live>> {
        self.begun.subscribe()
    }

    /// Ends all turns as interrupted: the process stops.
    pub fn stop(&self) {
        self.stopped.cancel();
        self.lock().values().for_each(|turn| turn.cancel.cancel());
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Live>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
