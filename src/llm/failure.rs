//! What a provider says when it fails, as an [`LlmError`]: from an HTTP status and body, or from an
//! event inside a stream that had begun with 200. Pure; one table for both vendors, because servers
//! that imitate one answer with the shapes of the other.
//!
//! The kind comes from codes, types and the status. Free text decides only where a vendor has no
//! code for what it says ([`TOO_LONG_TEXTS`]).

use super::{LlmError, LlmErrorKind as Kind};
use serde_json::Value;
use std::time::Duration;

/// Longest provider message that is passed on, in characters.
const MESSAGE_CHARS: usize = 600;

/// How the vendors that have no code for it begin to say that the prompt does not fit.
const TOO_LONG_TEXTS: [&str; 3] = [
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    "this model's maximum context length is",
];

/// An answer whose status is not 200. `body` is what could be read of it.
pub fn from_http(status: u16, retry_after: Option<Duration>, body: &str) -> LlmError {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let said = match &parsed {
        Some(value) => Said::read(detail(value).unwrap_or(value)),
        None => Said { message: plain_text(body), ..Said::default() },
    };
    let mut error = said.error(Some(status));
    error.retry_after = retry_after;
    error
}

/// The error in an event, if it is one. `named`: the event's own name said so.
pub fn in_event(value: &Value, named: bool) -> Option<LlmError> {
    let detail = detail(value).or_else(|| (named || is_flat_error(value)).then_some(value))?;
    Some(Said::read(detail).error(None))
}

/// A failure that is told in plain text.
pub fn in_text(text: &str) -> LlmError {
    Said { message: text.to_owned(), ..Said::default() }.error(None)
}

/// What stands under `error`, unless that is null or empty.
fn detail(value: &Value) -> Option<&Value> {
    let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
    value.get("error").filter(|error| match error {
        Value::String(text) => !text.trim().is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    })
}

/// An error that is not wrapped: it says so itself, or it has a message and a code where an answer
/// would have its own fields.
fn is_flat_error(value: &Value) -> bool {
    let is = |key: &str, word: &str| value.get(key).and_then(Value::as_str) == Some(word);
    let has = |key: &str| value.get(key).is_some_and(|v| !v.is_null());
    is("object", "error")
        || is("type", "error")
        || (!has("choices") && !has("content") && has("detail"))
        || (!has("choices")
            && !has("content")
            && value.get("message").is_some_and(Value::is_string)
            && (has("code") || has("status")))
}

/// The parts of an error that are worth something.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// `code`, `type` and `status` where they are words.
    codes: Vec<String>,
    /// The same where they are HTTP statuses.
    status: Option<u16>,
}

impl Said {
    fn read(detail: &Value) -> Self {
        if let Some(text) = detail.as_str() {
            return Self { message: text.to_owned(), ..Self::default() };
        }
        let mut said = Self::default();
        for key in ["code", "type", "status"] {
            match detail.get(key) {
                Some(Value::String(word)) if word.parse::<u16>().is_err() => said.codes.push(word.clone()),
                Some(Value::String(number)) => said.status = said.status.or(http_status(number.parse().ok())),
                Some(Value::Number(number)) => said.status = said.status.or(http_status(number.as_u64())),
                _ => {}
            }
        }
        let message = ["message", "error", "detail", "msg"].iter().find_map(|key| match detail.get(key)? {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Object(inner) => inner.get("message")?.as_str().map(str::to_owned),
            Value::Array(list) => list.first()?.get("msg")?.as_str().map(str::to_owned),
            _ => None,
        });
        let silent = detail.as_object().is_none_or(|fields| fields.is_empty()) || !said.codes.is_empty();
        said.message = message.unwrap_or_else(|| if silent { String::new() } else { detail.to_string() });
        said
    }

    /// `answered` is the status of the HTTP answer; `None` inside a stream.
    fn error(self, answered: Option<u16>) -> LlmError {
        let kind = self.kind(answered);
        let mut notes: Vec<String> = answered.iter().map(|status| format!("HTTP {status}")).collect();
        notes.extend(self.codes.iter().find(|code| !self.message.contains(code.as_str())).cloned());
        let message: String = self.message.trim().chars().take(MESSAGE_CHARS).collect();
        let text = match (message.is_empty(), notes.is_empty()) {
            (false, true) => message,
            (false, false) => format!("{message} ({})", notes.join(", ")),
            (true, false) => format!("the provider failed ({})", notes.join(", ")),
            (true, true) => "the provider failed and did not say why".to_owned(),
        };
        LlmError::new(kind, text)
    }

