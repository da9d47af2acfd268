//! What goes wrong leaves nothing half done and says why.

use super::world::{OPTIONS, World, document, essay};
use futures_util::FutureExt;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tailrace::knowledge::Priority;
use tailrace::knowledge::ingest::{IngestOptions, NewDocument};
use tailrace::storage::documents::{self as rows, DocumentKey, DocumentStatus, StoredDocument};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

async fn only_document(world: &World) -> StoredDocument {
    let mut all = rows::list(&world.db, "default", None, 10).await.unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[tokio::test]
async fn a_refused_document_has_a_row_that_says_why() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    for (uri, bytes, code) in [
        ("blank.md", &b"\xef\xbb\xbf \n\xc2\xa0\n"[..], "empty_document"),
        ("image.txt", &include_bytes!("../../data/ingest/png_named.txt")[..], "binary_content"),
    ] {
        let mut new = document("default", uri, "");
        new.content = bytes.to_vec().into();
        let refused = world.ingest.document(new.clone(), Priority::Bulk).await.unwrap_err();
        assert_eq!(refused.code(), code);
        let row = only_document(&world).await;
        assert_eq!((row.status, row.live, row.building), (DocumentStatus::Failed, None, None));
        assert_eq!(row.error, Some((code.to_owned(), refused.to_string())));
        assert_eq!(world.points("default", None).await, 0);
        // Sent again with a text it is as good as new.
        new.content = "A text after all.".into();
        let mended = world.ingest.document(new, Priority::Bulk).await.unwrap();
        assert_eq!(mended.status, DocumentStatus::Indexed);
        world.ingest.delete_document("default", &mended.document_id).await.unwrap();
    }
    let limit = IngestOptions { max_document_bytes: 10, ..OPTIONS };
    world.close().await;
    let world = World::open_with(folder.path(), super::world::TestEmbedder::new(), limit).await;
    assert_eq!(world.try_put("default", "x", "more than ten bytes").await.unwrap_err().code(), "document_too_large");
    let nameless = NewDocument { id: Some(String::new()), ..document("default", "x", "y") };
    assert_eq!(world.ingest.document(nameless, Priority::Bulk).await.unwrap_err().code(), "bad_document_id");
}

#[tokio::test]
async fn embed_fails_midway() {
    let folder = TempDir::new().unwrap();
    let small = IngestOptions { chunk_tokens: 24, ..OPTIONS };
    let world = World::open_with(folder.path(), super::world::TestEmbedder::new(), small).await;
    let first = world.put("default", "essay.md", "# Essay\n\nThe first version.").await;
    // Some slices are in the store and in rows when it fails.
    world.embedder.left.store(150, Ordering::SeqCst);
    let failed = world.try_put("default", "essay.md", &essay("osprey", 4000)).await.unwrap_err();
    assert_eq!(failed.code(), "embedding_failed");
    assert!(world.embedder.count() > 100, "it failed in the middle");
    world.embedder.left.store(usize::MAX, Ordering::SeqCst);
    let row = only_document(&world).await;
    assert_eq!((row.status, row.building), (DocumentStatus::Failed, None));
    assert_eq!(row.live.map(|live| live.version), Some(first.version), "what was there stays");
    let hits = world.find("default", "osprey valve pressure").await;
    assert!(hits.iter().all(|hit| hit.text.contains("first version")), "{hits:?}");
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    assert_eq!(world.points("default", None).await, first.chunks);
    // The same bytes as before: it is well again.
    assert!(world.put("default", "essay.md", "# Essay\n\nThe first version.").await.unchanged);
    assert_eq!(only_document(&world).await.status, DocumentStatus::Indexed);
}

#[tokio::test]
async fn a_dropped_ingestion_is_cleaned_up() {
    let folder = TempDir::new().unwrap();
    let small = IngestOptions { chunk_tokens: 24, ..OPTIONS };
    let world = World::open_with(folder.path(), super::world::TestEmbedder::new(), small).await;
    let text = essay("osprey", 4000);
    let mut dropped = Box::pin(world.try_put("default", "essay.md", &text));
    // Until some slices have gone into the store.
    while world.points("default", None).await < 100 {
        let pause = tokio::time::timeout(Duration::from_millis(5), &mut dropped).await;
        assert!(pause.is_err(), "it ended before it could be dropped");
    }
    drop(dropped);
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    assert_eq!(world.points("default", None).await, 0);
    let row = only_document(&world).await;
    assert_eq!((row.status, row.building), (DocumentStatus::Failed, None));
    assert_eq!(row.error.unwrap().0, "cancelled");
    let again = world.put("default", "essay.md", &text).await;
    assert_eq!(world.points("default", None).await, again.chunks);
    // One that is dropped before it has begun leaves nothing that would stay.
    assert!(world.try_put("default", "other.md", &text).now_or_never().is_none());
    // A write behind whatever it may have queued.
    world.conversation().await;
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    let left = rows::building(&world.db).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_delete_overtakes_an_ingestion() {
    let folder = TempDir::new().unwrap();
    let small = IngestOptions { chunk_tokens: 24, ..OPTIONS };
    let world = World::open_with(folder.path(), super::world::TestEmbedder::new(), small).await;
    let text = essay("osprey", 4000);
    let delete = async {
        while world.points("default", None).await < 100 {
            tokio::task::yield_now().await;
        }
        let id = only_document(&world).await.key.id;
        world.ingest.delete_document("default", &id).await.unwrap()
    };
    let (put, deleted) = tokio::join!(world.try_put("default", "essay.md", &text), delete);
    assert_eq!(put.unwrap_err().code(), "overtaken");
    assert_eq!(deleted.points_after, 0);
    world.ingest.upkeep().await.unwrap();
    assert_eq!(world.points("default", None).await, 0);
    assert!(rows::list(&world.db, "default", None, 10).await.unwrap().is_empty());
    world.must_agree().await;
}

#[tokio::test]
async fn what_was_accepted_is_ingested_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let accepted = world.ingest.accept(document("default", "a.md", "# A\n\nThe osprey dives.")).await.unwrap();
    assert_eq!((accepted.status, accepted.unchanged), (DocumentStatus::Queued, false));
    let blank = world.ingest.accept(document("default", "blank.md", "  ")).await.unwrap();
    let elsewhere = world.ingest.accept(document("nowhere", "a.md", "x")).await.unwrap_err();
    assert_eq!(elsewhere.code(), "unknown_collection");
    world.close().await;

    let world = World::open(folder.path()).await;
    assert_eq!(world.reconciled.queued, 2);
    let row = async |id: &str| {
        let key = DocumentKey { collection: "default".to_owned(), id: id.to_owned() };
        rows::find(&world.db, &key).await.unwrap().unwrap()
    };
    assert_eq!(row(&accepted.document_id).await.status, DocumentStatus::Queued);
    let stop = CancellationToken::new();
    let done = async {
        let all_done = async {
            while row(&accepted.document_id).await.status != DocumentStatus::Indexed
                || row(&blank.document_id).await.status != DocumentStatus::Failed
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all_done).await.unwrap();
        assert_eq!(world.find("default", "osprey").await.len(), 1);
        let same = world.ingest.accept(document("default", "a.md", "# A\n\nThe osprey dives.")).await.unwrap();
        assert!(same.unchanged && same.status == DocumentStatus::Indexed);
        stop.cancel();
    };
    tokio::join!(world.ingest.clone().run_queue(stop.clone()), done);
    assert!(tailrace::storage::uploads::waiting(&world.db, 10).await.unwrap().is_empty());
}
