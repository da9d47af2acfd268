//! By what a text's beginning shows that it is more than text.

use serde::de::IgnoredAny;

/// Headers are looked for in this many bytes.
const HEAD: usize = 8192;

/// A doctype or an `<html`, `<head` or `<body` tag after white space and comments.
pub(super) fn begins_as_html(bytes: &[u8]) -> bool {
    // UTF-16 markup has a NUL beside every letter.
    let head: Vec<u8> = bytes.iter().take(4096).copied().filter(|b| *b != 0 && *b < 0x80).collect();
    let mut rest = head.trim_ascii_start();
    while let Some(after) = rest.strip_prefix(b"<!--").or_else(|| rest.strip_prefix(b"<?xml")) {
        let Some(end) = after.iter().position(|b| *b == b'>') else { return false };
        rest = after.get(end + 1..).unwrap_or_default().trim_ascii_start();
    }
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"].iter().any(|tag| {
        let begins = rest.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
        // `<header>` is no head.
        begins && rest.get(tag.len()).is_none_or(|next| !next.is_ascii_alphanumeric())
    })
}

pub(super) fn begins_as_xml(bytes: &[u8]) -> bool {
    start(bytes).starts_with(b"<?xml")
}

/// A list or an object with something in it. Text that only begins like one is none.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    let start = start(bytes);
    let Some((open, rest)) = start.split_first() else { return false };
    let holds = match (open, rest.trim_ascii_start().first()) {
        (b'{', Some(first)) => *first == b'"',
        (b'[', Some(first)) => *first == b'{',
        _ => false,
    };
    holds && serde_json::Deserializer::from_slice(start).into_iter::<IgnoredAny>().all(|document| document.is_ok())
}

/// Nothing but headers before the first empty line, and among them such as together only an e-mail has.
pub(super) fn begins_as_mail(bytes: &[u8]) -> bool {
    let head = headers(bytes);
    let has = |name: &str| head.lines().any(|line| line.starts_with(name));
    let is_header = |line: &str| line.starts_with([' ', '\t']) || is_header(line);
    has("from:") && (has("received:") || has("message-id:") || has("mime-version:")) && head.lines().all(is_header)
}

/// An e-mail, however little it says of itself.
pub(super) fn begins_with_a_header(bytes: &[u8]) -> bool {
    headers(bytes).lines().next().is_some_and(is_header)
}

/// In lower case.
fn headers(bytes: &[u8]) -> String {
    let start = start(bytes);
    let head = String::from_utf8_lossy(start.get(..HEAD).unwrap_or(start)).to_ascii_lowercase();
    let head = head.split("\n\n").next().and_then(|h| h.split("\r\n\r\n").next()).unwrap_or_default();
    // The last line of a head that was cut may be anything.
    let whole = if start.len() > HEAD { head.rsplit_once('\n').map_or(head, |(whole, _)| whole) } else { head };
    whole.to_owned()
}

/// `Name: …`, or the line that mailboxes put before each message.
fn is_header(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    line.starts_with("from ")
        || (name.len() < line.len() && !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic()))
}

fn start(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start()
}
