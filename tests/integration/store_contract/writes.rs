//! Collections and points come and go as they should.

use super::{DIMENSION, each, each_with, equal, found, id, must, point, query};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tailrace::knowledge::filter::Filter;
use tailrace::knowledge::{Point, SparseVector, StoreError, StoreQuery};
use uuid::Uuid;

#[tokio::test]
async fn creating_twice_changes_nothing_and_another_dimension_is_refused() {
    each(|store, name| async move {
        store.create_collection(&name, DIMENSION).await.unwrap();
        store.upsert(&name, vec![point(1, "one", json!({}))]).await.unwrap();
        store.create_collection(&name, DIMENSION).await.unwrap();
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 1);
        let refused = store.create_collection(&name, DIMENSION + 1).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Dimension { collection, found: DIMENSION, wanted } if *collection == name && *wanted == DIMENSION + 1),
            "{} {refused:?}",
            store.kind()
        );
        assert_eq!(store.ids(&name).await.unwrap(), [id(1)]);
    })
    .await;
}

#[tokio::test]
async fn eight_at_once_create_one_collection() {
    each(|store, name| async move {
        let creations = (0..8).map(|_| store.create_collection(&name, DIMENSION));
        for made in futures_util::future::join_all(creations).await {
            made.unwrap();
        }
        store.upsert(&name, vec![point(1, "one", json!({}))]).await.unwrap();
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_collection_is_named() {
    each(|store, name| async move {
        let is_named = |result: Result<(), StoreError>| {
            assert!(matches!(&result, Err(StoreError::NoCollection(c)) if *c == name), "{} {result:?}", store.kind());
        };
        is_named(store.upsert(&name, vec![point(1, "one", json!({}))]).await);
        is_named(store.delete(&name, &[id(1)]).await);
        is_named(store.search(&name, &query("one", Filter::default())).await.map(drop));
        is_named(store.count(&name, &Filter::default()).await.map(drop));
        is_named(store.ids(&name).await.map(drop));
        store.create_collection(&name, DIMENSION).await.unwrap();
        store.delete_collection(&name).await.unwrap();
        is_named(store.count(&name, &Filter::default()).await.map(drop));
        // Deleting what is not there is fine: whoever crashed while deleting tries again.
        store.delete_collection(&name).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn upsert_replaces_the_whole_point() {
    let old = point(1, "glaciers melt in summer", json!({ "lang": "en", "tags": ["ice"] }));
    each_with(vec![old], |store, name| async move {
        let mut new = point(1, "volcanoes erupt", json!({ "lang": "de" }));
        new.bm25 = SparseVector::default();
        store.upsert(&name, vec![new]).await.unwrap();
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 1);
        let count = |filter: Filter| {
            let (store, name) = (store.clone(), name.clone());
            async move { store.count(&name, &filter).await.unwrap() }
        };
        assert_eq!(count(must(equal("metadata.lang", json!("en")))).await, 0);
        assert_eq!(count(must(equal("metadata.tags", json!("ice")))).await, 0);
        assert_eq!(count(must(equal("metadata.lang", json!("de")))).await, 1);
        let by_words = StoreQuery { dense: None, ..query("glaciers", Filter::default()) };
        assert!(found(&store, &name, &by_words).await.is_empty(), "{}: the old terms are still there", store.kind());
        let near = StoreQuery { bm25: None, ..query("volcanoes erupt", Filter::default()) };
        assert!(store.search(&name, &near).await.unwrap().dense[0].score > 0.999);
    })
    .await;
}

#[tokio::test]
async fn deleted_points_are_gone_and_unknown_ids_are_skipped() {
    let points = (1..=5).map(|n| point(n, "the same text", json!({}))).collect();
    each_with(points, |store, name| async move {
        store.delete(&name, &[id(2), id(4), id(99)]).await.unwrap();
        store.delete(&name, &[]).await.unwrap();
        let left = BTreeSet::from([id(1), id(3), id(5)]);
        assert_eq!(store.ids(&name).await.unwrap().into_iter().collect::<BTreeSet<_>>(), left);
        assert_eq!(found(&store, &name, &query("same text", Filter::default())).await, left);
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn many_points_and_big_ones_arrive_whole() {
    let mut points: Vec<Point> = (1..=700).map(|n| point(n, &format!("text number {n}"), json!({}))).collect();
    for point in &mut points[..6] {
        let big: Map<String, Value> = [("blob".to_owned(), json!("x".repeat(3 << 20)))].into_iter().collect();
        point.payload.metadata = big;
    }
    each_with(points, |store, name| async move {
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 700);
        let ids: BTreeSet<Uuid> = store.ids(&name).await.unwrap().into_iter().collect();
        assert_eq!(ids, (1..=700).map(id).collect());
        assert!(found(&store, &name, &query("number 3", Filter::default())).await.contains(&id(3)));
    })
    .await;
}

#[tokio::test]
async fn vectors_of_another_length_are_refused_and_nothing_is_written() {
    each_with(vec![], |store, name| async move {
        let mut wrong = point(2, "two", json!({}));
        wrong.dense.push(0.0);
        let refused = |result: Result<(), StoreError>| {
            let wanted = DIMENSION + 1;
            assert!(
                matches!(&result, Err(StoreError::Dimension { found: DIMENSION, wanted: w, .. }) if *w == wanted),
                "{} {result:?}",
                store.kind()
            );
        };
        refused(store.upsert(&name, vec![point(1, "one", json!({})), wrong.clone()]).await);
        assert_eq!(store.count(&name, &Filter::default()).await.unwrap(), 0);
        let query = StoreQuery { dense: Some(wrong.dense), ..query("two", Filter::default()) };
        refused(store.search(&name, &query).await.map(drop));
    })
    .await;
}
