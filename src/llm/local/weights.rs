//! A GGUF file in memory: weights, tokenizer, chat template and limits, all from the file itself.
//!
//! Some quantizations have no fast kernel in candle (Q4_1 is fifty times slower than Q8_0): such weights are
//! quantized anew to Q8_0 once, and kept in a file beside the original.

use super::super::{LlmError, LlmErrorKind};
use super::template::{Piece, Template};
use candle_core::Device;
use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_transformers::models::quantized_llama::{MAX_SEQ_LEN, ModelWeights};
use std::fs::{self, File};
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{PreTokenizerWrapper, Tokenizer};

/// A loaded model. Cloning `weights` shares the numbers and copies the reading state.
pub(super) struct LocalModel {
    /// Having read nothing.
    pub weights: ModelWeights,
    pub tokenizer: Tokenizer,
    pub template: Template,
    /// Tokens that end an answer.
    pub ends: Vec<u32>,
    /// Tokens the model can hold, prompt and answer together.
    pub context: usize,
    /// Memory that one read token takes.
    pub bytes_per_token: usize,
}

impl LocalModel {
    /// Reads the file: a second or two, and one more the first time where it must be quantized anew.
    ///
    /// # Errors
    /// `BadRequest`: the file is missing (the message says what fetches it) or is not such a model.
    pub(super) fn load(path: &Path) -> Result<Self, LlmError> {
        if !path.is_file() {
            let message = format!("{} is missing: run scripts/assets, which fetches the local model", path.display());
            return Err(LlmError::new(LlmErrorKind::BadRequest, message));
        }
        let unusable = |e: candle_core::Error| wrong(path, &e.to_string());
        let cached = fast_copy(path);
        if newer(&cached, path) {
            if let Ok(model) = File::open(&cached).map_err(Into::into).and_then(|f| read(BufReader::new(f))) {
                return model.map_err(|why| wrong(path, &why));
            }
            tracing::warn!(llm.file = %cached.display(), "the quantized copy cannot be read: making it anew");
        }
        let mut file = BufReader::new(File::open(path).map_err(|e| wrong(path, &e.to_string()))?);
        let content = Content::read(&mut file).map_err(unusable)?;
        if !content.tensor_infos.values().any(|t| is_slow(t.ggml_dtype)) {
            return read(file).map_err(unusable)?.map_err(|why| wrong(path, &why));
        }
        let fast = requantized(&content, &mut file).map_err(unusable)?;
        if let Err(e) = store(&cached, &fast) {
            tracing::info!(llm.file = %cached.display(), error = %e, "the quantized copy is not kept: each start makes it anew");
        }
        read(Cursor::new(fast)).map_err(unusable)?.map_err(|why| wrong(path, &why))
    }

    /// The numbers of `pieces`. Text is only ever text: special tokens in it are spelled out.
    pub(super) fn encode(&self, pieces: &[Piece]) -> Result<Vec<u32>, LlmError> {
        let mut ids = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Special(token) => ids.push(self.tokenizer.token_to_id(token).ok_or_else(|| {
                    LlmError::new(LlmErrorKind::BadRequest, format!("the local model has no token {token}"))
                })?),
                Piece::Text(text) => {
                    let encoding = self.tokenizer.encode_fast(text.as_str(), false);
                    ids.extend_from_slice(
                        encoding.map_err(|e| LlmError::new(LlmErrorKind::Decode, e.to_string()))?.get_ids(),
                    );
                }
            }
        }
        Ok(ids)
    }
}

fn wrong(path: &Path, why: &str) -> LlmError {
    LlmError::new(LlmErrorKind::BadRequest, format!("{} cannot be used as local model: {why}", path.display()))
}

/// Quantizations without a fast kernel on any CPU.
fn is_slow(dtype: GgmlDType) -> bool {
    matches!(dtype, GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 | GgmlDType::Q8_1)
}

fn fast_copy(path: &Path) -> PathBuf {
    path.with_extension("q8_0.gguf")
}

