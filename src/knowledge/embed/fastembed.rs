//! Embedding in process: ONNX models through fastembed, on the embedder's own threads.
//!
//! A text's vector depends on that text alone: dynamically quantized models, the built-in one among them,
//! run one text at a time. No text is silently cut: one that is longer than the model's window is an error.
//! Nothing is loaded before the first use or [`FastembedEmbedder::warm`].

use super::super::{EmbedError, Embedder, EmbeddingModel, Priority};
use super::folder::{ModelFolder, Pool as Pooled};
use super::pool::{Load, Pool, PoolSize, Run};
use super::prefixes;
use super::runtime::load_runtime;
use async_trait::async_trait;
use fastembed::{
    InitOptionsUserDefined, OutputKey, Pooling, QuantizationMode, SingleBatchOutput, TextEmbedding, TokenizerFiles,
    UserDefinedEmbeddingModel,
};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokenizers::Tokenizer;

pub use super::folder::BUILT_IN;

/// Where the model is and how much of the machine it may use.
#[derive(Clone, Debug)]
pub struct FastembedOptions {
    /// Holds `onnxruntime/libonnxruntime.so` and the built-in model's folder, as `scripts/assets` leaves it.
    pub models_dir: PathBuf,
    /// [`BUILT_IN`], or the path of a folder with `model.onnx`, `tokenizer.json` and their configuration.
    pub model: String,
    /// Threads, each with one session that uses one core; 0: one for each core.
    pub threads: usize,
    /// Texts that may wait for a thread, for each priority; whoever brings more waits before the queue.
    pub queue: usize,
    /// Texts run together by models that allow it. Memory grows with it: 0.4 GB at 8 long texts.
    pub batch: usize,
}

/// An ONNX embedding model on threads of its own.
pub struct FastembedEmbedder {
    folder: Arc<ModelFolder>,
    tokenizer: OnceLock<Arc<Tokenizer>>,
    pool: Pool,
}

impl FastembedEmbedder {
    /// Loads nothing, so that a service can start without models. A folder (not the built-in model) is read
    /// once, for its name holds a hash of the file.
    ///
    /// # Errors
    /// Where such a folder is missing or incomplete. A missing built-in model is told at first use.
    pub fn new(options: FastembedOptions) -> Result<Self, EmbedError> {
        Self::with_prefixes(options, prefixes::AUTO, prefixes::AUTO)
    }

    /// The same with other words before queries and passages than the model's name suggests.
    ///
    /// # Errors
    /// As [`FastembedEmbedder::new`].
    pub fn with_prefixes(options: FastembedOptions, query: &str, passage: &str) -> Result<Self, EmbedError> {
        let mut folder = ModelFolder::find(&options.models_dir, &options.model)?;
        let chosen = prefixes::chosen(&options.model, query, passage);
        folder.model.name = prefixes::marked(&folder.model.name, &options.model, &chosen.1);
        (folder.model.query_prefix, folder.model.passage_prefix) = chosen;
        let folder = Arc::new(folder);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let size = PoolSize {
            threads: if options.threads == 0 { cores } else { options.threads },
            queue: options.queue,
            batch: if folder.alone { 1 } else { options.batch },
        };
        let library = options.models_dir.join("onnxruntime/libonnxruntime.so");
        let load: Load = {
            let folder = Arc::clone(&folder);
            Box::new(move || {
                load_runtime(&library)?;
                load_model(&folder)
            })
        };
        Ok(Self { folder, tokenizer: OnceLock::new(), pool: Pool::new(size, load) })
    }

    /// Starts the threads and lets them load the model, without waiting. What goes wrong there is told to
    /// the first who asks for a vector.
    ///
    /// # Errors
    /// Only where the system gives no thread.
    pub fn warm(&self) -> Result<(), EmbedError> {
        self.pool.start()
    }
}

