//! A turn's one event log: appended by the engine, read by cursors. There is no queue per reader,
//! so a slow one costs nothing but its place (invariant 11).

use super::fold::Fold;
use super::journal::Journal;
use super::recover;
use super::tail::{Place, Tail};
use crate::engine::event::RunnerEvent;
use crate::message::Usage;
use crate::storage::turn_log::{Addition, Ended, Frames};
use crate::storage::turns::Progress;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use uuid::Uuid;

/// Bytes after which a reader's batch ends.
const BATCH: usize = 16 * 1024;

/// How events look to clients; `http/frame.rs` gives these.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Sequence number, milliseconds since the turn began, event.
    pub encode: fn(u64, u64, &RunnerEvent) -> Bytes,
    /// Frames that were stored one after the other, apart again.
    pub split: fn(&Bytes) -> Vec<Bytes>,
    /// What a stored frame says of the answer; `None`: nothing.
    pub read: fn(&[u8]) -> Option<Logged>,
}

/// What is read back from the frames of a turn that this process has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// Visible text.
    Text(String),
    /// Text at and after this byte is void.
    Discard(usize),
    /// A round begins.
    Round(u32),
    /// It has ended, and used so much.
    RoundEnd(Usage),
    /// Whether the model is waited for.
    Thinking(bool),
    SubAgentStart {
        call_id: String,
        task: String,
        depth: u32,
    },
    SubAgentEnd {
        call_id: String,
    },
}

/// The log of one turn. Frame `i` has number `i + 1` and is encoded once for all readers.
#[derive(Debug)]
pub struct TurnLog {
    turn_id: Uuid,
    began: Instant,
    wire: Wire,
    journal: Journal,
    /// Frames after this number were added when the process had died, see [`Ended::cut_after`].
    cut_after: Option<usize>,
    /// Of all frames.
    bytes: AtomicUsize,
    /// It has become too long.
    full: AtomicBool,
    tail: Tail<State>,
}

/// A reader says that it has frames that are not in the log, or that are others there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The last frame that it may keep.
    pub last: usize,
    /// Bytes of visible text up to that one.
    pub text_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    frames: Vec<Bytes>,
    fold: Fold,
    /// Frames that are known to be stored.
    stored: usize,
    /// Whether the journal has this log on its list.
    listed: bool,
    /// Whether calls or sources have changed since they were last handed to the journal.
    rows_due: bool,
    /// Nothing follows.
    closed: bool,
}

impl TurnLog {
    pub fn new(turn_id: Uuid, began: Instant, wire: Wire, journal: Journal) -> Self {
        let tail = Tail::new(State::default());
        let (bytes, full) = (AtomicUsize::default(), AtomicBool::default());
        Self { turn_id, began, wire, journal, cut_after: None, bytes, full, tail }
    }

    /// The log of a turn that has ended, as it was stored.
    pub(super) fn ended(turn_id: Uuid, wire: Wire, stored: Ended) -> Self {
        let frames = (wire.split)(&Bytes::from(stored.frames.bytes));
        let cut_after = stored.cut_after.and_then(|seq| usize::try_from(seq).ok());
        let mut fold = Fold::default();
        fold.progress.text = recover::text(frames.iter().filter_map(|frame| (wire.read)(frame)));
        let state = State { stored: frames.len(), frames, fold, closed: true, ..State::default() };
        Self { cut_after, tail: Tail::new(state), ..Self::new(turn_id, Instant::now(), wire, Journal::default()) }
    }

    pub fn append(self: &Arc<Self>, event: RunnerEvent) {
        self.append_if(event, |_| true);
    }

    /// Appends unless the log has gone on so that the event is not true any more.
    pub(super) fn append_if(self: &Arc<Self>, event: RunnerEvent, holds: impl FnOnce(&Fold) -> bool) {
        let at_ms = millis(self.began);
        let appended = self.tail.change(|state| {
            if !holds(&state.fold) {
                return None;
            }
            let frame = (self.wire.encode)(state.frames.len() as u64 + 1, at_ms, &event);
            self.bytes.fetch_add(frame.len(), Ordering::Relaxed);
            state.frames.push(frame);
            let urgent = state.fold.apply(&event);
            state.rows_due |= urgent;
            Some((!std::mem::replace(&mut state.listed, true), urgent))
        });
        if let Some((is_new, urgent)) = appended {
            self.journal.note(is_new.then(|| Arc::clone(self)), urgent);
        }
    }

