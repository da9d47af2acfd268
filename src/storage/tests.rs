//! The writer's promises, the folder's lock, and a turn's rows, on a real database file.

mod summaries;

use super::messages::{CallOutcome, MessageStatus, StoredCall, StoredIngest, StoredRole};
use super::turn_log::{Addition, Ended, Frames};
use super::turns::{Begun, Idempotency, NewTurn, Progress, StartedTurn, TurnEnd};
use super::{Db, DbOptions, StorageError, conversations, messages, turn_log, turns};
use crate::message::Usage;
use crate::message::sources::Source;
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Map, json};
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;

fn options(folder: &TempDir) -> DbOptions {
    DbOptions { data_dir: folder.path().to_owned(), url: None }
}

async fn open() -> (TempDir, Db) {
    let folder = TempDir::new().unwrap();
    let db = Db::open(&options(&folder)).await.unwrap();
    (folder, db)
}

async fn insert(db: &Db, name: &'static str, then: Result<(), StorageError>) -> Result<(), StorageError> {
    db.write(move |connection| {
        async move {
            sqlx::query("INSERT INTO sequence (name, value) VALUES ($1, 1)").bind(name).execute(connection).await?;
            then
        }
        .boxed()
    })
    .await
}

async fn names(db: &Db) -> Vec<String> {
    sqlx::query_scalar("SELECT name FROM sequence ORDER BY name").fetch_all(db.readers()).await.unwrap()
}

#[tokio::test]
async fn a_failed_job_takes_back_its_own_work_only() {
    let (_folder, db) = open().await;
    let no = || Err(StorageError::Conflict("no".to_owned()));
    let outcomes = join_all([
        insert(&db, "a", Ok(())).boxed(),
        insert(&db, "b", no()).boxed(),
        insert(&db, "c", Ok(())).boxed(),
        insert(&db, "c", Ok(())).boxed(),
        db.write(|_| async { panic!("a job's own fault") }.boxed()).boxed(),
        insert(&db, "d", Ok(())).boxed(),
    ])
    .await;
    let ok: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true, false, false, true]);
    assert!(matches!(outcomes[1], Err(StorageError::Conflict(_))));
    assert_eq!(names(&db).await, ["a", "c", "d", "knowledge"]);
}

#[tokio::test]
async fn writers_that_wait_together_share_commits() {
    let (folder, db) = open().await;
    let writes = (0..200).map(|n| {
        db.write(move |connection| {
            async move {
                sqlx::query("INSERT INTO sequence (name, value) VALUES ($1, $2)")
                    .bind(format!("n{n}"))
                    .bind(n)
                    .execute(&mut *connection)
                    .await?;
                Ok(sqlx::query_scalar("SELECT COUNT(*) FROM sequence").fetch_one(connection).await?)
            }
            .boxed()
        })
    });
    // What the schema took is there before.
    let pages = || std::fs::metadata(folder.path().join("tailrace.db-wal")).unwrap().len() / 4096;
    let before = pages();
    let counts: Vec<i64> = join_all(writes).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(counts.iter().max(), Some(&201));
    let seen: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sequence").fetch_one(db.readers()).await.unwrap();
    assert_eq!(seen, 201, "what was acknowledged is seen by readers at once");
    // Each commit appends the page it changed, so pages in the log count commits.
    let frames = pages() - before;
    assert!(frames < 100, "200 writes of one row left {frames} pages in the log: they did not share commits");
}

#[tokio::test]
async fn close_writes_what_is_queued_and_lets_go_of_the_folder() {
    let (folder, db) = open().await;
    let waiting = join_all(["x", "y", "z"].map(|name| insert(&db, name, Ok(()))));
    let (written, ()) = tokio::join!(waiting, db.close());
    let written: Vec<bool> = written.iter().map(Result::is_ok).collect();
    assert!(matches!(insert(&db, "late", Ok(())).await, Err(StorageError::Closed)));
    let again = Db::open(&options(&folder)).await.unwrap();
    let expected: Vec<&str> = ["x", "y", "z"].into_iter().zip(written).filter(|(_, ok)| *ok).map(|(n, _)| n).collect();
    assert_eq!(names(&again).await[1..], expected[..], "exactly what was acknowledged");
}

#[tokio::test]
async fn a_folder_in_use_is_refused_by_name() {
    let (folder, db) = open().await;
    let refused = Db::open(&options(&folder)).await.unwrap_err();
    assert!(matches!(refused, StorageError::FolderInUse(_)), "{refused}");
    assert!(refused.to_string().contains(&folder.path().display().to_string()), "{refused}");
    db.close().await;
    Db::open(&options(&folder)).await.unwrap();
}

