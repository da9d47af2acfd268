//! The body of a block, byte by byte: where its closer is, or that another opener spoils it.
//!
//! Invariant: a closer inside a JSON string or a CDATA section is data; nothing else hides one.
//! The state is a few bytes, so a body of any length needs no memory here.

use super::opener::{Opener, Verdict, is_space};
use memchr::{memchr, memchr2};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Body {
    mode: Mode,
    mark: Mark,
    /// Where the closer begins, counted like the `at` of [`Body::step`].
    closer: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// White space in front: nothing is known yet.
    Lead,
    Plain,
    Json,
    JsonString,
    JsonEscape,
    /// In a CDATA section, behind so many `]` (two at most are counted).
    Cdata(u8),
}

/// What a `<` may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    None,
    Angle,
    Closer(u8),
    CloserSpace,
    CdataStart(u8),
    Opener(Opener),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// The `>` of the closer; the body ends at [`Body::end`].
    Closer,
    /// A whole opening tag inside a plain-text body.
    Opener,
}

const CLOSER: &[u8] = b"</tool";
const CDATA: &[u8] = b"<![CDATA[";

impl Body {
    pub(super) fn start() -> Self {
        Self { mode: Mode::Lead, mark: Mark::None, closer: 0 }
    }

    /// The offset of the closer's `<`, once it was found.
    pub(super) fn end(self) -> u64 {
        self.closer
    }

    /// Reads `bytes`, the first of which stands at offset `at` of the block, until something is found;
    /// how many were consumed.
    pub(super) fn run(&mut self, bytes: &[u8], at: u64) -> (usize, Found) {
        let mut n = 0;
        while n < bytes.len() {
            let skipped = self.skip(&bytes[n..]);
            n += skipped;
            if let (0, Some(&b)) = (skipped, bytes.get(n)) {
                let found = self.step(b, at + n as u64);
                n += 1;
                if found != Found::Nothing {
                    return (n, found);
                }
            }
        }
        (n, Found::Nothing)
    }

    /// How many of `bytes` change nothing.
    fn skip(&self, bytes: &[u8]) -> usize {
        if self.mark != Mark::None {
            return 0;
        }
        let found = match self.mode {
            Mode::Plain => memchr(b'<', bytes),
            Mode::Json => memchr2(b'"', b'<', bytes),
            Mode::JsonString => memchr2(b'"', b'\\', bytes),
            Mode::Cdata(0) => memchr(b']', bytes),
            Mode::Lead | Mode::JsonEscape | Mode::Cdata(_) => Some(0),
        };
        found.unwrap_or(bytes.len())
    }

    /// `at`: the byte's offset in the block.
    fn step(&mut self, b: u8, at: u64) -> Found {
        let plain = self.mode == Mode::Plain;
        self.mark = match self.mark {
            Mark::Angle if b == b'/' => Mark::Closer(2),
            Mark::Angle if plain && b == b'!' => Mark::CdataStart(2),
            Mark::Angle if plain && b == b't' => {
                let mut opener = Opener::start();
                opener.step(b);
                Mark::Opener(opener)
            }
            Mark::Closer(n) if CLOSER.get(usize::from(n)) == Some(&b) => Mark::Closer(n + 1),
            Mark::Closer(n) if usize::from(n) == CLOSER.len() && is_space(b) => Mark::CloserSpace,
            Mark::Closer(n) if usize::from(n) == CLOSER.len() && b == b'>' => return Found::Closer,
            Mark::CloserSpace if is_space(b) => Mark::CloserSpace,
            Mark::CloserSpace if b == b'>' => return Found::Closer,
            Mark::CdataStart(n) if CDATA.get(usize::from(n)) == Some(&b) => {
                if usize::from(n) + 1 == CDATA.len() {
                    self.mode = Mode::Cdata(0);
                    Mark::None
                } else {
                    Mark::CdataStart(n + 1)
                }
            }
            Mark::Opener(mut opener) => match opener.step(b) {
                Verdict::More => Mark::Opener(opener),
                Verdict::TooLong => Mark::None,
                Verdict::Refuted => self.unmarked(b, at),
                Verdict::Complete { .. } => {
                    self.mark = Mark::None;
                    return Found::Opener;
                }
            },
            _ => self.unmarked(b, at),
        };
        Found::Nothing
    }

    /// A byte that continues no mark.
    fn unmarked(&mut self, b: u8, at: u64) -> Mark {
        match (self.mode, b) {
            (Mode::Lead, _) if is_space(b) => {}
            (Mode::Lead, b'{' | b'[') => self.mode = Mode::Json,
            (Mode::Lead | Mode::Plain | Mode::Json, b'<') => {
                if self.mode == Mode::Lead {
                    self.mode = Mode::Plain;
                }
                self.closer = at;
                return Mark::Angle;
            }
            (Mode::Lead, _) => self.mode = Mode::Plain,
            (Mode::Json, b'"') => self.mode = Mode::JsonString,
            (Mode::JsonString, b'"') => self.mode = Mode::Json,
            (Mode::JsonString, b'\\') => self.mode = Mode::JsonEscape,
            (Mode::JsonEscape, _) => self.mode = Mode::JsonString,
            (Mode::Cdata(2), b'>') => self.mode = Mode::Plain,
            (Mode::Cdata(n), b']') => self.mode = Mode::Cdata(2.min(n + 1)),
            (Mode::Cdata(_), _) => self.mode = Mode::Cdata(0),
            (Mode::Plain | Mode::Json | Mode::JsonString, _) => {}
        }
        Mark::None
    }
}
