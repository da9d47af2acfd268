//! Collections built anew beside themselves: with another model, while things change, and when the process dies.

use super::world::{OPTIONS, TestEmbedder, World, essay};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tailrace::config::ToolResults;
use tailrace::knowledge::ingest::{Change, IngestOptions, NewCollectionOptions};
use tailrace::knowledge::retrieve::{SearchMode, SearchRequest};
use tailrace::knowledge::{Embedder, VectorStore};
use tailrace::storage::documents::{self as rows, DocumentKey};
use tailrace::storage::jobs::JobStatus;
use tailrace::storage::{collections, generations, versions};
use tempfile::TempDir;

const SMALL: &str = "smaller";

fn key(collection: &str, id: &str) -> DocumentKey {
    DocumentKey { collection: collection.to_owned(), id: id.to_owned() }
}

/// The built-in model is the default, and one of 64 numbers is there too.
async fn two_models(folder: &Path) -> (World, Arc<TestEmbedder>) {
    let small = Arc::new(TestEmbedder::other(SMALL, 64));
    let world = World::open_models(folder, Arc::new(TestEmbedder::new()), vec![small.clone()], OPTIONS).await;
    (world, small)
}

async fn model_of(world: &World, collection: &str) -> (String, u64) {
    let found = collections::find(&world.db, collection).await.unwrap().unwrap();
    (found.embedding_model, found.dimension)
}

/// By meaning alone: a query of the wrong model would find nothing, or be refused.
async fn dense(world: &World, collection: &str, query: &str) -> Vec<String> {
    let request = SearchRequest { mode: SearchMode::Dense, ..SearchRequest::new(collection, query, 3) };
    world.search(request).await.into_iter().map(|hit| hit.uri).collect()
}

#[tokio::test]
async fn another_model_is_built_aside_switched_to_and_the_old_one_dropped() {
    let folder = TempDir::new().unwrap();
    let (world, small) = two_models(folder.path()).await;
    let options = NewCollectionOptions { keep_versions: 2, ..NewCollectionOptions::default() };
    world.ingest.create_collection_with("laws", options).await.unwrap();
    world.put("laws", "essay.md", &essay("osprey", 1500)).await;
    let toll = world.put("laws", "toll.md", "# Toll\n\nThe toll is one penny.").await.document_id;
    world.put("laws", "toll.md", "# Toll\n\nThe toll is two pence.").await;
    let before = world.points("laws", None).await;
    let begun = world.ingest.reindex("laws", Some(SMALL), None).await.unwrap();
    assert_eq!((begun.embedding_model.as_str(), begun.dimension, begun.done, begun.total), (SMALL, 64, 0, 3));
    assert_eq!(dense(&world, "laws", "What is the toll?").await[0], "toll.md", "the old build answers");
    assert_eq!(small.count(), 0);
    assert!(!world.ingest.reindex_all().await);
    assert_eq!(model_of(&world, "laws").await, (SMALL.to_owned(), 64));
    assert_eq!(world.ingest.reindexing("laws").await.unwrap(), None);
    assert!(generations::list(&world.db).await.unwrap().is_empty(), "nothing is left of the old build");
    assert!(world.store.count("laws", &Default::default()).await.is_err(), "nor of its part of the store");
    assert_eq!((world.points("laws", None).await, small.count() as u64), (before, before));
    let mut world = world;
    for restart in [false, true] {
        if restart {
            world.close().await;
            world = two_models(folder.path()).await.0;
        }
        world.must_agree().await;
        assert_eq!(dense(&world, "laws", "What is the toll?").await[0], "toll.md");
        assert_eq!(world.find("laws", "osprey valve pressure").await[0].uri, "essay.md");
        let first = versions::of_document(&world.db, &key("laws", &toll)).await.unwrap().pop().unwrap();
        let past = SearchRequest { as_of: Some(first.created), ..SearchRequest::new("laws", "toll", 3) };
        assert!(world.search(past).await[0].text.contains("one penny"), "kept versions came along");
    }
    // What comes now is of the new model, in a collection beside others of the default one.
    world.put("laws", "ferry.md", "# Ferry\n\nThe ferry to Skomer leaves at nine.").await;
    world.put("default", "ferry.md", "# Ferry\n\nThe ferry to Skomer leaves at ten.").await;
    let both = SearchRequest {
        collections: vec!["laws".to_owned(), "default".to_owned()],
        ..SearchRequest::new("", "When does the ferry leave?", 5)
    };
    let hits = world.search(both).await;
    assert!(hits[..2].iter().all(|hit| hit.uri == "ferry.md") && hits[0].collection != hits[1].collection, "{hits:?}");
    world.must_agree().await;
    world.ingest.delete_collection("laws").await.unwrap();
    world.ingest.create_collection("laws", "auto").await.unwrap();
    assert_eq!((model_of(&world, "laws").await.1, world.points("laws", None).await), (384, 0));
}

