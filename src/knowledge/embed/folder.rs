//! A folder with an embedding model: which files it holds and what they say of it.
//! Reading it is cheap for the built-in model (nothing is opened) and one pass over the file for others.

use super::super::{EmbedError, EmbeddingModel};
use memchr::memmem;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The one model that needs no folder to be named.
pub const BUILT_IN: &str = "all-minilm-l6-v2";
/// What the message about a missing file tells to run.
const COMMAND: &str = "run scripts/assets, which fetches it";

/// How a text's token vectors become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    Mean,
    /// The first token's.
    Cls,
}

/// A model's files and facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelFolder {
    pub path: PathBuf,
    pub model: EmbeddingModel,
    pub pool: Pool,
    /// A text's vector depends on its batch mates: only ever one text a run.
    pub alone: bool,
    built_in: bool,
}

impl ModelFolder {
    /// `name`: [`BUILT_IN`] (in `models_dir`; its files may still be missing), or a folder's path.
    ///
    /// # Errors
    /// [`EmbedError::ModelMissing`] where a folder or a file in it is not there, [`EmbedError::Failed`] where
    /// `config.json` says neither size nor window.
    pub(super) fn find(models_dir: &Path, name: &str) -> Result<Self, EmbedError> {
        if name == BUILT_IN {
            return Ok(Self {
                path: models_dir.join(BUILT_IN),
                model: EmbeddingModel {
                    name: BUILT_IN.to_owned(),
                    dimension: 384,
                    window: 256,
                    query_prefix: String::new(),
                    passage_prefix: String::new(),
                },
                pool: Pool::Mean,
                // Also for the ready-made file that is not quantized dynamically: one name, one way to run it.
                alone: true,
                built_in: true,
            });
        }
        let path = PathBuf::from(name);
        if !path.is_dir() {
            let message = format!("embedding.model `{name}` is neither {BUILT_IN} nor a folder");
            return Err(EmbedError::ModelMissing(message));
        }
        let mut folder = Self {
            path,
            model: EmbeddingModel {
                name: String::new(),
                dimension: 0,
                window: 0,
                query_prefix: String::new(),
                passage_prefix: String::new(),
            },
            pool: Pool::Mean,
            alone: true,
            built_in: false,
        };
        let config = folder.json("config.json")?;
        let tokenizer = folder.json("tokenizer_config.json")?;
        let sentence = folder.optional("sentence_bert_config.json")?;
        let pooling = folder.optional("1_Pooling/config.json")?;
        let onnx = folder.read("model.onnx")?;

        let wrong = |what: &str| EmbedError::Failed(format!("{}: config.json has no {what}", folder.path.display()));
        let dimension = config["hidden_size"].as_u64().ok_or_else(|| wrong("hidden_size"))?;
        let window = window(&config, &tokenizer, &sentence).ok_or_else(|| wrong("max_position_embeddings"))?;
        let title = folder.path.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
        let hash = blake3::hash(&onnx).to_hex();
        folder.model = EmbeddingModel {
            name: format!("{}-{}", title.as_deref().unwrap_or("model"), &hash[..12]),
            dimension: usize::try_from(dimension).unwrap_or(usize::MAX),
            window,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        folder.pool = if pooling["pooling_mode_cls_token"] == true { Pool::Cls } else { Pool::Mean };
        // The operator's name stands in the graph as text; the file need not be understood to find it. Such a
        // graph takes the scale of its activations from the whole batch.
        folder.alone = memmem::find(&onnx, b"DynamicQuantizeLinear").is_some();
        Ok(folder)
    }

    /// One file of the folder.
    ///
    /// # Errors
    /// [`EmbedError::ModelMissing`] naming the file and what to do.
    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, EmbedError> {
        let path = self.path.join(file);
        fs::read(&path).map_err(|e| {
            let what = match e.kind() {
                std::io::ErrorKind::NotFound => "is missing".to_owned(),
                _ => format!("cannot be read ({e})"),
            };
            let how = match self.built_in {
                true => COMMAND,
                false => "a model folder holds model.onnx, tokenizer.json, tokenizer_config.json and config.json",
            };
            EmbedError::ModelMissing(format!("{} {what}: {how}", path.display()))
        })
    }

    fn json(&self, file: &str) -> Result<Value, EmbedError> {
        serde_json::from_slice(&self.read(file)?)
            .map_err(|e| EmbedError::Failed(format!("{}: {e}", self.path.join(file).display())))
    }

    fn optional(&self, file: &str) -> Result<Value, EmbedError> {
        if self.path.join(file).exists() { self.json(file) } else { Ok(Value::Null) }
    }
}

/// Tokens the model reads, special tokens included: the least that any of its files says.
fn window(config: &Value, tokenizer: &Value, sentence: &Value) -> Option<usize> {
    let mut positions = config["max_position_embeddings"].as_u64()?;
    // This family counts its positions from the padding's number + 1.
    if matches!(config["model_type"].as_str(), Some("roberta" | "xlm-roberta" | "camembert" | "mpnet")) {
        positions = positions.saturating_sub(config["pad_token_id"].as_u64().unwrap_or(1) + 1);
    }
    // Some files write a number near 10^30 for "no limit": it is a float, and no u64.
    let limits = [Some(positions), tokenizer["model_max_length"].as_u64(), sentence["max_seq_length"].as_u64()];
    let least = limits.into_iter().flatten().min()?;
    usize::try_from(least).ok().filter(|n| *n > 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_window_is_the_least_that_any_file_names() {
        for (config, tokenizer, sentence, want) in [
            (
                json!({"max_position_embeddings": 512}),
                json!({"model_max_length": 512}),
                json!({"max_seq_length": 256}),
                Some(256),
            ),
            (json!({"max_position_embeddings": 512}), json!({"model_max_length": 1e30}), Value::Null, Some(512)),
            (
                json!({"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}),
                json!({"model_max_length": 1e30}),
                Value::Null,
                Some(512),
            ),
            (json!({}), json!({"model_max_length": 512}), Value::Null, None),
        ] {
            assert_eq!(window(&config, &tokenizer, &sentence), want, "{config} {tokenizer} {sentence}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let Err(EmbedError::ModelMissing(message)) = ModelFolder::find(Path::new("models"), "/no/such/folder") else {
            panic!("found a model in nothing");
        };
        assert!(message.contains("/no/such/folder"), "{message}");
    }
}
