//! One event of an Anthropic Messages stream to [`StreamEvent`]s. Pure. The type inside the JSON
//! decides, not the event's name; unknown events, deltas and blocks are ignored.

use super::ID;
use super::blocks::Blocks;
use crate::llm::decode::{WireDecoder, truncated};
use crate::llm::loose::{self, Parsed, text, total};
use crate::llm::sse::SseEvent;
use crate::llm::{Done, LlmError, LlmErrorKind, Stop, StreamEvent, failure};
use crate::message::{RawMessage, Usage};
use serde_json::Value;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct AnthropicDecoder {
    /// Whether to pass each event on as `ProviderRaw`.
    raw: bool,
    blocks: Blocks,
    usage: Usage,
    stop: Option<Stop>,
}

impl AnthropicDecoder {
    /// `nonce` goes into the ids of calls that the server gave none.
    pub fn new(nonce: impl Into<String>, raw: bool) -> Self {
        Self { raw, blocks: Blocks::new(nonce.into()), ..Self::default() }
    }

    fn value(
        &mut self,
        name: &str,
        mut value: Value,
        marked: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let kind = text(&value, "type").unwrap_or(name).to_owned();
        let index = value.get("index").and_then(Value::as_i64);
        let mut take = |key: &str| value.get_mut(key).map(Value::take).unwrap_or_default();
        match kind.as_str() {
            "content_block_delta" => self.blocks.delta(index, take("delta"), marked, out),
            "content_block_start" => self.blocks.start(index, take("content_block"), marked, out),
            "content_block_stop" => {
                self.blocks.stop(index, out);
                Ok(())
            }
            "message_start" => {
                self.count(&take("message"));
                Ok(())
            }
            "message_delta" => {
                self.count(&value);
                value.get("delta").map_or(Ok(()), |delta| self.stop_reason(delta))
            }
            "message_stop" => {
                self.done(out);
                Ok(())
            }
            // The whole answer at once: a server that does not stream.
            "message" => {
                let content = take("content");
                for (at, block) in (0..).zip(content.as_array().into_iter().flatten()) {
                    self.blocks.start(Some(at), block.clone(), marked, out)?;
                    self.blocks.stop(Some(at), out);
                }
                self.count(&value);
                self.stop_reason(&value)?;
                self.done(out);
                Ok(())
            }
            kind => failure::in_event(&value, kind == "error" || name == "error").map_or(Ok(()), Err),
        }
    }

    fn stop_reason(&mut self, holder: &Value) -> Result<(), LlmError> {
        let Some(reason) = text(holder, "stop_reason").filter(|reason| !reason.is_empty()) else { return Ok(()) };
        self.stop = Some(match reason {
            "end_turn" | "stop_sequence" | "pause_turn" => Stop::End,
            "tool_use" => Stop::Tools,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Filter,
            _ => return Err(LlmError::new(LlmErrorKind::Interrupted, format!("the provider gave up: {reason}"))),
        });
        Ok(())
    }

    /// Totals replace what was known.
    fn count(&mut self, holder: &Value) {
        let Some(usage) = holder.get("usage") else { return };
        let Usage { input_tokens, output_tokens, cache_read_tokens } = &mut self.usage;
        *input_tokens = total(usage, "input_tokens").unwrap_or(*input_tokens);
        *output_tokens = total(usage, "output_tokens").unwrap_or(*output_tokens);
        *cache_read_tokens = total(usage, "cache_read_input_tokens").unwrap_or(*cache_read_tokens);
    }

    fn fail(&mut self, error: LlmError, out: &mut Vec<StreamEvent>) {
        self.blocks.flush(out);
        out.push(StreamEvent::Error(error));
    }

    /// The answer is whole.
    fn done(&mut self, out: &mut Vec<StreamEvent>) {
        self.blocks.flush(out);
        let stop = self.stop.unwrap_or(Stop::End);
        let refused = self.blocks.settle(stop, out);
        let stop = if stop == Stop::End && self.blocks.has_calls() { Stop::Tools } else { stop };
        let content = std::mem::take(&mut self.blocks).into_message();
        let message = (!content.is_empty()).then(|| RawMessage { provider: ID.into(), content: content.into() });
        out.push(StreamEvent::Done(Done { usage: self.usage, stop, message, refused }));
    }
}

impl WireDecoder for AnthropicDecoder {
    fn event(&mut self, event: SseEvent, out: &mut Vec<StreamEvent>) {
        let data = event.data.trim();
        let named_error = event.event == "error";
        // Proxies that speak both wires append the other one's end mark.
        if data == "[DONE]" {
            return self.finish(out);
        }
        if (data.is_empty() && !named_error) || data == "null" {
            return;
        }
        match loose::parse(data) {
            Ok(Parsed { value, marked }) => {
                if self.raw {
                    out.push(StreamEvent::ProviderRaw(value.clone()));
                }
                if let Err(error) = self.value(&event.event, value, marked, out) {
                    self.fail(error, out);
                }
            }
            Err(_) if named_error => self.fail(failure::in_text(data), out),
            // After the stop reason nothing can spoil the answer.
            Err(_) if event.doubtful || self.stop.is_some() => {}
            Err(error) => {
                self.fail(LlmError::new(LlmErrorKind::Decode, format!("an event is not valid JSON: {error}")), out);
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        if self.stop.is_some() { self.done(out) } else { self.fail(truncated(), out) }
    }

    fn is_whole(&self) -> bool {
        self.stop.is_some()
    }
}
