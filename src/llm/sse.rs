//! Bytes of a response body to server-sent events, in two steps: bytes to lines, lines to events.
//! Pure. The result does not depend on how the bytes were cut, each byte is searched once, and what
//! is held of an unfinished line or event never exceeds [`MAX_EVENT_BYTES`].
//!
//! Beyond the standard, because real servers do it: a field named `error` counts as data of an event
//! named `error`; JSON that stands outside any field (a body that is no event stream at all, or a
//! bare line inside one) is an event; and the last event counts without its blank line.

use super::json_scan::{JsonScan, Scan};
use std::borrow::Cow;

/// Longest line and longest event, in bytes. Valid events of several MiB exist.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// A line's buffer above this is given back once the line is done.
const KEEP_CAPACITY: usize = 64 * 1024;

/// One event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if there was none.
    pub event: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// It may be no whole event: the body ended before it did, or it stood outside any field.
    /// Data that does not parse is then noise or a cut, not a broken protocol.
    pub doubtful: bool,
}

/// The stream is refused. The decoder is of no use after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("a line of the event stream is longer than {MAX_EVENT_BYTES} bytes")]
    LineTooLong,
    #[error("an event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
    EventTooLong,
}

#[derive(Debug, Default)]
pub struct SseDecoder {
    /// Bytes of the line that has not ended yet; already searched for its end.
    partial: Vec<u8>,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    /// The first line is behind us, and with it the place where a byte order mark may stand.
    begun: bool,
    events: Events,
}

impl SseDecoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, cut anywhere, and appends the events that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                return self.keep(bytes);
            };
            self.after_cr = bytes[end] == b'\r';
            if self.partial.is_empty() {
                if end > MAX_EVENT_BYTES {
                    return Err(SseError::LineTooLong);
                }
                self.line(&bytes[..end], out)?;
            } else {
                self.keep(&bytes[..end])?;
                self.partial_line(out)?;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The body has ended: what stands in an unfinished line or event is an event too.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if !self.partial.is_empty() {
            self.partial_line(out)?;
        }
        self.events.finish(out);
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.partial.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(SseError::LineTooLong);
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn partial_line(&mut self, out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut line = std::mem::take(&mut self.partial);
        self.line(&line, out)?;
        if line.capacity() <= KEEP_CAPACITY {
            line.clear();
            self.partial = line;
        }
        Ok(())
    }

    fn line(&mut self, mut line: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        // A character is never cut by a line end, so each line decodes on its own.
        match String::from_utf8_lossy(line) {
            Cow::Borrowed(line) => self.events.line(line, out),
            Cow::Owned(line) => self.events.line(&line, out),
        }
    }
}

/// The second step: lines to events.
#[derive(Debug, Default)]
struct Events {
    event: String,
    /// `None` until the first `data` line: an event without one is none.
    data: Option<String>,
    /// JSON outside any field that has begun and not closed.
    bare: Option<(String, JsonScan)>,
}

impl Events {
    fn line(&mut self, line: &str, out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if line.is_empty() {
            if self.bare.is_none() {
                self.dispatch(false, out);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            // A comment.
            "" => Ok(()),
            "data" => self.data(value, out),
            "event" => {
                self.end_bare(out);
                value.clone_into(&mut self.event);
                Ok(())
            }
            "error" => {
                "error".clone_into(&mut self.event);
                self.data(value, out)
            }
            "id" | "retry" => Ok(()),
            _ => self.bare_line(line, out),
        }
    }

    fn data(&mut self, value: &str, out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        self.end_bare(out);
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() >= MAX_EVENT_BYTES => return Err(SseError::EventTooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }

    /// A line that is no field: part of bare JSON, the beginning of it, or noise.
    fn bare_line(&mut self, line: &str, out: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if self.bare.is_none() {
            if !line.trim_start().starts_with(['{', '[']) {
                return Ok(());
            }
            self.dispatch(false, out);
            self.bare = Some((String::new(), JsonScan::default()));
        }
        let Some((text, scan)) = &mut self.bare else { return Ok(()) };
        if text.len() + line.len() >= MAX_EVENT_BYTES {
            return Err(SseError::EventTooLong);
        }
        text.push_str(line);
        text.push('\n');
        if scan.feed(line) != Scan::Open {
            self.end_bare(out);
        }
        Ok(())
    }

    fn end_bare(&mut self, out: &mut Vec<SseEvent>) {
        if let Some((data, _)) = self.bare.take() {
            out.push(SseEvent { event: String::new(), data, doubtful: true });
        }
    }

    fn dispatch(&mut self, doubtful: bool, out: &mut Vec<SseEvent>) {
        let event = std::mem::take(&mut self.event);
        if let Some(data) = self.data.take() {
            out.push(SseEvent { event, data, doubtful });
        }
    }

    fn finish(&mut self, out: &mut Vec<SseEvent>) {
        self.end_bare(out);
        self.dispatch(true, out);
    }
}

#[cfg(test)]
mod tests;
