//! What searches find, and in which form.

use super::world::{World, document, documents, essay};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tailrace::knowledge::filter_json::filter_from_json;
use tailrace::knowledge::pending::PendingIngests;
use tailrace::knowledge::retrieve::{Hit, SearchMode, SearchRequest};
use tailrace::knowledge::{Embedder, Priority};
use tailrace::message::passages;
use tailrace::message::sources::SourceBook;
use tailrace::storage::{collections, points};
use tailrace::tools::seen_urls::SeenUrls;
use tailrace::tools::vector_search::{VectorSearch, VectorSearchOptions};
use tailrace::tools::{Tool, ToolContext};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[tokio::test]
async fn search_after_ingest() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    for n in 0..200 {
        let outcome = world.put("default", &format!("{n}.txt"), &format!("Locker {n} holds item ZK-{n}X.")).await;
        let answer = world.retrieve.search(&SearchRequest::new("default", &format!("ZK-{n}X"), 3)).await.unwrap();
        assert!(answer.watermark >= outcome.watermark);
        assert!(answer.hits.iter().any(|hit| hit.uri == format!("{n}.txt")), "run {n}: {:?}", answer.hits);
    }
}

#[tokio::test]
async fn unit_norm() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "essay.md", &essay("osprey", 400)).await;
    let stored = points::page(&world.db, "default", points::PointCursor::default(), 100).await.unwrap();
    let query = world.embedder.embed(vec!["a query".to_owned()], Priority::Turn).await.unwrap();
    assert!(stored.len() > 1);
    for vector in stored.iter().map(|point| &point.embedding).chain(&query) {
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((norm - 1.0).abs() < 1e-3, "{norm}");
    }
}

#[tokio::test]
async fn threshold_rrf() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "tides.md", "# Tides\n\nThe tide table lies in drawer six.").await;
    for n in 0..20 {
        world.put("default", &format!("{n}.md"), &essay(&format!("valve{n}"), 40)).await;
    }
    let mut request = SearchRequest::new("default", "In which drawer is the tide table?", 10);
    request.min_cosine = Some(0.5);
    let hits = world.search(request.clone()).await;
    assert_eq!(documents(&hits), ["tides.md"], "the obvious hit alone is that similar");
    assert!(hits[0].cosine.unwrap() >= 0.5);
    // Places further down have fused sums far below 0.5; only a cosine may be compared with it.
    request.min_cosine = Some(-1.0);
    assert_eq!(world.search(request.clone()).await.len(), 10);
    request.mode = SearchMode::Sparse;
    assert_eq!(world.retrieve.search(&request).await.unwrap_err().code(), "bad_search");
}

#[tokio::test]
async fn modes_filters_and_limits() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    for (uri, year) in [("old.md", 1990), ("new.md", 2020)] {
        let mut new = document("default", uri, &essay(&format!("osprey{year}"), 600));
        new.metadata.insert("year".to_owned(), json!(year));
        world.ingest.document(new, Priority::Bulk).await.unwrap();
    }
    let mut request = SearchRequest::new("default", "pressure of the valve", 6);
    for mode in [SearchMode::Hybrid, SearchMode::Dense, SearchMode::Sparse] {
        request.mode = mode;
        let hits = world.search(request.clone()).await;
        assert_eq!(hits.len(), 6, "{mode:?}");
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "{mode:?}");
        assert_eq!(hits[0].cosine.is_some(), mode != SearchMode::Sparse);
    }
    request.mode = SearchMode::Hybrid;
    request.per_document = Some(1);
    assert_eq!(documents(&world.search(request.clone()).await).len(), 2);
    assert_eq!(world.search(request.clone()).await.len(), 2, "one of each");
    request.filter = filter_from_json(&json!({"must": [{"key": "metadata.year", "range": {"gte": 2000}}]})).unwrap();
    assert_eq!(documents(&world.search(request.clone()).await), ["new.md"]);
    request.per_document = None;
    request.limit = 1;
    let small = world.search(request.clone()).await.remove(0);
    request.neighbours = 1;
    let grown = world.search(request).await.remove(0);
    assert!(grown.text.contains(&small.text) && grown.text.len() > small.text.len());
    let key = tailrace::storage::documents::DocumentKey { collection: "default".to_owned(), id: small.document_id };
    let content = tailrace::storage::documents::content(&world.db, &key).await.unwrap().unwrap();
    for hit in [(small.start, small.end, &small.text), (grown.start, grown.end, &grown.text)] {
        assert_eq!(&content[hit.0 as usize..hit.1 as usize], hit.2);
    }
    for (query, collection, code) in [(" ", "default", "bad_search"), ("x", "nowhere", "unknown_collection")] {
        let refused = world.retrieve.search(&SearchRequest::new(collection, query, 1)).await.unwrap_err();
        assert_eq!(refused.code(), code);
    }
}

