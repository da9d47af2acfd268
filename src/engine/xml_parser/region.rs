//! Comments and thinking: regions in which nothing runs, and the marks around them.
//!
//! Invariant: an unclosed region lasts to the end of the text.

use super::feed::find;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// So many bytes of `<!--` have matched.
    CommentStart(u8),
    /// Behind so many dashes (two at most are counted).
    Comment(u8),
    /// So many bytes of `<think>` have matched.
    ThinkStart(u8),
    /// So many bytes of `</think>` have matched.
    Think(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Inside,
    /// The mark failed; the byte has not been consumed.
    NoMark,
    /// The region ended.
    Out {
        thinking: bool,
    },
}

const COMMENT: &[u8] = b"<!--";
const THINK: &[u8] = b"<think>";
const THINK_END: &[u8] = b"</think>";

impl Region {
    /// Reads on in `bytes`, of which there is one at least; how many were consumed.
    pub(super) fn run(&mut self, bytes: &[u8]) -> (usize, Passed) {
        let skipped = match self {
            Self::Comment(0) => find(b'-', bytes),
            Self::Think(0) => find(b'<', bytes),
            _ => 0,
        };
        match bytes.get(skipped).map(|&b| self.step(b)) {
            Some(Passed::NoMark) => (skipped, Passed::NoMark),
            Some(passed) => (skipped + 1, passed),
            None => (skipped, Passed::Inside),
        }
    }

    fn step(&mut self, b: u8) -> Passed {
        let matches = |mark: &[u8], n: u8| mark.get(usize::from(n)) == Some(&b);
        let whole = |mark: &[u8], n: u8| usize::from(n) + 1 == mark.len();
        *self = match *self {
            Self::CommentStart(n) if matches(COMMENT, n) && whole(COMMENT, n) => Self::Comment(0),
            Self::CommentStart(n) if matches(COMMENT, n) => Self::CommentStart(n + 1),
            Self::ThinkStart(n) if matches(THINK, n) && whole(THINK, n) => Self::Think(0),
            Self::ThinkStart(n) if matches(THINK, n) => Self::ThinkStart(n + 1),
            Self::CommentStart(_) | Self::ThinkStart(_) => return Passed::NoMark,
            Self::Comment(2) if b == b'>' => return Passed::Out { thinking: false },
            Self::Comment(n) => Self::Comment(if b == b'-' { 2.min(n + 1) } else { 0 }),
            Self::Think(n) if matches(THINK_END, n) && whole(THINK_END, n) => return Passed::Out { thinking: true },
            Self::Think(n) if matches(THINK_END, n) => Self::Think(n + 1),
            Self::Think(_) => Self::Think(u8::from(b == b'<')),
        };
        Passed::Inside
    }
}
