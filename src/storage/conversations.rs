//! Conversations: the list, one of them, its title, its citation numbers, its end.
//! Invariant: a conversation goes with all that hangs on it, in one commit.

use super::column::{self, bigint, count, get, time, uuid};
use super::db::{Connection, Db, Driver, Row};
use super::{StorageError, messages, tombstones};
use futures_util::FutureExt;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, QueryBuilder};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// A stored thread of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    pub id: Uuid,
    pub title: String,
    /// Id of the API key that began it.
    pub owner: Option<String>,
    pub created: Timestamp,
    /// When its last turn began or ended.
    pub updated: Timestamp,
    pub messages: u64,
}

/// Which conversations to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only those of this API key; `None`: of everybody.
    pub owner: Option<String>,
    /// Words that stand in the title or in a message, as one piece; letters' case does not matter.
    pub q: Option<String>,
    /// Only those that were updated before this one.
    pub before: Option<ListCursor>,
    pub limit: u32,
}

/// Where a page of the list ended. Written `<milliseconds>-<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub updated_ms: i64,
    pub id: Uuid,
}

impl Conversation {
    /// The cursor that lists what comes after this one.
    pub fn cursor(&self) -> ListCursor {
        ListCursor { updated_ms: self.updated.as_millisecond(), id: self.id }
    }
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.updated_ms, self.id)
    }
}

impl FromStr for ListCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ms, id) = text.split_once('-').ok_or(())?;
        Ok(Self { updated_ms: ms.parse().map_err(|_| ())?, id: Uuid::try_parse(id).map_err(|_| ())? })
    }
}

/// Longest title made from a message, in characters.
const TITLE_CHARS: usize = 80;

/// A title for a conversation that begins with `text`: its first line, cut.
pub fn title_from(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS) {
        Some((cut, _)) => format!("{}…", line[..cut].trim_end()),
        None => line.to_owned(),
    }
}

const COLUMNS: &str = "c.id, c.title, c.owner, c.created_ms, c.updated_ms, \
     (SELECT COUNT(*) FROM messages m WHERE m.conversation_id = c.id) AS messages";

/// Latest update first.
pub async fn list(db: &Db, query: &ListQuery) -> Result<Vec<Conversation>, StorageError> {
    let mut sql = QueryBuilder::<Driver>::new(format!("SELECT {COLUMNS} FROM conversations c WHERE 1 = 1"));
    if let Some(owner) = &query.owner {
        sql.push(" AND c.owner = ").push_bind(owner);
    }
    if let Some(q) = query.q.as_deref().filter(|q| !q.trim().is_empty()) {
        // The database lowers ASCII letters only: of others the usual forms are looked for.
        sql.push(" AND (0 = 1");
        for pattern in patterns(q) {
            sql.push(" OR LOWER(c.title) LIKE ").push_bind(pattern.clone()).push(" ESCAPE '\\'");
            sql.push(" OR EXISTS (SELECT 1 FROM messages s WHERE s.conversation_id = c.id AND LOWER(s.text) LIKE ");
            sql.push_bind(pattern).push(" ESCAPE '\\')");
        }
        sql.push(")");
    }
    if let Some(before) = query.before {
        sql.push(" AND (c.updated_ms < ").push_bind(before.updated_ms);
        sql.push(" OR (c.updated_ms = ").push_bind(before.updated_ms);
        sql.push(" AND c.id < ").push_bind(before.id.to_string()).push("))");
    }
    sql.push(" ORDER BY c.updated_ms DESC, c.id DESC LIMIT ").push_bind(i64::from(query.limit));
    let rows = sql.build().fetch_all(db.readers()).await?;
    rows.iter().map(read).collect()
}

/// The LIKE patterns for text that contains `q`: as it was written, all small, with a first capital, all capitals.
fn patterns(q: &str) -> Vec<String> {
    let (q, small) = (q.trim(), q.trim().to_lowercase());
    let mut rest = small.chars();
    let capital: String = rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect();
    let mut found: Vec<String> = [q, &small, &capital, &q.to_uppercase()].map(contains).into();
    found.sort();
    found.dedup();
    found
}

