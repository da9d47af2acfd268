//! What a large document, and many chunks, cost in memory: `big_text` and `batch_memory` of `cases/ingest`.
//!
//! The vectors of `big_text` are made from the text, without a model: what is measured is everything else, and the model's
//! own memory is what `batch_memory` measures. `TAILRACE_TEST_BIG_MB` is its size; 30 is the case, and takes minutes where
//! nothing is optimised.

use super::world::{OPTIONS, TestEmbedder, World, document};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tailrace::knowledge::base::Base;
use tailrace::knowledge::ingest::Ingest;
use tailrace::knowledge::retrieve::{Retrieve, RetrieveOptions, SearchRequest};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::{EmbedError, Embedder, EmbeddingModel, Priority};
use tailrace::storage::documents::DocumentStatus;
use tailrace::storage::{Db, DbOptions};
use tempfile::TempDir;
use tokenizers::Tokenizer;

const MIB: u64 = 1 << 20;
const MARKER: &str = "the spare key hangs behind the barometer";

/// Vectors that cost nothing.
struct Instantly(TestEmbedder);

#[async_trait]
impl Embedder for Instantly {
    fn model(&self) -> &EmbeddingModel {
        self.0.model()
    }

    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError> {
        self.0.tokenizer()
    }

    async fn embed(&self, texts: Vec<String>, _priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &String| {
            let mut bytes = vec![0; 4 * self.0.dimension()];
            blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
            let numbers: Vec<f32> = bytes.chunks(4).map(|b| f32::from(b[0]) - 127.5).collect();
            let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
            numbers.into_iter().map(|x| x / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// A line of `/proc/self/status`, in bytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
    found.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// From now on the peak is counted anew. The memory in use.
fn forget_peak() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    memory("VmRSS")
}

/// Lines as in the case: no two alike, one of them to be found.
fn lines(bytes: usize) -> String {
    let count = bytes / 64;
    let mut text = String::with_capacity(bytes + 64);
    for n in 0..count {
        if n == count / 2 {
            text.push_str(&format!("MIDDLE-MARKER {MARKER}.\n"));
        }
        let (tank, level) = (n * 7919 % 99 + 1, n.wrapping_mul(2_654_435_761) % 1_000_000);
        text.push_str(&format!("Line {n:08}: tank {tank:02} level 0.{level:06} checked by crew.\n\n"));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn big_text() {
    let megabytes: usize = std::env::var("TAILRACE_TEST_BIG_MB").map_or(1, |n| n.parse().unwrap());
    let folder = TempDir::new().unwrap();
    let db = Db::open(&DbOptions { data_dir: folder.path().to_owned(), url: None }).await.unwrap();
    let store = Arc::new(EdgeStore::open(&folder.path().join("vectors")).unwrap());
    let base = Base::new(db, store, Arc::new(Instantly(TestEmbedder::new())));
    let ingest = Ingest::new(base.clone(), OPTIONS);
    ingest.ensure_default().await.unwrap();
    let retrieve = Retrieve::new(base, RetrieveOptions { prefetch: 50, query_cache: 100, rerank: 20 }, None);
    let small = ingest.document(document("default", "small.md", "A small text."), Priority::Bulk).await.unwrap();
    assert_eq!(small.status, DocumentStatus::Indexed);
    let new = document("default", "big.txt", &lines(megabytes << 20));
    let before = forget_peak();
    let mut waits: Vec<Duration> = Vec::new();
    let ingested = ingest.document(new, Priority::Bulk);
    tokio::pin!(ingested);
    // Others search meanwhile.
    let done = loop {
        tokio::select! {
            done = &mut ingested => break done.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(250)) => {
                let began = Instant::now();
                retrieve.search(&SearchRequest::new("default", "small text", 5)).await.unwrap();
                waits.push(began.elapsed());
            }
        }
    };
    let growth = memory("VmHWM").saturating_sub(before);
    waits.sort();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!(
        "{megabytes} MiB: {} chunks, {} MiB more at the peak, {} searches: median {median:?}, longest {longest:?}",
        done.chunks,
        growth / MIB,
        waits.len()
    );
    assert!(growth < 300 * MIB, "{} MiB", growth / MIB);
    let found = retrieve.search(&SearchRequest::new("default", MARKER, 5)).await.unwrap();
    assert!(found.hits.iter().any(|hit| hit.text.contains(MARKER)), "{:?}", found.hits.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_memory() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let texts: Vec<String> = (0..500)
        .map(|n| {
            format!("The harbour authority publishes information regarding navigation {n}. ").repeat(20)[..1200]
                .to_owned()
        })
        .collect();
    // The model is loaded by then.
    world.embedder.embed(texts[..4].to_vec(), Priority::Bulk).await.unwrap();
    let before = forget_peak();
    let vectors = world.embedder.embed(texts, Priority::Bulk).await.unwrap();
    let growth = memory("VmHWM").saturating_sub(before);
    println!("{} MiB more at the peak of 500 chunks", growth / MIB);
    assert!(growth < 150 * MIB, "{} MiB", growth / MIB);
    // unit_norm
    for vector in vectors {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-3, "{length}");
    }
}
