//! Embedding by a server that speaks OpenAI's `/v1/embeddings`.
//!
//! Invariants: the key goes to the configured address only and is in no message; each wait ends; at most so many
//! requests are out at once for each priority, so a turn's text never waits behind bulk work; a vector of another
//! length than the collection's model is an error.

mod wire;

use super::super::{EmbedError, Embedder, EmbeddingModel, Priority};
use super::{estimate, prefixes};
use crate::secret::Secret;
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response};
use std::sync::Arc;
use std::time::Duration;
use tokenizers::Tokenizer;
use tokio::sync::Semaphore;
use url::{Host, Url};

/// The vendor's own address.
pub const BASE_URL: &str = "https://api.openai.com/v1";
/// What stands before the model's name in `embedding.model`.
pub const PREFIX: &str = "openai:";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is read: 2048 vectors of 3072 numbers as text are less.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// The longest wait before the first retry, doubled each time; and what a server may ask for at most.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(8);
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Where the server is and what may be asked of it.
#[derive(Clone, Debug)]
pub struct OpenAiEmbedderOptions {
    /// With or without `/v1`.
    pub base_url: String,
    pub api_key: Option<Secret>,
    /// As the server knows it.
    pub model: String,
    /// Asked for in each request; `None`: what the model makes by itself.
    pub dimension: Option<usize>,
    /// Tokens that the model reads, by our own estimate.
    pub window: usize,
    /// Texts in one request.
    pub batch: usize,
    /// Requests at the same time, for each priority.
    pub parallel: usize,
    pub timeout: Duration,
    pub max_retries: u32,
    pub query_prefix: String,
    pub passage_prefix: String,
}

/// A server's embedding model.
pub struct OpenAiEmbedder {
    model: EmbeddingModel,
    endpoint: Endpoint,
    batch: usize,
    parallel: usize,
    turn: Semaphore,
    bulk: Semaphore,
}

struct Endpoint {
    client: Client,
    url: Url,
    key: Option<(Secret, HeaderValue)>,
    model: String,
    dimension: Option<usize>,
    timeout: Duration,
    max_retries: u32,
}

/// Why a request failed, and whether to send it again.
struct Failure {
    error: EmbedError,
    again: bool,
    after: Option<Duration>,
}

impl OpenAiEmbedder {
    /// Asks the server for the length of its vectors. `remembered`: the length that collections of this model have;
    /// it stands where the server does not answer now.
    ///
    /// # Errors
    /// Where the address or the key cannot be used, or nobody knows the length.
    pub async fn connect(options: OpenAiEmbedderOptions, remembered: Option<usize>) -> Result<Self, EmbedError> {
        let url = endpoint(&options.base_url)?;
        let key = match options.api_key {
            None => None,
            Some(key) => Some((key.clone(), bearer(&key)?)),
        };
        let endpoint = Endpoint {
            client: client(&url)?,
            url,
            key,
            model: options.model.clone(),
            dimension: options.dimension,
            timeout: options.timeout,
            max_retries: options.max_retries,
        };
        let dimension = match options.dimension {
            Some(dimension) => dimension,
            None => match (endpoint.ask(&["dimension".to_owned()]).await, remembered) {
                (Ok(found), _) => found.first().map_or(0, Vec::len),
                (Err(error), Some(dimension)) => {
                    tracing::warn!(%error, embed.model = options.model, "the embedding server does not answer now");
                    dimension
                }
                (Err(error), None) => {
                    let help = "the length of its vectors is not known: start that server, or set \
                                embedding.openai.dimension";
                    return Err(EmbedError::Unavailable(format!("{error}; {help}")));
                }
            },
        };
        let parallel = options.parallel.max(1);
        Ok(Self {
            model: EmbeddingModel {
                name: prefixes::marked(&format!("{PREFIX}{}", options.model), &options.model, &options.passage_prefix),
                dimension,
                window: options.window,
                query_prefix: options.query_prefix,
                passage_prefix: options.passage_prefix,
            },
            endpoint,
            batch: options.batch.max(1),
            parallel,
            turn: Semaphore::new(parallel),
            bulk: Semaphore::new(parallel),
        })
    }

