//! One answer: the prompt is read in pieces, then the model speaks token by token. Everything here runs on
//! the provider's own thread, and stops between two pieces or tokens once nobody listens.

use super::super::{Done, LlmError, LlmErrorKind, Stop, StreamEvent};
use super::LocalOptions;
use super::fit::fit;
use super::prefix::{PIECE, Prefixes};
use super::weights::LocalModel;
use crate::message::{ChatMessage, Usage};
use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::models::quantized_llama::ModelWeights;
use candle_transformers::utils::apply_repeat_penalty;
use tokio::sync::mpsc::Sender;

/// Memory for beginnings of prompts that have been read.
const PREFIX_BYTES: usize = 192 << 20;
/// Tokens back that the repetition penalty looks at.
const PENALTY_WINDOW: usize = 64;

pub(super) struct Generator {
    model: LocalModel,
    prefixes: Prefixes<ModelWeights>,
}

/// A prompt that fits.
pub(super) struct Prompt {
    tokens: Vec<u32>,
    /// Where the last message of the user begins.
    last_message: usize,
}

/// Nobody listens any more, or the model failed.
enum End {
    Gone,
    Failed(LlmError),
}

impl From<candle_core::Error> for End {
    fn from(error: candle_core::Error) -> Self {
        Self::Failed(LlmError::new(LlmErrorKind::Decode, format!("the local model failed: {error}")))
    }
}

impl Generator {
    pub(super) fn new(model: LocalModel) -> Self {
        let prefixes = Prefixes::new(PREFIX_BYTES / model.bytes_per_token);
        Self { model, prefixes }
    }

    /// What of `messages` the model has room for, with room left for the answer.
    ///
    /// # Errors
    /// `ContextTooLong` if instructions, examples and the newest message do not fit.
    pub(super) fn prompt(&self, messages: &[ChatMessage], options: &LocalOptions) -> Result<Prompt, LlmError> {
        let template = self.model.template;
        let written: Vec<Vec<u32>> =
            messages.iter().map(|m| self.model.encode(&template.message(m))).collect::<Result<_, _>>()?;
        let sizes: Vec<usize> = written.iter().map(Vec::len).collect();
        let instructions = messages.iter().take_while(|m| matches!(m, ChatMessage::System(_))).count();
        let mut tokens = self.model.encode(&template.begin())?;
        let answer = self.model.encode(&template.answer())?;
        let reserved = options.max_tokens.min(self.model.context / 4) + tokens.len() + answer.len();
        let room = self.model.context.saturating_sub(reserved);
        let kept = fit(messages, &sizes, instructions + options.examples, room).ok_or_else(|| {
            let newest = sizes.last().copied().unwrap_or(0);
            let message =
                format!("the newest message has {newest} tokens; instructions and messages together may have {room}");
            LlmError::new(LlmErrorKind::ContextTooLong, message)
        })?;
        let mut last_message = 0;
        for ((message, ids), kept) in messages.iter().zip(written).zip(kept) {
            if matches!(message, ChatMessage::User(_)) {
                last_message = tokens.len();
            }
            if kept {
                tokens.extend(ids);
            }
        }
        tokens.extend(answer);
        Ok(Prompt { tokens, last_message })
    }

    /// Streams the answer; the last event is `Done` or `Error`, unless nobody listens any more.
    pub(super) fn answer(&mut self, prompt: &Prompt, options: &LocalOptions, events: &Sender<StreamEvent>) {
        let last = match self.speak(prompt, options, events) {
            Ok(done) => StreamEvent::Done(done),
            Err(End::Failed(error)) => StreamEvent::Error(error),
            Err(End::Gone) => return,
        };
        // Whoever left now has missed nothing.
        let _ = events.blocking_send(last);
    }

    fn speak(&mut self, prompt: &Prompt, options: &LocalOptions, events: &Sender<StreamEvent>) -> Result<Done, End> {
        let (mut weights, mut logits, reused) = self.read(prompt, events)?;
        let mut sampler = sampler(options);
        let mut text = self.model.tokenizer.decode_stream(true);
        let mut position = prompt.tokens.len();
        let mut said: Vec<u32> = Vec::new();
        let stop = loop {
            if (options.repeat_penalty - 1.0).abs() > f32::EPSILON {
                let recent = &said[said.len().saturating_sub(PENALTY_WINDOW)..];
                logits = apply_repeat_penalty(&logits, options.repeat_penalty, recent)?;
            }
            let token = sampler.sample(&logits)?;
            if self.model.ends.contains(&token) {
                break Stop::End;
            }
            said.push(token);
            // Nothing comes out while a character is incomplete.
            let delta = text.step(token).map_err(|e| LlmError::new(LlmErrorKind::Decode, e.to_string()));
            if let Some(delta) = delta.map_err(End::Failed)? {
                events.blocking_send(StreamEvent::Delta(delta)).map_err(|_| End::Gone)?;
            }
            if events.is_closed() {
                return Err(End::Gone);
            }
            if said.len() >= options.max_tokens || position + 1 >= self.model.context {
                break Stop::Length;
            }
            logits = forward(&mut weights, &[token], position)?;
            position += 1;
        };
        let usage = Usage {
            input_tokens: prompt.tokens.len() as u64,
            output_tokens: said.len() as u64,
            cache_read_tokens: reused as u64,
        };
        Ok(Done { usage, stop, message: None, refused: None })
    }

    /// Reads the prompt: the state after it, the scores of the next token, and how many tokens were known.
    fn read(&mut self, prompt: &Prompt, events: &Sender<StreamEvent>) -> Result<(ModelWeights, Tensor, usize), End> {
        let tokens = &prompt.tokens;
        let (reused, mut weights) = self.prefixes.longest(tokens).unwrap_or_else(|| (0, self.model.weights.clone()));
        let marks = self.prefixes.marks(tokens, reused, prompt.last_message);
        let mut at = reused;
        loop {
            if events.is_closed() {
                return Err(End::Gone);
            }
            let end = (at + PIECE).min(tokens.len());
            let logits = forward(&mut weights, &tokens[at..end], at)?;
            at = end;
            if marks.contains(&at) {
                self.prefixes.keep(&tokens[..at], weights.clone());
            }
            if at == tokens.len() {
                return Ok((weights, logits, reused));
            }
        }
    }
}

/// Scores of the token after `tokens`, which stand at `position`.
fn forward(weights: &mut ModelWeights, tokens: &[u32], position: usize) -> candle_core::Result<Tensor> {
    let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
    weights.forward(&input, position)?.squeeze(0)
}

fn sampler(options: &LocalOptions) -> LogitsProcessor {
    let temperature = options.temperature;
    let sampling = match options.top_p {
        _ if temperature <= 0.0 => Sampling::ArgMax,
        p if p < 1.0 => Sampling::TopP { p, temperature },
        _ => Sampling::All { temperature },
    };
    LogitsProcessor::from_sampling(options.seed, sampling)
}