    /// Bytes of all frames so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes that the log is too long; `true` the first time.
    pub(super) fn fill(&self) -> bool {
        !self.full.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// What the journal has to store.
    pub(super) fn addition(&self) -> Option<Addition> {
        self.tail.with(|state| {
            state.listed = false;
            let new = state.frames.get(state.stored..).unwrap_or_default();
            let frames = joined(state.stored, new.iter(), millis(self.began))?;
            let progress = std::mem::take(&mut state.rows_due).then(|| Progress {
                text: String::new(),
                calls: state.fold.progress.calls.clone(),
                sources: state.fold.progress.sources.clone(),
            });
            Some(Addition { turn_id: self.turn_id, frames, progress })
        })
    }

    pub(super) fn turn_id(&self) -> Uuid {
        self.turn_id
    }

    /// Whether nothing of it has been stored yet.
    pub(super) fn is_new(&self) -> bool {
        self.tail.with(|state| state.stored == 0)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.tail.with(|state| state.closed)
    }

    /// Frames up to this number have survived a crash.
    pub(super) fn stored(&self, last_seq: u64) {
        let last = usize::try_from(last_seq).unwrap_or(usize::MAX);
        self.tail.with(|state| state.stored = state.stored.max(last));
    }

    /// What was handed out was not stored: `true` if the log is to be on the journal's list again.
    pub(super) fn not_stored(&self) -> bool {
        self.tail.with(|state| {
            state.rows_due = true;
            !std::mem::replace(&mut state.listed, true)
        })
    }

    /// The last event: its frame, not shown to anybody yet, and the whole log with it.
    pub(super) fn seal(&self, event: &RunnerEvent) -> (Bytes, Frames) {
        self.tail.with(|state| {
            let last = (self.wire.encode)(state.frames.len() as u64 + 1, millis(self.began), event);
            let frames = joined(0, state.frames.iter().chain([&last]), millis(self.began)).unwrap_or_default();
            (last, frames)
        })
    }

    /// Shows the last frame: readers that have read it are done.
    pub(super) fn close(&self, event: &RunnerEvent, last: Bytes) {
        self.tail.change(|state| {
            state.fold.apply(event);
            state.frames.push(last);
            state.stored = state.frames.len();
            state.closed = true;
        });
    }

    /// A reader of everything.
    pub fn from_start(self: &Arc<Self>) -> LogReader {
        LogReader { log: Arc::clone(self), place: Place::default(), next: 0 }
    }

    /// A reader that starts after frame number `after`.
    ///
    /// # Errors
    /// What whoever has that frame may keep: the log does not reach that far, or a crash has changed it there.
    pub fn reader(self: &Arc<Self>, after: usize) -> Result<LogReader, Rewound> {
        let last = self.cut_after.unwrap_or_else(|| self.len());
        if after > last {
            // What a restart adds has no text.
            return Err(Rewound { last, text_bytes: self.tail.with(|state| state.fold.progress.text.len()) });
        }
        Ok(LogReader { next: after, ..self.from_start() })
    }

    /// Frames so far.
    pub fn len(&self) -> usize {
        self.tail.with(|state| state.frames.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the events so far make of the answer.
    pub fn fold(&self) -> Fold {
        self.tail.with(|state| state.fold.clone())
    }
}

/// The first of them, up to [`BATCH`].
fn batch(frames: &[Bytes]) -> Vec<Bytes> {
    let mut before = 0;
    let fits = |frame: &&Bytes| {
        let fits = before < BATCH;
        before += frame.len();
        fits
    };
    frames.iter().take_while(fits).cloned().collect()
}

/// Frames that follow number `before`, as one; `None` where there are none.
fn joined<'f>(before: usize, frames: impl Iterator<Item = &'f Bytes> + Clone, at_ms: u64) -> Option<Frames> {
    let mut bytes = Vec::with_capacity(frames.clone().map(Bytes::len).sum());
    let mut last_seq = before as u64;
    for frame in frames {
        bytes.extend_from_slice(frame);
        last_seq += 1;
    }
    (last_seq > before as u64).then(|| Frames { first_seq: before as u64 + 1, last_seq, at_ms, bytes })
}

/// Milliseconds since `began`.
pub fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A cursor over a log.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<TurnLog>,
    place: Place,
    next: usize,
}

impl LogReader {
    /// Frames after the cursor, at least one, and not many more bytes than [`BATCH`]; `None` once the log is closed and
    /// read. However far a reader is behind, it costs no more than that.
    /// Cancel-safe: the cursor moves only when frames are returned.
    pub async fn next(&mut self) -> Option<Vec<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<Bytes>>> {
        let next = self.next;
        let found = self.log.tail.poll(cx, &mut self.place, |state| match state.frames.get(next..) {
            Some(new) if !new.is_empty() => Some(Some(batch(new))),
            _ => state.closed.then_some(None),
        });
        if let Poll::Ready(Some(batch)) = &found {
            self.next += batch.len();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: Wire = Wire {
        encode: |seq, _at, _event| Bytes::from(format!("{seq};")),
        split: |frames| frames.split_inclusive(|b| *b == b';').map(Bytes::copy_from_slice).collect(),
        read: |_frame| Some(Logged::Text("x".to_owned())),
    };

    fn log() -> Arc<TurnLog> {
        Arc::new(TurnLog::new(Uuid::nil(), Instant::now(), WIRE, Journal::default()))
    }

    fn end(log: &TurnLog) -> Frames {
        let (last, frames) = log.seal(&RunnerEvent::Thinking);
        log.close(&RunnerEvent::Thinking, last);
        frames
    }

    #[tokio::test]
    async fn every_reader_gets_every_frame_once_and_in_order() {
        let log = log();
        log.append(RunnerEvent::Thinking);
        let mut early = log.reader(0).unwrap();
        assert_eq!(early.next().await.unwrap().len(), 1);
        for _ in 0..3 {
            log.append(RunnerEvent::ThinkingDone);
        }
        assert_eq!(log.reader(5).unwrap_err(), Rewound { last: 4, text_bytes: 0 });
        end(&log);
        let mut seen = Vec::new();
        while let Some(batch) = early.next().await {
            seen.extend(batch);
        }
        assert_eq!(seen, ["2;", "3;", "4;", "5;"]);
        let mut late = log.reader(3).unwrap();
        assert_eq!(late.next().await.unwrap().len(), 2);
        assert!(late.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_is_far_behind_takes_little_at_a_time() {
        let wire = Wire { encode: |_, _, _| Bytes::from(vec![b'x'; BATCH / 4]), ..WIRE };
        let log = Arc::new(TurnLog::new(Uuid::nil(), Instant::now(), wire, Journal::default()));
        (0..10).for_each(|_| log.append(RunnerEvent::Thinking));
        assert_eq!(log.bytes(), 10 * (BATCH / 4));
        let mut reader = log.from_start();
        for want in [4, 4, 2] {
            assert_eq!(reader.next().await.unwrap().len(), want);
        }
        assert!(log.fill() && !log.fill() && log.is_full());
    }

    #[tokio::test]
    async fn what_is_stored_joins_to_the_whole_log_and_is_read_like_it() {
        let log = log();
        let mut rows = Vec::new();
        assert!(log.addition().is_none());
        for count in [1, 3, 2] {
            (0..count).for_each(|_| log.append(RunnerEvent::Delta("x".into())));
            let frames = log.addition().unwrap().frames;
            log.stored(frames.last_seq);
            rows.push(frames);
        }
        log.append(RunnerEvent::Thinking);
        assert!(log.addition().is_some() && log.not_stored() && !log.not_stored());
        let seqs: Vec<_> = rows.iter().map(|row| (row.first_seq, row.last_seq)).collect();
        assert_eq!(seqs, [(1, 1), (2, 4), (5, 6)]);
        let whole = end(&log);
        assert_eq!((whole.first_seq, whole.last_seq), (1, 8));
        assert!(whole.bytes.starts_with(&rows.into_iter().flat_map(|row| row.bytes).collect::<Vec<_>>()));
        assert!(log.addition().is_none(), "the end stores all");
        let again = Arc::new(TurnLog::ended(Uuid::nil(), WIRE, Ended { frames: whole.clone(), cut_after: None }));
        let (mut was, mut is) = (log.reader(0).unwrap(), again.reader(0).unwrap());
        assert_eq!(was.next().await, is.next().await);
        assert_eq!((was.next().await, is.next().await), (None, None));
        assert_eq!(again.reader(9).unwrap_err(), Rewound { last: 8, text_bytes: 8 });
        // After a crash, nobody knows what a reader has seen beyond what was stored.
        let cut = Arc::new(TurnLog::ended(Uuid::nil(), WIRE, Ended { frames: whole, cut_after: Some(6) }));
        assert_eq!(cut.reader(6).unwrap().next().await.unwrap().len(), 2);
        for after in 7..10 {
            assert_eq!(cut.reader(after).unwrap_err(), Rewound { last: 6, text_bytes: 8 });
        }
    }
}
