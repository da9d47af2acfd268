//! Reranking in process: a cross-encoder (a model that reads query and passage together) from a folder that the
//! operator brings, through fastembed, on threads of its own. One pair a run, so that a passage's score does not
//! depend on the others.

use super::super::{EmbedError, Priority, Reranker};
use super::pool::{Load, Pool, PoolSize, Run};
use super::runtime::load_runtime;
use async_trait::async_trait;
use fastembed::{RerankInitOptionsUserDefined, TextRerank, TokenizerFiles, UserDefinedRerankingModel};
use std::fs;
use std::path::{Path, PathBuf};

/// Between query and passage of a pair; taken out of both.
const BETWEEN: char = '\0';

/// Where the model is and how much of the machine it may use.
#[derive(Clone, Debug)]
pub struct CrossEncoderOptions {
    /// Holds `onnxruntime/libonnxruntime.so`.
    pub models_dir: PathBuf,
    /// A folder with `model.onnx`, `tokenizer.json`, `tokenizer_config.json` and `config.json`.
    pub folder: PathBuf,
    /// Threads, each with one session that uses one core.
    pub threads: usize,
    /// Pairs that may wait for a thread.
    pub queue: usize,
    /// Tokens of query and passage together that are read.
    pub window: usize,
}

pub struct CrossEncoder {
    name: String,
    pool: Pool,
}

impl CrossEncoder {
    /// Loads nothing, but looks whether the files are there.
    ///
    /// # Errors
    /// [`EmbedError::ModelMissing`], naming the file.
    pub fn new(options: CrossEncoderOptions) -> Result<Self, EmbedError> {
        let CrossEncoderOptions { models_dir, folder, threads, queue, window } = options;
        for file in ["model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json"] {
            let path = folder.join(file);
            if !path.is_file() {
                let what = format!("retrieval.rerank_model: {} is missing", path.display());
                return Err(EmbedError::ModelMissing(what));
            }
        }
        let name = folder.file_name().map_or_else(|| "reranker".to_owned(), |name| name.to_string_lossy().into_owned());
        let library = models_dir.join("onnxruntime/libonnxruntime.so");
        let load: Load = Box::new(move || {
            load_runtime(&library)?;
            load_model(&folder, window)
        });
        Ok(Self { name, pool: Pool::new(PoolSize { threads, queue, batch: 1 }, load) })
    }
}

#[async_trait]
impl Reranker for CrossEncoder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn rerank(&self, query: &str, passages: Vec<String>) -> Result<Vec<f32>, EmbedError> {
        let query = query.replace(BETWEEN, " ");
        let pairs = passages.into_iter().map(|passage| format!("{query}{BETWEEN}{passage}")).collect();
        let scores = self.pool.embed(pairs, Priority::Turn).await?;
        Ok(scores.into_iter().map(|score| score.first().copied().unwrap_or_default()).collect())
    }
}

fn load_model(folder: &Path, window: usize) -> Result<Run, EmbedError> {
    let read = |file: &str| {
        let path = folder.join(file);
        fs::read(&path).map_err(|e| EmbedError::ModelMissing(format!("{} cannot be read: {e}", path.display())))
    };
    let files = TokenizerFiles {
        tokenizer_file: read("tokenizer.json")?,
        config_file: read("config.json")?,
        special_tokens_map_file: read("special_tokens_map.json").unwrap_or_else(|_| b"{}".to_vec()),
        tokenizer_config_file: read("tokenizer_config.json")?,
    };
    let model = UserDefinedRerankingModel::new(read("model.onnx")?, files);
    let options = RerankInitOptionsUserDefined::new().with_intra_threads(1).with_max_length(window);
    let mut session = TextRerank::try_new_from_user_defined(model, options).map_err(failed)?;
    Ok(Box::new(move |pairs| pairs.iter().map(|pair| score(&mut session, pair)).collect()))
}

/// Between 0 and 1.
fn score(session: &mut TextRerank, pair: &str) -> Result<Vec<f32>, EmbedError> {
    let (query, passage) = pair.split_once(BETWEEN).unwrap_or(("", pair));
    let ranked = session.rerank(query, [passage], false, Some(1)).map_err(failed)?;
    match ranked.first().map(|one| one.score).filter(|score| score.is_finite()) {
        Some(logit) => Ok(vec![1.0 / (1.0 + (-logit).exp())]),
        None => Err(EmbedError::Failed("the reranking model gave no score".to_owned())),
    }
}

fn failed(error: impl std::fmt::Display) -> EmbedError {
    EmbedError::Failed(error.to_string())
}
