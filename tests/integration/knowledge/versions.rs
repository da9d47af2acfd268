//! Versions that are kept, searches of the past, and documents whose description changes.

use super::world::{World, document, documents, essay};
use serde_json::{Value, json};
use tailrace::config::ToolResults;
use tailrace::knowledge::filter_json::filter_from_json;
use tailrace::knowledge::ingest::{Change, NewCollectionOptions};
use tailrace::knowledge::retrieve::{SearchMode, SearchRequest};
use tailrace::knowledge::{Priority, VectorStore};
use tailrace::storage::documents::DocumentKey;
use tailrace::storage::versions::{self, VersionInShort};
use tempfile::TempDir;

fn key(collection: &str, id: &str) -> DocumentKey {
    DocumentKey { collection: collection.to_owned(), id: id.to_owned() }
}

async fn keeping(folder: &TempDir, keep_versions: u32) -> World {
    let world = World::open(folder.path()).await;
    let options = NewCollectionOptions { keep_versions, ..NewCollectionOptions::default() };
    world.ingest.create_collection_with("kept", options).await.unwrap();
    world
}

/// Text of the best hit at the time of a version's beginning; nothing if nothing was there.
async fn best_at(world: &World, mode: SearchMode, version: &VersionInShort, query: &str) -> Option<String> {
    let request = SearchRequest { mode, as_of: Some(version.created), ..SearchRequest::new("kept", query, 5) };
    world.search(request).await.into_iter().map(|hit| hit.text).next()
}

