//! Keeps tags small: the tokenizer compares each attribute of a tag with all before it, so that a tag with a
//! hundred thousand of them would take minutes. What follows the first [`MOST`] is cut out before it is read.

use super::rules;
use std::borrow::Cow;
use std::ops::Range;

/// Attributes of one tag that are read.
const MOST: usize = 500;

/// The page without excess attributes; nearly always the page itself. Linear.
pub(super) fn limit(html: &str) -> Cow<'_, str> {
    let mut excess: Vec<Range<usize>> = Vec::new();
    let bytes = html.as_bytes();
    let mut at = 0;
    while let Some(open) = find(bytes, at, b'<') {
        let rest = bytes.get(open + 1..).unwrap_or_default();
        at = match rest {
            [b'!', b'-', b'-', ..] => memchr::memmem::find(rest, b"-->").map_or(bytes.len(), |end| open + 1 + end + 3),
            [b'!' | b'?', ..] => find(bytes, open, b'>').unwrap_or(bytes.len()),
            [b'/', first, ..] if first.is_ascii_alphabetic() => tag(bytes, open + 2, &mut excess),
            [first, ..] if first.is_ascii_alphabetic() => tag(bytes, open + 1, &mut excess),
            _ => open + 1,
        };
    }
    if excess.is_empty() {
        return Cow::Borrowed(html);
    }
    let mut out = String::with_capacity(html.len());
    let mut done = 0;
    for range in excess {
        // Both ends are beside ASCII, so they are character borders.
        out.push_str(html.get(done..range.start).unwrap_or_default());
        done = range.end;
    }
    out.push_str(html.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// Reads a tag from its name on; where the next one can begin.
fn tag(bytes: &[u8], start: usize, excess: &mut Vec<Range<usize>>) -> usize {
    let mut at = skip(bytes, start, |b| !is_space(b) && b != b'/' && b != b'>');
    let name = bytes.get(start..at).unwrap_or_default();
    let mut count = 0;
    let mut cut = None;
    loop {
        let before = at;
        at = skip(bytes, at, |b| is_space(b) || b == b'/');
        match bytes.get(at) {
            Some(b'>') | None => {
                excess.extend(cut.map(|from| from..at));
                let closes_itself = at > before && bytes.get(at - 1) == Some(&b'/');
                let is_end = start >= 2 && bytes.get(start - 1) == Some(&b'/');
                return if closes_itself || is_end { at } else { after_raw_text(bytes, at, name) };
            }
            Some(_) => {}
        }
        count += 1;
        if count > MOST {
            cut.get_or_insert(at);
        }
        // A name may begin with `=`.
        at = skip(bytes, at + 1, |b| !is_space(b) && b != b'/' && b != b'>' && b != b'=');
        let value = skip(bytes, at, is_space);
        if bytes.get(value) == Some(&b'=') {
            at = skip(bytes, value + 1, is_space);
            at = match bytes.get(at) {
                Some(quote @ (b'"' | b'\'')) => find(bytes, at + 1, *quote).map_or(bytes.len(), |end| end + 1),
                _ => skip(bytes, at, |b| !is_space(b) && b != b'>'),
            };
        }
    }
}

/// Where the content of an element ends that holds no tags (a script's); `at` for all others.
fn after_raw_text(bytes: &[u8], mut at: usize, name: &[u8]) -> usize {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if rules::raw_kind(&name).is_none() {
        return at;
    }
    while let Some(open) = find(bytes, at, b'<') {
        let end = open + 2 + name.len();
        if bytes.get(open + 1) == Some(&b'/')
            && bytes.get(open + 2..end).is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()))
        {
            return open;
        }
        at = open + 1;
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    memchr::memchr(byte, bytes.get(from..)?).map(|at| from + at)
}

fn skip(bytes: &[u8], from: usize, while_so: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from.min(bytes.len()) + rest.iter().position(|b| !while_so(*b)).unwrap_or(rest.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_excess_attributes_go() {
        let many = |n: usize| (0..n).map(|i| format!(" a{i}='>{i}' b{i}")).collect::<String>();
        for same in ["<p a=1 b>x", "<", "<a b=\"", "<!-- <p a -->", "<script>if (a<b c d", "</p/>", "<p =a = b>"] {
            assert!(matches!(limit(same), Cow::Borrowed(_)), "{same}");
        }
        let page = format!("ä<p{}>x</p{}>", many(400), many(MOST / 2));
        let limited = limit(&page);
        assert!(limited.contains("a249='>249' b249 >x</p a0"), "{limited}");
        assert!(limited.ends_with("b249>"), "{limited}");
        // What is no tag is not touched.
        let script = format!("<script>a<b{}</script><!-- <p{} -->", many(400), many(400));
        assert_eq!(limit(&script), script);
    }
}
