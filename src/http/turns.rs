//! Turns after they have begun: look at one, follow its log, cancel it.

use super::body::{JsonBody, Path, QueryOf};
use super::caller::Caller;
use super::problem::Problem;
use super::sse;
use super::state::AppState;
use crate::message::Usage;
use crate::message::sources::Source;
use crate::storage::messages::{CallOutcome, StoredCall};
use crate::turns::log::Rewound;
use crate::turns::view::TurnView;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/turns/{turn}", get(view))
        .route("/api/v1/turns/{turn}/events", get(events))
        .route("/api/v1/turns/{turn}/cancel", post(cancel))
        .route("/api/v1/turns/{turn}/approve", post(approve))
}

fn id_of(segment: &str) -> Result<Uuid, Problem> {
    segment.parse().map_err(|_| Problem::not_found("turn", segment))
}

async fn view(
    State(app): State<AppState>,
    caller: Caller,
    Path(turn): Path<String>,
) -> Result<Json<TurnWire>, Problem> {
    Ok(Json(app.turns.view(id_of(&turn)?, caller.owner()).await?.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<usize>,
}

async fn events(
    State(app): State<AppState>,
    caller: Caller,
    Path(turn): Path<String>,
    QueryOf(query): QueryOf<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = match (headers.get("last-event-id"), query.after) {
        // A browser that reconnects sends what it has seen with the URL it began with.
        (Some(id), _) => id.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(|| {
            Problem::unprocessable(
                "invalid_header",
                "header `Last-Event-ID`: the number of the last frame that was read",
            )
        })?,
        (None, after) => after.unwrap_or(0),
    };
    let log = app.turns.log(id_of(&turn)?, caller.owner()).await?;
    let reader = log.reader(after).map_err(rewound)?;
    Ok(sse::response(reader, None, &caller))
}

/// The log ends before the frame that a reader says it has, or went on otherwise after a crash.
pub fn rewound(Rewound { last, text_bytes }: Rewound) -> Problem {
    let detail = "the server stopped before those frames were stored: drop what lies beyond `last`, resume from there";
    Problem::new(StatusCode::GONE, "log_rewound", detail).with("last", last).with("text_bytes", text_bytes)
}

async fn cancel(State(app): State<AppState>, caller: Caller, Path(turn): Path<String>) -> Result<StatusCode, Problem> {
    app.turns.cancel(id_of(&turn)?, caller.owner()).await?;
    Ok(StatusCode::ACCEPTED)
}

/// The user's word on a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    call_id: String,
    allow: bool,
}

async fn approve(
    State(app): State<AppState>,
    caller: Caller,
    Path(turn): Path<String>,
    JsonBody(word): JsonBody<Approve>,
) -> Result<StatusCode, Problem> {
    if app.turns.approve(id_of(&turn)?, caller.owner(), &word.call_id, word.allow).await? {
        return Ok(StatusCode::ACCEPTED);
    }
    let detail = format!("no call `{}` of this turn waits for an answer", word.call_id);
    Err(Problem::new(StatusCode::CONFLICT, "not_waiting", detail))
}

/// A turn as one object.
#[derive(Serialize)]
pub struct TurnWire {
    turn_id: Uuid,
    conversation_id: Uuid,
    text: String,
    tool_results: Vec<Value>,
    sources: Vec<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_reason: Option<String>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl From<TurnView> for TurnWire {
    fn from(turn: TurnView) -> Self {
        Self {
            turn_id: turn.turn_id,
            conversation_id: turn.conversation_id,
            text: turn.progress.text,
            tool_results: turn
                .progress
                .calls
                .iter()
                .filter(|call| call.outcome != CallOutcome::Running)
                .map(call)
                .collect(),
            sources: turn.progress.sources,
            finish: turn.finish,
            fallback_reason: turn.fallback_reason,
            usage: turn.usage,
            telemetry: turn.telemetry,
            error: turn.error,
        }
    }
}

/// A call as the frames gave it: `tool_start` and, once there is one, `tool_result` in one.
pub fn call(call: &StoredCall) -> Value {
    let mut value = json!({
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "round": call.round,
        "index": call.index,
        "duration_ms": call.duration_ms,
        "truncated": call.truncated,
    });
    match &call.outcome {
        CallOutcome::Running => {}
        CallOutcome::Ok { output } => {
            value["ok"] = true.into();
            value["output"] = output.as_str().into();
        }
        CallOutcome::Failed { error } => {
            value["ok"] = false.into();
            value["error"] = error.as_str().into();
        }
        CallOutcome::Rejected { reason, error } => {
            value["ok"] = false.into();
            value["rejected"] = true.into();
            value["reason"] = reason.as_str().into();
            value["error"] = error.as_str().into();
        }
    }
    if let Some((start, end)) = call.span {
        value["span"] = json!({"start": start, "end": end});
    }
    if let Some(ms) = call.ingest_ms {
        value["ingest_ms"] = ms.into();
    }
    if let Some(i) = &call.ingested {
        value["ingested"] = json!({
            "document_id": i.document_id, "chunks": i.chunks, "collection": i.collection, "scope": i.scope,
            "fresh": i.fresh,
        });
    }
    value
}
