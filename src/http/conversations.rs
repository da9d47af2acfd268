//! Conversations: list and find, rename, delete, and their messages.

use super::body::{self, JsonBody, Path, QueryOf};
use super::caller::Caller;
use super::problem::Problem;
use super::state::AppState;
use crate::message::Usage;
use crate::message::sources::Source;
use crate::storage::conversations::{Conversation, ListCursor, ListQuery};
use crate::storage::messages::{MessageStatus, StoredMessage, StoredRole};
use crate::storage::{conversations, messages};
use crate::turns::Owner;
use crate::turns::history::invented;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use uuid::Uuid;

const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
const MAX_TITLE_CHARS: usize = 200;

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/conversations", get(list))
        .route("/api/v1/conversations/{conversation}", get(find).patch(rename).delete(delete))
        .route("/api/v1/conversations/{conversation}/messages", get(list_messages))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    /// Words to find in titles and messages.
    q: Option<String>,
    /// At most 200.
    limit: Option<u32>,
    /// `next` of the page before.
    after: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ConversationWire {
    id: Uuid,
    title: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    messages: u64,
}

impl From<Conversation> for ConversationWire {
    fn from(c: Conversation) -> Self {
        Self { id: c.id, title: c.title, created_at: c.created, updated_at: c.updated, messages: c.messages }
    }
}

async fn list(
    State(app): State<AppState>,
    caller: Caller,
    QueryOf(params): QueryOf<ListParams>,
) -> Result<Json<Value>, Problem> {
    let limit = body::page_limit(params.limit, PAGE, MAX_PAGE)?;
    let before = params.after.as_deref().map(read_cursor).transpose()?;
    let query = ListQuery { owner: caller.key_id().map(str::to_owned), q: params.q, before, limit };
    let found = conversations::list(&app.base.db, &query).await?;
    let next = (found.len() == limit as usize).then(|| found.last().map(write_cursor)).flatten();
    let found: Vec<ConversationWire> = found.into_iter().map(Into::into).collect();
    let mut answer = json!({ "conversations": found });
    if let Some(next) = next {
        answer["next"] = next.into();
    }
    Ok(Json(answer))
}

fn write_cursor(last: &Conversation) -> String {
    let cursor = last.cursor();
    format!("{}_{}", cursor.updated_ms, cursor.id)
}

fn read_cursor(text: &str) -> Result<ListCursor, Problem> {
    let read = text
        .split_once('_')
        .and_then(|(ms, id)| Some(ListCursor { updated_ms: ms.parse().ok()?, id: id.parse().ok()? }));
    read.ok_or_else(|| Problem::unprocessable("invalid_parameter", "parameter `after`: pass `next` of the page before"))
}

/// A path segment that should be an id; what is none cannot exist.
fn id_of(segment: &str) -> Result<Uuid, Problem> {
    segment.parse().map_err(|_| Problem::not_found("conversation", segment))
}

/// 404 also where it is another key's.
pub async fn load(app: &AppState, owner: Owner<'_>, segment: &str) -> Result<Conversation, Problem> {
    let found = conversations::find(&app.base.db, id_of(segment)?).await?;
    found.filter(|c| owner.may_see(c.owner.as_deref())).ok_or_else(|| Problem::not_found("conversation", segment))
}

async fn find(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ConversationWire>, Problem> {
    Ok(Json(load(&app, caller.owner(), &id).await?.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    title: String,
}

async fn rename(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<Rename>,
) -> Result<Json<ConversationWire>, Problem> {
    let title = body.title.trim();
    if title.is_empty() || title.chars().count() > MAX_TITLE_CHARS {
        let detail = format!("field `title`: 1 to {MAX_TITLE_CHARS} characters");
        return Err(Problem::unprocessable("invalid_field", detail));
    }
    let conversation = load(&app, caller.owner(), &id).await?;
    conversations::rename(&app.base.db, conversation.id, title.to_owned()).await?;
    Ok(Json(load(&app, caller.owner(), &id).await?.into()))
}

async fn delete(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let conversation = load(&app, caller.owner(), &id).await?.id;
    for turn in app.turns.live().of_conversation(conversation) {
        turn.cancel.cancel();
    }
    if app.ingest.delete_conversation(conversation).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("conversation", &id))
    }
}

#[derive(Serialize)]
pub(super) struct MessageWire {
    id: Uuid,
    turn_id: Uuid,
    role: &'static str,
    text: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Source>,
    /// Numbers in the text that stand for no source of the conversation.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    unknown_citations: BTreeSet<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

impl MessageWire {
    /// `known`: numbers that the conversation has given.
    fn checked(m: StoredMessage, known: &HashSet<u32>) -> Self {
        let unknown_citations = match m.role {
            StoredRole::User => BTreeSet::new(),
            StoredRole::Assistant => invented(&m.text, &m.calls, |n| known.contains(&n)),
        };
        Self { unknown_citations, ..m.into() }
    }
}

impl From<StoredMessage> for MessageWire {
    fn from(m: StoredMessage) -> Self {
        Self {
            id: m.id,
            turn_id: m.turn_id,
            role: m.role.as_str(),
            text: m.text,
            status: m.status.as_str(),
            usage: m.finish.is_some().then_some(m.usage),
            finish: m.finish,
            provider: m.provider,
            model: m.model,
            created_at: m.created,
            tool_calls: m.calls.iter().map(super::turns::call).collect(),
            sources: m.sources,
            unknown_citations: BTreeSet::new(),
        }
    }
}

/// The numbers that the conversation has given to sources.
pub(super) async fn known_numbers(app: &AppState, id: Uuid) -> Result<HashSet<u32>, Problem> {
    Ok(conversations::source_numbers(&app.base.db, id).await?.into_iter().map(|(_, n)| n).collect())
}

async fn list_messages(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let conversation = load(&app, caller.owner(), &id).await?;
    let mut stored = messages::history(&app.base.db, conversation.id).await?;
    // The text of an answer that is being made is in its log.
    for message in stored.iter_mut().filter(|m| m.status == MessageStatus::Running) {
        if let Some(turn) = app.turns.live().get(message.turn_id) {
            message.text = turn.log.fold().progress.text;
        }
    }
    let known = known_numbers(&app, conversation.id).await?;
    let stored: Vec<MessageWire> = stored.into_iter().map(|m| MessageWire::checked(m, &known)).collect();
    Ok(Json(json!({ "messages": stored })))
}
