//! The decoder against the standard and against what servers really send.

use super::*;
use proptest::prelude::*;

fn decode(pieces: &[&[u8]]) -> Result<Vec<SseEvent>, SseError> {
    let mut decoder = SseDecoder::new();
    let mut out = Vec::new();
    for piece in pieces {
        decoder.feed(piece, &mut out)?;
    }
    decoder.finish(&mut out)?;
    Ok(out)
}

/// Uncut, cut at every place, and byte by byte: always these events (`event`, `data`, `doubtful`).
fn check(body: &[u8], want: &[(&str, &str, bool)]) {
    let want: Vec<_> = want
        .iter()
        .map(|&(event, data, doubtful)| SseEvent { event: event.into(), data: data.into(), doubtful })
        .collect();
    let name = String::from_utf8_lossy(body);
    assert_eq!(decode(&[body]).as_ref(), Ok(&want), "{name:?} uncut");
    for cut in 0..=body.len() {
        assert_eq!(decode(&[&body[..cut], &body[cut..]]).as_ref(), Ok(&want), "{name:?} cut at {cut}");
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(decode(&bytes).as_ref(), Ok(&want), "{name:?} byte by byte");
}

#[test]
fn any_two_line_ends_end_an_event() {
    for first in ["\n", "\r", "\r\n"] {
        for second in ["\n", "\r", "\r\n"] {
            if (first, second) == ("\r", "\n") {
                continue; // One line end, not two.
            }
            let body = format!("event: a{first}data: 1{first}{second}data: 2{first}{second}");
            check(body.as_bytes(), &[("a", "1", false), ("", "2", false)]);
        }
    }
    check(b"data: 1\r\ndata: 2\r\n\r\n", &[("", "1\n2", false)]);
}

#[test]
fn fields_are_read_as_the_standard_says() {
    check(b"data\n\ndata:\n\ndata: \n\n", &[("", "", false), ("", "", false), ("", "", false)]);
    check(b"data:a\ndata:  b\nid: 7\nretry: 1\nother: x\n\n", &[("", "a\n b", false)]);
    check(b": keep alive\n\n:\n\nevent: lost\n\ndata: x\n\n", &[("", "x", false)]);
    check(b"data: a:b: c\n\n", &[("", "a:b: c", false)]);
    check("data: a\u{2028}b\u{85}\u{b}c\n\n".as_bytes(), &[("", "a\u{2028}b\u{85}\u{b}c", false)]);
    check(b"", &[]);
}

#[test]
fn a_byte_order_mark_counts_only_in_front() {
    check("\u{feff}data: x\n\n".as_bytes(), &[("", "x", false)]);
    check("data: x\n\n\u{feff}data: y\n\n".as_bytes(), &[("", "x", false)]);
    check("\u{feff}".as_bytes(), &[]);
}

#[test]
fn characters_survive_any_cut_and_broken_ones_are_replaced() {
    check("data: 北京 🌧\n\n".as_bytes(), &[("", "北京 🌧", false)]);
    check(b"data: a\xff\xe5\x8c\n\n", &[("", "a\u{fffd}\u{fffd}", false)]);
}

#[test]
fn the_last_event_counts_without_its_blank_line() {
    check(b"data: x\n", &[("", "x", true)]);
    check(b"event: e\ndata: x", &[("e", "x", true)]);
    check(b"event: e\n", &[]);
}

#[test]
fn json_outside_any_field_is_an_event() {
    check(b"{\"error\":\"x\"}", &[("", "{\"error\":\"x\"}\n", true)]);
    check(
        b"data: 1\n\n{\"a\":1}\n{\"b\":2}\ndata: 2\n\n",
        &[("", "1", false), ("", "{\"a\":1}\n", true), ("", "{\"b\":2}\n", true), ("", "2", false)],
    );
    check(
        b"{\r\n  \"data\": \"}\",\r\n\r\n  \"b\": []\r\n}\r\n",
        &[("", "{\n  \"data\": \"}\",\n  \"b\": []\n}\n", true)],
    );
    check(b"error: {\"message\":\"m\"}\n\n", &[("error", "{\"message\":\"m\"}", false)]);
    check(b"{\"half\":\n", &[("", "{\"half\":\n", true)]);
    check(b"<html>\n</html>\n", &[]);
}

#[test]
fn what_is_held_is_bounded() {
    let mut out = Vec::new();
    let piece = vec![b'x'; 1 << 20];
    let feed_until_refused = |lead: &[u8], pieces: &[&[u8]]| {
        let mut decoder = SseDecoder::new();
        let mut out = Vec::new();
        decoder.feed(lead, &mut out)?;
        for _ in 0..64 {
            for piece in pieces {
                decoder.feed(piece, &mut out)?;
            }
        }
        Ok(())
    };
    assert_eq!(feed_until_refused(b"data: ", &[&piece]), Err(SseError::LineTooLong));
    assert_eq!(feed_until_refused(b": ", &[&piece]), Err(SseError::LineTooLong));
    assert_eq!(feed_until_refused(b"", &[b"data: ", &piece, b"\n"]), Err(SseError::EventTooLong));
    assert_eq!(feed_until_refused(b"{\n", &[&piece, b"\n"]), Err(SseError::EventTooLong));
    assert_eq!(feed_until_refused(b"", &[b": ", &piece, b"\n"]), Ok(()), "comments are not held");

    let mut decoder = SseDecoder::new();
    let body = [b"data: ", [b'x'; 4 << 20].as_slice(), b"\n\n"].concat();
    for piece in body.chunks(1460) {
        decoder.feed(piece, &mut out).unwrap();
    }
    assert_eq!(out[0].data.len(), 4 << 20, "a valid event of 4 MiB passes");
}

proptest! {
    #[test]
    fn splits_do_not_matter(
        lines in prop::collection::vec("(data: ?|event: |: |id:|x|\\{|\\})?[a-c:{}\" é😀]{0,6}(\n|\r|\r\n){0,2}", 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = lines.concat().into_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        at.extend([0, body.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &body[w[0]..w[1]]).collect();
        prop_assert_eq!(decode(&pieces), decode(&[&body]));
    }
}
