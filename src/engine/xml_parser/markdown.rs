//! Where text stands in Markdown: in fenced code, in a block quote, at a line's start, behind a
//! back-tick run. CommonMark as far as it says where a call may run; where it is simplified, less runs.
//!
//! Simplified: list items are known by the column of their text only; a paragraph ends at a blank
//! line, a fence or a block quote (a heading or list item continues it); a plain line behind a quoted
//! paragraph is its lazy continuation, whatever it holds.

use super::ticks::Ticks;
use memchr::{memchr, memchr3};

#[derive(Debug)]
pub(super) struct Markdown {
    phase: Phase,
    /// Columns of the line so far, while still in its markers.
    column: u32,
    /// Column of the text of the list item that the last line stood in; 0 outside lists.
    item: u32,
    fence: Fence,
    /// The last line was quoted paragraph text.
    lazy: bool,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    /// An odd number of backslashes stands directly in front.
    escape: bool,
    /// The last byte was a `<` at which markup may begin.
    angle: bool,
    /// Inside a block or comment: only white space since the last line end.
    inner_blank: bool,
    pub(super) ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In front of the line's text; behind a list marker, with the column where that ended.
    Indent {
        marker: Option<u32>,
    },
    Bullet,
    Digits(u8),
    Delimiter,
    Tildes(u32),
    Text,
    QuoteLead,
    QuoteFence {
        mark: u8,
        len: u32,
    },
    Quote,
    FenceIndent,
    FenceEnd(u32),
    FenceTail,
    Fence,
}

#[derive(Clone, Copy, Debug)]
struct Fence {
    mark: u8,
    len: u32,
    /// Column of the list item it stands in.
    item: u32,
}

const LINE_START: Phase = Phase::Indent { marker: None };

/// What a byte decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Undecided runs became literal.
    Settled,
    /// From this position to here is code: nothing found in it counts.
    Code(u64),
}

impl Markdown {
    pub(super) fn start() -> Self {
        Self {
            phase: LINE_START,
            column: 0,
            item: 0,
            fence: Fence { mark: b'`', len: 0, item: 0 },
            lazy: false,
            after_cr: false,
            escape: false,
            angle: false,
            inner_blank: false,
            ticks: Ticks::default(),
        }
    }

    /// Whether the `<` just read may begin a tag or comment.
    pub(super) fn at_markup(&self) -> bool {
        self.angle
    }

    /// Whether `chunk` is text in which nothing begins or ends; if so, it has been taken in.
    pub(super) fn is_plain(&mut self, chunk: &str) -> bool {
        let bytes = chunk.as_bytes();
        // Short pieces only: for longer ones the ordinary way is as fast.
        let plain = self.phase == Phase::Text
            && !self.ticks.counting()
            && !self.ticks.undecided()
            && (1..=32).contains(&bytes.len())
            && !bytes.iter().any(|b| matches!(b, b'<' | b'`' | b'\n' | b'\r'));
        if plain {
            self.pass(bytes);
        }
        plain
    }

