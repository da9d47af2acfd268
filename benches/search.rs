//! Searching 100,000 chunks in process, without the query's embedding: the store's two legs, the whole path with its
//! checks in SQL, what the graph misses of the exact answer, and all that while segments are rebuilt.
//!
//! Vectors are made from the text (a topic's centre and noise), so no model runs; the tokenizer of the built-in model
//! measures chunks. Run by `cargo bench --bench search`; `SEARCH_CHUNKS` is another number of chunks.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]
#![expect(clippy::print_stdout, reason = "its result is a table on stdout")]

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tailrace::knowledge::base::Base;
use tailrace::knowledge::filter::Filter;
use tailrace::knowledge::ingest::{Ingest, IngestOptions, NewDocument};
use tailrace::knowledge::retrieve::{Retrieve, RetrieveOptions, SearchRequest};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::{EmbedError, Embedder, EmbeddingModel, Priority, StoreQuery, VectorStore};
use tailrace::storage::{Db, DbOptions, points};
use tokenizers::Tokenizer;
use uuid::Uuid;

const DIMENSION: usize = 384;
const TOPICS: usize = 2000;
const WORDS: usize = 30_000;
/// Words of a document: some twenty chunks.
const DOCUMENT_WORDS: usize = 1500;
const QUERIES: usize = 2000;
/// Queries whose exact answer is computed.
const EXACT: usize = 200;
const LIMIT: usize = 10;
/// As `retrieval.prefetch`.
const PREFETCH: usize = 100;
const COLLECTION: &str = "bench";

/// Vectors made of the texts themselves.
struct Made {
    model: EmbeddingModel,
    tokenizer: Arc<Tokenizer>,
    centres: Vec<Vec<f32>>,
}

impl Made {
    fn vector(&self, text: &str) -> Vec<f32> {
        let hash = blake3::hash(text.as_bytes());
        let mut rng = StdRng::from_seed(*hash.as_bytes());
        let topic = text.split_whitespace().find_map(|word| word.strip_prefix("topic")?.parse().ok());
        let topic = topic.unwrap_or_else(|| rng.random_range(0..TOPICS)) % TOPICS;
        unit(self.centres[topic].iter().map(|x| x + 0.6 * noise(&mut rng)).collect())
    }
}

#[async_trait]
impl Embedder for Made {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError> {
        Ok(Arc::clone(&self.tokenizer))
    }

    async fn embed(&self, texts: Vec<String>, _priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

/// About as large in one place as a unit vector's numbers are.
fn noise(rng: &mut StdRng) -> f32 {
    (rng.random::<f32>() - 0.5) * 3.46 / (DIMENSION as f32).sqrt()
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / length).collect()
}

/// A word; small numbers come often, as in real text.
fn word(rng: &mut StdRng) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "co", "du", "fe", "gi", "ha", "jo", "ku", "le", "mi", "na", "po", "ra", "su", "te", "vi"];
    let uniform = rng.random::<f64>();
    let mut number = ((WORDS as f64).powf(uniform) - 1.0) as usize;
    let mut word = String::new();
    for _ in 0..4 {
        word.push_str(SYLLABLES[number % 16]);
        number /= 16;
    }
    word
}

fn text(rng: &mut StdRng, words: usize) -> String {
    let mut out = String::new();
    for at in 0..words {
        if at % 60 == 0 {
            out.push_str(&format!("\n\ntopic{} ", rng.random_range(0..TOPICS)));
        }
        out.push_str(&word(rng));
        out.push_str(if at % 12 == 11 { ". " } else { " " });
    }
    out
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let models = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    let chunks: usize = std::env::var("SEARCH_CHUNKS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut tokenizer = Tokenizer::from_file(models.join("all-minilm-l6-v2/tokenizer.json")).unwrap();
    tokenizer.with_truncation(None).unwrap();
    tokenizer.with_padding(None);
    let mut rng = StdRng::seed_from_u64(11);
    let centres = (0..TOPICS).map(|_| unit((0..DIMENSION).map(|_| noise(&mut rng)).collect())).collect();
    let model = EmbeddingModel {
        name: "made".into(),
        dimension: DIMENSION,
        window: 256,
        query_prefix: String::new(),
        passage_prefix: String::new(),
    };
    let made = Arc::new(Made { model, tokenizer: Arc::new(tokenizer), centres });

    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&DbOptions { data_dir: folder.path().to_owned(), url: None }).await.unwrap();
    let store = Arc::new(EdgeStore::open(&folder.path().join("vectors")).unwrap());
    let base = Base::new(db, store.clone(), made.clone());
    let options = IngestOptions {
        chunk_tokens: 220,
        chunk_overlap_percent: 15,
        max_document_bytes: 1 << 25,
        parallel: 4,
        max_attempts: 10,
        keep_jobs_days: 7,
    };
    let ingest = Ingest::new(base.clone(), options);
    let options = RetrieveOptions { prefetch: PREFETCH, query_cache: 10 * QUERIES as u64, rerank: 20 };
    let retrieve = Retrieve::new(base.clone(), options, None);
    ingest.create_collection(COLLECTION, "multilingual").await.unwrap();

    let began = Instant::now();
    fill(&ingest, &store, &mut rng, chunks).await;
    let filled = began.elapsed();
    let began = Instant::now();
    while !store.maintain().await.unwrap().is_empty() {}
    let points = store.count(COLLECTION, &Filter::default()).await.unwrap();
    println!(
        "{points} chunks, read in {:.0} s, indexed in {:.0} s.\n",
        filled.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );

    let queries: Vec<String> = (0..QUERIES).map(|_| text(&mut rng, 8).trim().to_owned()).collect();
    println!("| {QUERIES} searches one after the other | p50 ms | p99 ms | largest ms |\n|---|---|---|---|");
    for (name, legs) in [("the store, by meaning", 1), ("the store, both legs", 2)] {
        let times = store_times(&store, &base, &made, &queries, legs).await;
        row(name, times);
    }
    path_times(&retrieve, &queries).await;
    row("the whole path, hybrid, 10 hits", path_times(&retrieve, &queries).await);
    let busy = AtomicBool::new(true);
    let searches = async {
        let times = path_times(&retrieve, &queries).await;
        busy.store(false, Ordering::Relaxed);
        times
    };
    let (times, written) = tokio::join!(searches, churn(&ingest, &store, &busy));
    row("the same while documents come and segments are rebuilt", times);
    println!("\n{written} documents were written meanwhile.\n");
    println!(
        "recall@10 of the leg by meaning against the exact answer: {:.3}",
        recall(&base, &store, &made, &queries).await
    );
}

