//! The Anthropic Messages API as an [`LlmProvider`](super::LlmProvider).

mod blocks;
pub mod wire;

/// The provider's name in configuration, frames and [`RawMessage`](crate::message::RawMessage).
pub const ID: &str = "anthropic";
