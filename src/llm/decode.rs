//! Bytes of one answer to [`StreamEvent`]s: the SSE decoder, then a vendor's decoder. Pure; the
//! result does not depend on how the bytes were cut, and exactly one terminal event comes out,
//! whatever the vendor's decoder or the wire does.

use super::sse::{SseDecoder, SseEvent};
use super::{LlmError, LlmErrorKind, Stop, StreamEvent, one_line};
use serde_json::{Map, Value};

/// The third step: one vendor's events.
pub trait WireDecoder: Send + Unpin + 'static {
    /// Appends what the event says. A terminal event must be the last that is appended.
    fn event(&mut self, event: SseEvent, out: &mut Vec<StreamEvent>);
    /// The body has ended and nothing terminal was said: appends the terminal event, `Done` if the
    /// answer is whole.
    fn finish(&mut self, out: &mut Vec<StreamEvent>);
    /// A finish reason was seen: the answer is whole, only totals or the end mark may still come.
    fn is_whole(&self) -> bool;
}

/// Text, arguments and blocks that a vendor's decoder may keep of one answer, in bytes.
pub const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;
/// Tool calls and content blocks that one answer may have.
pub const MAX_CALLS: usize = 1024;
/// A wire index above this is not used as a call's label.
pub const MAX_LABEL: i64 = 9_999;

/// What the error says when an answer goes beyond these.
pub fn too_long() -> LlmError {
    LlmError::new(LlmErrorKind::Decode, "the answer is longer than what is accepted of a provider")
}

/// What the error says when the body ended too early.
pub fn truncated() -> LlmError {
    LlmError::new(LlmErrorKind::Interrupted, "truncated: the stream ended before the answer did")
}

/// Why a call with these arguments cannot run. None at all are an empty object, unless the answer
/// was cut by its length: then they were still to come.
pub fn why_refused(arguments: &str, stop: Stop) -> Option<String> {
    if arguments.trim().is_empty() {
        return (stop == Stop::Length).then(|| "are missing: the answer was cut by its length".to_owned());
    }
    let error = serde_json::from_str::<Map<String, Value>>(arguments).err()?;
    // A syntax error names a place; a type error would quote the value.
    let place = if error.is_data() { String::new() } else { format!(": {error}") };
    let cut = if stop == Stop::Length { " (the answer was cut by its length)" } else { "" };
    Some(format!("are no JSON object{place}{cut}"))
}

/// One sentence for all calls of an answer that are refused; each entry says which and why.
pub fn refuse(refused: &[String]) -> Option<String> {
    (!refused.is_empty()).then(|| one_line(&format!("arguments {}", refused.join("; "))))
}

#[derive(Debug)]
pub struct AnswerDecoder<W> {
    sse: SseDecoder,
    wire: W,
    events: Vec<SseEvent>,
    ended: bool,
}

impl<W: WireDecoder> AnswerDecoder<W> {
    pub fn new(wire: W) -> Self {
        Self { sse: SseDecoder::new(), wire, events: Vec::new(), ended: false }
    }

    /// A terminal event came out: the rest of the body does not matter.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// See [`WireDecoder::is_whole`].
    pub fn is_whole(&self) -> bool {
        self.wire.is_whole()
    }

    /// Takes the next bytes of the body, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) {
        if self.ended {
            return;
        }
        let fed = self.sse.feed(bytes, &mut self.events);
        self.decode(out);
        if let (Err(error), false) = (fed, self.ended) {
            self.end(StreamEvent::Error(LlmError::new(LlmErrorKind::Decode, error.to_string())), out);
        }
    }

    /// The body has ended.
    pub fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        self.flush(out);
        if !self.ended {
            self.wire.finish(out);
            self.ended = true;
        }
    }

    /// The body broke off. An answer that was whole before is not spoilt by that.
    pub fn fail(&mut self, error: LlmError, out: &mut Vec<StreamEvent>) {
        self.flush(out);
        if self.ended {
            return;
        }
        if self.wire.is_whole() {
            self.finish(out);
        } else {
            self.end(StreamEvent::Error(error), out);
        }
    }

    fn flush(&mut self, out: &mut Vec<StreamEvent>) {
        if self.ended {
            return;
        }
        let flushed = self.sse.finish(&mut self.events);
        self.decode(out);
        if let (Err(error), false) = (flushed, self.ended) {
            self.end(StreamEvent::Error(LlmError::new(LlmErrorKind::Decode, error.to_string())), out);
        }
    }

    fn decode(&mut self, out: &mut Vec<StreamEvent>) {
        for event in self.events.drain(..) {
            if self.ended {
                return;
            }
            let before = out.len();
            self.wire.event(event, out);
            self.ended = out[before..].last().is_some_and(is_terminal);
        }
    }

    fn end(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        out.push(event);
        self.ended = true;
    }
}

fn is_terminal(event: &StreamEvent) -> bool {
    matches!(event, StreamEvent::Done(_) | StreamEvent::Error(_))
}

#[cfg(test)]
mod tests;
