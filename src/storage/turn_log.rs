//! The frames of turns, as clients get them: rows of several frames each, one row per turn and commit.
//! Invariant: the rows of a turn hold its frames from number 1 on without a gap.

use super::StorageError;
use super::column::{bigint, count, get};
use super::db::{Connection, Db};
use super::turns::{self, Progress};
use futures_util::FutureExt;
use uuid::Uuid;

/// Frames `first_seq..=last_seq` of a turn, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub first_seq: u64,
    pub last_seq: u64,
    /// Milliseconds from the turn's beginning to the last frame.
    pub at_ms: u64,
    pub bytes: Vec<u8>,
}

/// What a running turn has new.
#[derive(Clone, Debug)]
pub struct Addition {
    pub turn_id: Uuid,
    pub frames: Frames,
    /// Calls and sources, where there is something new in them.
    pub progress: Option<Progress>,
}

/// Stores what turns have new, in one transaction. A turn that is not running any more has stored it with its end.
pub async fn append(db: &Db, additions: Vec<Addition>) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            for addition in &additions {
                insert(connection, addition.turn_id, &addition.frames).await?;
                if let Some(progress) = &addition.progress {
                    turns::save_progress(connection, addition.turn_id, progress).await?;
                }
            }
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Of two rows that begin with the same frame the longer one stays: a turn's end may overtake a row that was on its
/// way. Nothing is stored of a turn that has been deleted.
pub(super) async fn insert(connection: &mut Connection, turn_id: Uuid, frames: &Frames) -> Result<(), StorageError> {
    sqlx::query(
        "INSERT INTO turn_log (turn_id, first_seq, last_seq, at_ms, frames) SELECT $1, $2, $3, $4, $5 \
         WHERE EXISTS (SELECT 1 FROM turns WHERE id = $1) ON CONFLICT (turn_id, first_seq) DO UPDATE SET last_seq = excluded.last_seq, at_ms = excluded.at_ms, \
         frames = excluded.frames WHERE excluded.last_seq > turn_log.last_seq",
    )
    .bind(turn_id.to_string())
    .bind(bigint(frames.first_seq))
    .bind(bigint(frames.last_seq))
    .bind(bigint(frames.at_ms))
    .bind(&frames.bytes)
    .execute(connection)
    .await?;
    Ok(())
}

/// The rows that hold frames after number `after`, in order; the first may begin before it.
pub async fn read(db: &Db, turn_id: Uuid, after: u64) -> Result<Vec<Frames>, StorageError> {
    let rows = sqlx::query(
        "SELECT first_seq, last_seq, at_ms, frames FROM turn_log WHERE turn_id = $1 AND last_seq > $2 \
         ORDER BY first_seq",
    )
    .bind(turn_id.to_string())
    .bind(bigint(after))
    .fetch_all(db.readers())
    .await?;
    rows.iter()
        .map(|row| {
            Ok(Frames {
                first_seq: count(row, "first_seq")?,
                last_seq: count(row, "last_seq")?,
                at_ms: count(row, "at_ms")?,
                bytes: get(row, "frames")?,
            })
        })
        .collect()
}
