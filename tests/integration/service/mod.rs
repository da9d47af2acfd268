//! The whole program as a black box: the binary serves on a free port, a scripted provider answers it, and
//! the tests speak HTTP.

mod approve;
mod care;
mod chat;
mod claims;
mod commands;
mod conversations;
mod crash;
mod documents;
mod eval;
mod faults;
mod formats;
mod guard;
mod hostile;
mod ingesting;
mod jobs;
mod keys;
mod kills;
mod leaving;
mod lifecycle;
mod local;
mod locked;
mod logs;
mod resume;
mod runtime;
mod search;
mod slow;
mod socket;
mod stop;
mod versions;
mod web;
mod window;
mod ws;

use crate::upstream::Upstream;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Longest wait for the program to say that it listens, or for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where `scripts/assets` has put the models.
pub fn models() -> PathBuf {
    let folder = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    assert!(
        folder.join("all-minilm-l6-v2").exists(),
        "there are no models in {}: run scripts/assets",
        folder.display()
    );
    folder
}

/// The program with nothing of this process's environment that could change it.
pub fn tailrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailrace"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("TAILRACE__MODELS__DIR", models()).env("TAILRACE__LOG__LEVEL", "warn").kill_on_drop(true);
    command
}

pub struct Service {
    pub url: String,
    pub data: std::sync::Arc<TempDir>,
    pub client: reqwest::Client,
    pub child: Child,
}

impl Service {
    /// The built-in deterministic provider, everything else by default.
    pub async fn start() -> Self {
        Self::with(&[("TAILRACE__LLM__PROVIDER", "extractive")]).await
    }

    /// Answers come from the scripted provider over OpenAI's wire.
    pub async fn behind(upstream: &Upstream, env: &[(&str, &str)]) -> Self {
        let mut all = vec![("OPENAI_BASE_URL", upstream.base_url()), ("OPENAI_API_KEY", "sk-test-not-a-key")];
        all.extend_from_slice(env);
        Self::with(&all).await
    }

    pub async fn with(env: &[(&str, &str)]) -> Self {
        let data = std::sync::Arc::new(tempfile::tempdir().unwrap());
        Self::on(data, env).await
    }

    /// Serves from a folder that a test keeps.
    pub async fn on(data: std::sync::Arc<TempDir>, env: &[(&str, &str)]) -> Self {
        Self::spawn(data, env, Stdio::inherit()).await
    }

    /// The same; what is logged goes where the test wants it.
    pub async fn on_with_stderr(data: std::sync::Arc<TempDir>, stderr: Stdio, env: &[(&str, &str)]) -> Self {
        Self::spawn(data, env, stderr).await
    }

    async fn spawn(data: std::sync::Arc<TempDir>, env: &[(&str, &str)], stderr: Stdio) -> Self {
        let mut child = tailrace()
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("the program did not start").unwrap();
        let line = line.expect("the program ended before it listened");
        let url = line.split_whitespace().find(|w| w.starts_with("http://")).unwrap();
        let url = url.trim_end_matches([';', ',', '.']).to_owned();
        // Only the first of many tests installs it; the others find it there.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { url, data, client, child }
    }

    pub fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).json(body)
    }

    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    pub fn delete(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.delete(format!("{}{path}", self.url))
    }

    /// A whole turn as frames.
    pub async fn chat(&self, body: Value) -> Frames {
        let response = self.post("/api/v1/chat", &body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{body}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Frames::parse(&response.text().await.unwrap())
    }

    /// Puts a text into `default` and waits until it can be found.
    pub async fn ingest(&self, uri: &str, text: &str) -> Value {
        let body = serde_json::json!({"documents": [{"uri": uri, "text": text}]});
        let response = self.post("/api/v1/collections/default/documents?wait=true", &body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{uri}");
        response.json().await.unwrap()
    }

    pub async fn search(&self, collection: &str, query: &str) -> Vec<Value> {
        let body = serde_json::json!({"query": query});
        let path = format!("/api/v1/collections/{collection}/search");
        let response = self.post(&path, &body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{query}");
        response.json::<Value>().await.unwrap()["hits"].as_array().unwrap().clone()
    }
}

/// One parsed frame: name and payload.
#[derive(Debug)]
pub struct Frame {
    pub event: Option<String>,
    pub data: Value,
}

#[derive(Debug)]
pub struct Frames {
    pub all: Vec<Frame>,
}

impl Frames {
    /// Checks what holds for every turn (invariant 7): ids dense from 1, exactly one `turn_end`, exactly one
    /// `[DONE]`, which is last.
    pub fn parse(body: &str) -> Self {
        let mut all = Vec::new();
        let mut done = 0;
        for block in body.split("\n\n").filter(|b| !b.is_empty() && !b.starts_with(':')) {
            assert_eq!(done, 0, "a frame after [DONE]: {block}");
            let field = |name: &str| block.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
            let data = field("data: ").unwrap();
            if data == "[DONE]" {
                done += 1;
                assert!(field("id: ").is_none());
                continue;
            }
            let id = field("id: ").map(|i| i.parse().unwrap());
            assert_eq!(id, Some(all.len() + 1), "{block}");
            all.push(Frame { event: field("event: "), data: serde_json::from_str(&data).unwrap() });
        }
        assert_eq!(done, 1, "{body}");
        let frames = Self { all };
        assert_eq!(frames.named("turn_end").len(), 1);
        assert_eq!(frames.all.last().unwrap().event.as_deref(), Some("turn_end"));
        frames
    }

    pub fn named(&self, name: &str) -> Vec<&Value> {
        self.all.iter().filter(|f| f.event.as_deref() == Some(name)).map(|f| &f.data).collect()
    }

    pub fn text(&self) -> String {
        self.all.iter().filter(|f| f.event.is_none()).filter_map(|f| f.data.as_str()).collect()
    }

    pub fn end(&self) -> &Value {
        self.named("turn_end")[0]
    }

    pub fn conversation(&self) -> String {
        self.named("turn_start")[0]["conversation_id"].as_str().unwrap().to_owned()
    }
}
