//! Invariant 13 over HTTP: the server is killed at random instants while documents come, change and go; after each
//! restart rows and points agree, what was acknowledged is found, what was deleted is not.
//! `TAILRACE_TEST_KILLS` says how often (200 takes a quarter of an hour).

use super::*;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tailrace::knowledge::identity::document_id;

const KILLS: &str = "TAILRACE_TEST_KILLS";
const DOCUMENTS: &str = "/api/v1/collections/default/documents";
const CLIENTS: u64 = 4;
/// Each client's own, so that it knows the order of what it did.
const DOCUMENTS_EACH: u64 = 3;
const ENV: [(&str, &str); 2] = [("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE__INGEST__CHUNK_TOKENS", "48")];

/// Numbers that look thrown; the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What a document may be: a text, or nothing. More than one where the server died before it answered.
type Book = BTreeMap<String, BTreeSet<Option<String>>>;

/// A text with a word that no other text has.
fn text(mark: &str, paragraphs: u64) -> String {
    let line = |n| format!("In part {n} the {mark} was seen over valve {n} while the crew wrote the pressure down.");
    (0..=paragraphs).map(line).collect::<Vec<_>>().join("\n\n")
}

fn mark(text: &str) -> &str {
    text.split_whitespace().find(|word| word.starts_with("osprey")).unwrap()
}

/// Puts, changes and deletes until the server is gone.
async fn client(service: &Service, number: u64, mut dice: Dice, book: &Mutex<Book>) {
    loop {
        let uri = format!("{number}-{}.md", dice.below(DOCUMENTS_EACH));
        let paragraphs = if dice.below(4) == 0 { 60 } else { dice.below(3) };
        let wanted = match dice.below(10) {
            0 | 1 => None,
            _ => Some(text(&format!("osprey{}x{number}", dice.0 >> 20), paragraphs)),
        };
        let request = match &wanted {
            None => service.delete(&format!("{DOCUMENTS}/{}", document_id("default", &uri))),
            Some(text) => {
                let body = json!({"documents": [{"uri": uri, "text": text}]});
                let waits = dice.below(3) > 0;
                service.post(&format!("{DOCUMENTS}?wait={waits}"), &body)
            }
        };
        book.lock().unwrap().get_mut(&uri).unwrap().insert(wanted.clone());
        let Ok(response) = request.send().await else { return };
        let status = response.status().as_u16();
        // Only with its body the answer is whole.
        let Ok(body) = response.text().await else { return };
        assert!(status < 300 || (status == 404 && wanted.is_none()), "{status}: {body}");
        book.lock().unwrap().insert(uri, BTreeSet::from([wanted]));
    }
}

/// Waits until no job is left, and compares everything with the book, which then says what was found.
async fn verify(service: &Service, book: &mut Book) {
    // In the order in which jobs go through them.
    for status in ["queued", "extracting", "chunking", "embedding"] {
        loop {
            let left = service.json(&format!("/api/v1/jobs?status={status}&limit=1")).await;
            let Some(job) = left["jobs"].get(0) else { break };
            let ended = service.ended(&job["id"]).await;
            assert!(ended["status"] == "indexed" || ended["status"] == "cancelled", "{ended}");
        }
    }
    for (uri, may) in book.iter_mut() {
        let path = format!("{DOCUMENTS}/{}", document_id("default", uri));
        let content = service.get(&format!("{path}/content")).send().await.unwrap();
        let found = match content.status().as_u16() {
            404 => None,
            200 => Some(content.text().await.unwrap()).filter(|text| !text.is_empty()),
            other => panic!("{uri}: {other}"),
        };
        assert!(may.contains(&found), "{uri} is {found:?} and should be one of {may:?}");
        if found.is_some() {
            let document = service.json(&path).await;
            let chunks = service.json(&format!("{path}/chunks")).await;
            let count = chunks["chunks"].as_array().unwrap().len();
            assert_eq!((&document["status"], &document["chunks"]), (&json!("indexed"), &json!(count)), "{document}");
        }
        for text in may.iter().flatten() {
            let hits = service.search("default", mark(text)).await;
            let hit = hits.iter().any(|hit| hit["text"].as_str().unwrap().contains(mark(text)));
            assert_eq!(hit, found.as_ref() == Some(text), "{uri}: {}", mark(text));
        }
        *may = BTreeSet::from([found]);
    }
}

async fn doctor(data: &TempDir) {
    let out = tailrace().args(["doctor", "--json", "--data-dir"]).arg(data.path()).output().await.unwrap();
    let said: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    assert_eq!(said["ok"], true, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_at_random_instants_loses_nothing_that_was_acknowledged() {
    let kills = std::env::var(KILLS).map_or(6, |n| n.parse().unwrap());
    let mut dice = Dice(0x7a11_face);
    let uris = (0..CLIENTS).flat_map(|c| (0..DOCUMENTS_EACH).map(move |d| format!("{c}-{d}.md")));
    let mut book: Book = uris.map(|uri| (uri, BTreeSet::from([None]))).collect();
    let data = Arc::new(tempfile::tempdir().unwrap());
    for round in 0..kills {
        let mut service = Service::on(Arc::clone(&data), &ENV).await;
        verify(&service, &mut book).await;
        let shared = Mutex::new(std::mem::take(&mut book));
        let pid = service.child.id().unwrap().to_string();
        let clients = (0..CLIENTS).map(|n| client(&service, n, Dice(round * 1009 + n * 7919 + 1), &shared));
        let pause = Duration::from_millis(20 + dice.below(1500));
        let killer = async {
            tokio::time::sleep(pause).await;
            assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        };
        tokio::join!(join_all(clients), killer);
        service.child.wait().await.unwrap();
        book = shared.into_inner().unwrap();
        // Brings everything into step as any start does, and compares all ids.
        if round % 3 == 0 {
            doctor(&data).await;
        }
    }
    let mut service = Service::on(Arc::clone(&data), &ENV).await;
    verify(&service, &mut book).await;
    service.child.kill().await.unwrap();
    doctor(&data).await;
}
