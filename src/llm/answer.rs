//! One answer while it streams: a body's bytes in, [`StreamEvent`]s out. It reads only when it is
//! polled, so that no task or channel stands between the provider and the engine, and dropping it
//! drops the body, which closes the connection.
//!
//! Both waits are measured on raw bytes: what keeps a connection alive (comments, pings) counts.

use super::decode::{AnswerDecoder, WireDecoder};
use super::{LlmError, LlmErrorKind, StreamEvent, failure};
use crate::secret::Secret;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a whole answer waits for totals and the end mark, which some servers never send.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a finished answer waits for the end of its body: read to the end, the connection can be
/// used again, which saves the next round a handshake.
const END_TIMEOUT: Duration = Duration::from_millis(5);

/// The bytes of a body, or why no more come.
pub type Body = BoxStream<'static, Result<Bytes, String>>;

/// The answer while it streams.
pub struct Answer<W> {
    /// `None` once it has ended or does not matter any more.
    body: Option<Body>,
    decoder: AnswerDecoder<W>,
    /// Where the decoder writes; empty between polls.
    decoded: Vec<StreamEvent>,
    ready: VecDeque<StreamEvent>,
    /// Wakes at or before `due`: it is not moved with every read, only when it has fired.
    timer: Pin<Box<Sleep>>,
    /// When the next read must have come.
    due: Instant,
    /// A first byte was read.
    begun: bool,
    waits: Waits,
    upstream: Upstream,
}

/// How long an answer may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Until its first byte, counted from the request.
    pub first_byte: Duration,
    /// Between two reads after that.
    pub idle: Duration,
}

/// What errors may say of the other side, and what they must not.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// With the port, if it is not the usual one.
    pub host: String,
    pub key: Option<Secret>,
}

impl<W: WireDecoder> Stream for Answer<W> {
    type Item = StreamEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let this = self.get_mut();
        loop {
            // The last event waits a moment for the end of the body, see `END_TIMEOUT`.
            let last = this.decoder.has_ended() && this.ready.len() == 1;
            if let Some(event) = this.ready.pop_front_if(|_| !last || this.body.is_none()) {
                return Poll::Ready(Some(this.masked(event)));
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            match body.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => this.read(&bytes),
                Poll::Ready(Some(Err(error))) => {
                    let host = &this.upstream.host;
                    this.fail(LlmError::new(
                        LlmErrorKind::Interrupted,
                        format!("truncated: the connection to {host} broke: {error}"),
                    ));
                }
                Poll::Ready(None) => {
                    this.body = None;
                    this.decoder.finish(&mut this.decoded);
                }
                Poll::Pending => {
                    ready!(this.timer.as_mut().poll(cx));
                    if Instant::now() < this.due {
                        this.timer.as_mut().reset(this.due);
                    } else {
                        this.run_out();
                    }
                }
            }
            this.ready.extend(this.decoded.drain(..));
        }
    }
}

impl<W: WireDecoder> Answer<W> {
    /// `first_byte_by`: when the wait for the first byte ends.
    pub fn new(body: Body, wire: W, first_byte_by: Instant, waits: Waits, upstream: Upstream) -> Self {
        Self {
            body: Some(body),
            decoder: AnswerDecoder::new(wire),
            decoded: Vec::new(),
            ready: VecDeque::new(),
            timer: Box::pin(sleep_until(first_byte_by)),
            due: first_byte_by,
            begun: false,
            waits,
            upstream,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.decoder.has_ended() {
            return; // The due time stands: what is sent after the end earns no new wait.
        }
        self.begun = true;
        self.decoder.feed(bytes, &mut self.decoded);
        let wait = match (self.decoder.has_ended(), self.decoder.is_whole()) {
            (true, _) => END_TIMEOUT,
            (false, true) => self.waits.idle.min(REST_TIMEOUT),
            (false, false) => self.waits.idle,
        };
        self.due = Instant::now() + wait;
        if self.due < self.timer.deadline() {
            self.timer.as_mut().reset(self.due);
        }
    }

    /// Nothing came in time.
    fn run_out(&mut self) {
        let error = if self.begun {
            let limit = self.waits.idle.as_millis();
            LlmError::new(
                LlmErrorKind::Transport,
                format!("{} was silent for {limit} ms inside its answer (llm.idle_timeout_ms)", self.upstream.host),
            )
        } else {
            late(&self.upstream.host, self.waits.first_byte)
        };
        self.fail(error);
    }

    fn fail(&mut self, error: LlmError) {
        self.body = None;
        self.decoder.fail(error, &mut self.decoded);
    }

    fn masked(&self, event: StreamEvent) -> StreamEvent {
        match event {
            StreamEvent::Error(error) => StreamEvent::Error(mask(error, self.upstream.key.as_ref())),
            event => event,
        }
    }
}

/// Nothing came before the first byte's time was up.
pub fn late(host: &str, limit: Duration) -> LlmError {
    LlmError::new(
        LlmErrorKind::Transport,
        format!("{host} sent nothing within {} ms (llm.first_byte_timeout_ms)", limit.as_millis()),
    )
}

/// The error without the key.
pub fn mask(mut error: LlmError, key: Option<&Secret>) -> LlmError {
    error.message = failure::mask_key(&error.message, key.map(Secret::expose));
    error
}
