//! A turn's one event log: appended by the engine, read by cursors. There is no queue per reader,
//! so a slow one costs nothing but its place (invariant 11).

use crate::engine::event::RunnerEvent;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Gives an event its wire form: sequence number, milliseconds since the turn began, event.
pub type Encode = fn(u64, u64, &RunnerEvent) -> Bytes;

/// One numbered event, encoded once for all readers.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at_ms: u64,
    pub event: Arc<RunnerEvent>,
    pub frame: Bytes,
}

/// The log of one turn. Entry `i` has number `i + 1`.
#[derive(Debug)]
pub struct TurnLog {
    began: Instant,
    encode: Encode,
    entries: Mutex<Vec<Entry>>,
    /// Entries appended so far, and whether the log is closed.
    tail: watch::Sender<Tail>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tail {
    len: usize,
    closed: bool,
}

impl TurnLog {
    pub fn new(began: Instant, encode: Encode) -> Self {
        Self { began, encode, entries: Mutex::default(), tail: watch::Sender::new(Tail::default()) }
    }

    pub fn append(&self, event: RunnerEvent) {
        let at_ms = millis(self.began);
        let mut entries = self.lock();
        let frame = (self.encode)(entries.len() as u64 + 1, at_ms, &event);
        entries.push(Entry { at_ms, event: Arc::new(event), frame });
        let len = entries.len();
        drop(entries);
        self.tail.send_modify(|tail| tail.len = len);
    }

    /// Nothing follows: readers that have read everything are done.
    pub fn close(&self) {
        self.tail.send_modify(|tail| tail.closed = true);
    }

    /// A reader that starts after entry number `after`.
    pub fn reader(self: &Arc<Self>, after: usize) -> LogReader {
        LogReader { tail: self.tail.subscribe(), log: Arc::clone(self), next: after }
    }

    /// All entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since `began`.
pub fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A cursor over a log.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<TurnLog>,
    tail: watch::Receiver<Tail>,
    next: usize,
}

impl LogReader {
    /// All entries after the cursor, at least one; `None` once the log is closed and read.
    /// Cancel-safe: the cursor moves only when entries are returned.
    pub async fn next(&mut self) -> Option<Vec<Entry>> {
        let next = self.next;
        // An error means the log is gone, which holds itself in this reader: then it is read out.
        let tail = *self.tail.wait_for(|t| t.len > next || t.closed).await.ok()?;
        if tail.len <= next {
            return None;
        }
        let batch = self.log.lock().get(next..).map(<[Entry]>::to_vec)?;
        self.next += batch.len();
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(seq: u64, _at: u64, _event: &RunnerEvent) -> Bytes {
        Bytes::from(seq.to_string())
    }

    #[tokio::test]
    async fn every_reader_gets_every_entry_once_and_in_order() {
        let log = Arc::new(TurnLog::new(Instant::now(), number));
        log.append(RunnerEvent::Thinking);
        let mut early = log.reader(0);
        assert_eq!(early.next().await.unwrap().len(), 1);
        for _ in 0..4 {
            log.append(RunnerEvent::ThinkingDone);
        }
        log.close();
        let mut seen = Vec::new();
        while let Some(batch) = early.next().await {
            seen.extend(batch.into_iter().map(|e| e.frame));
        }
        assert_eq!(seen, ["2", "3", "4", "5"]);
        let mut late = log.reader(3);
        assert_eq!(late.next().await.unwrap().len(), 2);
        assert!(late.next().await.is_none());
    }
}