/// Whether `copy` is there and was made after `original` last changed.
fn newer(copy: &Path, original: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    matches!((time(copy), time(original)), (Some(copy), Some(original)) if copy >= original)
}

/// The whole file with its slow tensors as Q8_0.
fn requantized<R: Read + Seek>(content: &Content, reader: &mut R) -> candle_core::Result<Vec<u8>> {
    let device = Device::Cpu;
    let mut tensors = Vec::with_capacity(content.tensor_infos.len());
    for name in content.tensor_infos.keys() {
        let mut tensor = content.tensor(reader, name, &device)?;
        if is_slow(tensor.dtype()) {
            tensor = QTensor::quantize(&tensor.dequantize(&device)?, GgmlDType::Q8_0)?;
        }
        tensors.push((name.as_str(), tensor));
    }
    tensors.sort_by_key(|(name, _)| *name);
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let mut metadata: Vec<(&str, &Value)> = content.metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    metadata.sort_by_key(|(name, _)| *name);
    let mut out = Cursor::new(Vec::new());
    gguf_file::write(&mut out, &metadata, &tensors)?;
    Ok(out.into_inner())
}

/// In one step, so that nobody reads half a file.
fn store(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let aside = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, path)).inspect_err(|_| {
        // Best effort: what is left of a full disk's write.
        let _ = fs::remove_file(&aside);
    })
}

/// The outer error: the file cannot be read; the inner one: it can, and is not a model for us.
fn read<R: Read + Seek>(mut reader: R) -> candle_core::Result<Result<LocalModel, String>> {
    let content = Content::read(&mut reader)?;
    let text = |key: &str| content.metadata.get(key).and_then(|v| v.to_string().ok()).map_or("", String::as_str);
    let number = |key: &str| content.metadata.get(key).and_then(|v| v.to_u32().ok()).unwrap_or(0) as usize;
    let architecture = text("general.architecture");
    if architecture != "llama" {
        return Ok(Err(format!("its architecture is `{architecture}`, not `llama`")));
    }
    let Some(template) = Template::detect(text("tokenizer.chat_template")) else {
        return Ok(Err("its chat template is neither ChatML nor Llama 3's".to_owned()));
    };
    let tokenizer = match tokenizer(&content, text("tokenizer.ggml.pre")) {
        Ok(tokenizer) => tokenizer,
        Err(e) => return Ok(Err(format!("its tokenizer: {e}"))),
    };
    let mut ends: Vec<u32> = template.ends().iter().filter_map(|t| tokenizer.token_to_id(t)).collect();
    ends.extend(content.metadata.get("tokenizer.ggml.eos_token_id").and_then(|v| v.to_u32().ok()));
    let context = number("llama.context_length").min(MAX_SEQ_LEN);
    let heads = number("llama.attention.head_count").max(1);
    let head_size = number("llama.embedding_length") / heads;
    let bytes_per_token = number("llama.block_count") * number("llama.attention.head_count_kv") * head_size * 2 * 4;
    if context < 256 || bytes_per_token == 0 {
        return Ok(Err(format!("its context of {context} tokens is too small, or its sizes are missing")));
    }
    let weights = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?;
    Ok(Ok(LocalModel { weights, tokenizer, template, ends, context, bytes_per_token }))
}

fn tokenizer(content: &Content, pre: &str) -> candle_core::Result<Tokenizer> {
    let mut tokenizer = Tokenizer::from_gguf(content)?;
    // candle splits by GPT-2's rule with a space before the text where it does not know the model's own rule.
    let plain = ByteLevel::new(false, true, true);
    let split: Option<PreTokenizerWrapper> = match pre {
        "smollm" | "starcoder" | "refact" | "command-r" => {
            Some(Sequence::new(vec![Digits::new(true).into(), plain.into()]).into())
        }
        "" | "default" | "gpt-2" => Some(plain.into()),
        _ => None,
    };
    if split.is_some() {
        tokenizer.with_pre_tokenizer(split);
    }
    tokenizer.set_encode_special_tokens(true);
    Ok(tokenizer)
}
