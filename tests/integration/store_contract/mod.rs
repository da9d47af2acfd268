//! What every `VectorStore` promises, as one suite that each test runs against each store.
//! With `TAILRACE_TEST_QDRANT_URL` a real server is one of them.

mod searches;
mod writes;

use crate::qdrant_server::TestServer;
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use tailrace::knowledge::filter::{Condition, Filter};
use tailrace::knowledge::keyword::{Keywords, Language};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::store::qdrant::{CALL_LIMIT, QdrantStore};
use tailrace::knowledge::{Payload, Point, Scope, StoreQuery, VectorStore};
use uuid::Uuid;

pub const DIMENSION: usize = 32;

/// Runs a test on every store, with a collection name of its own. The collection is deleted afterwards.
pub async fn each<F, Done>(test: F)
where
    F: Fn(Arc<dyn VectorStore>, String) -> Done,
    Done: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start().await;
    let mut stores: Vec<Arc<dyn VectorStore>> = vec![
        Arc::new(EdgeStore::open(folder.path()).unwrap()),
        Arc::new(QdrantStore::new(&server.url(), None, CALL_LIMIT).unwrap()),
    ];
    if let Ok(url) = std::env::var("TAILRACE_TEST_QDRANT_URL") {
        let key = std::env::var("TAILRACE_TEST_QDRANT_API_KEY").ok();
        stores.push(Arc::new(QdrantStore::new(&url, key.as_deref(), CALL_LIMIT).unwrap()));
    }
    for store in stores {
        let collection = format!("test-{}", Uuid::now_v7());
        test(store.clone(), collection.clone()).await;
        store.delete_collection(&collection).await.unwrap();
    }
}

/// `each`, with the collection made and filled.
pub async fn each_with<F, Done>(points: Vec<Point>, test: F)
where
    F: Fn(Arc<dyn VectorStore>, String) -> Done,
    Done: Future<Output = ()>,
{
    each(|store, name| {
        let points = points.clone();
        let test = &test;
        async move {
            store.create_collection(&name, DIMENSION).await.unwrap();
            store.upsert(&name, points).await.unwrap();
            test(store, name).await;
        }
    })
    .await;
}

pub fn keywords() -> Keywords {
    Keywords::new(Language::English).unwrap()
}

/// A unit vector from the words of a text: texts that share words are near each other.
pub fn dense(text: &str) -> Vec<f32> {
    let mut sum = vec![0f32; DIMENSION];
    for word in text.split_whitespace() {
        let mut state =
            word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        for x in &mut sum {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *x += (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        }
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    sum.into_iter().map(|x| x / length).collect()
}

pub fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn point(n: u128, text: &str, metadata: Value) -> Point {
    Point {
        id: id(n),
        dense: dense(text),
        bm25: keywords().document(text),
        payload: Payload {
            document_id: format!("doc-{n}"),
            chunk_id: id(n),
            version: 1,
            scope: Scope::Collection,
            title: format!("Title {n}"),
            uri: format!("file:///{n}.md"),
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            expires_at: None,
        },
    }
}

pub fn query(text: &str, filter: Filter) -> StoreQuery {
    StoreQuery { dense: Some(dense(text)), bm25: Some(keywords().query(text)), filter, limit: 10 }
}

pub fn must(condition: Condition) -> Filter {
    Filter { must: vec![condition], ..Filter::default() }
}

pub fn equal(key: &str, value: Value) -> Condition {
    Condition::Match { key: key.into(), value }
}

/// What any leg names.
pub async fn found(store: &Arc<dyn VectorStore>, collection: &str, query: &StoreQuery) -> BTreeSet<Uuid> {
    let legs = store.search(collection, query).await.unwrap();
    legs.dense.into_iter().chain(legs.bm25).map(|hit| hit.id).collect()
}
