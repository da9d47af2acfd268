//! The inline grammar: what leaves is what came in, and cuts do not matter.
//! The first byte chooses the pieces' length, the rest is the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace::engine::xml_parser::{Segment, XmlParseState};

const CAP: usize = 4096;

/// Visible text, the spans of the calls, and how many blocks could not run.
fn run<'a>(pieces: impl Iterator<Item = &'a str>) -> (String, Vec<(u64, u64)>, u32) {
    let mut parser = XmlParseState::new(CAP);
    let mut segments = Vec::new();
    pieces.for_each(|piece| parser.feed(piece, &mut segments));
    parser.flush(&mut segments);
    let (mut visible, mut calls) = (String::new(), Vec::new());
    for segment in segments {
        match segment {
            Segment::Text(text) => visible.push_str(&text),
            Segment::Call(call) => calls.push((call.span.start, call.span.end)),
        }
    }
    (visible, calls, parser.parse_errors())
}

fuzz_target!(|data: &[u8]| {
    let Some((length, bytes)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let whole = run(std::iter::once(&*text));
    assert_eq!(whole.0, text);
    let step = usize::from(*length) + 1;
    let mut at = 0;
    let pieces = std::iter::from_fn(|| {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let piece = &rest[..rest.ceil_char_boundary(step)];
        at += piece.len();
        Some(piece)
    });
    assert_eq!(run(pieces), whole);
});
