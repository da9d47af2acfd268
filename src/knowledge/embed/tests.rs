//! With the real runtime and the real model, which `scripts/assets` fetches, and with a tiny model folder.

use super::super::{EmbedError, Embedder, Priority, Reranker};
use super::cache::QueryCache;
use super::cross_encoder::{CrossEncoder, CrossEncoderOptions};
use super::fastembed::{BUILT_IN, FastembedEmbedder, FastembedOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// `$TAILRACE_TEST_MODELS`, else `models/` of the project.
fn models_dir() -> PathBuf {
    let dir = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    let there = dir.join("onnxruntime/libonnxruntime.so").exists() && dir.join(BUILT_IN).join("model.onnx").exists();
    assert!(there, "no models in {}: run scripts/assets (scripts/test does)", dir.display());
    dir
}

fn options(model: &str) -> FastembedOptions {
    FastembedOptions { models_dir: models_dir(), model: model.to_owned(), threads: 2, queue: 64, batch: 4 }
}

fn tiny() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny-embedder").to_string_lossy().into_owned()
}

/// One for all tests: loading it takes longer than most of them.
static BUILT_IN_EMBEDDER: LazyLock<FastembedEmbedder> =
    LazyLock::new(|| FastembedEmbedder::new(options(BUILT_IN)).unwrap());