#[tokio::test]
async fn a_database_from_a_newer_version_is_refused_with_both_versions() {
    let (folder, db) = open().await;
    db.write(|connection| {
        async move {
            sqlx::query(
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'from the future', 1, x'00', 0)",
            )
            .execute(connection)
            .await?;
            Ok(())
        }
        .boxed()
    })
    .await
    .unwrap();
    db.close().await;
    let refused = Db::open(&options(&folder)).await.unwrap_err();
    let StorageError::NewerVersion { found: 9999, known } = refused else { panic!("{refused}") };
    assert!(refused.to_string().contains("9999") && refused.to_string().contains(&known.to_string()));
}

#[tokio::test]
async fn addresses_of_other_databases_are_refused_without_repeating_secrets() {
    let folder = TempDir::new().unwrap();
    for (url, word) in [("postgres://u:secret@h/db", "postgres://"), ("sqlite::memory:", "memory")] {
        let options = DbOptions { data_dir: folder.path().to_owned(), url: Some(url.to_owned()) };
        let refused = Db::open(&options).await.unwrap_err();
        assert!(matches!(refused, StorageError::Address { .. }), "{refused}");
        assert!(refused.to_string().contains(word) && !refused.to_string().contains("secret"), "{refused}");
    }
}

fn turn(conversation_id: Option<Uuid>, text: &str) -> NewTurn {
    NewTurn {
        turn_id: Uuid::now_v7(),
        conversation_id: conversation_id.unwrap_or_else(Uuid::now_v7),
        opens: conversation_id.is_none(),
        owner: None,
        user_text: text.to_owned(),
        replace_message_id: None,
        provider: "extractive".to_owned(),
        model: "extractive".to_owned(),
        tool_mode: "inline",
        idempotency: None,
    }
}

fn call(position: u32, outcome: CallOutcome) -> StoredCall {
    StoredCall {
        call_id: format!("c{position}"),
        name: "fetch_url".to_owned(),
        arguments: Map::from_iter([("url".to_owned(), json!("http://x/"))]),
        round: 0,
        index: position,
        span: Some((3, 9)),
        outcome,
        duration_ms: 12,
        ingest_ms: Some(3),
        truncated: false,
        ingested: Some(StoredIngest {
            document_id: "d".to_owned(),
            chunks: 2,
            collection: "default".to_owned(),
            scope: "conversation".to_owned(),
            fresh: true,
        }),
    }
}

fn source(n: u32) -> Source {
    Source {
        n,
        document_id: "d".to_owned(),
        chunk_id: Uuid::from_u128(u128::from(n)),
        title: "T".to_owned(),
        uri: "u".to_owned(),
        snippet: "s".to_owned(),
        score: 0.25,
        start: 1,
        end: 2,
        page: None,
    }
}

/// As many frames as the text has bytes.
fn frames(first_seq: u64, text: &str) -> Frames {
    let last_seq = first_seq + text.len() as u64 - 1;
    Frames { first_seq, last_seq, at_ms: last_seq * 10, bytes: text.into() }
}

async fn begin(db: &Db, turn: NewTurn) -> StartedTurn {
    match turns::start(db, turn).await.unwrap() {
        Begun::New(started) => started,
        known => panic!("{known:?}"),
    }
}

async fn add(db: &Db, turn_id: Uuid, frames: Frames, progress: Option<Progress>) {
    let id = turn_log::next_id(db).await.unwrap();
    turn_log::append(db, id, vec![Addition { turn_id, frames, progress }]).await.unwrap();
}

fn end(progress: Progress) -> TurnEnd {
    TurnEnd {
        progress,
        frames: frames(1, "abcdef, end"),
        cut_after: None,
        finish: "complete",
        fallback_reason: None,
        usage: Usage { input_tokens: 7, output_tokens: 5, cache_read_tokens: 0 },
        telemetry: json!({"rounds": 1}),
        error: None,
    }
}

