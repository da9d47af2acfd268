//! The same commands through a server that runs already: it holds the data folder, so a second process
//! asks it instead of opening the folder.

use super::Failure;
use crate::config::Config;
use crate::llm::sse::{SseDecoder, SseEvent};
use crate::secret::Secret;
use crate::storage::StorageError;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Map, Value};
use std::net::Ipv4Addr;

/// The server at `server.listen`. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    url: String,
    key: Option<Secret>,
    client: Client,
}

impl Remote {
    /// `Some` where `error` says that another process, so the server, holds the data folder.
    pub fn instead(error: &Failure, config: &Config) -> Option<Self> {
        match error.downcast_ref::<StorageError>() {
            Some(StorageError::FolderInUse(_)) => Self::new(config).ok(),
            _ => None,
        }
    }

    pub fn new(config: &Config) -> Result<Self, Failure> {
        let mut address = config.server.listen;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        // Only the first caller in a process installs it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder().no_proxy().build()?;
        Ok(Self { url: format!("http://{address}"), key: config.server.admin_key.clone(), client })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        }
    }

    /// Sends JSON and reads JSON.
    pub async fn json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        Ok(self.sent(self.request(Method::POST, path).json(body)).await?.json().await?)
    }

    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.sent(self.request(Method::GET, path)).await?.json().await?)
    }

    pub async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.sent(self.request(Method::DELETE, path)).await.map(drop)
    }

    /// The response, or why there is none: the folder is held by a process that does not answer here.
    async fn sent(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| -> Failure {
            if !error.is_connect() {
                return error.into();
            }
            format!(
                "another process holds the data folder, and no server answers at {}: stop it, or name the address it \
                 listens on with `--set server.listen=ADDRESS`",
                self.url
            )
            .into()
        })?;
        accepted(response).await
    }

    /// Sends one file and reads what became of it.
    pub async fn upload(
        &self,
        path: &str,
        uri: &str,
        content: &[u8],
        metadata: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let border = uuid::Uuid::now_v7().simple().to_string();
        let name: String = uri.chars().map(|c| if c == '"' || c.is_control() { '_' } else { c }).collect();
        let about = serde_json::to_string(metadata)?;
        let about = format!("--{border}\r\ncontent-disposition: form-data; name=\"metadata\"\r\n\r\n{about}\r\n");
        let head = format!("--{border}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
        let end = format!("\r\n--{border}--\r\n");
        let body = [about.as_bytes(), head.as_bytes(), content, end.as_bytes()].concat();
        let kind = format!("multipart/form-data; boundary={border}");
        let request = self.request(Method::POST, path).header("content-type", kind).body(body);
        Ok(self.sent(request).await?.json().await?)
    }

    /// Streams a turn; each frame's name (`delta` for text) and payload. Dropping it cancels the turn where
    /// the body says `"on_disconnect": "cancel"`.
    pub async fn turn(&self, body: &Value, mut each: impl FnMut(&str, &Value)) -> Result<(), Failure> {
        let mut response = self.sent(self.request(Method::POST, "/api/v1/chat").json(body)).await?;
        let mut decoder = SseDecoder::new();
        let mut events: Vec<SseEvent> = Vec::new();
        while let Some(bytes) = response.chunk().await? {
            decoder.feed(&bytes, &mut events)?;
            for event in events.drain(..) {
                if event.data == "[DONE]" {
                    return Ok(());
                }
                let name = if event.event.is_empty() { "delta" } else { &event.event };
                each(name, &serde_json::from_str(&event.data)?);
            }
        }
        Err("the server closed the stream before the answer had ended".into())
    }
}

/// The server's no, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    status: StatusCode,
    detail: String,
}

impl Refused {
    /// Asking again would not help.
    pub fn for_good(&self) -> bool {
        self.status.is_client_error() && self.status != StatusCode::TOO_MANY_REQUESTS
    }
}

/// The response, or the problem's own words.
async fn accepted(response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem["detail"].as_str().map_or_else(|| format!("the server answered {status}"), str::to_owned);
    Err(Refused { status, detail }.into())
}
