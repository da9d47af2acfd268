//! Native fragments to calls: what each call's arguments are so far, and when they are whole.
//!
//! Invariant: a call is followed by its wire label only while it is open, and each byte of its
//! arguments is looked at once. A closed object means that the call may start; anything but white space
//! after that spoils it.

use std::collections::BTreeMap;

/// The native calls of one round, in the order in which they began.
#[derive(Debug)]
pub struct CallAssembler {
    max_argument_bytes: usize,
    calls: Vec<NativeCall>,
    /// Which call a wire label means now. Labels may be anything and may come again.
    open: BTreeMap<i64, usize>,
}

/// One call as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCall {
    pub id: String,
    pub name: String,
    /// The arguments' text, at most as long as the cap.
    pub arguments: String,
    pub state: CallState,
    scan: Scan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The argument object has not closed.
    Open,
    /// The argument object has closed, the provider has not said that the call is complete.
    Closed,
    /// The provider says that it is complete.
    Complete,
    /// It must not run, and must stop if it does.
    Spoiled(Spoiled),
}

/// Why a call must not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Spoiled {
    #[error("the arguments went on after their JSON object had closed")]
    WentOn,
    #[error("the arguments are longer than {0} bytes")]
    TooLong(usize),
}

/// What a fragment did to a call, named by its place in [`CallAssembler::calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The argument object closed: a call without side effects may start.
    Closed(usize),
    /// The call is complete.
    Complete(usize),
    /// The call must not run; said once.
    Spoiled(usize, Spoiled),
}

/// Where the text stands in its JSON, as far as finding the end of an object needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The first value is not an object: it never closes here, and is refused once complete.
    other: bool,
    closed: bool,
}

impl CallAssembler {
    /// `max_argument_bytes`: longer arguments spoil their call.
    pub fn new(max_argument_bytes: usize) -> Self {
        Self { max_argument_bytes, calls: Vec::new(), open: BTreeMap::new() }
    }

    /// A call begins; its place. A label that was in use means the new call from now on.
    pub fn start(&mut self, id: String, name: String, index: i64) -> usize {
        let place = self.calls.len();
        self.calls.push(NativeCall {
            id,
            name,
            arguments: String::new(),
            state: CallState::Open,
            scan: Scan::default(),
        });
        self.open.insert(index, place);
        place
    }

    /// More of a call's arguments. A label that no call has is passed over.
    pub fn arguments(&mut self, index: i64, delta: &str) -> Option<Progress> {
        let place = *self.open.get(&index)?;
        let call = self.calls.get_mut(place)?;
        if matches!(call.state, CallState::Spoiled(_)) {
            return None;
        }
        let left = self.max_argument_bytes - call.arguments.len();
        let spoiled = if delta.len() > left {
            // Whoever reads why sees what there was.
            call.arguments.push_str(&delta[..delta.floor_char_boundary(left)]);
            Some(Spoiled::TooLong(self.max_argument_bytes))
        } else {
            call.arguments.push_str(delta);
            (!call.scan.read(delta)).then_some(Spoiled::WentOn)
        };
        if let Some(why) = spoiled {
            call.state = CallState::Spoiled(why);
            return Some(Progress::Spoiled(place, why));
        }
        if call.state == CallState::Open && call.scan.closed {
            call.state = CallState::Closed;
            return Some(Progress::Closed(place));
        }
        None
    }

    /// The provider says that a call is complete; said once.
    pub fn complete(&mut self, index: i64) -> Option<Progress> {
        let place = self.open.remove(&index)?;
        let call = self.calls.get_mut(place)?;
        if matches!(call.state, CallState::Spoiled(_)) {
            return None;
        }
        call.state = CallState::Complete;
        Some(Progress::Complete(place))
    }

    /// All calls so far, in the order in which they began.
    pub fn calls(&self) -> &[NativeCall] {
        &self.calls
    }

    /// The calls as they stand when the stream has ended. Those still open never run.
    pub fn into_calls(self) -> Vec<NativeCall> {
        self.calls
    }
}

