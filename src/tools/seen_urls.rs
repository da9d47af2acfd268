//! Which URLs this conversation has already named, so that the model cannot invent one that carries
//! data out. Invariant: a URL is in the set only if it stood whole in a text that was added; nothing
//! is matched by prefix.

use super::address_guard::{MAX_URL_BYTES, parse};
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use url::Url;

/// How many URLs are remembered. The oldest goes first, so that a page full of links cannot keep
/// the user's next URL out.
const CAPACITY: usize = 4096;

/// A set of URLs, fed with texts and shared by a conversation's tools.
#[derive(Debug, Default)]
pub struct SeenUrls {
    inner: Mutex<Inner>,
}

/// Hashes instead of URLs bound the memory: 4096 entries are some 400 KiB, whatever their length.
#[derive(Debug, Default)]
struct Inner {
    known: HashSet<blake3::Hash>,
    order: VecDeque<blake3::Hash>,
}

impl SeenUrls {
    /// Remembers every absolute http(s) URL of a text: user message, search hit, tool result.
    pub fn add_text(&self, text: &str) {
        let mut inner = self.lock();
        // Punctuation at the end may be the sentence's or the URL's: both readings stood in the text.
        for url in urls(text).flat_map(|raw| [raw, without_punctuation(raw)]).filter_map(|raw| parse(raw).ok()) {
            inner.add(key(&url));
        }
    }

    /// Whether exactly this URL was named. Only spelling that no server sees may differ: the
    /// fragment, and what the URL parser makes equal (`HTTP://Example.org` and `http://example.org/`).
    pub fn contains(&self, url: &str) -> bool {
        parse(url).is_ok_and(|url| self.lock().known.contains(&key(&url)))
    }

    /// A panic elsewhere leaves the set as it was between two insertions: still valid.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, key: blake3::Hash) {
        if !self.known.insert(key) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn key(url: &Url) -> blake3::Hash {
    let text = url.as_str();
    blake3::hash(text.split_once('#').map_or(text, |(before, _)| before).as_bytes())
}

/// The URLs of a free text, as they are written, in order.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    memchr::memmem::find_iter(text.as_bytes(), "://").filter_map(move |colon| {
        let start = colon.checked_sub(scheme_bytes(text.get(..colon)?)?)?;
        // A URL inside another's query or path is a part of that one, not a URL that was named.
        if start < from {
            return None;
        }
        let tail = text.get(start..)?;
        let end = tail.find(ends_url).unwrap_or(tail.len());
        from = start + end;
        tail.get(..end).filter(|raw| raw.len() <= MAX_URL_BYTES)
    })
}

/// Length of the `http` or `https` that ends `before` and starts a word.
fn scheme_bytes(before: &str) -> Option<usize> {
    let scheme = ["https", "http"].into_iter().find(|scheme| {
        let tail = before.len().checked_sub(scheme.len()).and_then(|start| before.get(start..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(scheme))
    })?;
    let rest = &before[..before.len() - scheme.len()];
    let inside_word = rest.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (!inside_word).then_some(scheme.len())
}

/// What cannot stand in a URL, in running text, Markdown, HTML or JSON.
fn ends_url(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '<' | '>' | '"' | '`' | '\\' | '|' | '^' | '{' | '}')
        || matches!(c, '\u{ab}' | '\u{bb}' | '\u{2018}'..='\u{201f}' | '\u{2026}' | '\u{3000}'..='\u{303f}')
        || matches!(c, '\u{ff01}' | '\u{ff08}' | '\u{ff09}' | '\u{ff0c}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}')
}