/// The case `model_changed`, with its end: refused with what to do, and after a re-index everything is found.
#[tokio::test]
async fn model_changed_and_re_indexed() {
    let dimension = TestEmbedder::new().dimension();
    for (name, dimension) in [("smaller", 128), ("of-the-same-size", dimension)] {
        let folder = TempDir::new().unwrap();
        let world = World::open(folder.path()).await;
        world.put("default", "drill.md", "# Drill\n\nThe fire drill is on Monday at nine.").await;
        let conversation = world.conversation().await;
        world.tool_result(conversation, "https://x/", "The tide is high at noon.", ToolResults::Conversation).await;
        world.close().await;
        let world = World::open_with(folder.path(), TestEmbedder::other(name, dimension), OPTIONS).await;
        let refused = world.retrieve.search(&SearchRequest::new("default", "drill", 3)).await.unwrap_err();
        let said = refused.to_string();
        assert!(
            refused.code() == "model_changed" && said.contains("needs re-index") && said.contains("/reindex"),
            "{said}"
        );
        world.ingest.reindex("default", None, None).await.unwrap();
        assert!(!world.ingest.reindex_all().await);
        assert_eq!(model_of(&world, "default").await, (name.to_owned(), dimension as u64));
        assert_eq!(dense(&world, "default", "When is the fire drill?").await, ["drill.md"]);
        let theirs =
            SearchRequest { conversation: Some(conversation), ..SearchRequest::new("default", "high tide", 3) };
        assert_eq!(world.search(theirs).await[0].uri, "https://x/", "findings too");
        world.must_agree().await;
        let unknown = world.ingest.reindex("default", Some("nobody's"), None).await.unwrap_err();
        assert_eq!(unknown.code(), "unknown_embedding_model");
    }
}

/// The case `rebuild_index`: the store is lost, and the texts are in SQL.
#[tokio::test]
async fn an_emptied_store_comes_back_with_other_chunk_sizes() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let put = world.put("default", "essay.md", &essay("osprey", 900)).await;
    world.close().await;
    let options = IngestOptions { chunk_tokens: 60, ..OPTIONS };
    let world = World::open_with(folder.path(), TestEmbedder::new(), options).await;
    world.store.delete_collection("default").await.unwrap();
    world.ingest.reindex("default", None, None).await.unwrap();
    assert!(!world.ingest.reindex_all().await);
    let found = rows::find(&world.db, &key("default", &put.document_id)).await.unwrap().unwrap().live.unwrap();
    assert!(found.version == put.version && found.chunks > put.chunks, "{found:?}");
    assert_eq!(world.points("default", None).await, found.chunks);
    assert_eq!(world.find("default", "osprey valve pressure").await[0].uri, "essay.md");
    world.must_agree().await;
}

#[tokio::test]
async fn a_model_that_fails_leaves_the_old_build_answering_and_goes_on_where_it_was() {
    let folder = TempDir::new().unwrap();
    let (world, small) = two_models(folder.path()).await;
    for n in 0..6 {
        world.put("default", &format!("{n}.md"), &format!("# Report {n}\n\nValve {n} was checked.")).await;
    }
    small.left.store(4, Ordering::SeqCst);
    world.ingest.reindex("default", Some(SMALL), None).await.unwrap();
    assert!(world.ingest.reindex_all().await, "it says that it failed");
    let state = world.ingest.reindexing("default").await.unwrap().unwrap();
    assert_eq!((state.done, state.total), (4, 6));
    assert!(state.error.unwrap().contains("the test said so"));
    assert_eq!(model_of(&world, "default").await.1, 384);
    assert_eq!(dense(&world, "default", "valve 3").await.len(), 3);
    // Deleted meanwhile: from the build aside, too.
    let gone = rows::list(&world.db, "default", None, 1).await.unwrap().remove(0).key;
    world.ingest.delete_document("default", &gone.id).await.unwrap();
    small.left.store(usize::MAX, Ordering::SeqCst);
    assert!(!world.ingest.reindex_all().await);
    assert_eq!((model_of(&world, "default").await.1, small.count()), (64, 6), "nothing is embedded twice");
    assert_eq!(world.points("default", None).await, 5);
    world.must_agree().await;
    // Another wish while one is under way replaces it.
    world.ingest.reindex("default", Some(world.embedder.model().name.as_str()), None).await.unwrap();
    world.ingest.reindex("default", Some(SMALL), None).await.unwrap();
    assert!(!world.ingest.reindex_all().await);
    assert_eq!(model_of(&world, "default").await.1, 64);
    world.must_agree().await;
}

