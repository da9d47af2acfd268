//! What a search tells of itself, and the reranker's last word.

use super::world::{World, documents, essay};
use std::path::Path;
use std::sync::Arc;
use tailrace::knowledge::embed::cross_encoder::{CrossEncoder, CrossEncoderOptions};
use tailrace::knowledge::retrieve::{DropReason, Retrieve, RetrieveOptions, SearchMode, SearchRequest};
use tempfile::TempDir;

#[tokio::test]
async fn explain_accounts_for_every_candidate() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let tides = "# Tides\n\nThe tide table lies in drawer six.";
    world.put("default", "tides.md", tides).await;
    world.put("default", "copy.md", tides).await;
    world.put("default", "essay.md", &essay("osprey", 600)).await;
    let points = world.points("default", None).await;
    let mut request = SearchRequest::new("default", "In which drawer is the tide table?", 10);
    request.per_document = Some(1);
    assert!(world.retrieve.search(&request).await.unwrap().dropped.is_empty(), "only where it was asked for");
    request.explain = true;
    let answer = world.retrieve.search(&request).await.unwrap();
    assert_eq!(answer.hits.len() + answer.dropped.len(), usize::try_from(points).unwrap());
    let best = &answer.hits[0];
    assert_eq!([best.dense, best.bm25].map(|place| place.map(|place| place.rank)), [Some(1), Some(1)]);
    assert!((best.dense.unwrap().score - best.cosine.unwrap()).abs() < 1e-3, "{best:?}");
    assert_eq!((best.fused, best.rerank), (best.score, None));
    let reasons = |answer: &tailrace::knowledge::retrieve::SearchAnswer| {
        let mut reasons: Vec<&str> = answer.dropped.iter().map(|dropped| dropped.why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.join(" ")
    };
    assert_eq!(reasons(&answer), "per_document same_text");
    request.limit = 1;
    assert!(reasons(&world.retrieve.search(&request).await.unwrap()).contains("beyond_limit"));
    request.min_cosine = Some(0.5);
    request.mode = SearchMode::Dense;
    let near = world.retrieve.search(&request).await.unwrap();
    let below = near.dropped.iter().filter(|dropped| dropped.why == DropReason::BelowMinScore);
    assert!(below.clone().count() > 0 && below.clone().all(|dropped| dropped.score < 0.5 && dropped.bm25.is_none()));
}

/// The tiny model of `tests/data/tiny-reranker` likes high numbers.
fn reranker() -> Arc<CrossEncoder> {
    let options = CrossEncoderOptions {
        models_dir: crate::service::models(),
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny-reranker"),
        threads: 1,
        queue: 8,
        window: 64,
    };
    Arc::new(CrossEncoder::new(options).unwrap())
}

#[tokio::test]
async fn the_reranker_has_the_last_word() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    for n in [10, 30, 50] {
        world.put("default", &format!("w{n}"), &format!("w{n} w{n} w{n} w{n}")).await;
    }
    let options = RetrieveOptions { prefetch: 100, query_cache: 100, rerank: 20 };
    let retrieve = Retrieve::new(world.base.clone(), options, Some(reranker()));
    let mut request = SearchRequest::new("default", "w10", 3);
    assert_eq!(documents(&retrieve.search(&request).await.unwrap().hits)[0], "w10");
    request.rerank = true;
    request.limit = 2;
    let hits = retrieve.search(&request).await.unwrap().hits;
    assert_eq!(documents(&hits), ["w50", "w30"]);
    assert!(hits.iter().all(|hit| hit.rerank == Some(hit.score)), "{hits:?}");
    request.min_rerank = Some(hits[0].score - 1e-6);
    request.explain = true;
    let answer = retrieve.search(&request).await.unwrap();
    assert_eq!(documents(&answer.hits), ["w50"]);
    assert_eq!(answer.dropped.iter().filter(|d| d.why == DropReason::BelowMinScore).count(), 2);
    assert_eq!(world.retrieve.search(&request).await.unwrap_err().code(), "no_reranker");
    request.rerank = false;
    assert_eq!(retrieve.search(&request).await.unwrap_err().code(), "bad_search");
}
