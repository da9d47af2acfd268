//! Event streams: never a panic, and the events do not depend on how the bytes were cut.
//! The first byte chooses the pieces' length, the rest is the body.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace::llm::sse::{SseDecoder, SseEvent};

fn run<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let (mut decoder, mut events) = (SseDecoder::new(), Vec::new());
    for piece in pieces {
        if decoder.feed(piece, &mut events).is_err() {
            return events;
        }
    }
    // An error says that the stream is refused; what came before it stands.
    drop(decoder.finish(&mut events));
    events
}

fuzz_target!(|data: &[u8]| {
    let Some((length, body)) = data.split_first() else { return };
    assert_eq!(run(body.chunks(usize::from(*length) + 1)), run(std::iter::once(body)));
});
