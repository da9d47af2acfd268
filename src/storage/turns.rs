//! A turn's rows: it begins in one commit with its user message, its answer is kept as it grows, and
//! its end is stored once.
//! Invariant: a turn that is not `running` is not changed any more.

use super::column::{self, bigint, get, now_ms, optional_json, time, uuid};
use super::db::{Connection, Db, Row};
use super::messages::{self, MessageStatus, NewMessage, StoredCall, StoredRole};
use super::turn_log::{self, Frames};
use super::{StorageError, conversations};
use crate::message::Usage;
use crate::message::sources::Source;
use futures_util::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row as _;
use std::sync::Arc;
use uuid::Uuid;

/// A turn that is about to begin.
#[derive(Clone, Debug)]
pub struct NewTurn {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    /// The conversation begins with this turn.
    pub opens: bool,
    /// Id of the API key, where one was given.
    pub owner: Option<String>,
    pub user_text: String,
    /// The conversation goes on from before this user message, which goes with all after it.
    pub replace_message_id: Option<Uuid>,
    pub provider: String,
    pub model: String,
    /// `inline`, `native` or `off`.
    pub tool_mode: &'static str,
    pub idempotency: Option<Idempotency>,
}

/// What makes a request, sent again, the same turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's `Idempotency-Key`.
    pub key: String,
    pub body_hash: String,
}

/// How long a client's key means the same turn.
const IDEMPOTENCY_MS: i64 = 24 * 60 * 60 * 1000;

/// What became of a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    New(StartedTurn),
    /// The client's key was used within the last 24 hours.
    Known {
        turn_id: Uuid,
        same_body: bool,
    },
}

/// The ids a turn got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedTurn {
    pub conversation_id: Uuid,
    pub user_message_id: Uuid,
    pub assistant_message_id: Uuid,
}

/// All that is known of an answer so far; each write replaces the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub text: String,
    /// Every sealed call so far, in order; positions do not change from one write to the next.
    pub calls: Vec<StoredCall>,
    pub sources: Vec<Source>,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    /// The whole answer.
    pub progress: Progress,
    /// All its frames, `turn_end` last.
    pub frames: Frames,
    /// See [`turn_log::Ended::cut_after`].
    pub cut_after: Option<u64>,
    /// `complete`, `max_continuations`, `cancelled`, `provider_error`, `timeout` or `interrupted`.
    pub finish: &'static str,
    pub fallback_reason: Option<&'static str>,
    pub usage: Usage,
    /// JSON object, as clients see it.
    pub telemetry: Value,
    /// JSON object, as clients see it.
    pub error: Option<Value>,
}

/// A turn as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTurn {
    pub id: Uuid,
    pub conversation_id: Uuid,
    pub owner: Option<String>,
    pub user_message_id: Uuid,
    pub assistant_message_id: Uuid,
    pub tool_mode: String,
    pub status: MessageStatus,
    pub finish: Option<String>,
    pub fallback_reason: Option<String>,
    pub telemetry: Option<Value>,
    pub error: Option<Value>,
    pub created: Timestamp,
    pub ended: Option<Timestamp>,
}

/// Stores the user's message and an empty, running answer; with `opens` the conversation too.
///
/// # Errors
/// [`StorageError::NotFound`] for an unknown conversation or message to replace;
/// [`StorageError::Conflict`] where the message to replace is not the user's, or an answer after it is
/// still being made.
pub async fn start(db: &Db, turn: NewTurn) -> Result<Begun, StorageError> {
    db.write(move |connection| {
        async move {
            if let Some(key) = &turn.idempotency
                && let Some(known) = known(connection, &turn, key).await?
            {
                return Ok(known);
            }
            start_rows(connection, turn).await.map(Begun::New)
        }
        .boxed()
    })
    .await
}

