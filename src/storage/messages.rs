//! Messages with what belongs to them: tool calls and the sources they cite.
//! Invariant: writing the same state twice leaves the same rows.

use super::column::{self, bigint, corrupt, count, get, optional_count, small, time, uuid};
use super::db::{Connection, Db, Driver, Row};
use super::{StorageError, conversations};
use crate::message::sources::Source;
use crate::message::{Arguments, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::QueryBuilder;
use std::collections::HashMap;
use uuid::Uuid;

/// One message of a conversation as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    pub id: Uuid,
    pub turn_id: Uuid,
    pub role: StoredRole,
    pub text: String,
    pub status: MessageStatus,
    /// How the turn ended; `None` for the user's messages and while it runs.
    pub finish: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub usage: Usage,
    pub created: Timestamp,
    /// In the order they were sealed.
    pub calls: Vec<StoredCall>,
    /// Ordered by number.
    pub sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRole {
    User,
    Assistant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    Running,
    Done,
    /// The process ended while the answer was being made; the text is what had been stored by then.
    Interrupted,
}

/// A tool call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCall {
    pub call_id: String,
    pub name: String,
    pub arguments: Arguments,
    pub round: u32,
    /// Position among the sealed calls of its round, from 0.
    pub index: u32,
    /// Bytes of the block in the answer's visible text, start and end; inline calls only.
    pub span: Option<(u64, u64)>,
    pub outcome: CallOutcome,
    pub duration_ms: u64,
    pub ingest_ms: Option<u64>,
    pub truncated: bool,
    pub ingested: Option<StoredIngest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Running,
    Ok { output: String },
    Failed { error: String },
    Rejected { reason: String, error: String },
}

/// What became of a result in the knowledge base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIngest {
    pub document_id: String,
    pub chunks: u64,
    pub collection: String,
    /// `conversation` or `collection`.
    pub scope: String,
    pub fresh: bool,
}

impl StoredRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl MessageStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Interrupted => "interrupted",
        }
    }

    pub(super) fn read(word: &str) -> Result<Self, StorageError> {
        [Self::Running, Self::Done, Self::Interrupted]
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| corrupt("status", word))
    }
}

/// The conversation's messages, oldest first. Empty where there is no such conversation.
pub async fn history(db: &Db, conversation_id: Uuid) -> Result<Vec<StoredMessage>, StorageError> {
    let id = conversation_id.to_string();
    // One read transaction: the three reads see the same commit.
    let mut read = db.readers().begin().await?;
    let rows = sqlx::query(
        "SELECT id, turn_id, role, text, status, finish, provider, model, input_tokens, output_tokens, \
         cache_read_tokens, created_ms FROM messages WHERE conversation_id = $1 ORDER BY position",
    )
    .bind(&id)
    .fetch_all(&mut *read)
    .await?;
    let calls = sqlx::query(
        "SELECT t.* FROM tool_calls t JOIN messages m ON m.id = t.message_id WHERE m.conversation_id = $1 \
         ORDER BY t.message_id, t.position",
    )
    .bind(&id)
    .fetch_all(&mut *read)
    .await?;
    let sources = sqlx::query(
        "SELECT r.message_id, r.score, s.n, s.chunk_id, s.document_id, s.title, s.uri, s.snippet, s.start_byte, \
         s.end_byte, s.page FROM message_sources r JOIN messages m ON m.id = r.message_id \
         JOIN sources s ON s.conversation_id = m.conversation_id AND s.n = r.n \
         WHERE m.conversation_id = $1 ORDER BY r.message_id, s.n",
    )
    .bind(&id)
    .fetch_all(&mut *read)
    .await?;
    read.commit().await?;

    let mut calls = by_message(&calls, read_call)?;
    let mut sources = by_message(&sources, read_source)?;
    let mut messages = rows.iter().map(read_message).collect::<Result<Vec<_>, _>>()?;
    for message in &mut messages {
        message.calls = calls.remove(&message.id).unwrap_or_default();
        message.sources = sources.remove(&message.id).unwrap_or_default();
    }
    Ok(messages)
}

