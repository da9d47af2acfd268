//! Invariant 12: no CPU-bound work on a runtime thread. (Tracked tasks, bounded channels and the like are
//! lints and tidy rules.)

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace::app::Knowledge;
use tailrace::config::{Config, LoadArgs};
use tailrace::knowledge::Priority;
use tailrace::knowledge::ingest::NewDocument;
use tailrace::knowledge::retrieve::SearchRequest;

/// How much processor time the one runtime thread may spend away from its other tasks: far more than any
/// poll needs, far less than reading, chunking or embedding the text takes.
const AWAY: Duration = Duration::from_millis(200);

/// The processor time that this thread has had. Unlike a clock it does not run while other programs do,
/// so the test means the same on a busy machine.
fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "current_thread")]
async fn invariant_12_ingestion_and_search_leave_the_runtime_thread_free() {
    let data = tempfile::tempdir().unwrap();
    let overrides = [
        ("storage.data_dir".to_owned(), data.path().display().to_string()),
        ("models.dir".to_owned(), models().display().to_string()),
    ];
    let loaded = Config::load(&LoadArgs { config_file: None, overrides: overrides.to_vec() }).unwrap();
    let knowledge = Knowledge::open(&loaded.config).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let watch = {
        let done = Arc::clone(&done);
        async move {
            let (mut longest, mut last) = (Duration::ZERO, thread_time());
            while !done.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let now = thread_time();
                longest = longest.max(now - last);
                last = now;
            }
            longest
        }
    };
    let text: String =
        (0..1200).map(|i| format!("Paragraph {i} tells of lighthouse number {i} and its keeper.\n\n")).collect();
    let work = async {
        let new = NewDocument {
            collection: "default".into(),
            uri: Some("lighthouses.md".into()),
            content: text.into(),
            ..NewDocument::default()
        };
        let outcome = knowledge.ingest.document(new, Priority::Bulk).await.unwrap();
        let hits =
            knowledge.retrieve.search(&SearchRequest::new("default", "lighthouse keeper", 10)).await.unwrap().hits;
        done.store(true, Ordering::Relaxed);
        (outcome.chunks, hits.len())
    };
    let (longest, (chunks, hits)) = tokio::join!(watch, work);
    assert!(chunks > 50 && hits > 0, "{chunks} chunks, {hits} hits");
    assert!(longest < AWAY, "the runtime thread was away for {longest:?}");
    knowledge.close().await;
}
