//! Documents come, change and go: the lifecycle cases of `cases/ingest`, each under its own name.

use super::world::{OPTIONS, TestEmbedder, World, document, documents, essay};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::HashSet;
use tailrace::knowledge::error::KnowledgeError;
use tailrace::knowledge::ingest::{IngestOptions, NewDocument};
use tailrace::knowledge::{Priority, reconcile};
use tailrace::storage::documents::{self as rows, DocumentKey, DocumentStatus};
use tailrace::storage::{chunks, collections};
use tempfile::TempDir;

const FIRE_DRILL: &str = include_str!("../../data/ingest/dup_one.md");

fn key(collection: &str, id: &str) -> DocumentKey {
    DocumentKey { collection: collection.to_owned(), id: id.to_owned() }
}

/// Invariant 9.
#[tokio::test]
async fn invariant_9_reupload_same() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let first = world.put("default", "essay.md", &essay("osprey", 600)).await;
    assert_eq!((first.status, first.unchanged, first.version), (DocumentStatus::Indexed, false, 1));
    assert!(first.chunks > 2, "{first:?}");
    let embedded = world.embedder.count();
    let again = world.put("default", "essay.md", &essay("osprey", 600)).await;
    assert!(again.unchanged);
    assert_eq!((&again.document_id, again.version, again.chunks), (&first.document_id, 1, first.chunks));
    assert_eq!(world.embedder.count(), embedded, "nothing is embedded");
    assert_eq!(world.points("default", None).await, first.chunks);
    let watermark = collections::watermark(&world.db).await.unwrap();
    assert_eq!(again.watermark, watermark, "and nothing is stored");
    assert_eq!(watermark, first.watermark);
}

#[tokio::test]
async fn a_new_version_replaces_the_one_before() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let first = world.put("default", "essay.md", &essay("osprey", 900)).await;
    let before = world.embedder.count();
    let changed = essay("osprey", 900).replace("valve 50 ", "valve QX-50 ");
    let second = world.put("default", "essay.md", &changed).await;
    assert_eq!((second.document_id.as_str(), second.version), (first.document_id.as_str(), 2));
    let embedded = world.embedder.count() - before;
    assert!(embedded >= 1 && embedded < second.chunks as usize / 2, "only what changed is embedded: {embedded}");
    let third = world.put("default", "essay.md", "# Short\n\nThe heron stands still.").await;
    assert_eq!((third.version, third.chunks), (3, 1));
    assert_eq!(world.points("default", None).await, 1);
    let hits = world.find("default", "osprey valve pressure").await;
    assert!(hits.iter().all(|hit| hit.text.contains("heron")), "{hits:?}");
    let live = rows::find(&world.db, &key("default", &first.document_id)).await.unwrap().unwrap();
    assert_eq!(live.description.title, "Short");
    world.must_agree().await;
}

#[tokio::test]
async fn a_new_description_of_the_same_bytes_reaches_filters_without_embedding() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "drill.md", FIRE_DRILL).await;
    let embedded = world.embedder.count();
    let mut described = document("default", "drill.md", FIRE_DRILL);
    described.metadata.insert("lang".to_owned(), json!("en"));
    described.title = Some("Drills".to_owned());
    let outcome = world.ingest.document(described, Priority::Bulk).await.unwrap();
    assert!(outcome.unchanged);
    let mut request = tailrace::knowledge::retrieve::SearchRequest::new("default", "fire drill", 5);
    request.filter = tailrace::knowledge::filter_json::filter_from_json(
        &json!({"must": [{"key": "metadata.lang", "match": "en"}, {"key": "title", "match": "Drills"}]}),
    )
    .unwrap();
    let hits = world.search(request).await;
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].title.as_str(), hits[0].metadata["format"].as_str()), ("Drills", Some("markdown")));
    assert_eq!(world.embedder.count() - embedded, 1, "the query alone");
}

#[tokio::test]
async fn same_content_two_names() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let one = world.put("default", "dup_one.md", FIRE_DRILL).await;
    let embedded = world.embedder.count();
    world.put("default", "dup_two.md", FIRE_DRILL).await;
    assert_eq!(world.embedder.count(), embedded, "the text has its vector");
    assert_eq!(rows::list(&world.db, "default", None, 10).await.unwrap().len(), 2);
    assert_eq!(world.find("default", "When is the fire drill?").await.len(), 1, "the passage is shown once");
    world.ingest.delete_document("default", &one.document_id).await.unwrap();
    let hits = world.find("default", "When is the fire drill?").await;
    assert_eq!(documents(&hits), ["dup_two.md"]);
}