#[tokio::test]
async fn a_re_index_is_a_job_that_tells_how_far_it_is_and_can_be_cancelled() {
    let folder = TempDir::new().unwrap();
    let (world, small) = two_models(folder.path()).await;
    for n in 0..4 {
        world.put("default", &format!("{n}.md"), &format!("# Report {n}\n\nValve {n} was checked.")).await;
    }
    let begun = world.ingest.reindex("default", Some(SMALL), Some("a key")).await.unwrap();
    let same = world.ingest.reindex("default", Some(SMALL), None).await.unwrap();
    assert_eq!(same.job, begun.job, "one that is under way goes on");
    let id = begun.job.unwrap();
    small.left.store(3, Ordering::SeqCst);
    assert!(world.ingest.reindex_all().await);
    let job = world.ingest.job(id).await.unwrap().unwrap();
    assert_eq!((job.kind.as_str(), job.owner.as_deref(), job.done, job.total), ("reindex", Some("a key"), 3, 4));
    assert!(job.ended.is_none() && job.error.unwrap().1.contains("the test said so"));
    assert!(world.ingest.cancel_job(id).await.unwrap());
    assert!(!world.ingest.cancel_job(id).await.unwrap(), "it has ended");
    assert_eq!(world.ingest.job(id).await.unwrap().unwrap().status, JobStatus::Cancelled);
    assert!(!world.ingest.reindex_all().await);
    assert_eq!(model_of(&world, "default").await.1, 384);
    assert!(generations::list(&world.db).await.unwrap().is_empty());
    small.left.store(usize::MAX, Ordering::SeqCst);
    let id = world.ingest.reindex("default", Some(SMALL), None).await.unwrap().job.unwrap();
    assert!(!world.ingest.reindex_all().await);
    let job = world.ingest.job(id).await.unwrap().unwrap();
    assert_eq!((job.status, job.done, job.total, job.error), (JobStatus::Indexed, 4, 4, None));
    world.must_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_changes_while_it_is_built_is_as_it_should_be_afterwards() {
    let folder = TempDir::new().unwrap();
    let (world, _small) = two_models(folder.path()).await;
    for n in 0..20 {
        world.put("default", &format!("{n}.md"), &essay(&format!("osprey{n}"), 150)).await;
    }
    world.ingest.reindex("default", Some(SMALL), None).await.unwrap();
    let changes = async {
        for n in 0..20u32 {
            let uri = format!("{n}.md");
            let id = tailrace::knowledge::identity::document_id("default", &uri);
            match n % 4 {
                0 => drop(world.put("default", &uri, &essay(&format!("heron{n}"), 100)).await),
                1 => drop(world.ingest.delete_document("default", &id).await.unwrap()),
                2 => {
                    let change = Change { title: Some(format!("Titled {n}")), ..Change::default() };
                    drop(world.ingest.describe(&key("default", &id), change).await.unwrap());
                }
                _ => drop(world.put("default", &format!("new{n}.md"), &essay(&format!("gull{n}"), 60)).await),
            }
            // One answer or the other, never an error and never a mix of models.
            assert!(!world.find("default", "valve pressure").await.is_empty());
        }
    };
    let (failed, ()) = tokio::join!(world.ingest.reindex_all(), changes);
    assert!(!failed);
    assert_eq!(model_of(&world, "default").await.1, 64);
    world.must_agree().await;
    for n in 0..20u32 {
        let found =
            async |mark: &str| world.find("default", mark).await.into_iter().find(|hit| hit.text.contains(mark));
        let (old, uri) = (found(&format!("osprey{n} ")).await, format!("{n}.md"));
        match n % 4 {
            0 => assert_eq!(found(&format!("heron{n} ")).await.unwrap().uri, uri),
            1 => assert!(old.is_none(), "{old:?}"),
            2 => assert_eq!(old.unwrap().title, format!("Titled {n}")),
            _ => assert_eq!(found(&format!("gull{n} ")).await.unwrap().uri, format!("new{n}.md")),
        }
    }
}

#[tokio::test]
async fn one_document_is_built_again_from_its_text() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let options = NewCollectionOptions { keep_versions: 2, ..NewCollectionOptions::default() };
    world.ingest.create_collection_with("kept", options).await.unwrap();
    world.put("kept", "essay.md", &essay("heron", 300)).await;
    let put = world.put("kept", "essay.md", &essay("osprey", 600)).await;
    let key = key("kept", &put.document_id);
    let before = versions::of_document(&world.db, &key).await.unwrap();
    let embedded = world.embedder.count();
    let again = world.ingest.rebuild_document(&key).await.unwrap();
    assert_eq!((again.version, again.chunks), (put.version + 1, put.chunks));
    assert_eq!((world.embedder.count() - embedded) as u64, put.chunks, "all of it is embedded again");
    let after = versions::of_document(&world.db, &key).await.unwrap();
    assert_eq!(after.len(), 2, "it takes no place of a version that is kept: {after:?}");
    assert_eq!((after[0].created, &after[0].hash), (before[0].created, &before[0].hash));
    let document = rows::find(&world.db, &key).await.unwrap().unwrap();
    assert_eq!((document.description.title.as_str(), document.error), ("Report osprey", None));
    assert_eq!(world.find("kept", "osprey valve").await[0].uri, "essay.md");
    assert!(world.put("kept", "essay.md", &essay("osprey", 600)).await.unchanged);
    world.must_agree().await;
    let missing = world.ingest.rebuild_document(&self::key("kept", "nobody")).await.unwrap_err();
    assert_eq!(missing.code(), "unknown_document");
}

