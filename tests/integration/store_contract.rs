//! What every `VectorStore` promises, as one suite that each test runs against each store.
//! With `TAILRACE_TEST_QDRANT_URL` a real server is one of them.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use tailrace::knowledge::filter::{Condition, Filter, Range};
use tailrace::knowledge::keyword::{Keywords, Language};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::{Payload, Point, Scope, SparseVector, StoreError, StoreQuery, VectorStore};
use uuid::Uuid;

const DIMENSION: usize = 32;

/// Runs a test on every store, with a collection name of its own. The collection is deleted afterwards.
async fn each<F, Done>(test: F)
where
    F: Fn(Arc<dyn VectorStore>, String) -> Done,
    Done: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<Arc<dyn VectorStore>> = vec![Arc::new(EdgeStore::open(folder.path()).unwrap())];
    for store in stores {
        let collection = format!("test-{}", Uuid::now_v7());
        test(store.clone(), collection.clone()).await;
        store.delete_collection(&collection).await.unwrap();
    }
}

/// `each`, with the collection made and filled.
async fn each_with<F, Done>(points: Vec<Point>, test: F)
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

fn keywords() -> Keywords {
    Keywords::new(Language::English).unwrap()
}

/// A unit vector from the words of a text: texts that share words are near each other.
fn dense(text: &str) -> Vec<f32> {
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

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn point(n: u128, text: &str, metadata: Value) -> Point {
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

fn query(text: &str, filter: Filter) -> StoreQuery {
    StoreQuery { dense: Some(dense(text)), bm25: Some(keywords().query(text)), filter, limit: 10, prefetch: 50 }
}

fn must(condition: Condition) -> Filter {
    Filter { must: vec![condition], ..Filter::default() }
}

fn equal(key: &str, value: Value) -> Condition {
    Condition::Match { key: key.into(), value }
}

async fn found(store: &Arc<dyn VectorStore>, collection: &str, query: &StoreQuery) -> BTreeSet<Uuid> {
    store.search(collection, query).await.unwrap().into_iter().map(|hit| hit.id).collect()
}

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
        assert!(store.search(&name, &near).await.unwrap()[0].score > 0.999);
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
async fn every_filter_selects_what_it_says() {
    let points = vec![
        point(
            1,
            "text",
            json!({ "lang": "de", "year": 2020, "draft": true, "tags": ["a", "b"], "deep": { "x": { "y": 1 } } }),
        ),
        point(2, "text", json!({ "lang": "en", "year": 2021, "draft": false, "tags": ["b", "c"], "size": 1.5 })),
        point(3, "text", json!({ "lang": "fr", "year": 2022, "tags": [], "none": null, "file type": "pdf" })),
        point(4, "text", json!({ "year": [1999, 2023], "mixed": ["a", 7, true] })),
    ];
    let any =
        |key: &str, values: Value| must(Condition::Any { key: key.into(), values: values.as_array().unwrap().clone() });
    let range = |key: &str, range: Range| must(Condition::Range { key: key.into(), range });
    let empty = |key: &str| must(Condition::Empty { key: key.into() });
    let lang = |l: &str| equal("metadata.lang", json!(l));
    let none = Range::default();
    let cases: Vec<(Filter, &[u128])> = vec![
        (Filter::default(), &[1, 2, 3, 4]),
        (must(lang("de")), &[1]),
        (must(lang("DE")), &[]),
        (must(equal("metadata.year", json!(2021))), &[2]),
        (must(equal("metadata.year", json!("2021"))), &[]),
        (must(equal("metadata.year", json!(2023))), &[4]),
        (must(equal("metadata.draft", json!(true))), &[1]),
        (must(equal("metadata.draft", json!(false))), &[2]),
        (must(equal("metadata.size", json!(1.5))), &[2]),
        (must(equal("metadata.tags", json!("b"))), &[1, 2]),
        (must(equal("metadata.deep.x.y", json!(1))), &[1]),
        (must(equal("metadata.file type", json!("pdf"))), &[3]),
        (must(equal("title", json!("Title 2"))), &[2]),
        (must(equal("uri", json!("file:///4.md"))), &[4]),
        (must(equal("document_id", json!("doc-3"))), &[3]),
        (any("metadata.lang", json!(["de", "fr", "xx"])), &[1, 3]),
        (any("metadata.year", json!([2020, 2022])), &[1, 3]),
        (any("metadata.mixed", json!(["z", 7])), &[4]),
        (any("metadata.draft", json!([true, "x"])), &[1]),
        (any("metadata.lang", json!([])), &[]),
        (range("metadata.year", Range { gte: Some(2021.0), ..none }), &[2, 3, 4]),
        (range("metadata.year", Range { gt: Some(2021.0), lt: Some(2023.0), ..none }), &[3]),
        (range("metadata.year", Range { lte: Some(2020.0), ..none }), &[1, 4]),
        (range("metadata.size", Range { gt: Some(1.4), lt: Some(1.6), ..none }), &[2]),
        (range("metadata.lang", Range { gte: Some(0.0), ..none }), &[]),
        (empty("metadata.lang"), &[4]),
        (empty("metadata.none"), &[1, 2, 3, 4]),
        (empty("metadata.tags"), &[3, 4]),
        (empty("expires_at"), &[1, 2, 3, 4]),
        (Filter { must_not: vec![lang("de"), lang("en")], ..Filter::default() }, &[3, 4]),
        (Filter { should: vec![lang("de"), equal("metadata.year", json!(2022))], ..Filter::default() }, &[1, 3]),
        (
            Filter {
                must: vec![Condition::Range {
                    key: "metadata.year".into(),
                    range: Range { gte: Some(2020.0), ..none },
                }],
                should: vec![lang("de"), lang("en")],
                must_not: vec![equal("metadata.tags", json!("c"))],
            },
            &[1],
        ),
        (
            must(Condition::All(Filter {
                should: vec![Condition::All(must(lang("fr"))), equal("metadata.draft", json!(true))],
                ..Filter::default()
            })),
            &[1, 3],
        ),
        (must(Condition::All(Filter::default())), &[1, 2, 3, 4]),
    ];
    let cases = &cases;
    each_with(points, |store, name| async move {
        for (filter, expected) in cases {
            let expected: BTreeSet<Uuid> = expected.iter().map(|n| id(*n)).collect();
            let count = store.count(&name, filter).await.unwrap();
            assert_eq!(count, expected.len() as u64, "{} counts {filter:?}", store.kind());
            for (dense, sparse) in [(true, true), (true, false), (false, true)] {
                let mut query = query("text", filter.clone());
                query.dense = query.dense.filter(|_| dense);
                query.bm25 = query.bm25.filter(|_| sparse);
                assert_eq!(
                    found(&store, &name, &query).await,
                    expected,
                    "{} dense {dense} sparse {sparse} {filter:?}",
                    store.kind()
                );
            }
        }
        let refused = store.count(&name, &must(equal("metadata.lang", json!(null)))).await.unwrap_err();
        assert!(refused.to_string().contains("metadata.lang"), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn scopes_and_expiry_are_kept_apart() {
    let (mine, other) = (Uuid::from_u128(71), Uuid::from_u128(72));
    let mut points: Vec<Point> = (1..=4).map(|n| point(n, "a finding", json!({}))).collect();
    points[1].payload.scope = Scope::Conversation(mine);
    points[2].payload.scope = Scope::Conversation(other);
    points[3].payload.scope = Scope::Conversation(mine);
    points[3].payload.expires_at = Some(1_000);
    points[1].payload.expires_at = Some(2_000);
    each_with(points, |store, name| async move {
        let seen = |scopes: Vec<Scope>, now: f64| {
            let (store, name) = (store.clone(), name.clone());
            async move {
                let alive = Range { gt: Some(now), ..Range::default() };
                let filter = Filter {
                    must: vec![Condition::Any {
                        key: "scope".into(),
                        values: scopes.iter().map(|s| json!(s.key())).collect(),
                    }],
                    should: vec![
                        Condition::Empty { key: "expires_at".into() },
                        Condition::Range { key: "expires_at".into(), range: alive },
                    ],
                    must_not: vec![],
                };
                found(&store, &name, &query("finding", filter)).await
            }
        };
        let mine = Scope::Conversation(mine);
        assert_eq!(seen(vec![Scope::Collection], 0.0).await, BTreeSet::from([id(1)]));
        assert_eq!(seen(vec![Scope::Collection, mine], 0.0).await, BTreeSet::from([id(1), id(2), id(4)]));
        assert_eq!(seen(vec![Scope::Collection, mine], 1_000.0).await, BTreeSet::from([id(1), id(2)]));
        assert_eq!(seen(vec![Scope::Collection, mine], 2_000.0).await, BTreeSet::from([id(1)]));
        assert_eq!(seen(vec![Scope::Conversation(Uuid::nil())], 0.0).await, BTreeSet::new());
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

#[tokio::test]
async fn limits_and_missing_vectors_are_respected() {
    let points = (1..=30).map(|n| point(n, &format!("common word{n}"), json!({}))).collect();
    each_with(points, |store, name| async move {
        let all = query("common", Filter::default());
        for limit in [0, 1, 7, 30, 100] {
            let hits = store.search(&name, &StoreQuery { limit, prefetch: 1, ..all.clone() }).await.unwrap();
            assert_eq!(hits.len(), limit.min(30), "{} limit {limit}", store.kind());
            assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
        }
        let nothing = StoreQuery { dense: None, bm25: None, ..all.clone() };
        assert!(store.search(&name, &nothing).await.unwrap().is_empty());
        let no_terms = StoreQuery { dense: None, bm25: Some(SparseVector::default()), ..all.clone() };
        assert!(store.search(&name, &no_terms).await.unwrap().is_empty());
        let only_dense = StoreQuery { bm25: Some(SparseVector::default()), ..all };
        assert_eq!(store.search(&name, &only_dense).await.unwrap().len(), 10);
    })
    .await;
}

#[tokio::test]
async fn fused_scores_are_sums_of_reciprocal_ranks_from_two() {
    let points = vec![
        point(1, "alpha beta gamma", json!({})),
        point(2, "alpha delta epsilon zeta eta", json!({})),
        point(3, "theta iota kappa", json!({})),
    ];
    each_with(points, |store, name| async move {
        let both = query("alpha beta gamma", Filter::default());
        let leg = |query: StoreQuery| {
            let (store, name) = (store.clone(), name.clone());
            async move { store.search(&name, &query).await.unwrap().into_iter().map(|h| h.id).collect::<Vec<_>>() }
        };
        let dense = leg(StoreQuery { bm25: None, ..both.clone() }).await;
        let sparse = leg(StoreQuery { dense: None, ..both.clone() }).await;
        for hit in store.search(&name, &both).await.unwrap() {
            let part =
                |leg: &[Uuid]| leg.iter().position(|id| *id == hit.id).map_or(0.0, |rank| 1.0 / (rank as f32 + 2.0));
            assert!((hit.score - part(&dense) - part(&sparse)).abs() < 1e-5, "{} {hit:?}", store.kind());
        }
    })
    .await;
}

/// Fails without the IDF modifier: then the word that is everywhere counts as much as the rare one, and the
/// document that repeats it wins.
#[tokio::test]
async fn a_rare_term_outweighs_a_common_one() {
    let mut points: Vec<Point> = (10..60).map(|n| point(n, &format!("protein study number {n}"), json!({}))).collect();
    points.push(point(1, "protein protein protein protein", json!({})));
    points.push(point(
        2,
        "a long report on many things, of which the zebrafish is one among several others",
        json!({}),
    ));
    each_with(points, |store, name| async move {
        let words = StoreQuery { dense: None, ..query("protein zebrafish", Filter::default()) };
        let hits = store.search(&name, &words).await.unwrap();
        assert_eq!(hits[0].id, id(2), "{} {hits:?}", store.kind());
        assert!(hits[0].score > 2.0 * hits[1].score, "{} {hits:?}", store.kind());
    })
    .await;
}
