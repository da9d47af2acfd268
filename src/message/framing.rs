//! Text that somebody else wrote goes to the model as data: between marks that the text cannot
//! forge, with anything that looks like a call made harmless. Invariant 15 rests on this and on the
//! parser never seeing it.

use rand::RngExt;

/// Marks of one request: a random word, so that a document cannot close its own frame.
#[derive(Clone, Debug)]
pub struct Frame {
    nonce: String,
}

impl Frame {
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let nonce = (0..8).map(|_| char::from(b'a' + rng.random_range(0..26u8))).collect();
        Self { nonce }
    }

    /// `text` between this request's marks; `what` says what it is, e.g. `result of fetch_url`.
    pub fn wrap(&self, what: &str, text: &str) -> String {
        format!("<<data {n}: {what}>>\n{}\n<<end {n}>>", defuse(text).trim_end(), n = self.nonce)
    }
}

/// `text` with every `<tool…` and `</tool…` written `&lt;tool…`; nothing else is changed.
pub fn defuse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let word = tail[1..].strip_prefix('/').unwrap_or(&tail[1..]);
        out.push_str(if word.get(..4).is_some_and(|w| w.eq_ignore_ascii_case("tool")) { "&lt;" } else { "<" });
        rest = &tail[1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_call_is_defused() {
        for (input, want) in [
            ("a < b <b> </tool>", "a < b <b> &lt;/tool>"),
            ("<tool name=\"x\">", "&lt;tool name=\"x\">"),
            ("<<TOOL", "<&lt;TOOL"),
            ("", ""),
        ] {
            assert_eq!(defuse(input), want);
        }
    }
}
