//! A knowledge base of real parts in a folder of its own: SQLite, the in-process store, the built-in model.
//! It can be closed and opened again, which is what a restart is.

use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use tailrace::config::ToolResults;
use tailrace::knowledge::base::Base;
use tailrace::knowledge::embed::fastembed::{BUILT_IN, FastembedEmbedder, FastembedOptions};
use tailrace::knowledge::embed::{Embedders, Named};
use tailrace::knowledge::error::KnowledgeError;
use tailrace::knowledge::filter::{Condition, Filter};
use tailrace::knowledge::ingest::{Ingest, IngestOptions, IngestOutcome, NewDocument, ToolResultText};
use tailrace::knowledge::reconcile::{self, Reconciled};
use tailrace::knowledge::retrieve::{Hit, Retrieve, RetrieveOptions, SearchRequest};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::knowledge::{EmbedError, Embedder, EmbeddingModel, Priority};
use tailrace::storage::turns::{self, Begun, NewTurn};
use tailrace::storage::{Db, DbOptions};
use tokenizers::Tokenizer;
use uuid::Uuid;

pub const OPTIONS: IngestOptions = IngestOptions {
    chunk_tokens: 220,
    chunk_overlap_percent: 15,
    max_document_bytes: 32 << 20,
    parallel: 4,
    max_attempts: 10,
    keep_jobs_days: 7,
};

/// `$TAILRACE_TEST_MODELS`, else `models/` of the project.
fn models_dir() -> PathBuf {
    let dir = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    let there = dir.join("onnxruntime/libonnxruntime.so").exists() && dir.join(BUILT_IN).join("model.onnx").exists();
    assert!(there, "no models in {}: run scripts/assets (scripts/test does)", dir.display());
    dir
}

/// One for all tests: loading it takes longer than most of them.
static MODEL: LazyLock<Arc<FastembedEmbedder>> = LazyLock::new(|| {
    let options =
        FastembedOptions { models_dir: models_dir(), model: BUILT_IN.to_owned(), threads: 2, queue: 64, batch: 1 };
    Arc::new(FastembedEmbedder::new(options).unwrap())
});

/// The built-in model, counted, and if a test wants so under another name, cut shorter or failing.
pub struct TestEmbedder {
    model: EmbeddingModel,
    /// Texts that were embedded.
    pub embedded: AtomicUsize,
    /// Texts that may still be embedded; then it fails.
    pub left: AtomicUsize,
}

impl TestEmbedder {
    pub fn new() -> Self {
        let model = MODEL.model().clone();
        Self { model, embedded: AtomicUsize::new(0), left: AtomicUsize::new(usize::MAX) }
    }

    /// Another model: the first `dimension` numbers of the built-in one's vectors.
    pub fn other(name: &str, dimension: usize) -> Self {
        let model = EmbeddingModel { name: name.to_owned(), dimension, ..MODEL.model().clone() };
        Self { model, ..Self::new() }
    }

    pub fn dimension(&self) -> usize {
        self.model.dimension
    }

    pub fn count(&self) -> usize {
        self.embedded.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Embedder for TestEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError> {
        MODEL.tokenizer()
    }

    async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        let n = texts.len();
        self.left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(n))
            .map_err(|_| EmbedError::Failed("the test said so".to_owned()))?;
        self.embedded.fetch_add(n, Ordering::SeqCst);
        let mut vectors = MODEL.embed(texts, priority).await?;
        for vector in vectors.iter_mut().filter(|v| v.len() > self.model.dimension) {
            vector.truncate(self.model.dimension);
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            vector.iter_mut().for_each(|x| *x /= length);
        }
        Ok(vectors)
    }
}

pub struct World {
    pub db: Db,
    pub store: Arc<EdgeStore>,
    pub embedder: Arc<TestEmbedder>,
    pub base: Base,
    pub ingest: Ingest,
    pub retrieve: Retrieve,
    /// What the start found to do.
    pub reconciled: Reconciled,
}

impl World {
    pub async fn open(folder: &Path) -> Self {
        Self::open_with(folder, TestEmbedder::new(), OPTIONS).await
    }

    pub async fn open_with(folder: &Path, embedder: TestEmbedder, options: IngestOptions) -> Self {
        Self::open_models(folder, Arc::new(embedder), Vec::new(), options).await
    }

