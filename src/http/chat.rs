//! `POST /api/v1/chat`: one turn, streamed as SSE or answered as one object.

use super::body::{HashedJson, Object};
use super::caller::Caller;
use super::problem::Problem;
use super::sse;
use super::state::AppState;
use super::turns::TurnWire;
use crate::engine::event::{Finish, ToolMode};
use crate::llm::ReasoningEffort;
use crate::storage::turns::Idempotency;
use crate::turns::fold::Ended;
use crate::turns::view::TurnView;
use crate::turns::{Live, Retrieval, StartError, Started, TurnInput};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// Longest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Longest `Idempotency-Key`, in bytes.
const MAX_IDEMPOTENCY_KEY: usize = 255;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/chat", post(chat))
}

/// The request body of API.md section 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatRequest {
    message: String,
    conversation_id: Option<Uuid>,
    replace_message_id: Option<Uuid>,
    collection: Option<OneOrMany>,
    provider: Option<String>,
    model: Option<String>,
    #[serde(default)]
    tool_mode: ToolModeWire,
    tools: Option<Vec<String>>,
    #[serde(default)]
    retrieval: RetrievalWire,
    reasoning_effort: Option<EffortWire>,
    #[serde(default)]
    limits: Object<LimitsWire>,
    #[serde(default)]
    on_disconnect: OnDisconnect,
    #[serde(default = "yes")]
    stream: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a collection's name or a list of names")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Default, Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum ToolModeWire {
    #[default]
    Auto,
    Inline,
    Native,
    Off,
}

#[derive(Debug, Default, Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum RetrievalWire {
    #[default]
    Auto,
    Tool,
    Required,
    Off,
}

#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum EffortWire {
    Low,
    Medium,
    High,
}

#[derive(Debug, Default, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum OnDisconnect {
    #[default]
    Continue,
    Cancel,
}

impl OnDisconnect {
    /// Made before the turn begins: a client may leave in between.
    fn guard(self, input: &TurnInput) -> Option<DropGuard> {
        (self == Self::Cancel).then(|| input.cancel.clone().drop_guard())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsWire {
    max_continuations: Option<u32>,
    max_tools_per_round: Option<u32>,
    max_tools_total: Option<u32>,
    tool_timeout_ms: Option<u64>,
}

async fn chat(
    State(app): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    HashedJson { value: request, hash }: HashedJson<ChatRequest>,
) -> Result<Response, Problem> {
    let (stream, on_disconnect) = (request.stream, request.on_disconnect);
    let mut input = check(&app, &caller, request).await?;
    input.idempotency = idempotency_key(&headers)?.map(|key| Idempotency { key, body_hash: hash });
    let guard = on_disconnect.guard(&input);
    let turn = match app.turns.start(input).await? {
        Started::New(turn) => turn,
        Started::Known { turn_id, same_body } => return known(&app, &caller, turn_id, same_body, stream).await,
    };
    if !stream {
        return whole(&turn, guard, &caller).await;
    }
    Ok(sse::response(turn.log.from_start(), guard, &caller))
}

/// The same for a socket: the turn, and what cancels it with the socket.
pub async fn begin(
    app: &AppState,
    caller: &Caller,
    request: ChatRequest,
    socket: Uuid,
) -> Result<(Arc<Live>, Option<DropGuard>), Problem> {
    let on_disconnect = request.on_disconnect;
    let input = TurnInput { asked_by: Some(socket), ..check(app, caller, request).await? };
    let guard = on_disconnect.guard(&input);
    match app.turns.start(input).await? {
        Started::New(turn) => Ok((turn, guard)),
        Started::Known { .. } => Err(Problem::internal(&"a turn without an idempotency key was known")),
    }
}

/// 1 to 255 visible bytes.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let detail = format!("header `Idempotency-Key`: 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters");
            Err(Problem::unprocessable("invalid_header", detail))
        }
    }
}

/// The same request again: the same turn, once it has ended.
async fn known(
    app: &AppState,
    caller: &Caller,
    turn_id: Uuid,
    same_body: bool,
    stream: bool,
) -> Result<Response, Problem> {
    if !same_body {
        let detail = "header `Idempotency-Key`: this key was used for another request within the last 24 hours";
        return Err(Problem::unprocessable("idempotency_key_reused", detail));
    }
    if app.turns.live().get(turn_id).is_some() {
        let detail = "this request is being answered: follow it with `GET /api/v1/turns/{id}/events`";
        return Err(Problem::new(StatusCode::CONFLICT, "turn_running", detail).with("turn_id", turn_id.to_string()));
    }
    if stream {
        let log = app.turns.log(turn_id, caller.owner()).await?;
        return Ok(sse::response(log.from_start(), None, caller));
    }
    Ok(Json(TurnWire::from(app.turns.view(turn_id, caller.owner()).await?)).into_response())
}

