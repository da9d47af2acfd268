//! Read your writes: whoever was told that a document is in, finds it; whoever was told that it is gone, does not.
//! `TAILRACE_READS` is the number of writes, 10,000 for the whole proof; the default is what CI has time for.

use super::world::World;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace::knowledge::retrieve::{SearchMode, SearchRequest};
use tempfile::TempDir;

const WRITERS: u64 = 4;
/// Documents of a writer, so that it also replaces and deletes.
const DOCUMENTS: u32 = 12;

fn writes() -> u64 {
    std::env::var("TAILRACE_READS").ok().and_then(|n| n.parse().ok()).unwrap_or(240)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_acknowledged_write_is_seen_by_the_next_search() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let done = AtomicBool::new(false);
    let upkeep = async {
        while !done.load(Ordering::Relaxed) {
            world.store.maintain().await.unwrap();
            world.ingest.upkeep().await.unwrap();
            world.find("default", "something else altogether").await;
            tokio::task::yield_now().await;
        }
    };
    let writers = async {
        futures_util::future::join_all((0..WRITERS).map(|writer| write(&world, writer, writes() / WRITERS))).await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(writers, upkeep);
    world.must_agree().await;
}

async fn write(world: &World, writer: u64, writes: u64) {
    let mut rng = StdRng::seed_from_u64(writer);
    // The mark that each document holds now.
    let mut marks: HashMap<String, String> = HashMap::new();
    for n in 0..writes {
        let uri = format!("writer{writer}/{}.md", rng.random_range(0..DOCUMENTS));
        let old = marks.remove(&uri);
        if old.is_some() && rng.random_range(0..4) == 0 {
            let hits = world.find("default", old.as_deref().unwrap_or_default()).await;
            let id = hits.iter().find(|hit| hit.uri == uri).map(|hit| hit.document_id.clone());
            world.ingest.delete_document("default", &id.expect("it was found before")).await.unwrap();
        } else {
            let mark = format!("mark{writer}x{n:05}");
            let filler = "The valve held the pressure through the night. ".repeat(rng.random_range(1..20));
            world.put("default", &uri, &format!("# Note\n\n{filler}\n\nIt is called {mark}. {filler}")).await;
            must_find(world, &uri, &mark, &mut rng, n).await;
            marks.insert(uri.clone(), mark);
        }
        if let Some(old) = old {
            let hits = world.find("default", &old).await;
            assert!(
                hits.iter().all(|hit| !hit.text.contains(&old)),
                "writer {writer}, write {n}: {old} is still there"
            );
        }
    }
}

async fn must_find(world: &World, uri: &str, mark: &str, rng: &mut StdRng, n: u64) {
    let mode = if rng.random_range(0..2) == 0 { SearchMode::Hybrid } else { SearchMode::Sparse };
    let request = SearchRequest { mode, ..SearchRequest::new("default", mark, 5) };
    let hits = world.search(request).await;
    assert!(
        hits.iter().any(|hit| hit.uri == uri && hit.text.contains(mark)),
        "write {n}: {mark} is not found: {hits:?}"
    );
}
