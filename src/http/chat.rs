//! `POST /api/v1/chat`: one turn, streamed as SSE or answered as one object.

use super::body::JsonBody;
use super::frame::{self, ErrorWire, ToolResultWire};
use super::problem::Problem;
use super::state::AppState;
use crate::engine::event::{Finish, RunnerEvent, Telemetry, ToolMode};
use crate::llm::ReasoningEffort;
use crate::message::Usage;
use crate::message::sources::Source;
use crate::turns::log::LogReader;
use crate::turns::record::Fold;
use crate::turns::{Retrieval, RunningTurn, StartError, TurnInput};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// Longest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Silence after which a comment line is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

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
    limits: LimitsWire,
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsWire {
    max_continuations: Option<u32>,
    max_tools_per_round: Option<u32>,
    max_tools_total: Option<u32>,
    tool_timeout_ms: Option<u64>,
}

async fn chat(State(app): State<AppState>, JsonBody(request): JsonBody<ChatRequest>) -> Result<Response, Problem> {
    let (stream, on_disconnect) = (request.stream, request.on_disconnect);
    let input = check(&app, request).await?;
    let turn = app.turns.start(input).await?;
    if stream {
        let guard = (on_disconnect == OnDisconnect::Cancel).then(|| turn.cancel.clone().drop_guard());
        Ok(event_stream(&turn, guard))
    } else {
        let guard = (on_disconnect == OnDisconnect::Cancel).then(|| turn.cancel.clone().drop_guard());
        whole(turn, guard).await
    }
}

async fn check(app: &AppState, request: ChatRequest) -> Result<TurnInput, Problem> {
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
    let (limits, tool_timeout) = request.limits.lower(app)?;
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
        owner: None,
    })
}

fn tools(app: &AppState, asked: Option<Vec<String>>) -> Result<Vec<String>, Problem> {
    let registered: Vec<String> = app.turns.engine().tools().names().map(str::to_owned).collect();
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

/// The turn's log from its first frame, as an SSE response.
fn event_stream(turn: &RunningTurn, guard: Option<DropGuard>) -> Response {
    let state = Some((turn.log.reader(0), guard));
    let frames = futures_util::stream::unfold(state, |state| async move {
        let (mut reader, guard) = state?;
        let (bytes, open) = next_bytes(&mut reader).await;
        Some((Ok::<Bytes, Infallible>(bytes), open.then_some((reader, guard))))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What to send next, and whether more follows.
async fn next_bytes(reader: &mut LogReader) -> (Bytes, bool) {
    match tokio::time::timeout(KEEP_ALIVE, reader.next()).await {
        Err(_) => (frame::KEEP_ALIVE, true),
        Ok(None) => (frame::DONE, false),
        Ok(Some(mut entries)) if entries.len() == 1 => (entries.remove(0).frame, true),
        Ok(Some(entries)) => {
            let mut joined = BytesMut::with_capacity(entries.iter().map(|e| e.frame.len()).sum());
            entries.iter().for_each(|e| joined.extend_from_slice(&e.frame));
            (joined.freeze(), true)
        }
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    turn_id: Uuid,
    conversation_id: Uuid,
    text: &'a str,
    tool_results: Vec<ToolResultWire<'a>>,
    sources: &'a [Source],
    finish: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_reason: Option<&'static str>,
    usage: Usage,
    telemetry: Telemetry,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorWire<'a>>,
}

async fn whole(turn: RunningTurn, guard: Option<DropGuard>) -> Result<Response, Problem> {
    let mut reader = turn.log.reader(0);
    let mut fold = Fold::default();
    let (mut streaming, mut spoke) = (false, false);
    let mut end = None;
    while let Some(entries) = reader.next().await {
        for entry in entries {
            match &*entry.event {
                RunnerEvent::Round { .. } => streaming = true,
                RunnerEvent::RoundEnd { .. } => streaming = false,
                // The error text of a turn without any comes after its round, not from the model.
                RunnerEvent::Delta(_) => spoke |= streaming,
                RunnerEvent::TurnEnd { finish, fallback_reason, usage, telemetry } => {
                    end = Some((*finish, *fallback_reason, *usage, *telemetry));
                }
                _ => {}
            }
            fold.apply(&entry.event);
        }
    }
    disarm(guard);
    let (finish, fallback_reason, usage, telemetry) =
        end.ok_or_else(|| Problem::internal(&"a turn's log was closed without its end"))?;
    if let (Finish::ProviderError, false, Some(error)) = (finish, spoke, &fold.error) {
        return Err(Problem::new(StatusCode::BAD_GATEWAY, error.code, error.message.clone())
            .with("turn_id", turn.turn_id.to_string())
            .with("conversation_id", turn.conversation_id.to_string())
            .with("retryable", error.retryable));
    }
    let whole = Whole {
        turn_id: turn.turn_id,
        conversation_id: turn.conversation_id,
        text: &fold.progress.text,
        tool_results: fold.settled.iter().map(Into::into).collect(),
        sources: &fold.progress.sources,
        finish: finish.as_str(),
        fallback_reason,
        usage,
        telemetry,
        error: fold.error.as_ref().map(|e| ErrorWire {
            code: e.code,
            message: &e.message,
            retryable: e.retryable,
            retry_after_ms: e.retry_after_ms,
        }),
    };
    Ok(Json(whole).into_response())
}

fn disarm(guard: Option<DropGuard>) {
    if let Some(guard) = guard {
        let _: CancellationToken = guard.disarm();
    }
}
