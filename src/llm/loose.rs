//! Reading other people's JSON: what is missing, null or of another type is simply not there, and
//! half a character is no reason to lose an answer.
//!
//! JSON strings may hold one half of a surrogate pair (`"\ud83d"`), which no Rust string can. Some
//! servers cut an emoji that way, one half per event. [`parse`] marks such halves and [`Halves`]
//! joins them again, or replaces what stays alone.

use serde_json::Value;

/// Stands before a marked half; a noncharacter that no text may contain.
const MARK: char = '\u{fdd0}';
/// The private-use character that carries the half `0xD800 + n` is `CARRIER + n`.
const CARRIER: u32 = 0xF_0000;

/// A parsed event.
#[derive(Debug)]
pub struct Parsed {
    pub value: Value,
    /// Whether halves had to be marked, so that text in it needs [`Halves`].
    pub marked: bool,
}

/// Parses `text`; lone surrogates are marked instead of refused.
pub fn parse(text: &str) -> Result<Parsed, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(Parsed { value, marked: false }),
        Err(error) => match mark_halves(text) {
            Some(marked) => serde_json::from_str(&marked).map(|value| Parsed { value, marked: true }),
            None => Err(error),
        },
    }
}

/// `text` with each lone `\udXXX` escape replaced by its mark; `None` if it has none.
fn mark_halves(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let len = match (escape(tail), tail.get(6..).and_then(escape)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(half @ 0xD800..=0xDFFF), _) => {
                found = true;
                out.push(MARK);
                out.extend(char::from_u32(CARRIER + u32::from(half) - 0xD800));
                rest = &tail[6..];
                continue;
            }
            // The backslash and whatever it escapes.
            _ => 1 + tail[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&tail[..len]);
        rest = &tail[len..];
    }
    out.push_str(rest);
    found.then_some(out)
}

/// The code unit of a `\uXXXX` at the start of `text`.
fn escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

/// Joins the halves of one channel of text.
#[derive(Debug, Default)]
pub struct Halves {
    high: Option<u16>,
}

impl Halves {
    /// `text` with its marked halves joined; a first half at its end waits for the next piece.
    pub fn join(&mut self, text: String, marked: bool) -> String {
        if text.is_empty() || (!marked && self.high.is_none()) {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let carried = if marked && c == MARK { chars.peek().and_then(|&c| half_of(c)) } else { None };
            let Some(half) = carried else {
                out.extend(self.flush());
                out.push(c);
                continue;
            };
            chars.next();
            match (self.high.take(), half) {
                (high, 0xD800..=0xDBFF) => {
                    out.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                    self.high = Some(half);
                }
                (high, low) => out.extend(
                    char::decode_utf16(high.into_iter().chain([low])).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)),
                ),
            }
        }
        out
    }

    /// What to show for a first half whose second never came.
    pub fn flush(&mut self) -> Option<char> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

fn half_of(c: char) -> Option<u16> {
    u32::from(c).checked_sub(CARRIER).filter(|n| *n < 0x800).and_then(|n| u16::try_from(0xD800 + n).ok())
}

/// The string under `key`; `None` where there is none.
pub fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// Moves the string under `key` out.
pub fn take_text(value: &mut Value, key: &str) -> String {
    match value.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// The largest whole number that every reader of JSON takes as it is, 2^53 - 1.
const LARGEST: u64 = (1 << 53) - 1;

/// The count under `key`. A total only ever grows, so a zero says nothing, and nothing has an absurd one.
pub fn total(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    let total = value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 1.0).map(|n| n as u64))?;
    (1..=LARGEST).contains(&total).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each piece is a JSON string literal, as one event after the other brings it.
    fn joined(pieces: &[&str]) -> String {
        let mut halves = Halves::default();
        let mut out = String::new();
        for piece in pieces {
            let Parsed { value, marked } = parse(piece).unwrap();
            out.push_str(&halves.join(value.as_str().unwrap().to_owned(), marked));
        }
        out.extend(halves.flush());
        out
    }

    #[test]
    fn halves_are_joined_or_replaced() {
        for (pieces, want) in [
            (&[r#""a""#, r#""b""#][..], "ab"),
            (&[r#""\ud83d""#, r#""\ude00""#], "😀"),
            (&[r#""x\uD83D""#, r#""\uDE00y\ud83d\ude00""#], "x😀y😀"),
            (&[r#""\ud83d""#, r#""""#, r#""\ude00""#], "😀"),
            (&[r#""\ud83d""#, r#""z""#], "\u{fffd}z"),
            (&[r#""\ud83d\ud83d\ude00""#], "\u{fffd}😀"),
            (&[r#""\ude00 \ud83d""#], "\u{fffd} \u{fffd}"),
            (&[r#""\\ud83d \ud83dx""#], "\\ud83d \u{fffd}x"),
            (&["\"\u{fdd0}\u{f0000}\""], "\u{fdd0}\u{f0000}"),
        ] {
            assert_eq!(joined(pieces), want, "{pieces:?}");
        }
    }

    #[test]
    fn broken_json_stays_an_error() {
        for text in ["{", r#""\ud83d"#, r#""\uzzzz""#, r#""\ud83"#, "\"\\", "\"\\é\""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_total_is_a_positive_number() {
        let value = serde_json::json!({"a": 3, "b": 0, "c": null, "d": "5", "e": 4.0, "f": -1});
        let read: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].iter().map(|key| total(&value, key)).collect();
        assert_eq!(read, [Some(3), None, None, None, Some(4), None, None]);
    }
}