async fn fill(ingest: &Ingest, store: &EdgeStore, rng: &mut StdRng, chunks: usize) {
    let mut document = 0;
    while (store.count(COLLECTION, &Filter::default()).await.unwrap() as usize) < chunks {
        let texts: Vec<String> = (0..64).map(|_| text(rng, DOCUMENT_WORDS)).collect();
        let mut work = stream::iter(texts)
            .map(|text| {
                document += 1;
                put(ingest, document, text)
            })
            .buffer_unordered(8);
        while work.next().await.is_some() {}
    }
}

async fn put(ingest: &Ingest, number: usize, text: String) {
    let new = NewDocument {
        collection: COLLECTION.into(),
        id: Some(format!("d{number}")),
        mime: Some("text/plain".into()),
        content: text.into(),
        ..NewDocument::default()
    };
    ingest.document(new, Priority::Bulk).await.unwrap();
}

/// Writes and rebuilds until nobody searches any more.
async fn churn(ingest: &Ingest, store: &EdgeStore, busy: &AtomicBool) -> usize {
    let mut rng = StdRng::seed_from_u64(12);
    let mut number = 0;
    let write = async {
        while busy.load(Ordering::Relaxed) {
            put(ingest, 1_000_000 + number, text(&mut rng, DOCUMENT_WORDS)).await;
            number += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        number
    };
    let rebuild = async {
        while busy.load(Ordering::Relaxed) {
            store.maintain().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::join!(write, rebuild).0
}

async fn store_times(store: &EdgeStore, base: &Base, made: &Made, queries: &[String], legs: usize) -> Vec<f64> {
    let keywords = base.keywords("multilingual").unwrap();
    let mut times = Vec::with_capacity(queries.len());
    for query in queries {
        let query = StoreQuery {
            dense: Some(made.vector(query)),
            bm25: (legs == 2).then(|| keywords.query(query)),
            filter: Filter::default(),
            limit: PREFETCH,
        };
        let began = Instant::now();
        store.search(COLLECTION, &query).await.unwrap();
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    times
}

/// The first call also fills the cache of query vectors.
async fn path_times(retrieve: &Retrieve, queries: &[String]) -> Vec<f64> {
    let mut times = Vec::with_capacity(queries.len());
    for query in queries {
        let request = SearchRequest::new(COLLECTION, query, LIMIT);
        let began = Instant::now();
        retrieve.search(&request).await.unwrap();
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    times
}

fn row(name: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("| {name} | {:.2} | {:.2} | {:.2} |", at(0.5), at(0.99), at(1.0));
}

async fn recall(base: &Base, store: &EdgeStore, made: &Made, queries: &[String]) -> f64 {
    let mut all: Vec<(Uuid, Vec<f32>)> = Vec::new();
    let mut cursor = points::PointCursor::default();
    loop {
        let page = points::page(&base.db, COLLECTION, cursor, 5000).await.unwrap();
        let Some(last) = page.last() else { break };
        cursor = last.cursor();
        all.extend(page.into_iter().map(|point| (point.point_id, point.embedding)));
    }
    let mut found = 0;
    for query in queries.iter().take(EXACT) {
        let vector = made.vector(query);
        let mut exact: Vec<(f32, Uuid)> =
            all.iter().map(|(id, other)| (vector.iter().zip(other).map(|(x, y)| x * y).sum(), *id)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        let query = StoreQuery { dense: Some(vector), bm25: None, filter: Filter::default(), limit: PREFETCH };
        let near = store.search(COLLECTION, &query).await.unwrap().dense;
        found += exact[..LIMIT].iter().filter(|(_, id)| near[..LIMIT].iter().any(|hit| hit.id == *id)).count();
    }
    found as f64 / (LIMIT * EXACT) as f64
}
