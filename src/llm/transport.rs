//! HTTP to language models: the one place of `llm/` that knows `reqwest`. A request goes out, the
//! body comes back as an [`EventStream`] (see `answer.rs`). A key never leaves for another host than
//! the configured one, and no error shows it.

use super::answer::{Answer, Upstream, Waits, late, mask};
use super::decode::WireDecoder;
use super::{EventStream, LlmError, LlmErrorKind, failure};
use crate::secret::Secret;
use futures_util::stream::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Host, Url};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an error body is read, and for how long.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a small JSON answer is read.
const MAX_JSON_BYTES: usize = 1024 * 1024;
#[derive(Clone, Copy, Debug)]
pub struct TransportOptions {
    /// `llm.first_byte_timeout_ms`: from sending to the first byte of the answer's body.
    pub first_byte_timeout: Duration,
    /// `llm.idle_timeout_ms`: between two reads after that.
    pub idle_timeout: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self { first_byte_timeout: Duration::from_secs(120), idle_timeout: Duration::from_secs(45) }
    }
}

/// The pooled connections to providers.
#[derive(Debug)]
pub struct Transport {
    options: TransportOptions,
    /// To this machine without TLS: no proxy, and no certificates, which take time and memory to load.
    local: OnceLock<Result<Client, String>>,
    /// To others, through the proxy that the environment names.
    remote: OnceLock<Result<Client, String>>,
}

/// Headers of a request, made by [`headers`].
pub type Headers = HeaderMap;

/// A request that is answered by an event stream.
#[derive(Debug)]
pub struct Post {
    pub url: Url,
    /// Beside the content type.
    pub headers: Headers,
    pub json: Vec<u8>,
    /// Whatever looks like it is masked in errors.
    pub key: Option<Secret>,
}

impl Transport {
    pub fn new(options: TransportOptions) -> Self {
        // Fails only if the process has one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { options, local: OnceLock::new(), remote: OnceLock::new() }
    }

    /// Makes the client for `url` ready: certificates are read from disk, which does not belong on a
    /// runtime thread. Providers call it when they are built.
    pub fn prepare(&self, url: &Url) -> Result<(), LlmError> {
        self.client(url).map(|_| ())
    }

    fn client(&self, url: &Url) -> Result<&Client, LlmError> {
        let local = is_loopback(url) && url.scheme() == "http";
        let cell = if local { &self.local } else { &self.remote };
        cell.get_or_init(|| build(local).map_err(|error| cause(&error)))
            .as_ref()
            .map_err(|why| LlmError::new(LlmErrorKind::Transport, format!("no HTTP client can be made: {why}")))
    }

    /// Sends and returns when the head of the answer is there. `Err`: it could not be sent, was not
    /// answered in time, or was answered with an error; later failures are events.
    pub async fn post<W: WireDecoder>(&self, post: Post, wire: W) -> Result<EventStream, LlmError> {
        let key = post.key.clone();
        let masked = |error| mask(error, key.as_ref());
        let host = host_of(&post.url);
        let first_byte_by = Instant::now() + self.options.first_byte_timeout;
        let request = self
            .client(&post.url)
            .map_err(masked)?
            .request(Method::POST, post.url)
            .headers(post.headers)
            .header(ACCEPT, "text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(post.json);
        let response = timeout_at(first_byte_by, request.send())
            .await
            .map_err(|_| late(&host, self.options.first_byte_timeout))
            .and_then(|sent| sent.map_err(|error| unreachable(&host, error)))
            .map_err(masked)?;
        if !response.status().is_success() {
            return Err(masked(refused(response, &host).await));
        }
        if media_type(&response).is_some_and(|kind| kind.eq_ignore_ascii_case("text/html")) {
            return Err(LlmError::new(
                LlmErrorKind::Decode,
                format!("{host} answered with a web page, not with an event stream"),
            ));
        }
        let body = response.bytes_stream().map(|read| read.map_err(|error| cause(&error.without_url())));
        let waits = Waits { first_byte: self.options.first_byte_timeout, idle: self.options.idle_timeout };
        Ok(Answer::new(body.boxed(), wire, first_byte_by, waits, Upstream { host, key }).boxed())
    }

    /// A small JSON document of a server on this machine, or `None` on any failure, after `limit` at
    /// the latest.
    pub async fn get_local_json(&self, url: &Url, limit: Duration) -> Option<serde_json::Value> {
        if !is_loopback(url) {
            return None;
        }
        let request = self.client(url).ok()?.request(Method::GET, url.clone());
        let read = async {
            let response = request.send().await.ok().filter(|response| response.status().is_success())?;
            serde_json::from_slice(&read_some(response, MAX_JSON_BYTES).await).ok()
        };
        timeout(limit, read).await.ok().flatten()
    }
}

fn build(local: bool) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        // A key must not follow a redirect, and a request that was accepted must not be sent twice.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // A compressed stream waits until a block is full.
        .no_gzip()
        .no_brotli()
        .user_agent(concat!("tailrace/", env!("CARGO_PKG_VERSION")));
    if local { builder.no_proxy().tls_certs_only([]).build() } else { builder.build() }
}

