//! `GET /api/v1/ws`: one socket for any number of turns. What arrives is read by one loop, what leaves is written by
//! another; between them a short bounded channel, and towards the turns only cursors over their logs.

mod incoming;
mod outgoing;
mod wire;

#[cfg(test)]
mod frame_files;

use super::caller::Caller;
use super::problem::Problem;
use super::stall::StallGuard;
use super::state::AppState;
use crate::keys::Scope;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Bytes of a socket's read buffer, and of what is collected before it is written.
const BUFFER: usize = 4 * 1024;
/// Longest message of a client: the longest chat message with every byte escaped, and its other fields.
const MAX_MESSAGE: usize = 6 * super::chat::MAX_MESSAGE_BYTES + 64 * 1024;
/// Longest first message where keys are configured, and how long it may take.
const MAX_AUTH: usize = 4 * 1024;
const AUTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two pings.
const PING: Duration = Duration::from_secs(20);
/// A client that sends nothing for so long, not even answers to pings, is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// What the reading loop has asked of the writing one and that is not written yet.
const REQUESTS: usize = 8;

/// Close codes of our own, from the range that applications may use.
mod code {
    pub const GOING_AWAY: u16 = 1001;
    pub const UNAUTHORIZED: u16 = 4401;
    pub const SLOW_READER: u16 = 4408;
}

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/ws", get(upgrade))
}

async fn upgrade(
    State(app): State<AppState>,
    Extension(stall): Extension<StallGuard>,
    caller: Caller,
    request: WebSocketUpgrade,
) -> Response {
    let stall = stall.let_off();
    let open = app.shutdown.connection();
    request
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| async move {
            serve(app, caller, socket, stall).await;
            drop(open);
        })
}

/// Until either side closes, or the key is gone.
async fn serve(app: AppState, caller: Caller, mut socket: WebSocket, stall: Duration) {
    let caller = if app.keys.any() && caller.is_anyone() {
        match tokio::time::timeout(AUTH_TIMEOUT, authenticated(&app, &mut socket)).await {
            Ok(Ok(caller)) => caller,
            refused => {
                let why = refused
                    .err()
                    .map_or("this key is not known, or may not chat", |_| "no `auth` message came in time");
                return close(&mut socket, code::UNAUTHORIZED, why).await;
            }
        }
    } else {
        caller
    };
    let (sink, stream) = socket.split();
    let (requests, asked) = mpsc::channel(REQUESTS);
    let gone = caller.gone();
    let id = Uuid::now_v7();
    let reading = incoming::read(app.clone(), caller.clone(), id, stream, requests);
    let writing = outgoing::write(app, caller, id, sink, asked, stall);
    tokio::select! {
        () = reading => {}
        () = writing => {}
        () = gone.cancelled() => {}
    }
}

/// Where keys are configured, the first message carries one.
async fn authenticated(app: &AppState, socket: &mut WebSocket) -> Result<Caller, ()> {
    let Some(Ok(Message::Text(text))) = socket.recv().await else { return Err(()) };
    if text.len() > MAX_AUTH {
        return Err(());
    }
    let Ok(wire::Auth::Auth { key }) = serde_json::from_str(&text) else { return Err(()) };
    app.keys.find(&key).filter(|found| found.may(Scope::Chat)).map(Caller::of).ok_or(())
}

async fn close(socket: &mut WebSocket, code: u16, reason: &str) {
    let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    // A client that is gone does not hear it.
    drop(tokio::time::timeout(Duration::from_secs(1), socket.send(frame)).await);
}

/// A message that is refused.
fn problem(problem: &Problem, request_id: Option<&serde_json::Value>) -> String {
    let mut document = problem.to_value();
    document["type"] = "problem".into();
    if let Some(id) = request_id {
        document["request_id"] = id.clone();
    }
    document.to_string()
}