    /// With more models than the default one.
    pub async fn open_models(
        folder: &Path,
        embedder: Arc<TestEmbedder>,
        more: Vec<Arc<TestEmbedder>>,
        options: IngestOptions,
    ) -> Self {
        let db = Db::open(&DbOptions { data_dir: folder.to_owned(), url: None }).await.unwrap();
        let store = Arc::new(EdgeStore::open(&folder.join("vectors")).unwrap());
        let more = more.into_iter().map(|more| Named { configured: more.model().name.clone(), embedder: more });
        let embedders = Embedders::new(embedder.clone(), more.collect());
        let base = Base::new(db.clone(), store.clone(), embedders);
        let ingest = Ingest::new(base.clone(), options);
        let reconciled = reconcile::start(&base, &ingest).await.unwrap();
        ingest.ensure_default().await.unwrap();
        let retrieve =
            Retrieve::new(base.clone(), RetrieveOptions { prefetch: 100, query_cache: 100, rerank: 20 }, None);
        Self { db, store, embedder, base, ingest, retrieve, reconciled }
    }

    /// Without any tidying up but what dropping does.
    pub async fn close(self) {
        self.db.close().await;
    }

    pub async fn put(&self, collection: &str, uri: &str, text: &str) -> IngestOutcome {
        self.try_put(collection, uri, text).await.unwrap()
    }

    pub async fn try_put(&self, collection: &str, uri: &str, text: &str) -> Result<IngestOutcome, KnowledgeError> {
        self.ingest.document(document(collection, uri, text), Priority::Bulk).await
    }

    /// Hits of a hybrid search.
    pub async fn find(&self, collection: &str, query: &str) -> Vec<Hit> {
        self.search(SearchRequest::new(collection, query, 10)).await
    }

    pub async fn search(&self, request: SearchRequest) -> Vec<Hit> {
        self.retrieve.search(&request).await.unwrap().hits
    }

    /// Points in the store; of one document, or all.
    pub async fn points(&self, collection: &str, document: Option<&str>) -> u64 {
        let must = document
            .map(|id| Condition::Match { key: "document_id".to_owned(), value: id.into() })
            .into_iter()
            .collect();
        self.base.store.count(collection, &Filter { must, ..Filter::default() }).await.unwrap()
    }

    /// Both sides hold the same points, or the test ends here.
    pub async fn must_agree(&self) {
        for comparison in reconcile::compare(&self.base).await.unwrap() {
            assert!(comparison.agrees(), "{comparison:?}");
        }
    }

    /// A conversation with one message.
    pub async fn conversation(&self) -> Uuid {
        let turn = NewTurn {
            turn_id: Uuid::now_v7(),
            conversation_id: Uuid::now_v7(),
            opens: true,
            owner: None,
            user_text: "a question".to_owned(),
            replace_message_id: None,
            provider: "test".to_owned(),
            model: "test".to_owned(),
            tool_mode: "inline",
            idempotency: None,
        };
        match turns::start(&self.db, turn).await.unwrap() {
            Begun::New(started) => started.conversation_id,
            known @ Begun::Known { .. } => panic!("{known:?}"),
        }
    }

    pub async fn tool_result(
        &self,
        conversation_id: Uuid,
        uri: &str,
        text: &str,
        policy: ToolResults,
    ) -> IngestOutcome {
        self.ingest.tool_result(result(conversation_id, uri, text, policy)).await.unwrap().unwrap()
    }
}

pub fn document(collection: &str, uri: &str, text: &str) -> NewDocument {
    NewDocument {
        collection: collection.to_owned(),
        uri: Some(uri.to_owned()),
        content: text.to_owned().into(),
        ..NewDocument::default()
    }
}

pub fn result(conversation_id: Uuid, uri: &str, text: &str, policy: ToolResults) -> ToolResultText {
    ToolResultText {
        conversation_id,
        turn_id: Uuid::now_v7(),
        collection: "default".to_owned(),
        title: "A page".to_owned(),
        uri: uri.to_owned(),
        text: text.to_owned(),
        policy,
        keep_days: 30,
    }
}

/// Documents of the hits, each once, in their order.
pub fn documents(hits: &[Hit]) -> Vec<&str> {
    let mut uris: Vec<&str> = Vec::new();
    for hit in hits {
        if !uris.contains(&hit.uri.as_str()) {
            uris.push(&hit.uri);
        }
    }
    uris
}

/// A text of about `words` words in which `mark` stands at the beginning, and no two paragraphs are alike.
pub fn essay(mark: &str, words: usize) -> String {
    let mut text = format!("# Report {mark}\n\n");
    for n in 0..words.div_ceil(16) {
        text.push_str(&format!(
            "In part {n} of {mark} the crew checked valve {n} and wrote the pressure of line {n} down.\n\n"
        ));
    }
    text
}