#[tokio::test]
async fn a_turn_is_stored_as_it_goes_and_ends_once() {
    let (_folder, db) = open().await;
    let new = turn(None, "  \nHow many *days* of leave?\nmore");
    let id = new.turn_id;
    let started = begin(&db, new).await;
    let half = Progress { text: String::new(), calls: vec![call(0, CallOutcome::Running)], sources: vec![] };
    add(&db, id, frames(1, "abc"), Some(half)).await;
    add(&db, id, frames(4, "d"), None).await;
    let whole = Progress {
        text: "Half and whole [1]".to_owned(),
        calls: vec![
            call(0, CallOutcome::Ok { output: "out".to_owned() }),
            call(1, CallOutcome::Rejected { reason: "cap_round".to_owned(), error: "too many".to_owned() }),
        ],
        sources: vec![source(1)],
    };
    add(&db, id, frames(5, "ef"), Some(whole.clone())).await;
    assert!(turns::finish(&db, id, Arc::new(end(whole.clone()))).await.unwrap());
    add(&db, id, frames(5, "e"), Some(Progress::default())).await;
    assert!(!turns::finish(&db, id, Arc::new(end(Progress::default()))).await.unwrap(), "it has ended");
    assert_eq!(turn_log::read(&db, id).await.unwrap().frames, frames(1, "abcdef, end"));
    assert_eq!(turn_log::read(&db, Uuid::now_v7()).await.unwrap(), Ended::default());
    let next = turn_log::next_id(&db).await.unwrap();
    turn_log::forget_before(&db, next).await.unwrap();
    assert_eq!(turn_log::next_id(&db).await.unwrap(), 1);

    let history = messages::history(&db, started.conversation_id).await.unwrap();
    assert_eq!(history.len(), 2);
    let (question, answer) = (&history[0], &history[1]);
    assert_eq!((question.role, answer.role), (StoredRole::User, StoredRole::Assistant));
    assert_eq!(question.text, "  \nHow many *days* of leave?\nmore");
    assert_eq!((answer.text.as_str(), answer.status), (whole.text.as_str(), MessageStatus::Done));
    assert_eq!(answer.finish.as_deref(), Some("complete"));
    assert_eq!((&answer.calls, &answer.sources), (&whole.calls, &whole.sources));
    assert_eq!(answer.usage.output_tokens, 5);
    let stored = turns::find(&db, id).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.telemetry), (MessageStatus::Done, Some(json!({"rounds": 1}))));
    let numbers = conversations::source_numbers(&db, started.conversation_id).await.unwrap();
    assert_eq!(numbers, [(Uuid::from_u128(1), 1)]);
    let conversation = conversations::find(&db, started.conversation_id).await.unwrap().unwrap();
    assert_eq!((conversation.title.as_str(), conversation.messages), ("How many *days* of leave?", 2));
}

#[tokio::test]
async fn after_a_crash_a_running_turn_is_interrupted_and_keeps_its_text() {
    let (folder, db) = open().await;
    let new = turn(None, "q");
    let id = new.turn_id;
    let started = begin(&db, new).await;
    let half = Progress { text: String::new(), calls: vec![call(0, CallOutcome::Running)], sources: vec![] };
    add(&db, id, frames(1, "so "), Some(half.clone())).await;
    add(&db, Uuid::now_v7(), frames(1, "other"), None).await;
    add(&db, id, frames(4, "far"), None).await;
    db.close().await;
    let db = Db::open(&options(&folder)).await.unwrap();
    let cut = turns::cut(&db).await.unwrap();
    assert_eq!((cut.len(), cut[0].id, &cut[0].log, &cut[0].calls), (1, id, &frames(1, "so far"), &half.calls));
    let end = end(Progress { text: "so far".to_owned(), ..half });
    assert!(
        turns::finish(&db, id, Arc::new(TurnEnd { finish: "interrupted", cut_after: Some(6), ..end })).await.unwrap()
    );
    assert_eq!(turn_log::read(&db, id).await.unwrap().cut_after, Some(6));
    assert!(turns::cut(&db).await.unwrap().is_empty());
    let answer = messages::history(&db, started.conversation_id).await.unwrap().remove(1);
    assert_eq!((answer.text.as_str(), answer.status), ("so far", MessageStatus::Interrupted));
    assert_eq!(answer.finish.as_deref(), Some("interrupted"));
    assert_eq!(turns::find(&db, id).await.unwrap().unwrap().status, MessageStatus::Interrupted);
}

#[tokio::test]
async fn a_clients_key_begins_one_turn_for_each_owner() {
    let (_folder, db) = open().await;
    let with = |owner: Option<&str>, key: &str, body: &str| NewTurn {
        owner: owner.map(str::to_owned),
        idempotency: Some(Idempotency { key: key.to_owned(), body_hash: body.to_owned() }),
        ..turn(None, "q")
    };
    let first = with(None, "k", "a");
    let turn_id = first.turn_id;
    begin(&db, first).await;
    for (body, same_body) in [("a", true), ("b", false)] {
        let again = turns::start(&db, with(None, "k", body)).await.unwrap();
        assert_eq!(again, Begun::Known { turn_id, same_body });
    }
    begin(&db, with(Some("other"), "k", "a")).await;
    begin(&db, with(None, "l", "a")).await;
}