/// The calls of one answer, in the order they were sealed.
pub(super) async fn calls(db: &Db, message_id: Uuid) -> Result<Vec<StoredCall>, StorageError> {
    let rows = sqlx::query("SELECT * FROM tool_calls WHERE message_id = $1 ORDER BY position")
        .bind(message_id.to_string())
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(read_call).collect()
}

fn by_message<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StorageError>,
) -> Result<HashMap<Uuid, Vec<T>>, StorageError> {
    let mut found: HashMap<Uuid, Vec<T>> = HashMap::new();
    for row in rows {
        found.entry(uuid(row, "message_id")?).or_default().push(read(row)?);
    }
    Ok(found)
}

fn read_message(row: &Row) -> Result<StoredMessage, StorageError> {
    let role = match get(row, "role")? {
        "user" => StoredRole::User,
        "assistant" => StoredRole::Assistant,
        other => return Err(corrupt("role", other)),
    };
    Ok(StoredMessage {
        id: uuid(row, "id")?,
        turn_id: uuid(row, "turn_id")?,
        role,
        text: get(row, "text")?,
        status: MessageStatus::read(get(row, "status")?)?,
        finish: get(row, "finish")?,
        provider: get(row, "provider")?,
        model: get(row, "model")?,
        usage: Usage {
            input_tokens: count(row, "input_tokens")?,
            output_tokens: count(row, "output_tokens")?,
            cache_read_tokens: count(row, "cache_read_tokens")?,
        },
        created: time(row, "created_ms")?,
        calls: Vec::new(),
        sources: Vec::new(),
    })
}

fn read_call(row: &Row) -> Result<StoredCall, StorageError> {
    let output: String = get(row, "output")?;
    let outcome = match get(row, "outcome")? {
        "running" => CallOutcome::Running,
        "ok" => CallOutcome::Ok { output },
        "failed" => CallOutcome::Failed { error: output },
        "rejected" => {
            CallOutcome::Rejected { reason: get::<Option<String>>(row, "reason")?.unwrap_or_default(), error: output }
        }
        other => return Err(corrupt("outcome", other)),
    };
    Ok(StoredCall {
        call_id: get(row, "call_id")?,
        name: get(row, "name")?,
        arguments: column::json(row, "arguments")?,
        round: small(row, "round")?,
        index: small(row, "round_index")?,
        span: optional_count(row, "span_start")?.zip(optional_count(row, "span_end")?),
        outcome,
        duration_ms: count(row, "duration_ms")?,
        ingest_ms: optional_count(row, "ingest_ms")?,
        truncated: get::<i64>(row, "truncated")? != 0,
        ingested: column::optional_json(row, "ingested")?,
    })
}

fn read_source(row: &Row) -> Result<Source, StorageError> {
    let page = optional_count(row, "page")?.map(u32::try_from).transpose();
    #[expect(clippy::cast_possible_truncation, reason = "it was an f32 when it was stored")]
    let score = get::<f64>(row, "score")? as f32;
    Ok(Source {
        n: small(row, "n")?,
        document_id: get(row, "document_id")?,
        chunk_id: uuid(row, "chunk_id")?,
        title: get(row, "title")?,
        uri: get(row, "uri")?,
        snippet: get(row, "snippet")?,
        score,
        start: count(row, "start_byte")?,
        end: count(row, "end_byte")?,
        page: page.map_err(|_| corrupt("page", "out of range"))?,
    })
}

/// A message row as a turn makes it.
pub(super) struct NewMessage<'a> {
    pub id: Uuid,
    pub turn_id: Uuid,
    pub role: StoredRole,
    pub text: &'a str,
    pub status: MessageStatus,
    pub provider: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// Appends to the conversation, in this order.