#[tokio::test]
async fn same_content_two_kbs() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    for name in ["a", "b"] {
        world.ingest.create_collection(name, "auto").await.unwrap();
        world.put(name, "dup_one.md", FIRE_DRILL).await;
    }
    let id = rows::list(&world.db, "a", None, 1).await.unwrap().remove(0).key.id;
    world.ingest.delete_document("a", &id).await.unwrap();
    assert!(world.find("a", "fire drill").await.is_empty());
    assert_eq!(world.find("b", "fire drill").await.len(), 1);
}

#[tokio::test]
async fn same_name() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let files = [
        ("a/readme.md", include_str!("../../data/ingest/same_name/a/readme.md")),
        ("b/readme.md", include_str!("../../data/ingest/same_name/b/readme.md")),
    ];
    for (uri, text) in files {
        world.put("default", uri, text).await;
    }
    for (query, uri) in [("alpha door code", "a/readme.md"), ("beta door code", "b/readme.md")] {
        assert_eq!(world.find("default", query).await[0].uri, uri);
    }
    assert_eq!(rows::list(&world.db, "default", None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn delete_doc() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let other = world.put("default", "other.md", "# Tides\n\nThe tide table is in drawer six.").await;
    let gone = world.put("default", "essay.md", &essay("osprey", 600)).await;
    let deleted = world.ingest.delete_document("default", &gone.document_id).await.unwrap();
    assert_eq!((deleted.points_before, deleted.points_after), (gone.chunks, 0));
    let hits = world.find("default", "osprey valve pressure").await;
    assert_eq!(documents(&hits), ["other.md"]);
    assert_eq!(world.points("default", Some(&gone.document_id)).await, 0);
    let key = key("default", &gone.document_id);
    assert_eq!(rows::find(&world.db, &key).await.unwrap(), None);
    assert_eq!(rows::content(&world.db, &key).await.unwrap(), None);
    assert!(chunks::of_document(&world.db, &key, 0, u32::MAX).await.unwrap().is_empty());
    let again = world.ingest.delete_document("default", &gone.document_id).await;
    assert!(matches!(again, Err(KnowledgeError::NoDocument(_))), "{again:?}");
    assert_eq!(world.points("default", None).await, other.chunks);
}

#[tokio::test]
async fn delete_then_reupload() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let text = essay("osprey", 600);
    for upkeep in [false, true] {
        let put = world.put("default", "essay.md", &text).await;
        assert!(!put.unchanged);
        world.ingest.delete_document("default", &put.document_id).await.unwrap();
        if upkeep {
            world.ingest.upkeep().await.unwrap();
        }
    }
    let back = world.put("default", "essay.md", &text).await;
    assert_eq!((back.status, back.unchanged), (DocumentStatus::Indexed, false));
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    world.ingest.delete_document("default", &back.document_id).await.unwrap();
    world.close().await;
    let smaller = IngestOptions { chunk_tokens: 60, ..OPTIONS };
    let world = World::open_with(folder.path(), TestEmbedder::new(), smaller).await;
    let cut = world.put("default", "essay.md", &text).await;
    assert!(cut.status == DocumentStatus::Indexed && cut.chunks > back.chunks, "{cut:?}");
    assert_eq!(world.find("default", "osprey valve").await[0].uri, "essay.md");
    world.must_agree().await;
}

#[tokio::test]
async fn rebuild_index() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "essay.md", &essay("osprey", 600)).await;
    world.put("default", "drill.md", FIRE_DRILL).await;
    world.ingest.upkeep().await.unwrap();
    let embedded = world.embedder.count();
    use tailrace::knowledge::VectorStore;
    world.store.delete_collection("default").await.unwrap();
    let points = reconcile::rebuild(&world.base, "default").await.unwrap();
    assert_eq!(points, world.points("default", None).await);
    world.must_agree().await;
    assert_eq!(world.embedder.count(), embedded, "nothing is embedded again");
    let hits = world.find("default", "fire drill").await;
    assert_eq!(hits[0].uri, "drill.md");
    // The same by itself, where the folder has vanished while the process was down.
    world.close().await;
    std::fs::remove_dir_all(folder.path().join("vectors")).unwrap();
    let world = World::open(folder.path()).await;
    assert_eq!(world.reconciled.replayed, points);
    world.must_agree().await;
    assert_eq!(world.find("default", "fire drill").await[0].text, hits[0].text);
}