#[tokio::test]
async fn an_edited_message_replaces_what_followed_it() {
    let (_folder, db) = open().await;
    let first = turn(None, "one");
    let first_id = first.turn_id;
    let started = begin(&db, first).await;
    let conversation = started.conversation_id;
    let mut edit = turn(Some(conversation), "one, edited");
    edit.replace_message_id = Some(started.user_message_id);
    let running = turns::start(&db, edit.clone()).await.unwrap_err();
    assert!(matches!(running, StorageError::Conflict(_)), "{running}");
    let progress = Progress { text: "answer".to_owned(), calls: vec![], sources: vec![source(1)] };
    turns::finish(&db, first_id, Arc::new(end(progress))).await.unwrap();
    let second = turn(Some(conversation), "two");
    let second_id = second.turn_id;
    begin(&db, second).await;
    turns::finish(&db, second_id, Arc::new(end(Progress::default()))).await.unwrap();

    let mut wrong = edit.clone();
    wrong.replace_message_id = Some(started.assistant_message_id);
    assert!(matches!(turns::start(&db, wrong).await, Err(StorageError::Conflict(_))));
    let mut missing = edit.clone();
    missing.replace_message_id = Some(Uuid::now_v7());
    assert!(matches!(turns::start(&db, missing).await, Err(StorageError::NotFound { what: "message", .. })));

    begin(&db, edit).await;
    let texts: Vec<String> = messages::history(&db, conversation).await.unwrap().into_iter().map(|m| m.text).collect();
    assert_eq!(texts, ["one, edited", ""]);
    assert_eq!(turns::find(&db, second_id).await.unwrap(), None);
    assert_eq!(conversations::source_numbers(&db, conversation).await.unwrap().len(), 1, "numbers stay given");
}

#[tokio::test]
async fn conversations_are_listed_found_renamed_and_deleted() {
    let (_folder, db) = open().await;
    let unknown = turns::start(&db, turn(Some(Uuid::now_v7()), "x")).await.unwrap_err();
    assert!(matches!(unknown, StorageError::NotFound { what: "conversation", .. }), "{unknown}");
    let mut ids = Vec::new();
    for (text, owner) in [("Fish 100%", None), ("birds", Some("k1")), ("A_b", Some("k2"))] {
        let mut new = turn(None, text);
        new.owner = owner.map(str::to_owned);
        ids.push(begin(&db, new).await.conversation_id);
    }
    let list = |query: conversations::ListQuery| {
        let db = db.clone();
        async move { conversations::list(&db, &query).await.unwrap().into_iter().map(|c| c.title).collect::<Vec<_>>() }
    };
    let page = |limit| conversations::ListQuery { limit, ..Default::default() };
    let mut all = list(page(9)).await;
    let head = conversations::list(&db, &page(2)).await.unwrap();
    let cursor: conversations::ListCursor = head[1].cursor().to_string().parse().unwrap();
    let tail = list(conversations::ListQuery { before: Some(cursor), ..page(9) }).await;
    assert_eq!(all[2..], tail[..]);
    all.sort();
    assert_eq!(all, ["A_b", "Fish 100%", "birds"]);
    for (q, found) in
        [("fish", vec!["Fish 100%"]), ("%", vec!["Fish 100%"]), ("_", vec!["A_b"]), ("IRD", vec!["birds"])]
    {
        let query = conversations::ListQuery { q: Some(q.to_owned()), ..page(9) };
        assert_eq!(list(query).await, found, "{q}");
    }
    let owned = conversations::ListQuery { owner: Some("k1".to_owned()), ..page(9) };
    assert_eq!(list(owned).await, ["birds"]);
    assert!(conversations::rename(&db, ids[1], "Eagles".to_owned()).await.unwrap());
    assert_eq!(conversations::find(&db, ids[1]).await.unwrap().unwrap().title, "Eagles");
    assert!(conversations::delete(&db, ids[0]).await.unwrap());
    assert!(!conversations::delete(&db, ids[0]).await.unwrap());
    assert_eq!(conversations::find(&db, ids[0]).await.unwrap(), None);
    assert!(messages::history(&db, ids[0]).await.unwrap().is_empty());
    assert_eq!(list(page(9)).await.len(), 2);
}