const FOLDER: &str = "TAILRACE_TEST_REINDEX_FOLDER";
const FIRST: &str = "TAILRACE_TEST_REINDEX_FIRST";

/// Puts a document and re-indexes everything, again and again, until it is killed; says each step that is done.
#[tokio::test]
async fn child() {
    let (Ok(folder), Ok(first)) = (std::env::var(FOLDER), std::env::var(FIRST)) else { return };
    let (world, _small) = two_models(Path::new(&folder)).await;
    for n in first.parse::<u64>().unwrap().. {
        let model = if n % 2 == 0 { SMALL } else { world.embedder.model().name.as_str() };
        world.ingest.reindex("default", Some(model), None).await.unwrap();
        let (uri, text) = (format!("{}.md", n % 3), essay(&format!("osprey{n}"), 400));
        let put = world.put("default", &uri, &text);
        let (_, failed) = tokio::join!(put, world.ingest.reindex_all());
        assert!(!failed);
        let mut out = std::io::stdout().lock();
        writeln!(out, "\ndone {n}").unwrap();
        out.flush().unwrap();
    }
}

/// Kills the child some time after its first step; the number of steps done so far.
fn run_and_kill(folder: &Path, first: u64, more: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["knowledge::reindex::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut done = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
    let mut last = done.next().expect("the child ended by itself");
    let killer = std::thread::spawn(move || {
        std::thread::park_timeout(more);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    last = done.last().unwrap_or(last);
    killer.join().unwrap();
    last + 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_during_a_re_index_loses_nothing() {
    let rounds = std::env::var("TAILRACE_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6u64);
    let folder = TempDir::new().unwrap();
    let mut done = 0;
    for round in 0..rounds {
        let (path, first) = (folder.path().to_owned(), done);
        let more = Duration::from_micros(20_000 + round * 104_729 % 400_000);
        done = tokio::task::spawn_blocking(move || run_and_kill(&path, first, more)).await.unwrap();
        let (world, _small) = two_models(folder.path()).await;
        world.must_agree().await;
        let check = async || {
            // The newest step of each document that was acknowledged, or the one that was under way.
            let newest: BTreeMap<u64, u64> = (0..done).map(|n| (n % 3, n)).collect();
            for (document, n) in newest {
                let uri = format!("{document}.md");
                let marks = [format!("osprey{n}"), format!("osprey{done}")];
                let hits = world.find("default", &format!("{} {}", marks[0], marks[1])).await;
                let found = hits.iter().any(|hit| hit.uri == uri && marks.iter().any(|mark| hit.text.contains(mark)));
                assert!(found, "round {round}, {uri} of {n}: {hits:?}");
                assert!(!dense(&world, "default", &marks[0]).await.is_empty());
            }
        };
        check().await;
        assert!(!world.ingest.reindex_all().await);
        check().await;
        world.must_agree().await;
        assert!(generations::list(&world.db).await.unwrap().is_empty());
        world.close().await;
    }
}
