//! One event of an OpenAI-compatible chat completion stream to [`StreamEvent`]s. Pure. Fields are
//! read loosely: what is missing, null or of another type is not there, and what is not known is
//! ignored. Only JSON that does not parse and finish reasons that are none fail.

use super::calls::{Calls, Fragment, entries};
use crate::llm::decode::{WireDecoder, truncated};
use crate::llm::loose::{self, Halves, Parsed, take_text, total};
use crate::llm::sse::SseEvent;
use crate::llm::{Done, LlmError, LlmErrorKind, Stop, StreamEvent, failure};
use crate::message::Usage;
use serde_json::Value;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct OpenAiDecoder {
    /// Whether to pass each event on as `ProviderRaw`.
    raw: bool,
    text: Halves,
    reasoning: Halves,
    calls: Calls,
    usage: Usage,
    finish: Option<Stop>,
    /// Some text or call came out.
    spoke: bool,
}

impl OpenAiDecoder {
    /// `nonce` goes into the ids of calls that the server gave none.
    pub fn new(nonce: impl Into<String>, raw: bool) -> Self {
        Self { raw, calls: Calls::new(nonce.into()), ..Self::default() }
    }

    fn value(
        &mut self,
        value: Value,
        marked: bool,
        named_error: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let mut value = value;
        self.count(&value);
        if let Some(Value::Array(choices)) = value.get_mut("choices") {
            // Others would be alternatives (`n` > 1), which nobody asked for.
            if let Some(choice) = choices.iter_mut().find(|c| c.get("index").and_then(Value::as_i64).unwrap_or(0) == 0)
            {
                self.choice(choice, marked, out)?;
            }
        }
        failure::in_event(&value, named_error).map_or(Ok(()), Err)
    }

    fn choice(&mut self, choice: &mut Value, marked: bool, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        self.count(choice);
        if let Some(delta @ Value::Object(_)) = choice.get_mut("delta") {
            self.delta(delta, false, marked, out)?;
        } else if !self.spoke
            && let Some(message @ Value::Object(_)) = choice.get_mut("message")
        {
            // The whole answer at once: a server that does not stream.
            self.delta(message, true, marked, out)?;
        }
        if let Some(error) = failure::in_event(choice, false) {
            return Err(error);
        }
        let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let stop = match reason.as_str() {
            "" | "null" => return Ok(()),
            "stop" => Stop::End,
            "tool_calls" | "function_call" => Stop::Tools,
            "length" | "model_length" => Stop::Length,
            "content_filter" => {
                return Err(LlmError::new(
                    LlmErrorKind::BadRequest,
                    "the provider's filter cut the answer (content_filter)",
                ));
            }
            "insufficient_system_resource" => {
                return Err(LlmError::new(
                    LlmErrorKind::Overloaded,
                    "the provider gave up: insufficient_system_resource",
                ));
            }
            _ => return Err(LlmError::new(LlmErrorKind::Interrupted, format!("the provider gave up: {reason}"))),
        };
        // Some servers repeat a reason, or send one with every chunk. The first stands, unless the
        // answer turns out to be cut by its length.
        if self.finish.is_none() || stop == Stop::Length {
            self.finish = Some(stop);
        }
        Ok(())
    }

    /// A `delta`, or a whole `message`.
    fn delta(
        &mut self,
        delta: &mut Value,
        whole: bool,
        marked: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        // Two names for the same thing, sometimes both.
        let mut reasoning = take_text(delta, "reasoning_content");
        if reasoning.is_empty() {
            reasoning = take_text(delta, "reasoning");
        }
        self.reason(reasoning, marked, out);
        match delta.get_mut("content").map(Value::take) {
            Some(Value::String(text)) => self.say(text, marked, out),
            Some(Value::Array(parts)) => parts.into_iter().for_each(|part| self.part(part, marked, out)),
            _ => {}
        }
        let refusal = take_text(delta, "refusal");
        self.say(refusal, marked, out);
        for fragment in entries(delta.get_mut("tool_calls")) {
            self.spoke = true;
            self.calls.take(fragment, whole, marked, out)?;
        }
        if let Some(function @ Value::Object(_)) = delta.get_mut("function_call").map(Value::take) {
            self.spoke = true;
            self.calls.take(Fragment::read_function(function), whole, marked, out)?;
        }
        Ok(())
    }

