//! The opening tag, byte by byte: `<tool`, white space, attributes, `>` or `/>`.
//!
//! Invariant: the verdict is `Refuted` at the first byte after which no call can begin here, so text
//! that only looks like an opener is held no longer than that.

/// Longest opening tag, in bytes: what is held back outside a block never exceeds it.
pub(super) const MAX_OPENER_BYTES: u16 = 4096;

const WORD: &[u8] = b"<tool";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opener {
    at: At,
    len: u16,
    /// A tag without attributes has no name: it is an ordinary element, not a call.
    attributes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// So many bytes of `<tool` have matched.
    Word(u8),
    Space,
    Name,
    AfterName,
    Equals,
    Value(u8),
    AfterValue,
    Slash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    More,
    /// Not an opener; the byte has not been consumed.
    Refuted,
    /// Not an opener: it grew too long. The byte has been consumed.
    TooLong,
    Complete {
        self_closing: bool,
    },
}

impl Opener {
    /// The state behind a `<`.
    pub(super) fn start() -> Self {
        Self { at: At::Word(1), len: 1, attributes: false }
    }

    /// How many bytes of `<tool` have matched, while that is all there is.
    pub(super) fn word(self) -> Option<u8> {
        if let At::Word(n) = self.at { Some(n) } else { None }
    }

    /// Reads `bytes` up to a verdict; how many were consumed.
    pub(super) fn run(&mut self, bytes: &[u8]) -> (usize, Verdict) {
        for (n, &b) in bytes.iter().enumerate() {
            match self.step(b) {
                Verdict::More => {}
                Verdict::Refuted => return (n, Verdict::Refuted),
                verdict => return (n + 1, verdict),
            }
        }
        (bytes.len(), Verdict::More)
    }

    pub(super) fn step(&mut self, b: u8) -> Verdict {
        let next = match self.at {
            At::Word(n) => match WORD.get(usize::from(n)) {
                Some(&want) if want == b => At::Word(n + 1),
                None if is_space(b) => At::Space,
                _ => return Verdict::Refuted,
            },
            At::Space if is_space(b) => At::Space,
            At::Space if starts_name(b) => At::Name,
            At::Space | At::AfterValue => match b {
                b'>' if self.attributes => return Verdict::Complete { self_closing: false },
                b'/' if self.attributes => At::Slash,
                _ if is_space(b) => At::Space,
                _ => return Verdict::Refuted,
            },
            At::Name if starts_name(b) || matches!(b, b'0'..=b'9' | b'-' | b'.') => At::Name,
            At::Name | At::AfterName => match b {
                b'=' => At::Equals,
                _ if is_space(b) => At::AfterName,
                _ => return Verdict::Refuted,
            },
            At::Equals => match b {
                b'"' | b'\'' => At::Value(b),
                _ if is_space(b) => At::Equals,
                _ => return Verdict::Refuted,
            },
            At::Value(_) if b == b'<' => return Verdict::Refuted,
            At::Value(quote) if b == quote => {
                self.attributes = true;
                At::AfterValue
            }
            At::Value(quote) => At::Value(quote),
            At::Slash if b == b'>' => return Verdict::Complete { self_closing: true },
            At::Slash => return Verdict::Refuted,
        };
        self.at = next;
        self.len += 1;
        if self.len == MAX_OPENER_BYTES { Verdict::TooLong } else { Verdict::More }
    }
}

/// XML white space.
pub(super) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn starts_name(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b == b':' || b >= 0x80
}