impl Scan {
    /// Whether `text` may stand here: false once something follows the closed object.
    fn read(&mut self, text: &str) -> bool {
        for b in text.bytes() {
            let space = matches!(b, b' ' | b'\t' | b'\r' | b'\n');
            if self.closed {
                if !space {
                    return false;
                }
            } else if self.in_string {
                match b {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else if self.depth == 0 {
                if b == b'{' && !self.other {
                    self.depth = 1;
                } else {
                    self.other |= !space;
                }
            } else {
                match b {
                    b'"' => self.in_string = true,
                    b'{' => self.depth += 1,
                    b'}' => {
                        self.depth -= 1;
                        self.closed = self.depth == 0;
                    }
                    _ => {}
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the arguments `parts` of one call gave, fragment by fragment.
    fn follow(parts: &[&str]) -> Vec<Option<Progress>> {
        let mut calls = CallAssembler::new(64);
        calls.start("c1".into(), "search".into(), 7);
        parts.iter().map(|part| calls.arguments(7, part)).collect()
    }

    #[test]
    fn an_object_closes_where_its_last_brace_is() {
        let closed = Some(Progress::Closed(0));
        let spoiled = Some(Progress::Spoiled(0, Spoiled::WentOn));
        for (parts, want) in [
            (&["{\"q\":", "\"a\"}"][..], &[None, closed][..]),
            (&["", "{", "}", " \n", ""], &[None, None, closed, None, None]),
            (&["{\"q\":\"}\\\"}", "\"", "}"], &[None, None, closed]),
            (&["{\"q\":\"\\", "\"", "}\\\\", "\"}"], &[None, None, None, closed]),
            (&["{\"a\":{\"b\":[{}]}", ",\"c\":{}}"], &[None, closed]),
            (&[" \t{}"], &[closed]),
            (&["{}", "{}"], &[closed, spoiled]),
            (&["{}}"], &[spoiled]),
            (&["{} ", "x", "y"], &[closed, spoiled, None]),
            (&["[{}]", "{}"], &[None, None]),
            (&["null"], &[None]),
            (&["\"{}\""], &[None]),
            (&["{\"é\":\"👩‍👧}\"", "}"], &[None, closed]),
        ] {
            assert_eq!(follow(parts), want, "{parts:?}");
        }
    }

    #[test]
    fn cuts_do_not_matter() {
        let text = "{\"a\":\"}\\\\\\\"{\",\"b\":{\"c\":[\"]\",{}]}} \n";
        let at = text.len() - 2;
        for cut in 0..=text.len() {
            let parts = [&text[..cut], &text[cut..]];
            let closed = follow(&parts).iter().position(|p| *p == Some(Progress::Closed(0)));
            assert_eq!(closed, Some(usize::from(cut < at)), "cut at {cut}");
        }
    }

    #[test]
    fn labels_are_only_labels() {
        let mut calls = CallAssembler::new(64);
        assert_eq!(calls.start("a".into(), "one".into(), -5), 0);
        assert_eq!(calls.start("b".into(), "two".into(), i64::MAX), 1);
        assert_eq!(calls.arguments(i64::MAX, "{}"), Some(Progress::Closed(1)));
        assert_eq!(calls.arguments(3, "{}"), None);
        assert_eq!(calls.complete(3), None);
        assert_eq!(calls.start("c".into(), "three".into(), -5), 2);
        assert_eq!(calls.arguments(-5, "{}"), Some(Progress::Closed(2)));
        assert_eq!(calls.complete(-5), Some(Progress::Complete(2)));
        assert_eq!(calls.complete(-5), None);
        assert_eq!(calls.arguments(-5, "{}"), None);
        let states: Vec<_> = calls.into_calls().into_iter().map(|call| (call.id, call.state)).collect();
        let want = [("a", CallState::Open), ("b", CallState::Closed), ("c", CallState::Complete)];
        assert_eq!(states, want.map(|(id, state)| (id.to_owned(), state)));
    }

    #[test]
    fn too_long_arguments_spoil_their_call_only() {
        let mut calls = CallAssembler::new(8);
        calls.start("a".into(), "one".into(), 0);
        calls.start("b".into(), "two".into(), 1);
        assert_eq!(calls.arguments(0, "{\"q\":\"12"), None);
        assert_eq!(calls.arguments(0, "3"), Some(Progress::Spoiled(0, Spoiled::TooLong(8))));
        assert_eq!(calls.arguments(0, "\"}"), None);
        assert_eq!(calls.complete(0), None);
        assert_eq!(calls.arguments(1, "{}"), Some(Progress::Closed(1)));
        assert_eq!(calls.calls()[0].arguments, "{\"q\":\"12");
        assert_eq!(Spoiled::TooLong(8).to_string(), "the arguments are longer than 8 bytes");
    }

    #[test]
    fn a_call_without_arguments_is_complete_when_the_provider_says_so() {
        let mut calls = CallAssembler::new(8);
        calls.start("a".into(), "now".into(), 0);
        assert_eq!(calls.complete(0), Some(Progress::Complete(0)));
        assert_eq!(calls.calls()[0].arguments, "");
    }
}