    fn kind(&self, answered: Option<u16>) -> Kind {
        if let Some(kind) = self.codes.iter().find_map(|code| kind_of_code(code)) {
            return kind;
        }
        let by_status = self.status.or(answered).map(kind_of_status);
        let vague = by_status.is_none_or(|kind| kind == Kind::BadRequest);
        let says = self.message.trim_start().to_ascii_lowercase();
        if vague && TOO_LONG_TEXTS.iter().any(|text| says.starts_with(text)) {
            return Kind::ContextTooLong;
        }
        // Inside a stream, without any code: the provider broke off, nobody knows why.
        by_status.or_else(|| self.codes.iter().find_map(|code| kind_of_vague_code(code))).unwrap_or(Kind::Interrupted)
    }
}

/// Codes that say what happened whatever the status is.
fn kind_of_code(code: &str) -> Option<Kind> {
    Some(match code.to_ascii_lowercase().as_str() {
        "insufficient_quota"
        | "billing_error"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "quota_exceeded"
        | "insufficient_balance" => Kind::Quota,
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "request_too_large"
        | "context_window_exceeded"
        | "string_above_max_length" => Kind::ContextTooLong,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted"
        | "tokens"
        | "requests" => Kind::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "engine_overloaded"
        | "engine_overloaded_error"
        | "server_overloaded"
        | "unavailable"
        | "unavailable_error"
        | "service_unavailable"
        | "insufficient_system_resource" => Kind::Overloaded,
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "incorrect_api_key"
        | "account_deactivated"
        | "permission_denied"
        | "unauthenticated" => Kind::Auth,
        "model_not_found" | "not_found_error" => Kind::BadRequest,
        _ => return None,
    })
}

/// Types that say less than a status would.
fn kind_of_vague_code(code: &str) -> Option<Kind> {
    Some(match code.to_ascii_lowercase().as_str() {
        "invalid_request_error" | "badrequesterror" | "invalid_argument" | "invalid_prompt" => Kind::BadRequest,
        "api_error" | "server_error" | "internal_server_error" | "internal" | "timeout_error" => Kind::Overloaded,
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Auth,
        402 => Kind::Quota,
        408 => Kind::Transport,
        413 => Kind::ContextTooLong,
        429 => Kind::RateLimited,
        // Whatever broke on their side may work in a moment.
        500.. => Kind::Overloaded,
        _ => Kind::BadRequest,
    }
}

fn http_status(number: Option<u64>) -> Option<u16> {
    number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n))
}

/// A body that is no JSON: its text, or nothing where it is a web page.
fn plain_text(body: &str) -> String {
    if body.trim_start().starts_with('<') { String::new() } else { body.to_owned() }
}

/// `retry-after` in seconds or as an HTTP date, or `retry-after-ms`; `now` in seconds since 1970.
pub fn retry_after(seconds_or_date: Option<&str>, millis: Option<&str>, now: i64) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n >= 0.0);
    if let Some(millis) = millis.and_then(number) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = seconds_or_date?.trim();
    if let Some(seconds) = number(text) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second();
    Some(Duration::from_secs(u64::try_from(at - now).unwrap_or(0)))
}

/// Shortest run of characters in common with a key that gives the key away. A key that is shorter
/// itself ("none", for a server that wants any) is only masked as a word of its own.
const TELLING_CHARS: usize = 8;

/// `text` without anything that looks like `key`: words that share [`TELLING_CHARS`] characters with
/// it (providers quote keys in part), and words that begin like the vendors' keys do.
pub fn mask_key(text: &str, key: Option<&str>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.*…".contains(c);
    let whole = key.unwrap_or_default();
    let key: Vec<char> = whole.chars().collect();
    let telling = key.len() >= TELLING_CHARS;
    let looks_like_a_key = |word: &str| {
        let chars: Vec<char> = word.chars().collect();
        (word.starts_with("sk-") && chars.len() > TELLING_CHARS)
            || (telling && key.windows(TELLING_CHARS).any(|part| chars.windows(TELLING_CHARS).any(|w| w == part)))
            || (!telling && !whole.is_empty() && word == whole)
    };
    // First as it is: a key may hold characters that end a word.
    let text = if telling { text.replace(whole, "***") } else { text.to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        // A full stop behind a key ends the sentence.
        let (word, tail) = rest.split_at(rest[..end].trim_end_matches('.').len().max(usize::from(end > 0)));
        out.push_str(if looks_like_a_key(word) { "***" } else { word });
        let gap = tail.find(is_word).unwrap_or(tail.len());
        out.push_str(&tail[..gap]);
        rest = &tail[gap..];
    }
    out
}

#[cfg(test)]
mod tests;