    /// A part of content that is a list: `{type: "text", text}` or `{type: "thinking", thinking: [parts]}`.
    fn part(&mut self, mut part: Value, marked: bool, out: &mut Vec<StreamEvent>) {
        let text = take_text(&mut part, "text");
        self.say(text, marked, out);
        match part.get_mut("thinking").map(Value::take) {
            Some(Value::String(text)) => self.reason(text, marked, out),
            Some(Value::Array(parts)) => {
                for mut part in parts {
                    let text = take_text(&mut part, "text");
                    self.reason(text, marked, out);
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, text: String, marked: bool, out: &mut Vec<StreamEvent>) {
        let text = self.text.join(text, marked);
        if !text.is_empty() {
            self.spoke = true;
            out.push(StreamEvent::Delta(text));
        }
    }

    fn reason(&mut self, text: String, marked: bool, out: &mut Vec<StreamEvent>) {
        let text = self.reasoning.join(text, marked);
        if !text.is_empty() {
            out.push(StreamEvent::ReasoningDelta(text));
        }
    }

    /// Totals replace what was known; some servers send them with every chunk, or empty.
    fn count(&mut self, holder: &Value) {
        let Some(usage) = holder.get("usage").filter(|usage| usage.is_object()) else { return };
        let read = |keys: [&str; 2]| keys.iter().find_map(|key| total(usage, key));
        let Usage { input_tokens, output_tokens, cache_read_tokens } = &mut self.usage;
        *input_tokens = read(["prompt_tokens", "input_tokens"]).unwrap_or(*input_tokens);
        *output_tokens = read(["completion_tokens", "output_tokens"]).unwrap_or(*output_tokens);
        let cached = usage.get("prompt_tokens_details").and_then(|details| total(details, "cached_tokens"));
        *cache_read_tokens = cached.unwrap_or(*cache_read_tokens);
    }

    /// Halves of characters that stayed alone.
    fn flush(&mut self, out: &mut Vec<StreamEvent>) {
        out.extend(self.reasoning.flush().map(|c| StreamEvent::ReasoningDelta(c.into())));
        out.extend(self.text.flush().map(|c| StreamEvent::Delta(c.into())));
    }

    fn fail(&mut self, error: LlmError, out: &mut Vec<StreamEvent>) {
        self.flush(out);
        out.push(StreamEvent::Error(error));
    }

    /// The answer is whole.
    fn done(&mut self, out: &mut Vec<StreamEvent>) {
        self.flush(out);
        let stop = self.finish.unwrap_or(Stop::End);
        let refused = self.calls.settle(stop, out);
        // Servers that call tools and say `stop` are many.
        let stop = if stop == Stop::End && !self.calls.is_empty() { Stop::Tools } else { stop };
        out.push(StreamEvent::Done(Done { usage: self.usage, stop, message: None, refused }));
    }
}

impl WireDecoder for OpenAiDecoder {
    fn event(&mut self, event: SseEvent, out: &mut Vec<StreamEvent>) {
        let named_error = event.event == "error";
        let data = event.data.trim();
        if is_end_mark(data, self.finish.is_some()) {
            return self.done(out);
        }
        if (data.is_empty() && !named_error) || data == "null" {
            return;
        }
        match loose::parse(data) {
            Ok(Parsed { value, marked }) => {
                if self.raw {
                    out.push(StreamEvent::ProviderRaw(value.clone()));
                }
                if let Err(error) = self.value(value, marked, named_error, out) {
                    self.fail(error, out);
                }
            }
            Err(_) if named_error => self.fail(failure::in_text(data), out),
            // After the finish nothing can spoil the answer.
            Err(_) if event.doubtful || self.finish.is_some() => {}
            Err(error) => {
                self.fail(LlmError::new(LlmErrorKind::Decode, format!("an event is not valid JSON: {error}")), out);
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        if self.finish.is_some() { self.done(out) } else { self.fail(truncated(), out) }
    }

    fn is_whole(&self) -> bool {
        self.finish.is_some()
    }
}

/// `[DONE]`; after a finish reason also its misspellings.
fn is_end_mark(data: &str, finished: bool) -> bool {
    let bare = data.trim_matches(|c: char| !c.is_alphanumeric());
    data == "[DONE]" || (data.len() <= 16 && bare.eq_ignore_ascii_case("done") && (finished || data == "\"[DONE]\""))
}
