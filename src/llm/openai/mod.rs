//! OpenAI-compatible chat completions as an [`LlmProvider`]: the vendor itself, and servers like
//! llama-server and Ollama.

mod calls;
pub mod probe;
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
use wire::OpenAiDecoder;

/// The provider's name in configuration and frames.
pub const ID: &str = "openai";
/// The vendor's own address.
pub const BASE_URL: &str = "https://api.openai.com";
/// What is asked of the vendor where no model is configured.
pub const DEFAULT_MODEL: &str = "gpt-4.1-mini";

#[derive(Clone, Debug)]
pub struct OpenAiOptions {
    /// With or without `/v1`.
    pub base_url: String,
    /// Servers on this machine often need none.
    pub api_key: Option<Secret>,
    pub model: String,
    /// Longest answer, in tokens; `None`: the server's default.
    pub max_tokens: Option<u32>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Whether the server and its model can call tools natively.
    pub native_tools: bool,
}

#[derive(Clone, Debug)]
pub struct OpenAi {
    options: OpenAiOptions,
    url: Url,
    headers: Headers,
    transport: Arc<Transport>,
}

impl OpenAi {
    /// Fails on a base URL or key that cannot be used.
    pub fn new(options: OpenAiOptions, transport: Arc<Transport>) -> Result<Self, LlmError> {
        let url = endpoint(&options.base_url, "chat/completions")?;
        transport.prepare(&url)?;
        let key = options.api_key.as_ref().map(|key| ("authorization", format!("Bearer {}", key.expose())));
        let headers = headers(&[], key)?;
        Ok(Self { options, url, headers, transport })
    }

    async fn ask(&self, messages: &[ChatMessage], tools: &[ToolSpec]) -> Result<EventStream, LlmError> {
        let vendor = self.url.host_str() == Some("api.openai.com");
        let post = Post {
            url: self.url.clone(),
            headers: self.headers.clone(),
            json: request::body(&self.options, vendor, messages, tools),
            key: self.options.api_key.clone(),
        };
        let nonce = format!("{:08x}_", rand::random::<u32>());
        self.transport.post(post, OpenAiDecoder::new(nonce, false)).await
    }
}

#[async_trait]
impl LlmProvider for OpenAi {
    fn id(&self) -> &str {
        ID
    }

    fn model(&self) -> &str {
        &self.options.model
    }

    /// Any name is taken: only the server knows its models, and says so when it is asked.
    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        if model.trim().is_empty() {
            return Err(LlmError::new(LlmErrorKind::BadRequest, "the model's name is empty"));
        }
        let options = OpenAiOptions { model: model.to_owned(), ..self.options.clone() };
        Ok(Arc::new(Self { options, ..self.clone() }))
    }

    fn supports_tools(&self) -> bool {
        self.options.native_tools
    }

    fn reasoning_effort(&self) -> Option<ReasoningEffort> {
        self.options.reasoning_effort
    }

    fn with_reasoning_effort(&self, effort: ReasoningEffort) -> Option<Arc<dyn LlmProvider>> {
        let options = OpenAiOptions { reasoning_effort: Some(effort), ..self.options.clone() };
        Some(Arc::new(Self { options, ..self.clone() }))
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        self.ask(messages, &[]).await
    }

    async fn stream_with_tools(&self, messages: &[ChatMessage], tools: &[ToolSpec]) -> Result<EventStream, LlmError> {
        self.ask(messages, if self.options.native_tools { tools } else { &[] }).await
    }
}
