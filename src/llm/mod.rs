//! The port to language models: what a provider must do, what it sends, how it fails.
//! To add one: a folder beside `openai/`, one arm in `app/providers.rs`, one recording in `tests/data/`.

mod answer;
pub mod anthropic;
mod breaker;
pub mod decode;
pub mod extractive;
pub mod failure;
mod history;
mod json_scan;
#[cfg(feature = "local-llm")]
pub mod local;
mod loose;
pub mod openai;
pub mod resilient;
mod retry;
pub mod sse;
pub mod transport;

use crate::message::{ChatMessage, RawMessage, Usage};
use crate::tools::ToolSpec;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// One answer as it arrives. It ends with exactly one [`StreamEvent::Done`] or [`StreamEvent::Error`]. Dropping it stops
/// the provider.
pub type EventStream = BoxStream<'static, StreamEvent>;

#[async_trait]
pub trait LlmProvider: Send + Sync {
    /// `anthropic`, `openai`, `local`, `extractive`: stable, shown to users.
    fn id(&self) -> &str;
    /// The model's name as the provider wants it.
    fn model(&self) -> &str;
    /// The same provider with another model; the error says which models can be had.
    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError>;
    /// Whether native tool calls work; if not, the engine uses the inline grammar.
    fn supports_tools(&self) -> bool {
        false
    }
    /// Whether the model learns the inline dialect from example exchanges rather than from instructions.
    fn wants_examples(&self) -> bool {
        false
    }
    fn reasoning_effort(&self) -> Option<ReasoningEffort> {
        None
    }
    /// The same provider at another effort; `None` where it has no such setting.
    fn with_reasoning_effort(&self, _effort: ReasoningEffort) -> Option<Arc<dyn LlmProvider>> {
        None
    }
    /// Asks for an answer. `Err` before the first event; later failures are events.
    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError>;
    /// The same with native tools; a provider without them streams plainly.
    async fn stream_with_tools(&self, messages: &[ChatMessage], _tools: &[ToolSpec]) -> Result<EventStream, LlmError> {
        self.stream(messages).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    Low,
    Medium,
    High,
}

impl ReasoningEffort {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a provider's stream says, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Visible text.
    Delta(String),
    /// The vendor's event as it came, for those who record; nothing in Tailrace depends on it.
    ProviderRaw(Value),
    ReasoningDelta(String),
    /// `index` is the wire's label of the call, never a size.
    ToolCallStart {
        id: String,
        name: String,
        index: i64,
    },
    ToolCallArgumentsDelta {
        index: i64,
        delta: String,
    },
    ToolCallComplete {
        index: i64,
    },
    /// Nothing of the answer has come, and the provider (or the next of a list) is asked again after `after`.
    Retry {
        /// Requests so far.
        attempt: u32,
        after: Duration,
        error: LlmError,
    },
    Done(Done),
    Error(LlmError),
}

/// The stream ended well.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    pub usage: Usage,
    pub stop: Stop,
    /// The whole assistant message in the provider's own form, where it has to go back unchanged.
    pub message: Option<RawMessage>,
    /// Which native calls cannot run because their arguments are broken, and why. Not a provider failure: the model is
    /// told, and the turn goes on.
    pub refused: Option<String>,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    End,
    Tools,
    Length,
    Filter,
}

impl Stop {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Tools => "tools",
            Self::Length => "length",
            Self::Filter => "filter",
        }
    }
}

/// A provider failure: what kind, in one line why, and when to come back if it said so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    pub kind: LlmErrorKind,
    /// One line; the provider's own message where it sent one. Never holds a key.
    pub message: String,
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmErrorKind {
    RateLimited,
    Overloaded,
    ContextTooLong,
    Auth,
    /// Money or plan ran out: asking again does not help.
    Quota,
    /// The request itself was wrong (unknown model, bad field).
    BadRequest,
    /// It has failed too often and is not asked for a while.
    Unavailable,
    /// Connecting, sending, or a first byte or idle timeout.
    Transport,
    /// The provider sent what its protocol does not allow.
    Decode,
    /// The stream was cut: no end mark and no finish reason.
    Interrupted,
}

impl LlmErrorKind {
    /// Whether the same request may work later.
    pub fn retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Unavailable | Self::Transport | Self::Interrupted)
    }

    /// The stable word in `error` frames and logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "provider_unavailable",
            Self::ContextTooLong => "context_too_long",
            Self::Auth => "provider_auth",
            Self::Quota => "provider_quota",
            Self::BadRequest => "provider_bad_request",
            Self::Transport => "provider_unreachable",
            Self::Decode => "provider_protocol",
            Self::Interrupted => "provider_truncated",
        }
    }
}

impl LlmError {
    /// Line breaks in `message` become spaces: it is shown on one line.
    pub fn new(kind: LlmErrorKind, message: impl AsRef<str>) -> Self {
        Self { kind, message: one_line(message.as_ref()), retry_after: None }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