/// The address of `path` (`chat/completions`) below a base URL that may or may not end in `/v1`. A
/// base URL that has a version of its own (`/api/paas/v4`, `/v1beta/openai`) keeps it.
pub fn endpoint(base_url: &str, path: &str) -> Result<Url, LlmError> {
    let wrong = |why: &str| LlmError::new(LlmErrorKind::BadRequest, format!("the provider's base URL {why}"));
    let mut url = Url::parse(base_url.trim()).map_err(|error| wrong(&format!("is not valid: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("must begin with http:// or https:// and a host"));
    }
    let versioned = url.path_segments().into_iter().flatten().any(is_version);
    let mut segments = url.path_segments_mut().map_err(|()| wrong("cannot have a path"))?;
    segments.pop_if_empty();
    if !versioned {
        segments.push("v1");
    }
    segments.extend(path.split('/'));
    drop(segments);
    Ok(url)
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether `url` can only mean this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        None => false,
    }
}

/// Headers of a provider: fixed ones, and the one that carries the key, which debug output hides.
pub fn headers(
    fixed: &[(&'static str, &'static str)],
    key: Option<(&'static str, String)>,
) -> Result<Headers, LlmError> {
    let mut headers: HeaderMap =
        fixed.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    if let Some((name, value)) = key {
        let unfit =
            |_| LlmError::new(LlmErrorKind::Auth, "the provider's key holds characters that no header can carry");
        let mut value = HeaderValue::from_str(&value).map_err(unfit)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn media_type(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok()?.split(';').next().map(str::trim)
}

async fn refused(response: Response, host: &str) -> LlmError {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let now = jiff::Timestamp::now().as_second();
    let retry_after = failure::retry_after(header("retry-after").as_deref(), header("retry-after-ms").as_deref(), now);
    let status = response.status();
    if status.is_redirection() {
        return LlmError::new(
            LlmErrorKind::BadRequest,
            format!(
                "{host} answered with a redirect (HTTP {}): the base URL must name the API itself",
                status.as_u16()
            ),
        );
    }
    let body = timeout(ERROR_BODY_TIMEOUT, read_some(response, MAX_ERROR_BYTES)).await.unwrap_or_default();
    failure::from_http(status.as_u16(), retry_after, &String::from_utf8_lossy(&body))
}

/// At most `limit` bytes of the body; what came before a failure counts.
async fn read_some(mut response: Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let room = limit - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() >= room {
            break;
        }
    }
    body
}

fn unreachable(host: &str, error: reqwest::Error) -> LlmError {
    let what = if error.is_connect() { "cannot be reached" } else { "did not take the request" };
    LlmError::new(LlmErrorKind::Transport, format!("{host} {what}: {}", cause(&error.without_url())))
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The innermost reason: the outer ones only say that something failed.
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
    fn a_base_url_may_have_its_version_or_not() {
        for (base, want) in [
            ("https://api.openai.com", "https://api.openai.com/v1/chat"),
            ("https://api.openai.com/", "https://api.openai.com/v1/chat"),
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat"),
            (" http://localhost:8080/v1/ ", "http://localhost:8080/v1/chat"),
            ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat"),
            ("https://host/api/paas/v4", "https://host/api/paas/v4/chat"),
            ("https://host/v1beta/openai/", "https://host/v1beta/openai/chat"),
            ("http://[::1]:1/vendor", "http://[::1]:1/vendor/v1/chat"),
        ] {
            assert_eq!(endpoint(base, "chat").unwrap().as_str(), want, "{base}");
        }
        for base in ["", "localhost:8080", "ftp://host", "host", "file:///v1"] {
            assert!(endpoint(base, "chat").is_err(), "{base}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (url, local) in [
            ("http://localhost:1", true),
            ("http://127.0.0.1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
            ("http://0.0.0.0", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), local, "{url}");
        }
    }
}
