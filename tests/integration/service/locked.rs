//! Another process writes to the database, longer than anybody waits for it.

use super::*;
use crate::upstream::{Script, Signal, Step, Upstream, openai};
use futures_util::StreamExt;
use serde_json::json;
use sqlx::{Connection, SqliteConnection};
use std::time::Instant;

/// Holds the database's write lock until it is dropped.
async fn lock(service: &Service) -> SqliteConnection {
    let file = service.data.path().join("tailrace.db");
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let begin = sqlx::query("BEGIN IMMEDIATE");
    begin.execute(&mut connection).await.unwrap();
    connection
}

/// Longer than the server waits for the lock.
const LOCKED: Duration = Duration::from_secs(12);

#[tokio::test]
async fn the_end_of_a_turn_is_told_once_it_is_stored() {
    let go = Signal::new();
    let slow = Script::stream([openai::text("word"), Step::Wait(go.clone()), openai::finish("stop"), openai::done()]);
    let upstream = Upstream::start([slow]).await;
    let service = Service::behind(&upstream, &[]).await;
    let body = json!({"message": "Hi", "retrieval": "off"});
    let mut stream = service.post("/api/v1/chat", &body).send().await.unwrap().bytes_stream();
    let mut seen = String::new();
    while !seen.contains("word") {
        seen.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
    }
    let locked = lock(&service).await;
    go.send();
    let waiting = async {
        while let Some(more) = stream.next().await {
            seen.push_str(&String::from_utf8_lossy(&more.unwrap()));
            assert!(!seen.contains("turn_end"), "{seen}");
        }
    };
    assert!(tokio::time::timeout(LOCKED, waiting).await.is_err(), "it has ended");
    let busy = service.post("/api/v1/chat", &body).send();
    let (busy, ()) = tokio::join!(busy, async { tokio::time::sleep(LOCKED).await });
    let busy = busy.unwrap();
    assert_eq!((busy.status().as_u16(), busy.headers().contains_key("retry-after")), (503, true));
    drop(locked);
    while let Some(more) = stream.next().await {
        seen.push_str(&String::from_utf8_lossy(&more.unwrap()));
    }
    let frames = Frames::parse(&seen);
    assert_eq!(frames.end()["finish"], "complete");
    let turn = frames.named("turn_start")[0]["turn_id"].as_str().unwrap().to_owned();
    let stored = service.json(&format!("/api/v1/turns/{turn}")).await;
    assert_eq!((&stored["finish"], &stored["text"]), (&json!("complete"), &json!("word")));
}

#[tokio::test]
async fn a_database_that_cannot_be_written_does_not_hold_the_exit() {
    let mut service = Service::with(&[("TAILRACE__SERVER__DRAIN_TIMEOUT_MS", "500")]).await;
    service.ingest("a.md", "The osprey dives.").await;
    let locked = lock(&service).await;
    let began = Instant::now();
    let pid = service.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    tokio::time::timeout(PATIENCE, service.child.wait()).await.expect("it does not end").unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(locked);
}