    /// How many of `bytes` (no CR among them) can be passed over.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> usize {
        match self.phase {
            Phase::Text if !self.ticks.counting() => {
                let n = memchr3(b'<', b'`', b'\n', bytes).unwrap_or(bytes.len());
                if n > 0 {
                    self.pass(&bytes[..n]);
                }
                n
            }
            Phase::Quote | Phase::Fence => memchr(b'\n', bytes).unwrap_or(bytes.len()),
            _ => 0,
        }
    }

    /// Keeps `escape` and `angle` right over text without anything else of interest.
    fn pass(&mut self, bytes: &[u8]) {
        self.angle = false;
        if bytes.last() != Some(&b'\\') {
            self.escape = false;
            return;
        }
        let slashes = bytes.iter().rev().take_while(|&&b| b == b'\\').count();
        let odd = slashes % 2 == 1;
        self.escape = odd != (slashes == bytes.len() && self.escape);
    }

    /// One byte of text; `at`: its position.
    pub(super) fn text(&mut self, b: u8, at: u64) -> Effect {
        self.angle = false;
        if std::mem::take(&mut self.after_cr) && b == b'\n' {
            return Effect::None;
        }
        if is_line_end(b) {
            self.after_cr = b == b'\r';
            return self.line_end();
        }
        match self.phase {
            Phase::Text => self.plain(b, at),
            Phase::Indent { marker } => self.indent(b, at, marker),
            Phase::Bullet | Phase::Delimiter if is_blank(b) => {
                self.phase = Phase::Indent { marker: Some(self.column) };
                self.indent(b, at, Some(self.column))
            }
            Phase::Digits(n) if b.is_ascii_digit() && n < 9 => self.marker(Phase::Digits(n + 1)),
            Phase::Digits(_) if matches!(b, b'.' | b')') => self.marker(Phase::Delimiter),
            Phase::Bullet | Phase::Digits(_) | Phase::Delimiter => self.plain(b, at),
            Phase::Tildes(n) if b == b'~' => self.marker(Phase::Tildes(n + 1)),
            Phase::Tildes(n) if n >= 3 => self.open_fence(b'~', n),
            Phase::Tildes(_) if self.lazy => self.quote(),
            Phase::Tildes(_) => self.plain(b, at),
            Phase::QuoteLead if is_blank(b) || b == b'>' => Effect::None,
            Phase::QuoteLead if matches!(b, b'`' | b'~') => self.marker(Phase::QuoteFence { mark: b, len: 1 }),
            Phase::QuoteLead => self.quote(),
            Phase::QuoteFence { mark, len } if b == mark => self.marker(Phase::QuoteFence { mark, len: len + 1 }),
            Phase::QuoteFence { len, .. } => {
                self.phase = Phase::Quote;
                self.lazy = len < 3;
                Effect::None
            }
            Phase::Quote | Phase::Fence => Effect::None,
            Phase::FenceIndent if is_blank(b) => self.blank(b),
            Phase::FenceIndent if b == self.fence.mark && self.column <= self.fence.item + 3 => {
                self.marker(Phase::FenceEnd(1))
            }
            Phase::FenceEnd(n) if b == self.fence.mark => self.marker(Phase::FenceEnd(n + 1)),
            Phase::FenceEnd(n) if n >= self.fence.len && is_blank(b) => self.marker(Phase::FenceTail),
            Phase::FenceTail if is_blank(b) => Effect::None,
            Phase::FenceIndent | Phase::FenceEnd(_) | Phase::FenceTail => {
                self.phase = Phase::Fence;
                Effect::None
            }
        }
    }

    /// One byte inside a block or comment while runs in front of it are undecided. After
    /// [`Effect::Code`] the byte is text again and still to be read as such.
    pub(super) fn inner(&mut self, b: u8) -> Effect {
        let after_cr = std::mem::take(&mut self.after_cr);
        if b == b'`' {
            self.ticks.inner_tick();
            self.inner_blank = false;
            return Effect::None;
        }
        if let Some(start) = self.ticks.end_inner() {
            return Effect::Code(start);
        }
        if is_line_end(b) {
            self.after_cr = b == b'\r';
            if self.ticks.may_be_fence() {
                return Effect::Code(u64::MAX);
            }
            if self.inner_blank && !(after_cr && b == b'\n') {
                self.ticks.settle();
                return Effect::Settled;
            }
            self.inner_blank = true;
        } else if !is_blank(b) {
            self.inner_blank = false;
        }
        Effect::None
    }

    /// A block or comment begins here.
    pub(super) fn enter(&mut self) {
        self.ticks.forget_inner();
        self.inner_blank = false;
        self.after_cr = false;
    }

    /// A block or comment ended: the rest of the line is text, or a new line if `fresh`.
    pub(super) fn leave(&mut self, fresh: bool) {
        self.phase = if fresh { LINE_START } else { Phase::Text };
        self.column = 0;
        self.after_cr = false;
        self.escape = false;
    }

    fn plain(&mut self, b: u8, at: u64) -> Effect {
        self.phase = Phase::Text;
        let escaped = std::mem::take(&mut self.escape);
        if b == b'`' {
            self.ticks.tick(at, escaped, false);
            return Effect::None;
        }
        let effect = self.end_run(b);
        if self.phase == Phase::Text {
            self.escape = b == b'\\' && !escaped;
            self.angle = b == b'<' && !escaped;
        }
        effect
    }

    fn end_run(&mut self, next: u8) -> Effect {
        if self.lazy {
            // Only a fence ends a quoted paragraph here.
            if self.ticks.leading().is_none_or(|len| len < 3) {
                self.ticks.forget_pending();
                return self.quote();
            }
            self.lazy = false;
        }
        self.ticks.end(next).map_or(Effect::None, Effect::Code)
    }

    fn indent(&mut self, b: u8, at: u64, marker: Option<u32>) -> Effect {
        if is_blank(b) {
            return self.blank(b);
        }
        self.item = match marker {
            Some(end) if self.column - end <= 4 => self.column,
            Some(end) => end + 1,
            None => self.item.min(self.column),
        };
        let near = self.column - self.item <= 3;
        match b {
            b'`' if near => {
                self.phase = Phase::Text;
                self.ticks.tick(at, false, true);
                Effect::None
            }
            b'~' if near => self.marker(Phase::Tildes(1)),
            b'>' if near => {
                self.phase = Phase::QuoteLead;
                self.settle()
            }
            _ if self.lazy => self.quote(),
            b'-' | b'+' | b'*' if near => self.marker(Phase::Bullet),
            b'0'..=b'9' if near => self.marker(Phase::Digits(1)),
            _ => self.plain(b, at),
        }
    }

    fn line_end(&mut self) -> Effect {
        self.escape = false;
        let mut effect = Effect::None;
        let next = match self.phase {
            Phase::Text => {
                effect = self.end_run(b'\n');
                match self.ticks.fence() {
                    Some(run) => {
                        self.fence = Fence { mark: b'`', len: run.len, item: self.item };
                        effect = Effect::Code(run.start);
                        Phase::FenceIndent
                    }
                    None => LINE_START,
                }
            }
            Phase::Indent { marker: None } => {
                self.lazy = false;
                effect = self.settle();
                LINE_START
            }
            Phase::Tildes(n) if n >= 3 => {
                effect = self.open_fence(b'~', n);
                Phase::FenceIndent
            }
            Phase::QuoteLead => {
                self.lazy = false;
                LINE_START
            }
            Phase::QuoteFence { len, .. } => {
                self.lazy = len < 3;
                LINE_START
            }
            Phase::FenceEnd(n) if n >= self.fence.len => LINE_START,
            Phase::FenceIndent | Phase::FenceEnd(_) | Phase::Fence => Phase::FenceIndent,
            _ => LINE_START,
        };
        self.phase = next;
        self.column = 0;
        effect
    }

    fn open_fence(&mut self, mark: u8, len: u32) -> Effect {
        self.fence = Fence { mark, len, item: self.item };
        self.phase = Phase::Fence;
        self.lazy = false;
        self.settle()
    }

    fn quote(&mut self) -> Effect {
        self.phase = Phase::Quote;
        self.lazy = true;
        Effect::None
    }

    fn settle(&mut self) -> Effect {
        self.ticks.settle();
        Effect::Settled
    }

    fn marker(&mut self, phase: Phase) -> Effect {
        self.phase = phase;
        self.column = self.column.saturating_add(1);
        Effect::None
    }

    fn blank(&mut self, b: u8) -> Effect {
        self.column = if b == b'\t' { (self.column / 4 + 1).saturating_mul(4) } else { self.column.saturating_add(1) };
        Effect::None
    }
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t')
}

fn is_line_end(b: u8) -> bool {
    matches!(b, b'\n' | b'\r')
}
