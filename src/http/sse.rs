//! A turn's log as `text/event-stream`: whatever is there in one piece, a comment in silence, `[DONE]` at the end.

use super::caller::Caller;
use super::frame;
use crate::turns::log::LogReader;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::DropGuard;

/// Silence after which a comment line is sent.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Follows the log to its end. `guard` is dropped with the response: what a reader that goes away takes with it.
/// It also ends, without `[DONE]`, when the caller's key does.
pub fn response(reader: LogReader, guard: Option<DropGuard>, caller: &Caller) -> Response {
    let state = Some(Following { reader, silence: Box::pin(sleep(KEEP_ALIVE)), spoke: Instant::now(), _guard: guard });
    let frames = futures_util::stream::unfold(state, |state| async move {
        let mut following = state?;
        let (bytes, open) = following.next().await;
        Some((Ok::<Bytes, Infallible>(bytes), open.then_some(following)))
    });
    let frames = frames.take_until(caller.gone().cancelled_owned());
    headers(Body::from_stream(frames).into_response())
}

/// What every event stream says of itself.
pub fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Following {
    reader: LogReader,
    /// Wakes at or before the time a comment is due: it is not moved with every frame, only when it has fired.
    silence: Pin<Box<Sleep>>,
    spoke: Instant,
    _guard: Option<DropGuard>,
}

impl Following {
    /// What to send next, and whether more follows.
    async fn next(&mut self) -> (Bytes, bool) {
        loop {
            tokio::select! {
                biased;
                batch = self.reader.next() => {
                    self.spoke = Instant::now();
                    return batch.map_or((frame::DONE, false), |frames| (joined(frames), true));
                }
                () = self.silence.as_mut() => {
                    let due = self.spoke + KEEP_ALIVE;
                    if due <= Instant::now() {
                        self.spoke = Instant::now();
                        self.silence.as_mut().reset(self.spoke + KEEP_ALIVE);
                        return (frame::KEEP_ALIVE, true);
                    }
                    self.silence.as_mut().reset(due);
                }
            }
        }
    }
}

fn joined(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.remove(0);
    }
    let mut joined = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    frames.iter().for_each(|frame| joined.extend_from_slice(frame));
    joined.freeze()
}