#[tokio::test]
async fn model_changed() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.put("default", "drill.md", FIRE_DRILL).await;
    world.close().await;
    let dimension = TestEmbedder::new().dimension();
    for (name, dimension) in [("smaller", 128), ("of-the-same-size", dimension)] {
        let world = World::open_with(folder.path(), TestEmbedder::other(name, dimension), OPTIONS).await;
        assert_eq!(world.reconciled.other_model, ["default"]);
        let request = tailrace::knowledge::retrieve::SearchRequest::new("default", "fire drill", 5);
        let searched = world.retrieve.search(&request).await.unwrap_err();
        let put = world.try_put("default", "other.md", "# X\n\nSome text.").await.unwrap_err();
        for refused in [searched, put] {
            assert_eq!(refused.code(), "model_changed");
            let said = refused.to_string();
            assert!(said.contains(name) && said.contains("all-minilm-l6-v2") && said.contains("default"), "{said}");
        }
        // Another collection is of the model that runs, and works.
        world.ingest.create_collection("fresh", "auto").await.unwrap();
        world.put("fresh", "drill.md", FIRE_DRILL).await;
        assert_eq!(world.find("fresh", "fire drill").await.len(), 1);
        world.ingest.upkeep().await.unwrap();
        world.ingest.delete_collection("fresh").await.unwrap();
        world.close().await;
    }
    let world = World::open(folder.path()).await;
    assert!(world.reconciled.other_model.is_empty());
    assert_eq!(world.find("default", "fire drill").await.len(), 1);
}

#[tokio::test]
async fn model_changed_empty() {
    let folder = TempDir::new().unwrap();
    World::open(folder.path()).await.close().await;
    let world = World::open_with(folder.path(), TestEmbedder::other("smaller", 128), OPTIONS).await;
    world.put("default", "drill.md", FIRE_DRILL).await;
    assert_eq!(world.find("default", "fire drill").await.len(), 1);
    let collection = collections::find(&world.db, "default").await.unwrap().unwrap();
    assert_eq!((collection.embedding_model.as_str(), collection.dimension), ("smaller", 128));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_same_doc() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let texts = [essay("osprey", 300), essay("heron", 900)];
    let uploads = (0..8).map(|n| world.put("default", "essay.md", &texts[n % 2]));
    let outcomes = join_all(uploads).await;
    let id = &outcomes[0].document_id;
    let live = rows::find(&world.db, &key("default", id)).await.unwrap().unwrap();
    let version = live.live.unwrap();
    let clean = outcomes.iter().find(|o| o.version == version.version).unwrap().chunks;
    assert_eq!((version.chunks, world.points("default", Some(id)).await), (clean, clean));
    let text = rows::content(&world.db, &key("default", id)).await.unwrap().unwrap();
    let words: HashSet<bool> =
        world.find("default", "valve pressure").await.iter().map(|hit| hit.text.contains("osprey")).collect();
    assert_eq!(words, HashSet::from([text.contains("osprey")]), "one version is found");
    world.must_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_docs() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let world = &world;
    let uploads = (0..8).map(|n| async move {
        world.ingest.create_collection("new", "auto").await.unwrap();
        world.put("new", &format!("{n}.md"), &essay(&format!("bird{n}"), 100)).await
    });
    let outcomes = join_all(uploads).await;
    assert!(outcomes.iter().all(|outcome| outcome.status == DocumentStatus::Indexed));
    let collection = collections::find(&world.db, "new").await.unwrap().unwrap();
    assert_eq!((collection.documents, collection.keyword_language.as_str()), (8, "english"));
    for n in 0..8 {
        assert_eq!(world.find("new", &format!("bird{n}")).await[0].uri, format!("{n}.md"));
    }
    world.must_agree().await;
}

#[tokio::test]
async fn a_deleted_collection_is_gone_and_its_name_is_free() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    world.ingest.create_collection("passing", "english").await.unwrap();
    world.put("passing", "drill.md", FIRE_DRILL).await;
    world.ingest.delete_collection("passing").await.unwrap();
    for refused in [
        world.try_put("passing", "x", "text").await.unwrap_err(),
        world.ingest.delete_collection("passing").await.unwrap_err(),
        world.ingest.delete_document("passing", "x").await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), "unknown_collection");
    }
    world.ingest.create_collection("passing", "german").await.unwrap();
    assert!(world.find("passing", "fire drill").await.is_empty());
    assert_eq!(world.points("passing", None).await, 0);
    assert!(matches!(world.ingest.delete_collection("default").await, Err(KnowledgeError::DefaultStays)));
    for (name, language, code) in [("Bad", "auto", "bad_collection_name"), ("fine", "klingon", "unknown_language")] {
        assert_eq!(world.ingest.create_collection(name, language).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn nfd_name() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let composed = world.put("default", "übergröße résumé.txt", "plain text about gulls").await;
    let decomposed =
        world.put("default", "u\u{308}bergro\u{308}ße re\u{301}sume\u{301}.txt", "plain text about gulls").await;
    assert_eq!(decomposed.document_id, composed.document_id);
    assert!(decomposed.unchanged);
    let nameless = NewDocument {
        collection: "default".to_owned(),
        content: "a text that nobody has named".into(),
        ..NewDocument::default()
    };
    let first = world.ingest.document(nameless.clone(), Priority::Bulk).await.unwrap();
    let second = world.ingest.document(nameless, Priority::Bulk).await.unwrap();
    assert!(second.unchanged && second.document_id == first.document_id, "a text without a name is its own name");
}
