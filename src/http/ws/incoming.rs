//! What a client sends: turns are begun and cancelled here at once, what is to be written is asked of the other loop.

use super::super::body;
use super::super::caller::Caller;
use super::super::chat;
use super::super::problem::Problem;
use super::super::state::AppState;
use super::super::turns::rewound;
use super::outgoing::Request;
use super::{LAST_WORD, SILENCE, wire};
use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Until the client closes, is silent for too long, or the other loop has ended.
pub async fn read(
    app: AppState,
    caller: Caller,
    socket: Uuid,
    mut stream: SplitStream<WebSocket>,
    requests: mpsc::Sender<Request>,
) {
    while let Ok(Some(Ok(message))) = tokio::time::timeout(SILENCE, stream.next()).await {
        let request = match message {
            Message::Text(text) => Box::pin(answer(&app, &caller, socket, text.as_str())).await,
            Message::Binary(_) => {
                Some(refused(&Problem::unprocessable("invalid_message", "send text, not binary"), None))
            }
            Message::Close(_) => {
                // Reading on sends the answer that a close asks for.
                drop(tokio::time::timeout(LAST_WORD, stream.next()).await);
                return;
            }
            Message::Ping(_) | Message::Pong(_) => None,
        };
        if let Some(request) = request
            && requests.send(request).await.is_err()
        {
            return;
        }
    }
}

async fn answer(app: &AppState, caller: &Caller, socket: Uuid, text: &str) -> Option<Request> {
    let (head, fields) = match take_apart(text) {
        Ok(message) => message,
        Err(problem) => return Some(refused(&problem, None)),
    };
    let request_id = head.request_id;
    let done = match head.r#type.as_str() {
        "chat" => begin(app, caller, socket, fields, request_id.clone()).await.map(Some),
        "subscribe" => subscribe(app, caller, fields).await.map(Some),
        "cancel" => cancel(app, caller, fields).await.map(|()| None),
        "ping" => Ok(Some(Request::Reply("{\"type\":\"pong\"}".to_owned()))),
        other => {
            let detail = format!("field `type`: `{other}` is none of chat, subscribe, cancel, ping");
            Err(Problem::unprocessable("invalid_message", detail))
        }
    };
    done.unwrap_or_else(|problem| Some(refused(&problem, request_id.as_ref())))
}

fn refused(problem: &Problem, request_id: Option<&Value>) -> Request {
    Request::Reply(super::problem(problem, request_id))
}

/// The message's kind, and its fields without what only the socket needs.
fn take_apart(text: &str) -> Result<(wire::Head, Value), Problem> {
    let mut fields: Map<String, Value> = body::parse(text.as_bytes())?;
    let head = body::from_value(Value::Object(fields.clone()))?;
    fields.remove("type");
    fields.remove("request_id");
    Ok((head, Value::Object(fields)))
}

async fn begin(
    app: &AppState,
    caller: &Caller,
    socket: Uuid,
    fields: Value,
    request_id: Option<Value>,
) -> Result<Request, Problem> {
    let (turn, guard) = chat::begin(app, caller, body::from_value(fields)?, socket).await?;
    Ok(Request::Follow { turn_id: turn.turn_id, reader: turn.log.from_start(), request_id, guard })
}

async fn subscribe(app: &AppState, caller: &Caller, fields: Value) -> Result<Request, Problem> {
    let asked: wire::Subscribe = body::from_value(fields)?;
    match (asked.turn_id, asked.conversation_id) {
        (Some(turn_id), None) => {
            let log = app.turns.log(turn_id, caller.owner()).await?;
            let reader = log.reader(asked.after).map_err(rewound)?;
            Ok(Request::Follow { turn_id, reader, request_id: None, guard: None })
        }
        (None, Some(id)) => {
            super::super::conversations::load(app, caller.owner(), &id.to_string()).await?;
            Ok(Request::Conversation(id))
        }
        _ => Err(Problem::unprocessable("invalid_message", "subscribe to a `turn_id` or to a `conversation_id`")),
    }
}

async fn cancel(app: &AppState, caller: &Caller, fields: Value) -> Result<(), Problem> {
    let asked: wire::Cancel = body::from_value(fields)?;
    Ok(app.turns.cancel(asked.turn_id, caller.owner()).await?)
}