/// The turn that the key has begun, or `None` and the key is this turn's from now on.
async fn known(connection: &mut Connection, turn: &NewTurn, key: &Idempotency) -> Result<Option<Begun>, StorageError> {
    let now = now_ms();
    sqlx::query("DELETE FROM idempotency_keys WHERE created_ms < $1")
        .bind(now - IDEMPOTENCY_MS)
        .execute(&mut *connection)
        .await?;
    let owner = turn.owner.as_deref().unwrap_or_default();
    let row = sqlx::query("SELECT turn_id, body_hash FROM idempotency_keys WHERE owner = $1 AND key = $2")
        .bind(owner)
        .bind(&key.key)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(row) = row {
        let same_body = get::<&str>(&row, "body_hash")? == key.body_hash;
        return Ok(Some(Begun::Known { turn_id: uuid(&row, "turn_id")?, same_body }));
    }
    sqlx::query(
        "INSERT INTO idempotency_keys (owner, key, body_hash, turn_id, created_ms) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(owner)
    .bind(&key.key)
    .bind(&key.body_hash)
    .bind(turn.turn_id.to_string())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(None)
}

async fn start_rows(connection: &mut Connection, turn: NewTurn) -> Result<StartedTurn, StorageError> {
    let now = now_ms();
    let conversation_id = turn.conversation_id;
    if turn.opens {
        let title = conversations::title_from(&turn.user_text);
        conversations::insert(connection, conversation_id, turn.owner.as_deref(), &title, now).await?;
    } else if !conversations::touch(connection, conversation_id, now).await? {
        return Err(StorageError::NotFound { what: "conversation", id: conversation_id.to_string() });
    }
    let conversation = conversation_id.to_string();
    if let Some(replaced) = turn.replace_message_id {
        replace_from(connection, &conversation, replaced).await?;
    }
    let started =
        StartedTurn { conversation_id, user_message_id: Uuid::now_v7(), assistant_message_id: Uuid::now_v7() };
    sqlx::query(
        "INSERT INTO turns (id, conversation_id, owner, user_message_id, assistant_message_id, tool_mode, status, \
         created_ms) VALUES ($1, $2, $3, $4, $5, $6, 'running', $7)",
    )
    .bind(turn.turn_id.to_string())
    .bind(&conversation)
    .bind(&turn.owner)
    .bind(started.user_message_id.to_string())
    .bind(started.assistant_message_id.to_string())
    .bind(turn.tool_mode)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    let question = NewMessage {
        id: started.user_message_id,
        turn_id: turn.turn_id,
        role: StoredRole::User,
        text: &turn.user_text,
        status: MessageStatus::Done,
        provider: None,
        model: None,
    };
    let answer = NewMessage {
        id: started.assistant_message_id,
        turn_id: turn.turn_id,
        role: StoredRole::Assistant,
        text: "",
        status: MessageStatus::Running,
        provider: Some(&turn.provider),
        model: Some(&turn.model),
    };
    messages::append(connection, &conversation, [question, answer], now).await?;
    Ok(started)
}

async fn replace_from(connection: &mut Connection, conversation: &str, message: Uuid) -> Result<(), StorageError> {
    let row = sqlx::query("SELECT position, role FROM messages WHERE id = $1 AND conversation_id = $2")
        .bind(message.to_string())
        .bind(conversation)
        .fetch_optional(&mut *connection)
        .await?
        .ok_or_else(|| StorageError::NotFound { what: "message", id: message.to_string() })?;
    if row.try_get::<&str, _>("role")? != StoredRole::User.as_str() {
        return Err(StorageError::Conflict(format!("message `{message}` is not the user's, so it cannot be replaced")));
    }
    let position: i64 = row.try_get("position")?;
    let running: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM messages WHERE conversation_id = $1 AND position >= $2 AND status = 'running'",
    )
    .bind(conversation)
    .bind(position)
    .fetch_one(&mut *connection)
    .await?;
    if running > 0 {
        return Err(StorageError::Conflict(
            "an answer after the message to replace is still being made: cancel it first".to_owned(),
        ));
    }
    messages::delete_from(connection, conversation, position).await
}

/// Stores calls and sources as far as they have come; the text is in the log until the turn ends. Does nothing where the
/// turn is not running (any more).
pub(super) async fn save_progress(
    connection: &mut Connection,
    turn_id: Uuid,
    progress: &Progress,
) -> Result<(), StorageError> {
    if let Some(place) = running(connection, turn_id).await? {
        save_rows(connection, &place, progress).await?;
    }
    Ok(())
}

/// Where a running turn's answer stands.
struct Place {
    conversation_id: Uuid,
    message_id: Uuid,
}

impl Place {
    fn read(row: &Row) -> Result<Self, StorageError> {
        Ok(Self { conversation_id: uuid(row, "conversation_id")?, message_id: uuid(row, "assistant_message_id")? })
    }
}

async fn running(connection: &mut Connection, turn_id: Uuid) -> Result<Option<Place>, StorageError> {
    let row =
        sqlx::query("SELECT conversation_id, assistant_message_id FROM turns WHERE id = $1 AND status = 'running'")
            .bind(turn_id.to_string())
            .fetch_optional(&mut *connection)
            .await?;
    row.as_ref().map(Place::read).transpose()
}

