//! A value that must not be seen: keys and passwords. It has no `Display`, no `Serialize`, and its
//! `Debug` shows nothing, so it cannot reach a log, an error or a frame by accident.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::Arc;

/// A key. Cheap to clone; read only through [`Secret::expose`], at the place that sends it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself. Never put it in a message.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `candidate` is this secret, in a time that says nothing about where they differ.
    pub fn matches(&self, candidate: &str) -> bool {
        // `blake3::Hash` compares in constant time, and hashing hides the length.
        blake3::hash(self.0.as_bytes()) == blake3::hash(candidate.as_bytes())
    }

    /// Replaces each occurrence of the secret in `text` by `***`: for text that others wrote.
    pub fn mask(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&*self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("sk-canary");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret(***) Some(Secret(***))");
        assert_eq!(secret.expose(), "sk-canary");
    }

    #[test]
    fn only_the_whole_value_matches() {
        let secret = Secret::new("sk-canary");
        for (candidate, same) in [("sk-canary", true), ("sk-canar", false), ("sk-canaryy", false), ("", false)] {
            assert_eq!(secret.matches(candidate), same, "{candidate}");
        }
    }

    #[test]
    fn text_of_others_loses_the_secret() {
        assert_eq!(Secret::new("sk-1").mask("key sk-1 is wrong: sk-1"), "key *** is wrong: ***");
        assert_eq!(Secret::new("").mask("nothing"), "nothing");
    }
}
