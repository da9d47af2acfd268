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
/// Longest first message where keys are configured, what may be sent with it (frame heads, pings), and how long it may
/// take.
const MAX_AUTH: usize = 4 * 1024;
const MAX_AUTH_SENT: usize = MAX_AUTH + 1024;
const AUTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two pings.
const PING: Duration = Duration::from_secs(20);
/// How long the last message before the end may take.
const LAST_WORD: Duration = Duration::from_secs(1);
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
    let limit = stall.let_off();
    let needs_key = app.keys.any() && caller.is_anyone();
    if needs_key {
        stall.may_send(Some(MAX_AUTH_SENT));
    }
    let open = app.shutdown.connection();
    request
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |mut socket| async move {
            let caller = match admitted(&app, caller, needs_key, &mut socket).await {
                Ok(caller) => caller,
                Err(why) => return close(&mut socket, code::UNAUTHORIZED, why).await,
            };
            stall.may_send(None);
            serve(app, caller, socket, limit).await;
            drop(open);
        })
}

/// Who is there; where keys are configured, the first message may say so.
async fn admitted(
    app: &AppState,
    caller: Caller,
    needs_key: bool,
    socket: &mut WebSocket,
) -> Result<Caller, &'static str> {
    if !needs_key {
        return Ok(caller);
    }
    match tokio::time::timeout(AUTH_TIMEOUT, authenticated(app, socket)).await {
        Ok(Ok(caller)) => Ok(caller),
        Ok(Err(())) => Err("this key is not known, or may not chat"),
        Err(_) => Err("no `auth` message came in time"),
    }
}

/// Until either side closes, or the key is gone.
async fn serve(app: AppState, caller: Caller, socket: WebSocket, stall: Duration) {
    let (sink, stream) = socket.split();
    let (requests, asked) = mpsc::channel(REQUESTS);
    let gone = caller.gone();
    let id = Uuid::now_v7();
    let reading = incoming::read(app.clone(), caller.clone(), id, stream, requests);
    let writing = outgoing::write(app, caller, id, sink, asked, stall);
    tokio::select! {
        () = reading => {}
        () = writing => {}
        // The writing loop says so; one that cannot is not waited for.
        () = async { gone.cancelled().await; tokio::time::sleep(LAST_WORD).await } => {}
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
    drop(tokio::time::timeout(LAST_WORD, socket.send(frame)).await);
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
