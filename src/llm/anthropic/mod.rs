//! The Anthropic Messages API as an [`LlmProvider`].

mod blocks;
mod request;
pub mod wire;

use super::transport::{Headers, Post, Transport, endpoint, headers};
use super::{EventStream, LlmError, LlmErrorKind, LlmProvider, ReasoningEffort};
use crate::message::ChatMessage;
use crate::secret::Secret;
use crate::tools::ToolSpec;
use async_trait::async_trait;
use std::sync::Arc;
use url::Url;
use wire::AnthropicDecoder;

/// The provider's name in configuration, frames and [`RawMessage`](crate::message::RawMessage).
pub const ID: &str = "anthropic";
/// The vendor's own address.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// What is asked of the vendor where no model is configured.
pub const DEFAULT_MODEL: &str = "claude-sonnet-4-5";
/// The version of the API that `wire.rs` and `request.rs` speak.
const VERSION: &str = "2023-06-01";

#[derive(Clone, Debug)]
pub struct AnthropicOptions {
    /// With or without `/v1`.
    pub base_url: String,
    /// Compatible servers on this machine often need none.
    pub api_key: Option<Secret>,
    pub model: String,
    /// Longest answer, in tokens, thinking not counted.
    pub max_tokens: u32,
    /// `None`: no thinking.
    pub reasoning_effort: Option<ReasoningEffort>,
}

#[derive(Clone, Debug)]
pub struct Anthropic {
    options: AnthropicOptions,
    url: Url,
    headers: Headers,
    transport: Arc<Transport>,
}

impl Anthropic {
    /// Fails on a base URL or key that cannot be used.
    pub fn new(options: AnthropicOptions, transport: Arc<Transport>) -> Result<Self, LlmError> {
        let url = endpoint(&options.base_url, "messages")?;
        transport.prepare(&url)?;
        let key = options.api_key.as_ref().map(|key| ("x-api-key", key.expose().to_owned()));
        let headers = headers(&[("anthropic-version", VERSION)], key)?;
        Ok(Self { options, url, headers, transport })
    }
}

#[async_trait]
impl LlmProvider for Anthropic {
    fn id(&self) -> &str {
        ID
    }

    fn model(&self) -> &str {
        &self.options.model
    }

    /// Any name is taken: only the vendor knows its models, and says so when it is asked.
    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        if model.trim().is_empty() {
            return Err(LlmError::new(LlmErrorKind::BadRequest, "the model's name is empty"));
        }
        let options = AnthropicOptions { model: model.to_owned(), ..self.options.clone() };
        Ok(Arc::new(Self { options, ..self.clone() }))
    }

    fn supports_tools(&self) -> bool {
        true
    }

    fn reasoning_effort(&self) -> Option<ReasoningEffort> {
        self.options.reasoning_effort
    }

    fn with_reasoning_effort(&self, effort: ReasoningEffort) -> Option<Arc<dyn LlmProvider>> {
        let options = AnthropicOptions { reasoning_effort: Some(effort), ..self.options.clone() };
        Some(Arc::new(Self { options, ..self.clone() }))
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        self.stream_with_tools(messages, &[]).await
    }

    async fn stream_with_tools(&self, messages: &[ChatMessage], tools: &[ToolSpec]) -> Result<EventStream, LlmError> {
        let post = Post {
            url: self.url.clone(),
            headers: self.headers.clone(),
            json: request::body(&self.options, messages, tools),
            key: self.options.api_key.clone(),
        };
        let nonce = format!("{:08x}_", rand::random::<u32>());
        self.transport.post(post, AnthropicDecoder::new(nonce, false)).await
    }
}
