//! Summaries that stand for the oldest messages of a conversation. A summary goes with the message that it reaches up
//! to: where that one is replaced or deleted, it is gone too.

use super::StorageError;
use super::column::{get, uuid};
use super::db::Db;
use futures_util::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

/// The last message it stands for, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSummary {
    pub message_id: Uuid,
    pub text: String,
}

/// Nothing is stored where there is no such message any more.
pub async fn put(db: &Db, summary: StoredSummary) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query(
                "INSERT INTO summaries (message_id, text, created_ms) SELECT $1, $2, $3 \
                 WHERE EXISTS (SELECT 1 FROM messages WHERE id = $1) \
                 ON CONFLICT (message_id) DO UPDATE SET text = excluded.text, created_ms = excluded.created_ms",
            )
            .bind(summary.message_id.to_string())
            .bind(&summary.text)
            .bind(Timestamp::now().as_millisecond())
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// The one that reaches furthest.
pub async fn latest(db: &Db, conversation_id: Uuid) -> Result<Option<StoredSummary>, StorageError> {
    let row = sqlx::query(
        "SELECT s.message_id, s.text FROM summaries s JOIN messages m ON m.id = s.message_id \
         WHERE m.conversation_id = $1 ORDER BY m.position DESC LIMIT 1",
    )
    .bind(conversation_id.to_string())
    .fetch_optional(db.readers())
    .await?;
    row.map(|row| Ok(StoredSummary { message_id: uuid(&row, "message_id")?, text: get(&row, "text")? })).transpose()
}
