//! What is found, in which order, and what a filter keeps out.

use super::{each_with, equal, found, id, must, point, query};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tailrace::knowledge::filter::{Condition, Filter, Range};
use tailrace::knowledge::{Legs, Point, Scope, ScoredPoint, SparseVector, StoreQuery};
use uuid::Uuid;

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
async fn limits_and_missing_vectors_are_respected() {
    let points = (1..=30).map(|n| point(n, &format!("common word{n}"), json!({}))).collect();
    each_with(points, |store, name| async move {
        let all = query("common", Filter::default());
        for limit in [0, 1, 7, 30, 100] {
            let legs = store.search(&name, &StoreQuery { limit, ..all.clone() }).await.unwrap();
            for hits in [legs.dense, legs.bm25] {
                assert_eq!(hits.len(), limit.min(30), "{} limit {limit}", store.kind());
                assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
            }
        }
        let nothing = StoreQuery { dense: None, bm25: None, ..all.clone() };
        assert_eq!(store.search(&name, &nothing).await.unwrap(), Legs::default());
        let no_terms = StoreQuery { dense: None, bm25: Some(SparseVector::default()), ..all.clone() };
        assert_eq!(store.search(&name, &no_terms).await.unwrap(), Legs::default());
        let only_dense = StoreQuery { bm25: Some(SparseVector::default()), ..all };
        let legs = store.search(&name, &only_dense).await.unwrap();
        assert_eq!((legs.dense.len(), legs.bm25.len()), (10, 0));
    })
    .await;
}

#[tokio::test]
async fn each_leg_has_its_own_scores() {
    let points = vec![
        point(1, "alpha beta gamma", json!({})),
        point(2, "alpha delta epsilon zeta eta", json!({})),
        point(3, "theta iota kappa", json!({})),
    ];
    each_with(points, |store, name| async move {
        let legs = store.search(&name, &query("alpha beta gamma", Filter::default())).await.unwrap();
        assert!((legs.dense[0].score - 1.0).abs() < 1e-4, "the same text: {} {legs:?}", store.kind());
        assert_eq!(legs.dense.len(), 3, "{}", store.kind());
        assert_eq!(legs.bm25.iter().map(|hit| hit.id).collect::<Vec<_>>(), [id(1), id(2)], "{}", store.kind());
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
        let hits = store.search(&name, &words).await.unwrap().bm25;
        assert_eq!(hits[0].id, id(2), "{} {hits:?}", store.kind());
        assert!(hits[0].score > 2.0 * hits[1].score, "{} {hits:?}", store.kind());
    })
    .await;
}

fn lines(jsonl: &str) -> Vec<Value> {
    jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The ten hits of 200 real questions over 1,000 real abstracts. Where two points tie at the end of the list,
/// either may be there: what is above the last score must be the same, and so must all scores.
#[tokio::test]
async fn both_stores_give_the_same_ten_hits_for_200_queries() {
    let corpus = lines(include_str!("../../data/eval/scifact-mini/corpus.jsonl"));
    let text = |v: &Value| format!("{} {}", v["title"].as_str().unwrap_or(""), v["text"].as_str().unwrap());
    let mut points: Vec<Point> = corpus.iter().zip(1..).map(|(doc, n)| point(n, &text(doc), json!({}))).collect();
    for (point, n) in points.iter_mut().zip(1i16..) {
        // Short texts tie in their BM25 scores: this parts them.
        point.bm25.values.iter_mut().for_each(|weight| *weight *= 1.0 + f32::from(n) / 100_000.0);
    }
    let queries = lines(include_str!("../../data/eval/scifact-mini/queries.jsonl"));
    let queries: Vec<StoreQuery> =
        queries.iter().take(200).map(|q| query(q["text"].as_str().unwrap(), Filter::default())).collect();
    let answers: Arc<Mutex<Vec<Vec<Vec<ScoredPoint>>>>> = Arc::default();
    let (asked, kept) = (&queries, answers.clone());
    each_with(points, |store, name| {
        let kept = kept.clone();
        async move {
            let mut answers = Vec::new();
            for query in asked {
                let legs = store.search(&name, query).await.unwrap();
                answers.extend([legs.dense, legs.bm25]);
            }
            kept.lock().unwrap().push(answers);
        }
    })
    .await;
    let answers = answers.lock().unwrap();
    assert!(answers.len() >= 2 && answers[0].len() == 400);
    let close = |a: f32, b: f32| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
    for other in &answers[1..] {
        for (n, (one, two)) in answers[0].iter().zip(other).enumerate() {
            assert_eq!(one.len(), 10, "query {n}");
            assert!(one.iter().zip(two).all(|(a, b)| close(a.score, b.score)), "query {n}: {one:?} {two:?}");
            let sure = |hits: &[ScoredPoint]| -> BTreeSet<Uuid> {
                hits.iter().filter(|hit| !close(hit.score, one[9].score)).map(|hit| hit.id).collect()
            };
            assert_eq!(sure(one), sure(two), "query {n}");
        }
    }
}
