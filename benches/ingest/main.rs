//! Ingestion against a bare embedding loop over the same chunks in the same run, and what a tool's result
//! costs beyond its embedding. Run by `scripts/bench`; needs the models of `scripts/assets`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]
#![expect(clippy::print_stdout, reason = "its result is a table on stdout")]

use fastembed::{
    InitOptionsUserDefined, Pooling, QuantizationMode, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel,
};
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tailrace::app::Knowledge;
use tailrace::config::{Config, LoadArgs, ToolResults};
use tailrace::knowledge::Priority;
use tailrace::knowledge::chunker::{ChunkOptions, Chunker};
use tailrace::knowledge::extract::Kind;
use tailrace::knowledge::ingest::{NewDocument, ToolResultText};
use uuid::Uuid;

/// Documents of the corpus that are used: enough for tens of seconds.
const DOCUMENTS: usize = 150;
const ROUNDS: usize = 3;
const RESULTS: usize = 100;
/// Threads on either side.
const THREADS: usize = 2;

fn main() {
    let models = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/eval/scifact-mini/corpus.jsonl");
    let texts: Vec<String> = std::fs::read_to_string(corpus)
        .unwrap()
        .lines()
        .take(DOCUMENTS)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&models, &texts));
}

async fn measure(models: &Path, texts: &[String]) {
    // One round of each loads models and warms caches; then they take turns.
    let (knowledge, _data) = open(models).await;
    let chunks = chunk(&knowledge, texts);
    let default = models.join("all-minilm-l6-v2");
    let weight_only = models.join("bench-weight-only");
    let (mut ours, mut bare, mut batched) = (vec![], vec![], vec![]);
    for round in 0..=ROUNDS {
        let took = ingest(&knowledge, texts, round).await;
        let alone = bare_loop(&default, &chunks, 1);
        let in_batches = weight_only.exists().then(|| bare_loop(&weight_only, &chunks, 32));
        if round > 0 {
            ours.push(took.as_secs_f64());
            bare.push(alone.as_secs_f64());
            batched.extend(in_batches.map(|t| t.as_secs_f64()));
        }
    }
    let rate = |seconds: f64| chunks.len() as f64 / seconds;
    let (ours, bare) = (median(&mut ours), median(&mut bare));
    println!(
        "{} documents, {} chunks, {THREADS} threads on either side, median of {ROUNDS} rounds that take turns.\n",
        texts.len(),
        chunks.len()
    );
    println!("| | chunks/s | Tailrace against it |\n|---|---|---|");
    println!("| Tailrace: read, chunk, embed, store, index | {:.0} | |", rate(ours));
    println!("| bare loop, same model, one text a run | {:.0} | {:.2} |", rate(bare), bare / ours);
    if batched.is_empty() {
        println!("| bare loop, weight-only int8, batches of 32 | not fetched | |");
    } else {
        let batched = median(&mut batched);
        println!("| bare loop, weight-only int8, batches of 32 | {:.0} | {:.2} |", rate(batched), batched / ours);
    }
    results(&knowledge).await;
    knowledge.close().await;
}

async fn open(models: &Path) -> (Knowledge, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let overrides = [
        ("storage.data_dir", data.path().display().to_string()),
        ("models.dir", models.display().to_string()),
        ("embedding.threads", THREADS.to_string()),
    ];
    let overrides = overrides.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let config = Config::load(&LoadArgs { config_file: None, overrides }).unwrap().config;
    (Knowledge::open(&config).await.unwrap(), data)
}

/// What is embedded of these texts.
fn chunk(knowledge: &Knowledge, texts: &[String]) -> Vec<String> {
    let embedder = knowledge.base.embedders.default();
    let options = ChunkOptions::for_window(embedder.model().window);
    let chunker = Chunker::new(embedder.tokenizer().unwrap(), options);
    texts
        .iter()
        .flat_map(|text| {
            let chunks = chunker.chunk(text, Kind::Text, None).unwrap();
            chunks.iter().map(tailrace::knowledge::chunker::ChunkText::embed_text).collect::<Vec<_>>()
        })
        .collect()
}

/// All documents into a collection of their own.
async fn ingest(knowledge: &Knowledge, texts: &[String], round: usize) -> Duration {
    let collection = format!("round{round}");
    knowledge.ingest.create_collection(&collection, "en").await.unwrap();
    let began = Instant::now();
    let mut work = stream::iter(texts.iter().enumerate())
        .map(|(i, text)| {
            let new = NewDocument {
                collection: collection.clone(),
                id: Some(format!("d{i}")),
                mime: Some("text/plain".into()),
                content: text.clone().into(),
                ..NewDocument::default()
            };
            knowledge.ingest.document(new, Priority::Bulk)
        })
        .buffer_unordered(8);
    while let Some(done) = work.next().await {
        done.unwrap();
    }
    began.elapsed()
}

/// The least that embedding these chunks can cost: sessions of one thread, nothing else.
fn bare_loop(folder: &Path, chunks: &[String], batch: usize) -> Duration {
    let mut sessions: Vec<TextEmbedding> = (0..THREADS).map(|_| session(folder)).collect();
    let batches: Vec<&[String]> = chunks.chunks(batch).collect();
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for session in &mut sessions {
            scope.spawn(|| {
                while let Some(texts) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    session.embed(texts, Some(batch)).unwrap();
                }
            });
        }
    });
    began.elapsed()
}

fn session(folder: &Path) -> TextEmbedding {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let files = TokenizerFiles {
        tokenizer_file: read("tokenizer.json"),
        config_file: read("config.json"),
        special_tokens_map_file: read("special_tokens_map.json"),
        tokenizer_config_file: read("tokenizer_config.json"),
    };
    let model = UserDefinedEmbeddingModel::new(read("model.onnx"), files)
        .with_quantization(QuantizationMode::None)
        .with_pooling(Pooling::Mean);
    let options = InitOptionsUserDefined::new().with_intra_threads(1).with_max_length(256);
    TextEmbedding::try_new_from_user_defined(model, options).unwrap()
}

/// A tool's result until it is searchable, beyond what embedding it alone takes.
async fn results(knowledge: &Knowledge) {
    let conversation_id = Uuid::now_v7();
    let (mut embeds, mut beyond) = (vec![], vec![]);
    for i in 0..RESULTS {
        let text = format!("Result {i}: the harbour master of port {i} answers on channel {}.", i % 16);
        let began = Instant::now();
        knowledge.base.embedders.default().embed(vec![format!("{text} ")], Priority::Turn).await.unwrap();
        let embed = began.elapsed();
        let result = ToolResultText {
            conversation_id,
            turn_id: Uuid::now_v7(),
            collection: "default".into(),
            title: format!("Port {i}"),
            uri: format!("https://example.org/{i}"),
            text,
            policy: ToolResults::Collection,
            keep_days: 1,
        };
        let began = Instant::now();
        knowledge.ingest.tool_result(result).await.unwrap();
        embeds.push(embed.as_secs_f64() * 1e3);
        beyond.push((began.elapsed().saturating_sub(embed)).as_secs_f64() * 1e3);
    }
    println!("\n| a tool's result of one chunk, ms | p50 |\n|---|---|");
    println!("| embedding alone | {:.1} |", median(&mut embeds));
    println!("| until it is searchable, beyond that | {:.1} |", median(&mut beyond));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
