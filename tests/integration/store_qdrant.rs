//! What only the server store has: addresses, keys, connections that break.

use crate::qdrant_server::TestServer;
use crate::store_contract::{DIMENSION, point, query};
use serde_json::json;
use std::time::{Duration, Instant};
use tailrace::knowledge::filter::Filter;
use tailrace::knowledge::store::qdrant::{CALL_LIMIT, QdrantStore};
use tailrace::knowledge::{StoreError, VectorStore};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_is_not_there_is_named_in_bounded_time() {
    // A port that was free a moment ago, and one that accepts and never answers.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let url = format!("http://{address}");
        let store = QdrantStore::new(&url, None, Duration::from_secs(1)).unwrap();
        let begun = Instant::now();
        let refused = store.search("c", &query("words", Filter::default())).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unreachable(message) if message.contains(&url)), "{refused:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = TestServer::listen("127.0.0.1:0".parse().unwrap(), Some("right-key")).await;
    let with = |key: Option<&str>| QdrantStore::new(&server.url(), key, CALL_LIMIT);
    with(Some("right-key")).unwrap().create_collection("c", DIMENSION).await.unwrap();
    for key in [None, Some("wrong-key")] {
        let refused = with(key).unwrap().create_collection("c", DIMENSION).await.unwrap_err();
        assert!(matches!(refused, StoreError::Failed(_)), "{refused:?}");
        assert!(!refused.to_string().contains("wrong-key"), "{refused}");
    }
    let refused = with(Some("broken\nkey")).unwrap_err().to_string();
    assert!(refused.contains("key") && !refused.contains("broken"), "{refused}");
    let store = with(Some("right-key")).unwrap();
    assert!(!format!("{store:?}").contains("right-key"));
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    let refused = QdrantStore::new("not an address", None, CALL_LIMIT).unwrap_err().to_string();
    assert!(refused.contains("not an address"), "{refused}");
}

#[tokio::test]
async fn eight_processes_create_one_collection() {
    let server = TestServer::start().await;
    let stores: Vec<QdrantStore> = (0..8).map(|_| QdrantStore::new(&server.url(), None, CALL_LIMIT).unwrap()).collect();
    let made = stores.iter().map(|store| store.create_collection("c", DIMENSION));
    for made in futures_util::future::join_all(made).await {
        made.unwrap();
    }
    stores[0].upsert("c", vec![point(1, "one", json!({}))]).await.unwrap();
    assert_eq!(stores[7].count("c", &Filter::default()).await.unwrap(), 1);
    let refused = stores[5].create_collection("c", DIMENSION + 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Dimension { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_store_outlives_a_restart_of_its_server() {
    let server = TestServer::start().await;
    let (address, store) = (server.address, QdrantStore::new(&server.url(), None, CALL_LIMIT).unwrap());
    store.create_collection("c", DIMENSION).await.unwrap();
    server.stop().await;
    let refused = store.upsert("c", vec![point(1, "one", json!({}))]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unreachable(_)), "{refused:?}");
    let _again = TestServer::listen(address, None).await;
    // The new server is empty; the store does not trust what it remembers of the old one.
    let refused = store.upsert("c", vec![point(1, "one", json!({}))]).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoCollection(_)), "{refused:?}");
    store.create_collection("c", DIMENSION).await.unwrap();
    store.upsert("c", vec![point(1, "one", json!({}))]).await.unwrap();
    assert_eq!(store.count("c", &Filter::default()).await.unwrap(), 1);
}