async fn embed(embedder: &dyn Embedder, texts: &[&str]) -> Vec<Vec<f32>> {
    embedder.embed(texts.iter().map(|t| (*t).to_owned()).collect(), Priority::Bulk).await.unwrap()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

const LONG: &str = "Tailrace reads the stream while it arrives, starts each tool the moment its call is complete, \
    and goes on streaming; what tools bring back is chunked, embedded and stored at once.";

#[tokio::test]
async fn vectors_mean_what_the_model_was_trained_for() {
    let texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."];
    let v = embed(&*BUILT_IN_EMBEDDER, &texts).await;
    // The int8 kernels of different processors round differently: .644 and .666 have been seen for the first pair.
    for (other, want) in [(&v[1], 0.655), (&v[2], 0.105)] {
        let cosine = dot(&v[0], other);
        assert!((cosine - want).abs() < 0.05, "{cosine}, not {want}");
    }
    for vector in &v {
        assert_eq!(vector.len(), BUILT_IN_EMBEDDER.model().dimension);
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn a_vector_does_not_depend_on_what_is_embedded_beside_it() {
    let alone = embed(&*BUILT_IN_EMBEDDER, &["sun"]).await;
    let among: Vec<&str> = std::iter::repeat_n([LONG, "sun", "!", LONG, "moon"], 4).flatten().collect();
    let among = embed(&*BUILT_IN_EMBEDDER, &among).await;
    for vector in among.iter().skip(1).step_by(5) {
        assert_eq!(vector, &alone[0], "bit by bit, on every thread");
    }
}

#[tokio::test]
async fn nothing_is_silently_cut() {
    let embedder = &*BUILT_IN_EMBEDDER;
    let window = embedder.model().window;
    let tokenizer = embedder.tokenizer().unwrap();
    let words = |n: usize| "sun ".repeat(n).trim_end().to_owned();
    // Two special tokens stand around every text.
    let fits = words(window - 2);
    assert_eq!(tokenizer.encode(fits.as_str(), true).unwrap().len(), window);
    assert!(embedder.embed(vec![fits], Priority::Turn).await.is_ok());
    for too_long in [words(window - 1), words(20 * window)] {
        let Err(EmbedError::Failed(why)) = embedder.embed(vec![too_long], Priority::Turn).await else {
            panic!("a text beyond the window was embedded")
        };
        assert!(why.contains("window of 256"), "{why}");
    }
    // And the session is as good as before.
    assert_eq!(embed(embedder, &["sun"]).await, embed(embedder, &["sun"]).await);
}

#[tokio::test]
async fn a_query_is_embedded_once_and_by_its_beginning_if_it_is_too_long() {
    let embedder = &*BUILT_IN_EMBEDDER;
    let cache = QueryCache::new(10);
    let first = cache.embed(embedder, "sun").await.unwrap();
    let second = cache.embed(embedder, "sun").await.unwrap();
    assert!(Arc::ptr_eq(&first, &second), "the second one came from the cache");
    assert_eq!(*first, *embed(embedder, &["sun"]).await[0]);

    let window = embedder.model().window;
    let fitting = cache.embed(embedder, "sun ".repeat(window - 2).trim_end()).await.unwrap();
    let long = cache.embed(embedder, &"sun ".repeat(50 * window)).await.unwrap();
    assert_eq!(fitting, long);
    let german = "Wärmeübertragungsflüssigkeitsbehälter, ".repeat(window);
    assert!(cache.embed(embedder, &german).await.is_ok(), "cut at a token's end, wherever that is");
}

#[tokio::test]
async fn another_folder_is_batched_and_padding_does_not_count() {
    let embedder = FastembedEmbedder::new(options(&tiny())).unwrap();
    assert_eq!((embedder.model().dimension, embedder.model().window), (8, 16));
    let name = &embedder.model().name;
    assert!(name.starts_with("tiny-embedder-") && name.len() == "tiny-embedder-".len() + 12, "{name}");
    let texts = ["w1", "w2 w3 w4 w5 w6 w7", "w8", "w9 w10 w11", "w12 w13", "w1 w2 w3 w4 w5 w6 w7 w8 w9"];
    let together = embed(&embedder, &texts).await;
    for (text, vector) in texts.iter().zip(&together) {
        let alone = embed(&embedder, &[text]).await;
        assert!(dot(vector, &alone[0]) > 0.999_99, "{text}");
    }
    assert!(dot(&together[0], &together[2]) < 0.99);
    assert_eq!(
        embedder.tokenizer().unwrap().encode("w1 w2 w3 w4 w5", true).unwrap().len(),
        7,
        "neither cut nor padded"
    );
}

#[tokio::test]
async fn what_is_missing_is_named_with_the_command_that_fetches_it() {
    let dir = tempfile::tempdir().unwrap();
    let check = async |file: &str| {
        let options = FastembedOptions { models_dir: dir.path().to_owned(), ..options(BUILT_IN) };
        let embedder = FastembedEmbedder::new(options).unwrap();
        let answer = embedder.embed(vec!["x".to_owned()], Priority::Turn).await;
        let Err(EmbedError::ModelMissing(message)) = answer else { panic!("{answer:?}") };
        assert!(message.contains(file) && message.contains("scripts/assets"), "{message}");
        let Err(EmbedError::ModelMissing(message)) = embedder.tokenizer() else { panic!("no tokenizer is there") };
        assert!(message.contains("tokenizer.json") && message.contains("scripts/assets"), "{message}");
    };
    check("libonnxruntime.so is missing").await;
    std::fs::create_dir(dir.path().join("onnxruntime")).unwrap();
    let library = "onnxruntime/libonnxruntime.so";
    std::os::unix::fs::symlink(models_dir().join(library), dir.path().join(library)).unwrap();
    check("tokenizer.json is missing").await;
}

/// A process loads the library once, so each kind of bad library gets a process of its own: this test again.
#[test]
fn a_bad_runtime_library_is_an_error_not_a_panic() {
    const NAME: &str = "knowledge::embed::tests::a_bad_runtime_library_is_an_error_not_a_panic";
    const DIR: &str = "TAILRACE_TEST_BAD_RUNTIME";
    const OLD: &str = r#"
        typedef struct { const void *(*api)(unsigned); const char *(*version)(void); } Base;
        static const void *api(unsigned n) { return 0; }
        static const char *version(void) { return "1.20.1"; }
        static const Base base = { api, version };
        const Base *OrtGetApiBase(void) { return &base; }
    "#;
    if let Some(dir) = std::env::var_os(DIR) {
        let options = FastembedOptions { models_dir: dir.into(), model: tiny(), threads: 1, queue: 1, batch: 1 };
        let embedder = FastembedEmbedder::new(options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(embedder.embed(vec!["w1".to_owned()], Priority::Turn));
        let Err(EmbedError::ModelMissing(message)) = answer else { panic!("{answer:?}") };
        assert!(message.contains("ONNX Runtime") && message.contains("scripts/assets"), "{message}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("onnxruntime/libonnxruntime.so");
    std::fs::create_dir(library.parent().unwrap()).unwrap();
    let source = dir.path().join("old.c");
    std::fs::write(&source, OLD).unwrap();
    let cc = |library: &Path| {
        let built =
            std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(&source).status();
        assert!(built.unwrap().success());
    };
    let no_library = |library: &Path| std::fs::write(library, "no library at all").unwrap();
    for make in [&cc as &dyn Fn(&Path), &no_library] {
        make(&library);
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(DIR, dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&child.stderr)
        );
    }
}

#[test]
fn construction_loads_nothing() {
    let began = Instant::now();
    let embedder = FastembedEmbedder::new(options(BUILT_IN)).unwrap();
    assert_eq!(embedder.model().name, BUILT_IN);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_turn_overtakes_bulk_work() {
    let embedder = Arc::new(FastembedEmbedder::new(FastembedOptions { threads: 1, ..options(BUILT_IN) }).unwrap());
    embed(&*embedder, &["load"]).await;
    let bulk = {
        let embedder = Arc::clone(&embedder);
        async move { embedder.embed(vec![LONG.to_owned(); 200], Priority::Bulk).await.map(|_| Instant::now()) }
    };
    let turn = async {
        // The bulk work has begun once it waits for room.
        tokio::task::yield_now().await;
        embedder.embed(vec!["sun".to_owned()], Priority::Turn).await.map(|_| Instant::now())
    };
    let began = Instant::now();
    let (bulk, turn) = tokio::join!(bulk, turn);
    let (bulk, turn) = (bulk.unwrap() - began, turn.unwrap() - began);
    assert!(turn * 10 < bulk, "the turn waited {turn:?} of {bulk:?}");
}

fn reranker(folder: &Path) -> Result<CrossEncoder, EmbedError> {
    let options =
        CrossEncoderOptions { models_dir: models_dir(), folder: folder.to_owned(), threads: 2, queue: 16, window: 64 };
    CrossEncoder::new(options)
}

#[tokio::test]
async fn a_cross_encoder_reads_query_and_passage_together() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny-reranker");
    let model = reranker(&folder).unwrap();
    assert_eq!(model.name(), "tiny-reranker");
    let passages: Vec<String> = ["w50", "w10 w10", "w30"].map(str::to_owned).into();
    let scores = model.rerank("w30", passages.clone()).await.unwrap();
    // The logit is the mean number less 30, by 10: 40, 16.7 and 30 here.
    for (score, logit) in scores.iter().zip([1.0f32, -1.333_333, 0.0]) {
        assert!((score - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-4, "{scores:?}");
    }
    let alone = model.rerank("w30", vec![passages[1].clone()]).await.unwrap();
    assert_eq!(alone[0], scores[1], "whatever is read beside it");
    let higher = model.rerank("w50", passages).await.unwrap();
    assert!(higher.iter().zip(&scores).all(|(high, low)| high > low), "{higher:?}");
    assert!(model.rerank("w30", Vec::new()).await.unwrap().is_empty());
    let missing = reranker(Path::new("/nowhere")).map(drop).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/model.onnx") && missing.contains("retrieval.rerank_model"), "{missing}");
}