async fn save_rows(connection: &mut Connection, place: &Place, progress: &Progress) -> Result<(), StorageError> {
    let (conversation, message) = (place.conversation_id.to_string(), place.message_id.to_string());
    messages::save_calls(connection, &message, &progress.calls).await?;
    messages::save_sources(connection, &conversation, &message, &progress.sources).await
}

/// Stores the whole answer and how it ended. `false`: the turn was not running (any more), nothing
/// was stored.
pub async fn finish(db: &Db, turn_id: Uuid, end: Arc<TurnEnd>) -> Result<bool, StorageError> {
    db.write(move |connection| async move { finish_rows(connection, turn_id, &end).await }.boxed()).await
}

async fn finish_rows(connection: &mut Connection, turn_id: Uuid, end: &TurnEnd) -> Result<bool, StorageError> {
    let now = now_ms();
    let status = if end.finish == "interrupted" { MessageStatus::Interrupted } else { MessageStatus::Done };
    let row = sqlx::query(
        "UPDATE turns SET status = $2, finish = $3, fallback_reason = $4, telemetry = $5, error = $6, ended_ms = $7 \
         WHERE id = $1 AND status = 'running' RETURNING conversation_id, assistant_message_id",
    )
    .bind(turn_id.to_string())
    .bind(status.as_str())
    .bind(end.finish)
    .bind(end.fallback_reason)
    .bind(column::to_json(&end.telemetry)?)
    .bind(end.error.as_ref().map(column::to_json).transpose()?)
    .bind(now)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(place) = row.as_ref().map(Place::read).transpose()? else { return Ok(false) };
    turn_log::insert(connection, turn_id, &end.frames, end.cut_after).await?;
    save_rows(connection, &place, &end.progress).await?;
    sqlx::query(
        "UPDATE messages SET status = $2, finish = $3, input_tokens = $4, output_tokens = $5, cache_read_tokens = $6, \
         text = $7 WHERE id = $1",
    )
    .bind(place.message_id.to_string())
    .bind(status.as_str())
    .bind(end.finish)
    .bind(bigint(end.usage.input_tokens))
    .bind(bigint(end.usage.output_tokens))
    .bind(bigint(end.usage.cache_read_tokens))
    .bind(&end.progress.text)
    .execute(&mut *connection)
    .await?;
    conversations::touch(connection, place.conversation_id, now).await?;
    Ok(true)
}

/// A turn that the end of the process cut, with what had become durable of it.
#[derive(Clone, Debug)]
pub struct CutTurn {
    pub id: Uuid,
    /// Its frames, from the first on.
    pub log: Frames,
    /// Its calls so far, in order; those without an outcome are `Running`.
    pub calls: Vec<StoredCall>,
}

/// At start-up: every turn that still says `running`.
pub async fn cut(db: &Db) -> Result<Vec<CutTurn>, StorageError> {
    let rows = sqlx::query("SELECT id, assistant_message_id FROM turns WHERE status = 'running' ORDER BY id")
        .fetch_all(db.readers())
        .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = uuid(row, "id")?;
        let calls = messages::calls(db, uuid(row, "assistant_message_id")?).await?;
        found.push(CutTurn { id, log: turn_log::tail(db, id).await?, calls });
    }
    Ok(found)
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<StoredTurn>, StorageError> {
    let Some(row) = sqlx::query(
        "SELECT id, conversation_id, owner, user_message_id, assistant_message_id, tool_mode, status, finish, \
         fallback_reason, telemetry, error, created_ms, ended_ms FROM turns WHERE id = $1",
    )
    .bind(id.to_string())
    .fetch_optional(db.readers())
    .await?
    else {
        return Ok(None);
    };
    let ended = if get::<Option<i64>>(&row, "ended_ms")?.is_some() { Some(time(&row, "ended_ms")?) } else { None };
    Ok(Some(StoredTurn {
        id: uuid(&row, "id")?,
        conversation_id: uuid(&row, "conversation_id")?,
        owner: get(&row, "owner")?,
        user_message_id: uuid(&row, "user_message_id")?,
        assistant_message_id: uuid(&row, "assistant_message_id")?,
        tool_mode: get(&row, "tool_mode")?,
        status: MessageStatus::read(get(&row, "status")?)?,
        finish: get(&row, "finish")?,
        fallback_reason: get(&row, "fallback_reason")?,
        telemetry: optional_json(&row, "telemetry")?,
        error: optional_json(&row, "error")?,
        created: time(&row, "created_ms")?,
        ended,
    }))
}