pub(super) async fn append(
    connection: &mut Connection,
    conversation_id: &str,
    messages: [NewMessage<'_>; 2],
    now_ms: i64,
) -> Result<(), StorageError> {
    let mut sql = QueryBuilder::<Driver>::new(
        "INSERT INTO messages (id, conversation_id, turn_id, position, role, text, status, provider, model, \
         created_ms) ",
    );
    sql.push_values((1i64..).zip(messages), |mut row, (after, message)| {
        row.push_bind(message.id.to_string()).push_bind(conversation_id).push_bind(message.turn_id.to_string());
        // All rows of one statement see what was there before it.
        row.push("(SELECT COALESCE(MAX(position), 0) FROM messages WHERE conversation_id = ");
        row.push_bind_unseparated(conversation_id).push_unseparated(") + ").push_bind_unseparated(after);
        row.push_bind(message.role.as_str()).push_bind(message.text).push_bind(message.status.as_str());
        row.push_bind(message.provider).push_bind(message.model).push_bind(now_ms);
    });
    sql.build().execute(connection).await?;
    Ok(())
}

/// Inserts the calls, or brings those that are there up to date.
pub(super) async fn save_calls(
    connection: &mut Connection,
    message_id: &str,
    calls: &[StoredCall],
) -> Result<(), StorageError> {
    for (position, call) in (0i64..).zip(calls) {
        let (outcome, reason, output) = match &call.outcome {
            CallOutcome::Running => ("running", None, ""),
            CallOutcome::Ok { output } => ("ok", None, output.as_str()),
            CallOutcome::Failed { error } => ("failed", None, error.as_str()),
            CallOutcome::Rejected { reason, error } => ("rejected", Some(reason.as_str()), error.as_str()),
        };
        let ingested = call.ingested.as_ref().map(column::to_json).transpose()?;
        sqlx::query(
            "INSERT INTO tool_calls (message_id, position, call_id, name, arguments, round, round_index, span_start, \
             span_end, outcome, reason, output, duration_ms, ingest_ms, truncated, ingested) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
             ON CONFLICT (message_id, position) DO UPDATE SET outcome = excluded.outcome, reason = excluded.reason, \
             output = excluded.output, duration_ms = excluded.duration_ms, ingest_ms = excluded.ingest_ms, \
             truncated = excluded.truncated, ingested = excluded.ingested",
        )
        .bind(message_id)
        .bind(position)
        .bind(&call.call_id)
        .bind(&call.name)
        .bind(column::to_json(&call.arguments)?)
        .bind(i64::from(call.round))
        .bind(i64::from(call.index))
        .bind(call.span.map(|(start, _)| bigint(start)))
        .bind(call.span.map(|(_, end)| bigint(end)))
        .bind(outcome)
        .bind(reason)
        .bind(output)
        .bind(bigint(call.duration_ms))
        .bind(call.ingest_ms.map(bigint))
        .bind(i64::from(call.truncated))
        .bind(ingested)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Notes which of the conversation's sources the message cites.
pub(super) async fn save_sources(
    connection: &mut Connection,
    conversation_id: &str,
    message_id: &str,
    sources: &[Source],
) -> Result<(), StorageError> {
    for source in sources {
        conversations::insert_source(connection, conversation_id, source).await?;
        sqlx::query(
            "INSERT INTO message_sources (message_id, n, score) VALUES ($1, $2, $3) \
             ON CONFLICT (message_id, n) DO UPDATE SET score = excluded.score",
        )
        .bind(message_id)
        .bind(i64::from(source.n))
        .bind(f64::from(source.score))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Deletes the conversation's messages from `position` on, with their calls, citations and turns.
pub(super) async fn delete_from(
    connection: &mut Connection,
    conversation_id: &str,
    position: i64,
) -> Result<(), StorageError> {
    for statement in [
        "DELETE FROM tool_calls WHERE message_id IN \
         (SELECT id FROM messages WHERE conversation_id = $1 AND position >= $2)",
        "DELETE FROM message_sources WHERE message_id IN \
         (SELECT id FROM messages WHERE conversation_id = $1 AND position >= $2)",
        "DELETE FROM summaries WHERE message_id IN \
         (SELECT id FROM messages WHERE conversation_id = $1 AND position >= $2)",
        "DELETE FROM turn_log WHERE turn_id IN \
         (SELECT turn_id FROM messages WHERE conversation_id = $1 AND position >= $2 AND role = 'assistant')",
        "DELETE FROM messages WHERE conversation_id = $1 AND position >= $2",
    ] {
        sqlx::query(statement).bind(conversation_id).bind(position).execute(&mut *connection).await?;
    }
    sqlx::query(
        "DELETE FROM turns WHERE conversation_id = $1 AND NOT EXISTS \
         (SELECT 1 FROM messages WHERE messages.turn_id = turns.id)",
    )
    .bind(conversation_id)
    .execute(connection)
    .await?;
    Ok(())
}