#[tokio::test]
async fn several_collections_are_ranked_together() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.ingest.create_collection("poor", "english").await.unwrap();
    world.put("default", "tides.md", "# Tides\n\nThe tide table lies in drawer six.").await;
    world.put("default", "tides2.md", "# More tides\n\nTide tables are printed in March.").await;
    world.put("poor", "paint.md", "# Paint\n\nThe hull is painted red.").await;
    let mut both = SearchRequest::new("default", "Where is the tide table?", 3);
    both.collections.push("poor".to_owned());
    let hits = world.search(both).await;
    assert_eq!(documents(&hits), ["tides.md", "tides2.md", "paint.md"], "{hits:?}");
    assert_eq!(hits[2].collection, "poor");
    // Places and scores are those among the hits of all collections.
    let places = |hit: &Hit| [hit.dense, hit.bm25].map(|place| place.map(|place| place.rank));
    assert_eq!(places(&hits[0]), [Some(1), Some(1)]);
    assert_eq!(places(&hits[2]), [Some(3), None]);
}

#[tokio::test]
async fn the_keyword_language_follows_the_documents() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "one.md", &essay("osprey", 200)).await;
    let language = async || collections::find(&world.db, "default").await.unwrap().unwrap().keyword_language;
    assert_eq!(language().await, "english");
    let mut words = SearchRequest::new("default", "checking pressures", 3);
    words.mode = SearchMode::Sparse;
    assert!(!world.search(words.clone()).await.is_empty(), "stems meet");
    for n in 0..4 {
        let text = format!(
            "# Bericht {n}\n\nDie Mannschaft prüfte am Morgen die Ventile der Leitung {n} und schrieb danach alle \
             Drücke sorgfältig in das große Buch, das im Schrank neben der Tür liegt."
        );
        world.put("default", &format!("{n}.md"), &text).await;
    }
    world.ingest.upkeep().await.unwrap();
    assert_eq!(language().await, "multilingual");
    assert!(points::behind(&world.db, "default", 10).await.unwrap().is_empty(), "every point was written again");
    words.query = "Ventile".to_owned();
    assert_eq!(world.search(words.clone()).await.len(), 3);
    words.query = "checking pressures".to_owned();
    assert!(world.search(words).await.is_empty(), "words as they are");
    world.must_agree().await;
}

fn context(conversation_id: Uuid, pending: &PendingIngests) -> ToolContext {
    ToolContext {
        turn_id: Uuid::now_v7(),
        conversation_id,
        collections: Arc::from(["default".to_owned()]),
        sources: Arc::new(SourceBook::default()),
        seen_urls: Arc::new(SeenUrls::default()),
        pending: pending.clone(),
        cancel: CancellationToken::new(),
    }
}

#[tokio::test]
async fn the_tool_numbers_passages_and_says_whether_it_is_fresh() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let text = "# Tides\n\n## Where\n\nThe tide table lies in drawer six, see https://example.org/tides for more.";
    world.put("default", "tides.md", text).await;
    world.put("default", "paint.md", "# Paint\n\nThe hull is painted red.").await;
    let options = VectorSearchOptions { limit: 5, per_document: 3, wait: Duration::from_millis(50) };
    let tool = VectorSearch::new(world.retrieve.clone(), options);
    let schema = &tool.spec().parameters;
    assert_eq!(schema["required"], json!(["query"]));
    let pending = PendingIngests::default();
    let context = context(world.conversation().await, &pending);
    let call = async |arguments: serde_json::Value| tool.call(arguments.as_object().unwrap().clone(), &context).await;
    let first = call(json!({"query": "tide table drawer"})).await.unwrap();
    assert!(first.text.starts_with("2 passages"), "{}", first.text);
    let shown = passages::parse(&first.text);
    assert_eq!(shown.iter().map(|p| p.n).collect::<Vec<_>>(), [1, 2]);
    assert!(shown[0].title.starts_with("Tides") && shown[0].text.contains("drawer six"), "{shown:?}");
    assert_eq!((first.sources[0].n, first.sources[0].uri.as_str()), (1, "tides.md"));
    assert!(first.ingest.is_none(), "what came from the knowledge base does not go back");
    assert!(context.seen_urls.contains("https://example.org/tides"));
    let second = call(json!({"query": "colour of the hull", "limit": 1})).await.unwrap();
    assert_eq!(second.sources[0].n, 2, "a chunk keeps its number in the conversation");

    let begun = pending.begin();
    let stale = call(json!({"query": "tide table drawer"})).await.unwrap();
    assert!(stale.text.starts_with("fresh: false"), "{}", stale.text);
    drop(begun);
    let filter = json!({"must": [{"key": "uri", "match": "nothing.md"}]});
    let none = call(json!({"query": "tide", "filter": filter})).await.unwrap();
    assert!(none.text.starts_with("No passage") && none.sources.is_empty(), "{}", none.text);
    let refused = call(json!({"query": "tide", "filter": {"must": [{"key": "scope", "match": "x"}]}})).await;
    assert!(refused.unwrap_err().0.contains("scope"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn searches_go_on_while_documents_come_and_go() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let texts = [essay("osprey", 500), essay("heron", 500)];
    world.put("default", "essay.md", &texts[0]).await;
    let world = &world;
    let writes = async {
        for n in 1..12 {
            world.put("default", "essay.md", &texts[n % 2]).await;
        }
    };
    let searches = async {
        for _ in 0..60 {
            let hits = world.find("default", "valve pressure").await;
            let ospreys = hits.iter().filter(|hit| hit.text.contains("osprey")).count();
            assert!(!hits.is_empty(), "one version is always there");
            assert!(ospreys == 0 || ospreys == hits.len(), "and never two");
        }
    };
    join_all([Box::pin(writes) as std::pin::Pin<Box<dyn Future<Output = ()>>>, Box::pin(searches)]).await;
}
