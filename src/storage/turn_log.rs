//! The frames of turns, as clients get them. What running turns append goes to a table of its own in the order of
//! commits, so that a commit for many turns writes few pages; a turn that ends is stored whole, in one row.

use super::StorageError;
use super::column::{bigint, count, get};
use super::db::{Connection, Db, Driver, Row};
use super::turns::{self, Progress};
use futures_util::FutureExt;
use sqlx::QueryBuilder;
use uuid::Uuid;

/// Rows in one statement: the database takes 32,766 values in one, and each row is six.
const ROWS: usize = 1000;

/// Frames `first_seq..=last_seq` of a turn, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub first_seq: u64,
    pub last_seq: u64,
    /// Milliseconds from the turn's beginning to the last frame.
    pub at_ms: u64,
    pub bytes: Vec<u8>,
}

/// The whole log of a turn that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub frames: Frames,
    /// The last frame that was stored when the process died in the middle of the turn; what follows was added at the
    /// next start. A reader may have seen other frames with those numbers.
    pub cut_after: Option<u64>,
}

/// What a running turn has new.
#[derive(Clone, Debug)]
pub struct Addition {
    pub turn_id: Uuid,
    pub frames: Frames,
    /// Calls and sources, where there is something new in them.
    pub progress: Option<Progress>,
}

/// Stores what running turns have new, in one transaction, as rows `first_id`, `first_id + 1`, ….
pub async fn append(db: &Db, first_id: i64, additions: Vec<Addition>) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            for (part, additions) in (0i64..).zip(additions.chunks(ROWS)) {
                let ids = first_id + part * bigint(ROWS as u64)..;
                let mut sql = QueryBuilder::<Driver>::new(
                    "INSERT INTO turn_log_tail (id, turn_id, first_seq, last_seq, at_ms, frames) ",
                );
                sql.push_values(ids.zip(additions), |mut row, (id, addition)| {
                    let frames = &addition.frames;
                    row.push_bind(id).push_bind(addition.turn_id.to_string()).push_bind(bigint(frames.first_seq));
                    row.push_bind(bigint(frames.last_seq)).push_bind(bigint(frames.at_ms)).push_bind(&frames.bytes);
                });
                sql.build().execute(&mut *connection).await?;
            }
            for Addition { turn_id, progress, .. } in &additions {
                if let Some(progress) = progress {
                    turns::save_progress(connection, *turn_id, progress).await?;
                }
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// The id after the last one.
pub async fn next_id(db: &Db) -> Result<i64, StorageError> {
    Ok(sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) + 1 FROM turn_log_tail").fetch_one(db.readers()).await?)
}

/// Forgets rows before this id: their turns have ended.
pub async fn forget_before(db: &Db, id: i64) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("DELETE FROM turn_log_tail WHERE id < $1").bind(id).execute(connection).await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// The whole log of a turn that ends; `cut_after`: see [`Ended`].
pub(super) async fn insert(
    connection: &mut Connection,
    turn_id: Uuid,
    whole: &Frames,
    cut_after: Option<u64>,
) -> Result<(), StorageError> {
    sqlx::query("INSERT INTO turn_log (turn_id, last_seq, at_ms, frames, cut_after) VALUES ($1, $2, $3, $4, $5)")
        .bind(turn_id.to_string())
        .bind(bigint(whole.last_seq))
        .bind(bigint(whole.at_ms))
        .bind(&whole.bytes)
        .bind(cut_after.map(bigint))
        .execute(connection)
        .await?;
    Ok(())
}

/// The whole log of a turn that has ended; empty where there is none.
pub async fn read(db: &Db, turn_id: Uuid) -> Result<Ended, StorageError> {
    let row = sqlx::query("SELECT 1 AS first_seq, last_seq, at_ms, frames, cut_after FROM turn_log WHERE turn_id = $1")
        .bind(turn_id.to_string())
        .fetch_optional(db.readers())
        .await?;
    let Some(row) = row else { return Ok(Ended::default()) };
    let cut_after = get::<Option<i64>>(&row, "cut_after")?.and_then(|seq| u64::try_from(seq).ok());
    Ok(Ended { frames: frames(&row)?, cut_after })
}

/// What had become durable of a turn that was cut, as one.
pub(super) async fn tail(db: &Db, turn_id: Uuid) -> Result<Frames, StorageError> {
    let rows = sqlx::query("SELECT * FROM turn_log_tail WHERE turn_id = $1 ORDER BY id")
        .bind(turn_id.to_string())
        .fetch_all(db.readers())
        .await?;
    let mut whole = Frames { first_seq: 1, ..Frames::default() };
    for row in &rows {
        let next = frames(row)?;
        // A commit that failed may have been tried again.
        if next.first_seq == whole.last_seq + 1 {
            whole.last_seq = next.last_seq;
            whole.at_ms = next.at_ms;
            whole.bytes.extend_from_slice(&next.bytes);
        }
    }
    Ok(whole)
}

fn frames(row: &Row) -> Result<Frames, StorageError> {
    Ok(Frames {
        first_seq: count(row, "first_seq")?,
        last_seq: count(row, "last_seq")?,
        at_ms: count(row, "at_ms")?,
        bytes: get(row, "frames")?,
    })
}
