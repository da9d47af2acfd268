//! OpenAI-compatible chat completions as an [`LlmProvider`](super::LlmProvider).

mod calls;
pub mod wire;

/// The provider's name in configuration, frames and [`RawMessage`](crate::message::RawMessage).
pub const ID: &str = "openai";