#[async_trait]
impl Embedder for FastembedEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.folder.model
    }

    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError> {
        if let Some(tokenizer) = self.tokenizer.get() {
            return Ok(Arc::clone(tokenizer));
        }
        let mut tokenizer = Tokenizer::from_bytes(self.folder.read("tokenizer.json")?)
            .map_err(|e| EmbedError::Failed(format!("tokenizer.json: {e}")))?;
        tokenizer.with_truncation(None).map_err(|e| EmbedError::Failed(format!("tokenizer.json: {e}")))?;
        tokenizer.with_padding(None);
        Ok(Arc::clone(self.tokenizer.get_or_init(|| Arc::new(tokenizer))))
    }

    async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.pool.embed(texts, priority).await
    }
}

/// A session of its own for the calling thread.
fn load_model(folder: &Arc<ModelFolder>) -> Result<Run, EmbedError> {
    let started = std::time::Instant::now();
    let special_tokens = match folder.path.join("special_tokens_map.json").exists() {
        true => folder.read("special_tokens_map.json")?,
        false => b"{}".to_vec(),
    };
    let files = TokenizerFiles {
        tokenizer_file: folder.read("tokenizer.json")?,
        config_file: folder.read("config.json")?,
        special_tokens_map_file: special_tokens,
        tokenizer_config_file: folder.read("tokenizer_config.json")?,
    };
    // fastembed's own modes for quantized models refuse or force batches; ours are made before it is asked.
    let model =
        UserDefinedEmbeddingModel::new(folder.read("model.onnx")?, files).with_quantization(QuantizationMode::None);
    let options = InitOptionsUserDefined::new().with_intra_threads(1).with_max_length(folder.model.window);
    let mut session = TextEmbedding::try_new_from_user_defined(model, options).map_err(failed)?;
    session.tokenizer.with_truncation(None).map_err(failed)?;
    tracing::debug!(
        embed.model = %folder.model.name,
        duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "embedding model loaded"
    );
    let folder = Arc::clone(folder);
    Ok(Box::new(move |texts| embed(&mut session, &folder, texts)))
}

fn embed(session: &mut TextEmbedding, folder: &ModelFolder, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
    let window = folder.model.window;
    let too_long = |tokens: usize| {
        EmbedError::Failed(format!("a text of {tokens} tokens is longer than the model's window of {window}"))
    };
    // A run's cost grows with the square of its length: what is hopelessly long is not even tried.
    for text in texts.iter().filter(|text| text.len() > 8 * window) {
        let tokens = session.tokenizer.encode(text.as_str(), true).map_err(failed)?.len();
        if tokens > window {
            return Err(too_long(tokens));
        }
    }
    let outputs = session.transform(texts, Some(texts.len())).map_err(failed)?.into_raw();
    let mut vectors = Vec::with_capacity(texts.len());
    for output in &outputs {
        let longest = output.attention_mask_array.rows().into_iter().map(|row| row.sum()).max();
        if let Some(tokens) = longest.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > window) {
            return Err(too_long(tokens));
        }
        vectors.extend(pooled(output, folder.pool)?);
    }
    match vectors.iter().find(|v| v.len() != folder.model.dimension) {
        None => Ok(vectors),
        Some(v) => {
            let message = format!("the model makes {} numbers, config.json says {}", v.len(), folder.model.dimension);
            Err(EmbedError::Failed(message))
        }
    }
}

const OUTPUTS: &[OutputKey] = &[
    OutputKey::OnlyOne,
    OutputKey::ByName("sentence_embedding"),
    OutputKey::ByName("text_embeds"),
    OutputKey::ByName("last_hidden_state"),
];

/// One unit vector for each text of a run.
fn pooled(output: &SingleBatchOutput, how: Pooled) -> Result<Vec<Vec<f32>>, EmbedError> {
    let how = match how {
        Pooled::Mean => Pooling::Mean,
        Pooled::Cls => Pooling::Cls,
    };
    let pooled = output.select_and_pool_output(&OUTPUTS, Some(how)).map_err(failed)?;
    pooled
        .rows()
        .into_iter()
        .map(|row| {
            let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            if !length.is_finite() || length == 0.0 {
                return Err(EmbedError::Failed("the model made a vector without a direction".to_owned()));
            }
            Ok(row.iter().map(|x| x / length).collect())
        })
        .collect()
}

fn failed(error: impl std::fmt::Display) -> EmbedError {
    EmbedError::Failed(error.to_string())
}
