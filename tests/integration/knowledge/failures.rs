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
    // Building it once more changes nothing about it, also where nobody waits for the end.
    let key = only_document(&world).await.key;
    let mut rebuilt = Box::pin(world.ingest.rebuild_document(&key));
    assert!(tokio::time::timeout(Duration::from_millis(30), &mut rebuilt).await.is_err());
    drop(rebuilt);
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    let row = only_document(&world).await;
    assert_eq!((row.status, row.building, row.error), (DocumentStatus::Indexed, None, None));
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
    let accepted =
        world.ingest.accept(document("default", "a.md", "# A\n\nThe osprey dives."), None, false).await.unwrap();
    assert_eq!((accepted.status, accepted.unchanged), (DocumentStatus::Queued, false));
    let blank = world.ingest.accept(document("default", "blank.md", "  "), None, false).await.unwrap();
    let elsewhere = world.ingest.accept(document("nowhere", "a.md", "x"), None, false).await.unwrap_err();
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
        let same =
            world.ingest.accept(document("default", "a.md", "# A\n\nThe osprey dives."), None, false).await.unwrap();
        assert!(same.unchanged && same.status == DocumentStatus::Indexed);
        stop.cancel();
    };
    tokio::join!(world.ingest.clone().run_queue(stop.clone()), done);
    assert!(world.ingest.job(accepted.job_id).await.unwrap().unwrap().status.has_ended());
}

#[tokio::test]
async fn an_audit_mends_both_sides_and_leaves_the_rest_alone() {
    use tailrace::knowledge::VectorStore;
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let kept = world.put("default", "kept.md", "# Kept\n\nThe heron stands still.").await;
    let put = world.put("default", "essay.md", &essay("osprey", 600)).await;
    assert!(world.ingest.audit(Duration::ZERO).await.unwrap().nothing(), "nothing is wrong yet");
    // Points that the store loses, and points that no row knows.
    let ids = world.store.ids("default").await.unwrap();
    let lost: Vec<_> = ids.iter().copied().take(2).collect();
    world.store.delete("default", &lost).await.unwrap();
    let rows = tailrace::storage::points::with_ids(&world.db, "default", &ids[2..3]).await.unwrap();
    let keywords = world.base.keywords("english").unwrap();
    let mut stray = tailrace::knowledge::base::Base::points(&keywords, rows).unwrap();
    stray[0].id = uuid::Uuid::now_v7();
    world.store.upsert("default", stray).await.unwrap();
    let mended = world.ingest.audit(Duration::from_millis(10)).await.unwrap();
    assert_eq!((mended.missing, mended.extra, mended.orphans.none()), (2, 1, true), "{mended:?}");
    world.must_agree().await;
    assert_eq!(world.points("default", None).await, kept.chunks + put.chunks);
    assert!(world.ingest.audit(Duration::ZERO).await.unwrap().nothing());
    // While documents come and go it finds nothing to mend, and takes nothing away.
    let busy = async {
        for n in 0..7 {
            let words = if n % 3 == 0 { 2500 } else { 300 };
            world.put("default", "busy.md", &essay(&format!("gull{n}"), words)).await;
        }
    };
    let auditing = async {
        let mut looks = 0;
        while looks < 8 {
            world.ingest.audit(Duration::from_millis(200)).await.unwrap();
            looks += 1;
        }
    };
    tokio::join!(busy, auditing);
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    assert!(!world.find("default", "gull6 valve").await.is_empty());
}

/// Runs the queue until the job has ended.
async fn run_until_ended(world: &World, id: uuid::Uuid) -> tailrace::storage::jobs::Job {
    let stop = CancellationToken::new();
    let ended = async {
        let mut changes = world.ingest.job_changes();
        loop {
            let job = world.ingest.job(id).await.unwrap().unwrap();
            if job.status.has_ended() {
                stop.cancel();
                return job;
            }
            changes.changed().await.unwrap();
        }
    };
    let run = world.ingest.clone().run_queue(stop.clone());
    tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(run, ended).1 }).await.unwrap()
}

#[tokio::test]
async fn a_job_whose_trouble_is_not_the_documents_is_tried_again_by_itself() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let accepted = world.ingest.accept(document("default", "a.md", "The osprey dives."), None, false).await.unwrap();
    world.embedder.left.store(0, Ordering::SeqCst);
    let mends = async {
        let mut changes = world.ingest.job_changes();
        while world.ingest.job(accepted.job_id).await.unwrap().unwrap().error.is_none() {
            changes.changed().await.unwrap();
        }
        world.embedder.left.store(usize::MAX, Ordering::SeqCst);
    };
    let (job, ()) = tokio::join!(run_until_ended(&world, accepted.job_id), mends);
    assert_eq!((job.status.as_str(), job.attempts, job.error), ("indexed", 2, None));
    assert_eq!(world.find("default", "osprey").await.len(), 1);
}

#[tokio::test]
async fn a_document_that_the_process_dies_of_each_time_is_given_up() {
    let folder = TempDir::new().unwrap();
    let open = async || {
        let options = IngestOptions { max_attempts: 2, ..OPTIONS };
        World::open_with(folder.path(), super::world::TestEmbedder::new(), options).await
    };
    let world = open().await;
    let deadly = world.ingest.accept(document("default", "deadly.md", "One."), None, false).await.unwrap();
    let mut world = world;
    for _ in 0..2 {
        let begun = tailrace::storage::jobs::claim(&world.db, 1, i64::MAX - 1).await.unwrap();
        assert_eq!(begun[0].job.id, deadly.job_id);
        world.close().await;
        world = open().await;
    }
    let job = world.ingest.job(deadly.job_id).await.unwrap().unwrap();
    assert_eq!((job.status.as_str(), job.error.unwrap().0.as_str()), ("failed", "interrupted"));
    let row = only_document(&world).await;
    assert_eq!((row.status, row.error.unwrap().0.as_str()), (DocumentStatus::Failed, "interrupted"));
    // Others go on, and so does this one if somebody says so.
    assert_eq!(world.ingest.retry_job(deadly.job_id).await.unwrap(), tailrace::storage::jobs::Retried::Yes);
    assert_eq!(run_until_ended(&world, deadly.job_id).await.status.as_str(), "indexed");
}