async fn check(app: &AppState, caller: &Caller, request: ChatRequest) -> Result<TurnInput, Problem> {
    let bytes = request.message.len();
    if request.message.trim().is_empty() {
        return Err(Problem::unprocessable("invalid_field", "field `message`: it must not be empty"));
    }
    if bytes > MAX_MESSAGE_BYTES {
        let detail = format!("field `message`: {bytes} bytes, at most {MAX_MESSAGE_BYTES} are taken");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "message_too_long", detail));
    }
    if request.replace_message_id.is_some() && request.conversation_id.is_none() {
        let detail = "field `replace_message_id`: it needs the `conversation_id` that the message is in";
        return Err(Problem::unprocessable("invalid_field", detail));
    }
    let collections = match request.collection {
        None => vec![crate::knowledge::base::DEFAULT_COLLECTION.to_owned()],
        Some(OneOrMany::One(name)) => vec![name],
        Some(OneOrMany::Many(names)) if names.is_empty() => {
            return Err(Problem::unprocessable("invalid_field", "field `collection`: name at least one"));
        }
        Some(OneOrMany::Many(names)) => names,
    };
    for name in &collections {
        caller.may_use(name)?;
        app.collection(name).await?;
    }
    let effort = request.reasoning_effort.map(|e| match e {
        EffortWire::Low => ReasoningEffort::Low,
        EffortWire::Medium => ReasoningEffort::Medium,
        EffortWire::High => ReasoningEffort::High,
    });
    let provider = app.provider(request.provider.as_deref(), request.model.as_deref(), effort)?;
    let mode = match request.tool_mode {
        ToolModeWire::Inline => ToolMode::Inline,
        ToolModeWire::Off => ToolMode::Off,
        ToolModeWire::Auto if provider.supports_tools() => ToolMode::Native,
        ToolModeWire::Auto => ToolMode::Inline,
        ToolModeWire::Native if provider.supports_tools() => ToolMode::Native,
        ToolModeWire::Native => {
            let detail =
                format!("field `tool_mode`: provider `{}` has no native tool calls, use `inline`", provider.id());
            return Err(Problem::unprocessable("tool_mode_unsupported", detail));
        }
    };
    let tools = tools(app, request.tools)?;
    let (limits, tool_timeout) = request.limits.0.lower(app)?;
    Ok(TurnInput {
        message: request.message,
        conversation_id: request.conversation_id,
        replace_message_id: request.replace_message_id,
        collections,
        provider,
        mode,
        tools,
        retrieval: match request.retrieval {
            RetrievalWire::Auto => Retrieval::Auto,
            RetrievalWire::Tool => Retrieval::Tool,
            RetrievalWire::Required => Retrieval::Required,
            RetrievalWire::Off => Retrieval::Off,
        },
        limits,
        tool_timeout,
        owner: caller.key_id().map(str::to_owned),
        idempotency: None,
        asked_by: None,
        cancel: CancellationToken::new(),
    })
}

fn tools(app: &AppState, asked: Option<Vec<String>>) -> Result<Vec<String>, Problem> {
    let registered: Vec<String> = app.turns.engine().tools().iter().map(|tool| tool.name.clone()).collect();
    let Some(asked) = asked else { return Ok(registered) };
    match asked.iter().find(|name| !registered.contains(name)) {
        None => Ok(asked),
        Some(unknown) => {
            let detail = format!("field `tools`: there is no tool `{unknown}`; there are: {}", registered.join(", "));
            Err(Problem::unprocessable("unknown_tool", detail))
        }
    }
}

impl LimitsWire {
    /// The engine's limits, lowered as asked.
    fn lower(&self, app: &AppState) -> Result<(crate::engine::budget::Limits, Duration), Problem> {
        let config = app.turns.engine().config();
        let mut limits = config.limits;
        for (name, asked, limit) in [
            ("max_continuations", self.max_continuations, &mut limits.max_continuations),
            ("max_tools_per_round", self.max_tools_per_round, &mut limits.max_tools_per_round),
            ("max_tools_total", self.max_tools_total, &mut limits.max_tools_total),
        ] {
            let Some(asked) = asked else { continue };
            if asked > *limit {
                return Err(above(name, u64::from(asked), u64::from(*limit)));
            }
            *limit = asked;
        }
        let most = u64::try_from(config.tool_timeout.as_millis()).unwrap_or(u64::MAX);
        let timeout = self.tool_timeout_ms.unwrap_or(most);
        if timeout > most {
            return Err(above("tool_timeout_ms", timeout, most));
        }
        Ok((limits, Duration::from_millis(timeout)))
    }
}

fn above(name: &str, asked: u64, limit: u64) -> Problem {
    let detail = format!("field `limits.{name}`: {asked} is above the server's limit of {limit} (engine.{name})");
    Problem::unprocessable("limit_above_server", detail)
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Stopping => Problem::unavailable("stopping", "the server is stopping: try again soon"),
            StartError::Storage(error) => error.into(),
        }
    }
}

/// Waits for the end and answers with the whole.
async fn whole(turn: &Live, guard: Option<DropGuard>, caller: &Caller) -> Result<Response, Problem> {
    let mut reader = turn.log.from_start();
    let gone = caller.gone();
    while let Some(more) = gone.run_until_cancelled(reader.next()).await {
        if more.is_none() {
            break;
        }
    }
    if gone.is_cancelled() {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this key has been revoked or has expired"));
    }
    disarm(guard);
    let fold = turn.log.fold();
    if let (Some(Ended { finish: Finish::ProviderError, .. }), false, Some(error)) = (fold.end, fold.spoke, &fold.error)
    {
        return Err(Problem::new(StatusCode::BAD_GATEWAY, error.code, error.message.clone())
            .with("turn_id", turn.turn_id.to_string())
            .with("conversation_id", turn.conversation_id.to_string())
            .with("retryable", error.retryable));
    }
    Ok(Json(TurnWire::from(TurnView::folded(turn, fold))).into_response())
}

fn disarm(guard: Option<DropGuard>) {
    if let Some(guard) = guard {
        let _: CancellationToken = guard.disarm();
    }
}