    async fn batch(&self, texts: &[String], priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        let gate = match priority {
            Priority::Turn => &self.turn,
            Priority::Bulk => &self.bulk,
        };
        // The gate is never closed.
        let _permit = gate.acquire().await.map_err(|error| EmbedError::Failed(error.to_string()))?;
        let found = self.endpoint.ask(texts).await?;
        match found.iter().find(|vector| vector.len() != self.model.dimension) {
            None => Ok(found),
            Some(other) => Err(EmbedError::Failed(format!(
                "{} now makes {} numbers, not {}: the server runs another model under this name",
                self.model.name,
                other.len(),
                self.model.dimension
            ))),
        }
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    fn tokenizer(&self) -> Result<Arc<Tokenizer>, EmbedError> {
        estimate::tokenizer()
    }

    async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Vec<f32>>, EmbedError> {
        let batches = texts.chunks(self.batch).map(|texts| self.batch(texts, priority)).collect::<Vec<_>>();
        let found: Vec<Vec<Vec<f32>>> = stream::iter(batches).buffered(self.parallel).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

impl Endpoint {
    /// Vectors for the texts of one request, which is sent again while that may help.
    async fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let question = wire::Question { model: &self.model, input: texts, dimensions: self.dimension };
        let body = serde_json::to_vec(&question).map_err(|error| EmbedError::Failed(error.to_string()))?;
        let body = bytes::Bytes::from(body);
        let mut attempt = 0;
        loop {
            let failure = match self.send(body.clone(), texts.len()).await {
                Ok(found) => return Ok(found),
                Err(failure) => failure,
            };
            attempt += 1;
            if !failure.again || attempt > self.max_retries {
                return Err(failure.error);
            }
            // A random part of the wait keeps clients from coming back together.
            let doubled = FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_WAIT);
            let wait = failure.after.map_or_else(|| doubled.mul_f64(rand::random()), |asked| asked.min(LONGEST_ASKED));
            tracing::debug!(error = %failure.error, attempt, wait_ms = wait.as_millis(), "embedding is tried again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn send(&self, body: bytes::Bytes, count: usize) -> Result<Vec<Vec<f32>>, Failure> {
        let host = self.url.host_str().unwrap_or_default();
        let broken = |what: &str| Failure {
            error: EmbedError::Unavailable(format!("the embedding server {host} {what}")),
            again: true,
            after: None,
        };
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some((_, value)) = &self.key {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let answered = async {
            let response =
                request.send().await.map_err(|error| broken(&format!("cannot be reached: {}", cause(&error))))?;
            let status = response.status();
            let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
            let limit = if status.is_success() { MAX_ANSWER_BYTES } else { MAX_ERROR_BYTES };
            let read = read(response, limit).await;
            if !status.is_success() {
                let refused = wire::refusal(status.as_u16(), asked.as_deref(), &read.unwrap_or_default());
                let said = self.key.as_ref().map_or(refused.message.clone(), |(key, _)| key.mask(&refused.message));
                let error = EmbedError::Unavailable(format!("the embedding server {host} refuses: {said}"));
                return Err(Failure { error, again: refused.again, after: refused.after });
            }
            read.map_err(|why| broken(&format!("broke off: {why}")))
        };
        let late =
            || broken(&format!("did not answer within {} ms (embedding.openai.timeout_ms)", self.timeout.as_millis()));
        let body = tokio::time::timeout(self.timeout, answered).await.map_err(|_| late())??;
        wire::vectors(&body, count).map_err(|error| Failure { error, again: false, after: None })
    }
}

fn client(url: &Url) -> Result<Client, EmbedError> {
    // Fails only if the process has one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        // A key must not follow a redirect.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("tailrace/", env!("CARGO_PKG_VERSION")));
    // To this machine without TLS: no proxy, and no certificates, which take time and memory to load.
    let local = url.scheme() == "http" && is_loopback(url);
    let built = if local { builder.no_proxy().tls_certs_only([]).build() } else { builder.build() };
    built.map_err(|error| EmbedError::Failed(format!("no HTTP client can be made: {}", cause(&error))))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// `embeddings` below a base URL that may or may not end in a version.
fn endpoint(base_url: &str) -> Result<Url, EmbedError> {
    let wrong = |why: &str| EmbedError::Failed(format!("embedding.openai.base_url {why}"));
    let mut url = Url::parse(base_url.trim()).map_err(|error| wrong(&format!("is not valid: {error}")))?;
    let is_version =
        |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let versioned = url.path_segments().into_iter().flatten().any(is_version);
    let mut segments = url.path_segments_mut().map_err(|()| wrong("cannot have a path"))?;
    segments.pop_if_empty();
    if !versioned {
        segments.push("v1");
    }
    segments.push("embeddings");
    drop(segments);
    Ok(url)
}

fn bearer(key: &Secret) -> Result<HeaderValue, EmbedError> {
    let unfit =
        |_| EmbedError::Failed("the embedding server's key holds characters that no header can carry".to_owned());
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(unfit)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The body, if it is not longer than `limit`.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| cause(&error))? {
        if body.len() + bytes.len() > limit {
            return Err(format!("its answer has more than {limit} bytes"));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

/// The innermost reason: the outer ones only say that something failed, and name the address.
fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_may_have_its_version_or_not() {
        for (base, want) in [
            ("https://api.openai.com", "https://api.openai.com/v1/embeddings"),
            (BASE_URL, "https://api.openai.com/v1/embeddings"),
            ("http://localhost:8080/v1/", "http://localhost:8080/v1/embeddings"),
            ("https://host/api/paas/v4", "https://host/api/paas/v4/embeddings"),
        ] {
            assert_eq!(endpoint(base).unwrap().as_str(), want, "{base}");
        }
        assert!(endpoint("not an address").is_err());
    }
}
