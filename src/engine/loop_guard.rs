//! Notices a model that goes round in circles, and says what to do about it. Pure.
//!
//! A round whose calls were all made before in the turn brings nothing new, whether they had worked, failed or
//! were refused, and whether the same call comes again or several take turns. Calls count as the same where only
//! letter case, spaces and punctuation differ. One such round is answered with a directive, a second one with a
//! round without tools, and a model that still calls then is stopped. A round with something new in it begins the
//! count again.

use super::canonical;
use crate::message::Arguments;
use std::collections::BTreeSet;

/// What a round that brought nothing new leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervention {
    /// The model is told not to repeat itself.
    Direct,
    /// Its next round has no tools.
    WithoutTools,
    /// The turn ends with what there is.
    Stop,
}

/// One turn's guard.
#[derive(Clone, Debug, Default)]
pub struct LoopGuard {
    made: BTreeSet<String>,
    strikes: u32,
}

impl LoopGuard {
    /// The keys of a round's calls, without those that would have run but for a cap: they may come again.
    pub fn round(&mut self, keys: impl IntoIterator<Item = String>) -> Option<Intervention> {
        let keys: BTreeSet<String> = keys.into_iter().collect();
        if keys.is_empty() {
            return None;
        }
        let repeats = keys.is_subset(&self.made);
        self.made.extend(keys);
        self.strikes = if repeats { self.strikes + 1 } else { 0 };
        match self.strikes {
            0 => None,
            1 => Some(Intervention::Direct),
            2 => Some(Intervention::WithoutTools),
            _ => Some(Intervention::Stop),
        }
    }
}

/// The same for two calls that differ in nothing that matters.
pub fn key(name: &str, arguments: &Arguments) -> String {
    canonical::key(name, arguments, plain)
}

/// The same for arguments that could not be read.
pub fn key_of_text(name: &str, sent: &str) -> String {
    format!("{name} {}", plain(sent))
}

/// The words of `text` in lower case; what has no words stays as it is.
fn plain(text: &str) -> String {
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect();
    if words.is_empty() { text.trim().to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What each round of calls leads to: `-` nothing, `d` a directive, `w` no tools, `s` the end.
    fn check(rounds: &[&[&str]], want: &str) {
        let mut guard = LoopGuard::default();
        let got: String = rounds
            .iter()
            .map(|calls| match guard.round(calls.iter().map(|call| (*call).to_owned())) {
                None => '-',
                Some(Intervention::Direct) => 'd',
                Some(Intervention::WithoutTools) => 'w',
                Some(Intervention::Stop) => 's',
            })
            .collect();
        assert_eq!(got, want, "{rounds:?}");
    }

    #[test]
    fn circles_are_seen_and_the_answer_gets_firmer() {
        let (a, b, c): (&[&str], &[&str], &[&str]) = (&["a"], &["b"], &["c"]);
        let (ab, ba, ac): (&[&str], &[&str], &[&str]) = (&["a", "b"], &["b", "a"], &["a", "c"]);
        for (rounds, want) in [
            (&[a][..], "-"),
            (&[a, a, a, a], "-dws"),
            (&[a, b, a, b, a], "--dws"),
            (&[a, b, c, a, b, c], "---dws"),
            (&[ab, ba, ab, ba], "-dws"),
            (&[ab, a, b, a], "-dws"),
            // Something new stands beside the repetition.
            (&[a, ac, ab, ba], "---d"),
            (&[a, a, b, a, a], "-d-dw"),
            // One answer that writes the same call twice is not a circle yet.
            (&[&["a", "a"], b], "--"),
            (&[&[], a, &[], a], "---d"),
        ] {
            check(rounds, want);
        }
    }

    #[test]
    fn calls_are_compared_by_what_matters() {
        for (one, other, same) in [
            (json!({"q": "Notice period?"}), json!({"q": " notice  PERIOD"}), true),
            (json!({"q": "a", "n": 3}), json!({"n": 3, "q": "A"}), true),
            (json!({"u": "https://x.org/a"}), json!({"u": "https://x.org/a/"}), true),
            (json!({"q": {"d": ["x", "Y"]}}), json!({"q": {"d": ["X", "y"]}}), true),
            (json!({"q": "a b"}), json!({"q": "b a"}), false),
            (json!({"q": "a", "n": 3}), json!({"q": "a", "n": 4}), false),
            (json!({"q": "a"}), json!({"p": "a"}), false),
            (json!({"q": "?"}), json!({"q": "!"}), false),
        ] {
            let key_of = |value: &Value| key("t", value.as_object().unwrap());
            assert_eq!(key_of(&one) == key_of(&other), same, "{one} {other}");
        }
        assert_eq!(key_of_text("t", "{\"q\": \"Half"), key_of_text("t", "{\"Q\":\"half"));
        assert_ne!(key_of_text("t", "a"), key_of_text("u", "a"));
    }
}
