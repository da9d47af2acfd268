//! What only the store in process has: a folder that can be locked, damaged, left behind by a crash.

use crate::store_contract::{DIMENSION, point, query};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace::knowledge::filter::Filter;
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::{Point, StoreError, VectorStore};
use tokio::task::JoinSet;

fn points(numbers: std::ops::Range<u128>) -> Vec<Point> {
    numbers.map(|n| point(n, &format!("text number {n} of many"), json!({ "n": n as u64 }))).collect()
}

async fn count(store: &EdgeStore, collection: &str) -> u64 {
    store.count(collection, &Filter::default()).await.unwrap()
}

/// What a crash leaves: the files as they are while the store is open.
fn crash(root: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let copied = tempfile::tempdir().unwrap();
    copy(root, copied.path());
    copied
}

#[tokio::test]
async fn a_crash_keeps_what_was_flushed_and_the_rest_can_be_written_again() {
    let root = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(root.path()).unwrap();
    assert!(store.needs_flush());
    store.create_collection("c", DIMENSION).await.unwrap();
    store.upsert("c", points(1..301)).await.unwrap();
    store.flush("c").await.unwrap();
    store.upsert("c", points(301..401)).await.unwrap();
    store.delete("c", &[1, 2].map(uuid::Uuid::from_u128)).await.unwrap();

    let copied = crash(root.path());
    let after = EdgeStore::open(copied.path()).unwrap();
    let ids = after.ids("c").await.unwrap();
    assert!((3..301).all(|n| ids.contains(&uuid::Uuid::from_u128(n))), "{} ids", ids.len());
    // Replayed as `reconcile` does it: all that came after the flush.
    after.upsert("c", points(301..401)).await.unwrap();
    after.delete("c", &[1, 2].map(uuid::Uuid::from_u128)).await.unwrap();
    assert_eq!(count(&after, "c").await, 398);
    let hits = after.search("c", &query("number 377", Filter::default())).await.unwrap().bm25;
    assert!(hits.iter().any(|hit| hit.id == uuid::Uuid::from_u128(377)), "{hits:?}");
}

#[tokio::test]
async fn closing_keeps_everything() {
    let root = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(root.path()).unwrap();
    store.create_collection("c", DIMENSION).await.unwrap();
    store.upsert("c", points(1..101)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let again = EdgeStore::open(root.path()).unwrap();
    assert_eq!(count(&again, "c").await, 100);
    let refused = again.create_collection("c", DIMENSION + 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Dimension { found: DIMENSION, .. }), "{refused:?}");
}

#[test]
fn a_second_process_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let first = EdgeStore::open(root.path()).unwrap();
    let refused = EdgeStore::open(root.path()).unwrap_err();
    assert!(
        matches!(&refused, StoreError::InUse(folder) if *folder == root.path().display().to_string()),
        "{refused:?}"
    );
    drop(first);
    EdgeStore::open(root.path()).unwrap();
}

#[tokio::test]
async fn a_damaged_collection_is_named_and_can_be_made_again() {
    let root = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(root.path()).unwrap();
    store.create_collection("good", DIMENSION).await.unwrap();
    store.create_collection("bad", DIMENSION).await.unwrap();
    store.upsert("bad", points(1..11)).await.unwrap();
    store.close().await.unwrap();
    damage(&root.path().join("bad").join("segments"));

    let refused = store.count("bad", &Filter::default()).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Unreadable { collection, .. } if collection == "bad"), "{refused:?}");
    assert_eq!(count(&store, "good").await, 0);
    store.delete_collection("bad").await.unwrap();
    store.create_collection("bad", DIMENSION).await.unwrap();
    store.upsert("bad", points(1..11)).await.unwrap();
    assert_eq!(count(&store, "bad").await, 10);
}

/// Overwrites every JSON file below a folder.
fn damage(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            damage(&entry.path());
        } else if entry.path().extension().is_some_and(|e| e == "json") {
            fs::write(entry.path(), "{").unwrap();
        }
    }
}

#[tokio::test]
async fn a_deletion_that_a_crash_cut_short_is_finished_on_opening() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join(".deleted-c").join("segments");
    fs::create_dir_all(&left).unwrap();
    let store = EdgeStore::open(root.path()).unwrap();
    assert!(!root.path().join(".deleted-c").exists());
    store.create_collection("c", DIMENSION).await.unwrap();
}

#[tokio::test]
async fn the_log_is_cut_back_on_opening() {
    let root = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(root.path()).unwrap();
    store.create_collection("c", DIMENSION).await.unwrap();
    let mut big = points(1..101);
    for point in &mut big {
        point.payload.title = "t".repeat(200_000);
    }
    store.upsert("c", big).await.unwrap();
    store.close().await.unwrap();
    let full = || {
        let files = fs::read_dir(root.path().join("c").join("wal")).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("closed-")).count()
    };
    assert!(full() > 1, "{} full log files", full());
    store.upsert("c", points(101..111)).await.unwrap();
    assert_eq!(full(), 1);
    // Changes after the cut are not taken for old ones.
    store.upsert("c", points(1..3)).await.unwrap();
    store.delete("c", &[uuid::Uuid::from_u128(3)]).await.unwrap();
    assert_eq!(count(&store, "c").await, 109);
}

/// Writers, searches, flushes and rebuilds of segments at once: no write is lost and nothing fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_and_searches_go_on_beside_flush_and_maintain() {
    const WRITERS: u128 = 3;
    const EACH: u128 = 1500;
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(EdgeStore::open(root.path()).unwrap());
    store.create_collection("c", DIMENSION).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for batch in 0..EACH / 50 {
                let first = writer * EACH + batch * 50;
                store.upsert("c", points(first..first + 50)).await.unwrap();
                // Found at once: the answer that follows needs it.
                let mine = query(&format!("text number {first} of many"), Filter::default());
                let hits = store.search("c", &mine).await.unwrap().dense;
                assert!(hits.iter().any(|hit| hit.id == uuid::Uuid::from_u128(first)), "{first}: {hits:?}");
                if batch % 3 == 0 {
                    store.delete("c", &[uuid::Uuid::from_u128(first)]).await.unwrap();
                }
            }
        });
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut upkeep = JoinSet::new();
    for flush in [true, false] {
        let (store, done) = (store.clone(), done.clone());
        upkeep.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                if flush {
                    store.flush("c").await.unwrap()
                } else {
                    drop(store.maintain().await.unwrap())
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    while let Some(kept) = upkeep.join_next().await {
        kept.unwrap();
    }
    let left = WRITERS * EACH - WRITERS * (EACH / 50).div_ceil(3);
    assert_eq!(u128::from(count(&store, "c").await), left);
    assert_eq!(store.ids("c").await.unwrap().len() as u128, left);
}
