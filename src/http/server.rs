//! The listening socket: one task per connection, TCP_NODELAY on each (a delta must not wait for the
//! peer's acknowledgement), a limit for request heads and for silence (neither a slow writer nor a slow reader may hold
//! a connection).

use super::guard::Peer;
use super::stall::{StallGuard, Stalling};
use crate::shutdown::Shutdown;
use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;
use tower_http::timeout::TimeoutBody;

/// Longest time for a request's head to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after a failed accept (out of file descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a request that are buffered before the handler reads them; also bounds its head.
const READ_BUFFER: usize = 64 * 1024;

/// Binds `address`; the error says what holds it where that is known.
///
/// # Errors
/// A sentence naming the address and `server.listen`.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another process: stop it, or choose another address with `server.listen`")
        }
        _ => format!("cannot listen on {address} (server.listen): {error}"),
    })
}

/// Bytes that the system holds of what a client has not been sent yet: one that takes nothing costs no more, and is
/// noticed. What is under way to the client is bounded by the client itself.
const UNSENT: u32 = 16 * 1024;

/// Serves until connections are to close. While the process stops, clients are still answered: new turns are refused
/// with a word, running ones can be followed to their end.
/// `stall`: how long a client may take nothing of what is there for it.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown, stall: Duration) {
    let closing = shutdown.closing();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let task = connection(stream, peer, router.clone(), shutdown.clone(), StallGuard::new(stall));
                drop(shutdown.spawn_connection(task));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, shutdown: Shutdown, stall: StallGuard) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
    }
    let tasks = shutdown.tracker();
    let stream = Stalling::new(stream, stall.clone());
    let service = tower::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(|body| axum::body::Body::new(TimeoutBody::new(stall.limit(), body)));
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(stall.clone());
        // A request that is being answered is waited for like a task; a stream that follows is not.
        let answering = tasks.token();
        let answer = router.clone().oneshot(request);
        async move {
            let answer = answer.await;
            drop(answering);
            answer
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    tokio::pin!(served);
    let closing = shutdown.closing();
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = closing.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
