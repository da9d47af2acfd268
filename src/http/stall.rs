//! A connection whose client takes nothing for too long is broken off: its response ends where it is, and its memory
//! is free. (A socket that was upgraded has its own rule, which says goodbye.)

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a connection may take nothing, and whether that rule holds; what it may send. In the request's extensions.
#[derive(Clone, Debug)]
pub struct StallGuard {
    /// `server.stall_timeout_ms`: longest time without any progress while something is to be written.
    limit: Duration,
    let_off: Arc<AtomicBool>,
    /// Bytes that may still be read.
    may_send: Arc<AtomicUsize>,
}

impl StallGuard {
    pub fn new(limit: Duration) -> Self {
        Self { limit, let_off: Arc::default(), may_send: Arc::new(AtomicUsize::new(usize::MAX)) }
    }

    /// Longest time without any progress.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// From now on the client may send so many bytes; after them its connection breaks. `None`: any number.
    pub fn may_send(&self, bytes: Option<usize>) {
        self.may_send.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// An upgraded connection keeps the rule itself, with the limit that this returns.
    pub fn let_off(&self) -> Duration {
        self.let_off.store(true, Ordering::Relaxed);
        self.limit
    }
}

/// Reads and writes of `inner`, the latter with an end.
#[derive(Debug)]
pub struct Stalling<T> {
    inner: T,
    guard: StallGuard,
    /// Since when nothing could be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> Stalling<T> {
    pub fn new(inner: T, guard: StallGuard) -> Self {
        Self { inner, guard, stalled: None }
    }

    fn judge<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.guard.limit;
        let wait = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(wait.as_mut().poll(cx));
        if self.guard.let_off.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalling<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        let left = self.guard.may_send.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Poll::Ready(Ok(()));
        }
        // Somebody else may lift the limit meanwhile: then it stays lifted.
        let less = left.saturating_sub(read);
        let _: Result<_, _> = self.guard.may_send.compare_exchange(left, less, Ordering::Relaxed, Ordering::Relaxed);
        if read > left {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the client sends more than it may")));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalling<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    const STALL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_and_a_slow_one_is_not() {
        let (near, mut far) = duplex(4);
        let mut stream = Stalling::new(near, StallGuard::new(STALL));
        let slow = async {
            let mut taken = [0; 8];
            for byte in &mut taken {
                sleep(STALL - Duration::from_secs(1)).await;
                *byte = far.read_u8().await.unwrap();
            }
            taken
        };
        let (written, taken) = tokio::join!(stream.write_all(b"slow but"), slow);
        assert!(written.is_ok() && &taken == b"slow but");
        stream.write_all(b"full").await.unwrap();
        let began = Instant::now();
        assert_eq!(stream.write_all(b"!").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((STALL..STALL + Duration::from_secs(1)).contains(&began.elapsed()));
    }

    #[tokio::test]
    async fn a_client_may_send_as_much_as_it_may() {
        let (near, mut far) = duplex(64);
        let guard = StallGuard::new(STALL);
        let mut stream = Stalling::new(near, guard.clone());
        far.write_all(b"any number").await.unwrap();
        stream.read_exact(&mut [0; 10]).await.unwrap();
        guard.may_send(Some(4));
        far.write_all(b"four").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        guard.may_send(None);
        far.write_all(b"any number").await.unwrap();
        stream.read_exact(&mut [0; 10]).await.unwrap();
        guard.may_send(Some(4));
        far.write_all(b"fiver").await.unwrap();
        assert_eq!(stream.read(&mut [0; 10]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test(start_paused = true)]
    async fn an_upgraded_connection_has_its_own_rule() {
        let (near, _far) = duplex(1);
        let guard = StallGuard::new(STALL);
        let mut stream = Stalling::new(near, guard.clone());
        guard.let_off();
        stream.write_all(b"1").await.unwrap();
        assert!(tokio::time::timeout(STALL * 3, stream.write_all(b"2")).await.is_err());
    }
}