#[tokio::test]
async fn a_search_of_the_past_finds_what_was_live_then_and_others_only_what_is() {
    let folder = TempDir::new().unwrap();
    let mut world = keeping(&folder, 3).await;
    let mut id = String::new();
    for n in 1..=4 {
        let text = format!("# Tides\n\nThe harbour gate opens at {n} o'clock.");
        id = world.put("kept", "tides.md", &text).await.document_id;
    }
    let all = versions::of_document(&world.db, &key("kept", &id)).await.unwrap();
    assert_eq!(all.iter().map(|v| v.version).collect::<Vec<_>>(), [4, 3, 2], "three are kept");
    assert_eq!(all.iter().filter(|v| v.superseded.is_none()).count(), 1);
    assert!(all.windows(2).all(|pair| pair[1].superseded == Some(pair[0].created)), "{all:?}");
    for restart in [false, true] {
        if restart {
            world.close().await;
            world = World::open(folder.path()).await;
        }
        for mode in [SearchMode::Hybrid, SearchMode::Dense, SearchMode::Sparse] {
            for version in &all {
                let found = best_at(&world, mode, version, "When does the harbour gate open?").await.unwrap();
                assert!(found.contains(&format!("{} o'clock", version.version)), "{mode:?} {version:?}: {found}");
            }
            let now = SearchRequest { mode, ..SearchRequest::new("kept", "harbour gate", 5) };
            let now = world.search(now).await;
            assert!(now.len() == 1 && now[0].text.contains("4 o'clock"), "{mode:?}: {now:?}");
        }
        assert_eq!(world.points("kept", None).await, 3);
        world.must_agree().await;
    }
    // Before the first that is kept there was nothing, as far as anybody can tell.
    let before = VersionInShort { created: "2020-01-01T00:00:00Z".parse().unwrap(), ..all[0].clone() };
    assert_eq!(best_at(&world, SearchMode::Hybrid, &before, "harbour gate").await, None);
    let deleted = world.ingest.delete_document("kept", &id).await.unwrap();
    assert_eq!((deleted.points_before, deleted.points_after), (3, 0));
    assert_eq!(world.points("kept", None).await, 0);
    assert!(versions::of_document(&world.db, &key("kept", &id)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_collection_that_keeps_one_version_keeps_one() {
    let folder = TempDir::new().unwrap();
    let world = keeping(&folder, 1).await;
    let first = world.put("kept", "essay.md", &essay("osprey", 300)).await;
    world.put("kept", "essay.md", &essay("heron", 300)).await;
    let all = versions::of_document(&world.db, &key("kept", &first.document_id)).await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].chunks, world.points("kept", None).await);
    world.must_agree().await;
}

#[tokio::test]
async fn a_changed_description_reaches_filters_in_the_store_without_embedding() {
    let folder = TempDir::new().unwrap();
    let world = keeping(&folder, 2).await;
    world.put("kept", "drill.md", "# Drill\n\nThe fire drill is on Monday.").await;
    let mut second = document("kept", "drill.md", "# Drill\n\nThe fire drill is on Tuesday.");
    second.metadata = json!({"lang": "en", "team": "ops"}).as_object().unwrap().clone();
    let id = world.ingest.document(second, Priority::Bulk).await.unwrap().document_id;
    let embedded = world.embedder.count();
    let metadata = json!({"lang": "de", "team": null, "format": "text"}).as_object().unwrap().clone();
    let change = Change { title: Some("Drills".to_owned()), metadata };
    let changed = world.ingest.describe(&key("kept", &id), change).await.unwrap();
    assert_eq!(changed.description.title, "Drills");
    assert_eq!(Value::Object(changed.description.metadata)["format"], "markdown");
    // The same bytes again, with nothing said of them, change nothing either.
    let again = document("kept", "drill.md", "# Drill\n\nThe fire drill is on Tuesday.");
    assert!(world.ingest.document(again, Priority::Bulk).await.unwrap().unchanged);
    let find = async |filter: Value| {
        let request = SearchRequest {
            mode: SearchMode::Sparse,
            filter: filter_from_json(&filter).unwrap(),
            ..SearchRequest::new("kept", "fire drill", 5)
        };
        world.search(request).await.len()
    };
    let must = |key: &str, value: &str| json!({"must": [{"key": key, "match": value}]});
    for (key, value, hits) in [
        ("metadata.lang", "de", 1),
        ("metadata.lang", "en", 0),
        ("metadata.team", "ops", 0),
        ("title", "Drills", 1),
        ("title", "Drill", 0),
    ] {
        assert_eq!(find(must(key, value)).await, hits, "{key} {value}");
    }
    assert_eq!(world.embedder.count(), embedded, "nothing is embedded");
    // A crash does not lose it, although the store had been told after its last flush.
    world.close().await;
    let world = World::open(folder.path()).await;
    assert!(world.reconciled.replayed > 0);
    let request = SearchRequest {
        filter: filter_from_json(&must("metadata.lang", "de")).unwrap(),
        ..SearchRequest::new("kept", "fire drill", 5)
    };
    assert_eq!(world.search(request).await[0].title, "Drills");
    let missing = world.ingest.describe(&key("kept", "nobody"), Change::default()).await.unwrap_err();
    assert_eq!(missing.code(), "unknown_document");
}

#[tokio::test]
async fn what_a_conversation_has_found_can_be_kept_for_everybody() {
    let folder = TempDir::new().unwrap();
    let world = keeping(&folder, 1).await;
    let conversation = world.conversation().await;
    let text = "# Ferries\n\nThe ferry to Skomer leaves at nine.";
    let found = world.tool_result(conversation, "https://ferry/", text, ToolResults::Conversation).await;
    let finding = key("default", &found.document_id);
    assert!(world.find("default", "ferry to Skomer").await.is_empty());
    let embedded = world.embedder.count();
    let kept = world.ingest.keep(&finding, "default").await.unwrap();
    assert_eq!((kept.chunks, kept.unchanged), (found.chunks, false));
    assert_eq!(world.embedder.count(), embedded, "its text has a vector already");
    let hits = world.find("default", "ferry to Skomer").await;
    assert_eq!((documents(&hits), hits[0].title.as_str()), (vec!["https://ferry/"], "A page"));
    assert!(world.ingest.keep(&finding, "default").await.unwrap().unchanged, "twice is once");
    world.ingest.keep(&finding, "kept").await.unwrap();
    assert_eq!(documents(&world.find("kept", "ferry to Skomer").await), ["https://ferry/"]);
    // It outlives the conversation.
    world.ingest.delete_conversation(conversation).await.unwrap();
    assert_eq!(documents(&world.find("default", "ferry to Skomer").await), ["https://ferry/"]);
    for (key, code) in [(key("default", &kept.document_id), "not_a_finding"), (finding, "unknown_document")] {
        assert_eq!(world.ingest.keep(&key, "kept").await.unwrap_err().code(), code);
    }
    assert_eq!(world.store.count("default", &Default::default()).await.unwrap(), kept.chunks);
}
