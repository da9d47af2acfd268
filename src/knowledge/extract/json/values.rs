//! The values of a JSON text that was found to be valid, one after the other, as they are written: numbers keep all
//! their digits, and a key that comes twice comes twice. Nothing is held but what is being read.

use std::borrow::Cow;

#[derive(Clone, Copy)]
pub(super) struct Values<'s> {
    rest: &'s str,
}

/// What the next value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    List,
    Object,
    Scalar,
    End,
}

impl<'s> Values<'s> {
    pub fn of(source: &'s str) -> Self {
        Self { rest: source }
    }

    pub fn next(&mut self) -> Next {
        match self.peek() {
            None => Next::End,
            Some(b'[') => Next::List,
            Some(b'{') => Next::Object,
            Some(_) => Next::Scalar,
        }
    }

    /// Goes into the list or object that comes next.
    pub fn enter(&mut self) {
        self.peek();
        self.advance(1);
    }

    /// Goes to the next element; false where there is none, and then the list or object has been left.
    pub fn more(&mut self) -> bool {
        match self.peek() {
            None => return false,
            Some(b']' | b'}') => {
                self.advance(1);
                return false;
            }
            Some(b',') => self.advance(1),
            Some(_) => {}
        }
        true
    }

    /// The name of a field; its value comes next.
    pub fn name(&mut self) -> Cow<'s, str> {
        let name = self.scalar();
        self.peek();
        self.advance(1);
        name
    }

    /// A string without its quotes, a number or word as it is written; nothing for `null`.
    pub fn scalar(&mut self) -> Cow<'s, str> {
        if self.peek() == Some(b'"') {
            let inside = self.string();
            return if inside.contains('\\') { unescaped(inside).into() } else { inside.into() };
        }
        let end = self.rest.find(|c: char| matches!(c, ',' | ']' | '}') || c.is_whitespace());
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if word == "null" { "".into() } else { word.into() }
    }

    /// The list that comes next, if nothing in it is a list or an object; otherwise nothing is read.
    pub fn scalars(&mut self) -> Option<Vec<Cow<'s, str>>> {
        let start = *self;
        let mut found = Vec::new();
        self.enter();
        while self.more() {
            if self.next() != Next::Scalar {
                *self = start;
                return None;
            }
            found.push(self.scalar());
        }
        Some(found)
    }

    /// Whether an object is among the elements of the list that comes next. Reads nothing.
    pub fn has_object(mut self) -> bool {
        self.enter();
        while self.more() {
            if self.next() == Next::Object {
                return true;
            }
            self.skip();
        }
        false
    }

    /// Passes over a value, however deep it is.
    fn skip(&mut self) {
        let mut open = 0usize;
        loop {
            match self.peek() {
                None => return,
                Some(b'[' | b'{') => {
                    open += 1;
                    self.advance(1);
                }
                Some(b']' | b'}') => {
                    open = open.saturating_sub(1);
                    self.advance(1);
                }
                Some(b',' | b':') => self.advance(1),
                Some(b'"') => {
                    self.string();
                }
                Some(_) => {
                    self.scalar();
                }
            }
            if open == 0 {
                return;
            }
        }
    }

    /// What stands between the quotes.
    fn string(&mut self) -> &'s str {
        self.advance(1);
        let bytes = self.rest.as_bytes();
        let mut at = 0;
        while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            at += found;
            if bytes.get(at) == Some(&b'"') {
                break;
            }
            at += 2;
        }
        let inside = self.rest.get(..at).unwrap_or(self.rest);
        self.advance(at + 1);
        inside
    }

    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_start();
        self.rest.bytes().next()
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

/// Half of a character that needs two escapes is none, and goes.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let escape = if c == '\\' { chars.next() } else { None };
        if escape == Some('u') {
            let digits: String = chars.by_ref().take(4).collect();
            units.extend(u16::from_str_radix(&digits, 16).ok());
            continue;
        }
        out.extend(char::decode_utf16(units.drain(..)).flatten());
        out.push(match escape {
            None => c,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('f') => '\u{C}',
            Some(itself) => itself,
        });
    }
    out.extend(char::decode_utf16(units).flatten());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_characters() {
        for (source, want) in [
            (r#""a\"b\\c\/d""#, "a\"b\\c/d"),
            (r#""\u00e4\ud83d\ude00\n""#, "ä😀\n"),
            (r#""x\ud83dy""#, "xy"),
            ("1E400", "1E400"),
            ("null", ""),
        ] {
            assert_eq!(Values::of(source).scalar(), want, "{source}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_read_as_others_read_them(text in any::<String>()) {
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(Values::of(&written).scalar(), text);
        }
    }
}
