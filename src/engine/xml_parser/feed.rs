//! The chunk being fed and the text kept from earlier ones: where visible text leaves from.
//!
//! Invariant: `held` followed by the chunk from `from` on is exactly what has been fed and has not
//! left. Text is only ever cut at the start of a would-be block, behind one, or at a chunk's end.

use super::Segment;
use super::opener::MAX_OPENER_BYTES;
use memchr::memchr;

pub(super) struct Feed<'a> {
    pub(super) chunk: &'a str,
    /// Position of the chunk's first byte.
    pub(super) base: u64,
    /// All before this has left or is held.
    from: usize,
    /// The byte being looked at.
    pub(super) i: usize,
    /// The first CR at or behind `i`, once looked for: the search never covers a byte twice.
    cr: Option<usize>,
    pub(super) out: &'a mut Vec<Segment>,
}

impl<'a> Feed<'a> {
    pub(super) fn new(chunk: &'a str, base: u64, out: &'a mut Vec<Segment>) -> Self {
        Self { chunk, base, from: 0, i: 0, cr: None, out }
    }

    /// Position of the byte being looked at.
    pub(super) fn at(&self) -> u64 {
        self.base + self.i as u64
    }

    /// The byte being looked at, which there is.
    pub(super) fn byte(&self) -> u8 {
        self.chunk.as_bytes()[self.i]
    }

    /// From the byte being looked at up to `end`.
    pub(super) fn rest(&self, end: usize) -> &'a [u8] {
        &self.chunk.as_bytes()[self.i..end]
    }

    pub(super) fn next_cr(&mut self, examined: &mut u64) -> usize {
        match self.cr {
            Some(at) if at >= self.i => at,
            _ => {
                let n = find(b'\r', &self.chunk.as_bytes()[self.i..]);
                *examined += n as u64;
                self.cr = Some(self.i + n);
                self.i + n
            }
        }
    }
}

/// Text of earlier chunks that has not left.
#[derive(Debug)]
pub(super) struct Held {
    text: String,
    limit: usize,
}

impl Held {
    pub(super) fn new(max_block_bytes: u64) -> Self {
        Self { text: String::new(), limit: max_block_bytes as usize + usize::from(MAX_OPENER_BYTES) }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Text before position `until` leaves.
    pub(super) fn release(&mut self, feed: &mut Feed<'_>, until: u64) {
        if until >= feed.base {
            let text = self.take(feed, until);
            if !text.is_empty() {
                feed.out.push(Segment::Text(text));
            }
        }
    }

    /// All before position `until`, which lies in the chunk.
    pub(super) fn take(&mut self, feed: &mut Feed<'_>, until: u64) -> String {
        let from = std::mem::replace(&mut feed.from, (until - feed.base) as usize);
        let piece = &feed.chunk[from..feed.from];
        let mut text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return piece.to_owned();
        }
        text.push_str(piece);
        text
    }

    /// Keeps what has not left; the buffer doubles, but never beyond a block and an opening tag.
    pub(super) fn keep(&mut self, feed: &Feed<'_>) {
        let piece = &feed.chunk[feed.from..];
        let need = self.text.len() + piece.len();
        if need > self.text.capacity() {
            let target = need.max(self.limit.min(need.saturating_mul(2)));
            self.text.reserve_exact(target - self.text.len());
        }
        self.text.push_str(piece);
    }

    /// The would-be block from position `start` up to the byte being looked at: its held and its new part.
    pub(super) fn candidate<'h>(&'h self, feed: &Feed<'h>, start: u64) -> (&'h [u8], &'h [u8]) {
        let chunk = &feed.chunk.as_bytes()[..feed.i];
        match start.checked_sub(feed.base) {
            Some(start) => (&[], &chunk[start as usize..]),
            None => (self.text.as_bytes(), chunk),
        }
    }
}

/// Where `b` is in `bytes`, or their length.
pub(super) fn find(b: u8, bytes: &[u8]) -> usize {
    memchr(b, bytes).unwrap_or(bytes.len())
}
