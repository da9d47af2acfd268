//! Invariant 13: what was acknowledged survives kill -9, and what was half done is finished or undone.
//! The child is this test binary itself: one test that does nothing unless a variable names its folder.

use super::world::{World, essay};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tailrace::storage::documents::{self as rows, DocumentKey, DocumentStatus};
use tempfile::TempDir;

const FOLDER: &str = "TAILRACE_TEST_CRASH_FOLDER";
const FIRST: &str = "TAILRACE_TEST_CRASH_FIRST";
const ROUNDS: u64 = 20;
const DOCUMENTS: u64 = 5;

/// What happens to which document in step `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Put(String),
    Delete,
    /// Makes the store's points durable.
    Upkeep,
}

fn step(n: u64) -> (String, Step) {
    let uri = format!("{}.md", n * 7 % DOCUMENTS);
    match n % 11 {
        3 | 8 => (uri, Step::Delete),
        5 => (uri, Step::Upkeep),
        // Long ones come in many slices.
        6 => (uri, Step::Put(essay(&format!("osprey{n}"), 9000))),
        _ => (uri, Step::Put(essay(&format!("osprey{n}"), 60))),
    }
}

fn key(uri: &str) -> DocumentKey {
    let id = tailrace::knowledge::identity::document_id("default", uri);
    DocumentKey { collection: "default".to_owned(), id }
}

/// Runs steps until it is killed, and says each that is done.
#[tokio::test]
async fn child() {
    let (Ok(folder), Ok(first)) = (std::env::var(FOLDER), std::env::var(FIRST)) else { return };
    let world = World::open(Path::new(&folder)).await;
    let first: u64 = first.parse().unwrap();
    for n in first.. {
        match step(n) {
            (uri, Step::Put(text)) => drop(world.put("default", &uri, &text).await),
            (uri, Step::Delete) => drop(world.ingest.delete_document("default", &key(&uri).id).await),
            (_, Step::Upkeep) => world.ingest.upkeep().await.unwrap(),
        }
        // Past the test harness's capture, and at once.
        let mut out = std::io::stdout().lock();
        writeln!(out, "\ndone {n}").unwrap();
        out.flush().unwrap();
    }
}

fn spawn(folder: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["knowledge::crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets the child do `steps` steps and a little more, kills it, and gives the number of steps done so far.
fn run_and_kill(folder: &Path, first: u64, steps: u64, more: Duration) -> u64 {
    let mut child = spawn(folder, first);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut done = first;
    let mut acknowledged =
        lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
    while done < first + steps {
        done = acknowledged.next().expect("the child ended by itself") + 1;
    }
    // Not to wait for anything: to be somewhere in the middle of the next step.
    let killer = std::thread::spawn(move || {
        std::thread::park_timeout(more);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    // What it still acknowledged before it died counts.
    for n in acknowledged {
        done = n + 1;
    }
    killer.join().unwrap();
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_during_ingestion_loses_nothing_that_was_acknowledged() {
    let folder = TempDir::new().unwrap();
    let mut done = 0;
    let mut expected: BTreeMap<String, Option<String>> = BTreeMap::new();
    for round in 0..ROUNDS {
        let (path, steps) = (folder.path().to_owned(), 1 + round * 5 % 4);
        let more = Duration::from_micros(round * 7919 % 60_000);
        let before = done;
        done = tokio::task::spawn_blocking(move || run_and_kill(&path, before, steps, more)).await.unwrap();
        for n in before..done {
            match step(n) {
                (uri, Step::Put(text)) => drop(expected.insert(uri, Some(text))),
                (uri, Step::Delete) => drop(expected.insert(uri, None)),
                (_, Step::Upkeep) => {}
            }
        }
        let world = World::open(folder.path()).await;
        // The step in which it died has happened or has not.
        let (uri, unsure) = step(done);
        let unsure = match unsure {
            Step::Put(text) => Some((uri, Some(text))),
            Step::Delete => Some((uri, None)),
            Step::Upkeep => None,
        };
        verify(&world, &mut expected, unsure).await;
        world.close().await;
    }
}

async fn verify(
    world: &World,
    expected: &mut BTreeMap<String, Option<String>>,
    unsure: Option<(String, Option<String>)>,
) {
    world.must_agree().await;
    for n in 0..DOCUMENTS {
        let uri = format!("{n}.md");
        let row = rows::find(&world.db, &key(&uri)).await.unwrap();
        let content = rows::content(&world.db, &key(&uri)).await.unwrap();
        let told = expected.get(&uri).cloned().flatten();
        if content.as_deref().map(str::trim) != told.as_deref().map(str::trim) {
            let last = unsure.as_ref().filter(|(other, _)| *other == uri).map(|(_, text)| text.clone());
            let last = last.unwrap_or_else(|| panic!("{uri} is not as it was acknowledged: {row:?}"));
            assert_eq!(content.as_deref().map(str::trim), last.as_deref().map(str::trim), "{uri}");
            expected.insert(uri.clone(), last);
        }
        if let Some(row) = row {
            assert!(matches!(row.status, DocumentStatus::Indexed | DocumentStatus::Failed), "{row:?}");
            assert_eq!(row.building, None);
            let chunks = row.live.as_ref().map_or(0, |live| live.chunks);
            assert_eq!(world.points("default", Some(&row.key.id)).await, chunks, "{row:?}");
            if let Some(live) = row.live {
                // As many chunks as a run that nobody interrupts makes.
                let again = world.put("default", &uri, content.as_deref().unwrap()).await;
                assert!(again.chunks == live.chunks, "{again:?} {live:?}");
            }
        } else {
            assert_eq!(world.points("default", Some(&key(&uri).id)).await, 0);
        }
    }
    for (uri, text) in expected.iter().filter_map(|(uri, text)| Some((uri, text.as_ref()?))) {
        let mark = text.split_whitespace().find(|word| word.starts_with("osprey")).unwrap();
        let hits = world.find("default", mark).await;
        assert!(hits.iter().any(|hit| hit.uri == *uri && hit.text.contains(mark)), "{mark} is not found");
    }
}