/// What LIKE gives a meaning to is taken literally.
fn contains(q: &str) -> String {
    let mut pattern = String::from("%");
    for c in q.chars().map(|c| c.to_ascii_lowercase()) {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<Conversation>, StorageError> {
    let row = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM conversations c WHERE c.id = $1")))
        .bind(id.to_string())
        .fetch_optional(db.readers())
        .await?;
    row.as_ref().map(read).transpose()
}

fn read(row: &Row) -> Result<Conversation, StorageError> {
    Ok(Conversation {
        id: uuid(row, "id")?,
        title: get(row, "title")?,
        owner: get(row, "owner")?,
        created: time(row, "created_ms")?,
        updated: time(row, "updated_ms")?,
        messages: count(row, "messages")?,
    })
}

/// `false`: there is no such conversation.
pub async fn rename(db: &Db, id: Uuid, title: String) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let done = sqlx::query("UPDATE conversations SET title = $2 WHERE id = $1")
                .bind(id.to_string())
                .bind(title)
                .execute(connection)
                .await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// Conversations whose sources name the document, the latest first, with their titles; only those of `owner`, if any.
pub async fn citing(
    db: &Db,
    document_id: &str,
    owner: Option<&str>,
    limit: u32,
) -> Result<Vec<(Uuid, String)>, StorageError> {
    let rows = sqlx::query(
        "SELECT c.id, c.title FROM conversations c WHERE (CAST($2 AS TEXT) IS NULL OR c.owner = $2) \
         AND EXISTS (SELECT 1 FROM sources s WHERE s.document_id = $1 AND s.conversation_id = c.id) \
         ORDER BY c.updated_ms DESC, c.id DESC LIMIT $3",
    )
    .bind(document_id)
    .bind(owner)
    .bind(i64::from(limit))
    .fetch_all(db.readers())
    .await?;
    rows.iter().map(|row| Ok((uuid(row, "id")?, get(row, "title")?))).collect()
}

/// The numbers that the conversation has given to chunks.
pub async fn source_numbers(db: &Db, id: Uuid) -> Result<Vec<(Uuid, u32)>, StorageError> {
    let rows = sqlx::query("SELECT chunk_id, n FROM sources WHERE conversation_id = $1 ORDER BY n")
        .bind(id.to_string())
        .fetch_all(db.readers())
        .await?;
    rows.iter().map(|row| Ok((uuid(row, "chunk_id")?, column::small(row, "n")?))).collect()
}

/// Deletes the conversation, its messages and turns, and the documents that only it could find; their
/// points are left as tombstones for the vector store. `false`: there is no such conversation.
pub async fn delete(db: &Db, id: Uuid) -> Result<bool, StorageError> {
    db.write(move |connection| {
        async move {
            let id = id.to_string();
            tombstones::delete_scope(connection, &id).await?;
            messages::delete_from(connection, &id, 0).await?;
            sqlx::query("DELETE FROM sources WHERE conversation_id = $1").bind(&id).execute(&mut *connection).await?;
            let done = sqlx::query("DELETE FROM conversations WHERE id = $1").bind(&id).execute(connection).await?;
            Ok(done.rows_affected() > 0)
        }
        .boxed()
    })
    .await
}

/// Makes the row; the caller is a turn that begins.
pub(super) async fn insert(
    connection: &mut Connection,
    id: Uuid,
    owner: Option<&str>,
    title: &str,
    now_ms: i64,
) -> Result<(), StorageError> {
    sqlx::query("INSERT INTO conversations (id, title, owner, created_ms, updated_ms) VALUES ($1, $2, $3, $4, $4)")
        .bind(id.to_string())
        .bind(title)
        .bind(owner)
        .bind(now_ms)
        .execute(connection)
        .await?;
    Ok(())
}

/// Moves the conversation to the top of the list. `false`: there is none.
pub(super) async fn touch(connection: &mut Connection, id: Uuid, now_ms: i64) -> Result<bool, StorageError> {
    let done = sqlx::query("UPDATE conversations SET updated_ms = $2 WHERE id = $1")
        .bind(id.to_string())
        .bind(now_ms)
        .execute(connection)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores what `[n]` means; a number that is known keeps its first meaning.
pub(super) async fn insert_source(
    connection: &mut Connection,
    conversation_id: &str,
    source: &crate::message::sources::Source,
) -> Result<(), StorageError> {
    sqlx::query(
        "INSERT INTO sources (conversation_id, n, chunk_id, document_id, title, uri, snippet, start_byte, end_byte, \
         page) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (conversation_id, n) DO NOTHING",
    )
    .bind(conversation_id)
    .bind(i64::from(source.n))
    .bind(source.chunk_id.to_string())
    .bind(&source.document_id)
    .bind(&source.title)
    .bind(&source.uri)
    .bind(&source.snippet)
    .bind(bigint(source.start))
    .bind(bigint(source.end))
    .bind(source.page.map(i64::from))
    .execute(connection)
    .await?;
    Ok(())
}