/// Drops the sentence's punctuation from a URL's end, and a closing bracket that the URL did not open.
fn without_punctuation(raw: &str) -> &str {
    let open = |bracket: char| raw.matches(bracket).count();
    let (mut round, mut square) = (open(')'), open(']'));
    let (round_open, square_open) = (open('('), open('['));
    let mut url = raw;
    while let Some(last) = url.chars().next_back() {
        match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' => {}
            ')' if round > round_open => round -= 1,
            ']' if square > square_open => square -= 1,
            _ => break,
        }
        url = &url[..url.len() - last.len_utf8()];
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, url: &str, expected: bool) {
        let seen = SeenUrls::default();
        seen.add_text(text);
        assert!(parse(url).is_ok(), "{url}");
        assert_eq!(seen.contains(url), expected, "{url} in {text:?}");
    }

    #[test]
    fn a_url_counts_when_it_stands_whole_in_a_text() {
        for (text, url) in [
            ("read https://example.org/a please", "https://example.org/a"),
            ("https://example.org", "https://example.org/"),
            ("HTTPS://Example.ORG/A", "https://example.org/A"),
            ("See [the page](https://example.org/a).", "https://example.org/a"),
            ("See [x](https://example.org/a \"title\")", "https://example.org/a"),
            ("<https://example.org/a>", "https://example.org/a"),
            ("(https://en.wikipedia.org/wiki/Rust_(fungus))", "https://en.wikipedia.org/wiki/Rust_(fungus)"),
            ("Is it https://example.org/a?", "https://example.org/a"),
            ("Is it https://example.org/a?", "https://example.org/a?"),
            ("**https://example.org/a**, or", "https://example.org/a"),
            ("https://example.org/a,https://example.org/b", "https://example.org/a,https://example.org/b"),
            ("{\"url\":\"https://example.org/a\"}", "https://example.org/a"),
            ("| https://example.org/a|b |", "https://example.org/a"),
            ("https://example.org/a#part", "https://example.org/a"),
            ("https://example.org/a", "https://example.org/a#part"),
            ("https://example.org/K\u{e4}se", "https://example.org/K%C3%A4se"),
            ("\u{8bf7}\u{770b}https://example.org/a\u{3002}\u{8c22}\u{8c22}", "https://example.org/a"),
            ("http://example.org:80/a", "http://example.org/a"),
            ("https://web.archive.org/web/https://example.org/", "https://web.archive.org/web/https://example.org/"),
        ] {
            check(text, url, true);
        }
    }

    #[test]
    fn nothing_can_be_added_to_a_seen_url_or_made_from_it() {
        let text = "https://example.org/a and https://r.example/?to=https://inner.example/x";
        for url in [
            "https://example.org/a?secret=1",
            "https://example.org/a/",
            "https://example.org/ab",
            "https://example.org/",
            "http://example.org/a",
            "https://secret.example.org/a",
            "https://example.org.evil.example/a",
            "https://example.org:8443/a",
            "https://inner.example/x",
            "https://r.example/",
        ] {
            check(text, url, false);
        }
        check("xhttps://example.org/a git+https://example.org/a ftp://example.org/a", "https://example.org/a", false);
        check("https:// and ://", "https://example.org/", false);
    }

    #[test]
    fn the_oldest_goes_first_and_the_set_stays_bounded() {
        let seen = SeenUrls::default();
        let flood: String = (0..=CAPACITY).map(|n| format!("https://example.org/{n}\n")).collect();
        seen.add_text(&flood);
        seen.add_text("https://example.org/1 again, which is no news");
        let url = |n: usize| format!("https://example.org/{n}");
        assert!(!seen.contains(&url(0)));
        assert!(seen.contains(&url(1)) && seen.contains(&url(CAPACITY)));
        assert_eq!(seen.lock().order.len(), CAPACITY);
        assert_eq!(seen.lock().known.len(), CAPACITY);
    }

    #[test]
    fn an_overlong_url_is_not_kept() {
        let long = format!("https://example.org/{}", "a".repeat(MAX_URL_BYTES));
        check(&long, &long[..MAX_URL_BYTES], false);
        assert!(!SeenUrls::default().contains(&long));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(https?://|[\\x00-\\x7f]|\\PC){0,80}") {
            SeenUrls::default().add_text(&text);
        }

        #[test]
        fn a_plain_url_is_found_between_any_words(
            before in "[a-z\u{e4}(\"<]{0,8} ?[ (<\"]", path in "[a-zA-Z0-9/_-]{0,30}[a-z0-9]", after in "[ >\"\n].{0,20}"
        ) {
            let seen = SeenUrls::default();
            let url = format!("https://example.org/{path}");
            seen.add_text(&format!("{before}{url}{after}"));
            prop_assert!(seen.contains(&url));
        }
    }
}
