//! `fetch_url` over the wire. The test server stands on loopback, so it is reached only through
//! `allow_hosts`: every other address that a test names must stay unreachable.

mod answers;
mod crawl;
mod files;
mod hostile;

use crate::upstream::{PATIENCE, Script, Upstream};
use serde_json::json;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tailrace::config::Urls;
use tailrace::knowledge::pending::PendingIngests;
use tailrace::tools::fetch_url::{FetchUrl, FetchUrlOptions, Lookup};
use tailrace::tools::{Tool, ToolContext, ToolError, ToolOutput};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A turn that knows of no URL yet.
fn context() -> ToolContext {
    ToolContext {
        turn_id: uuid::Uuid::now_v7(),
        conversation_id: uuid::Uuid::now_v7(),
        collections: Arc::from(["default".to_owned()]),
        sources: Arc::default(),
        seen_urls: Arc::default(),
        pending: PendingIngests::default(),
        cancel: tokio_util::sync::CancellationToken::new(),
    }
}

async fn call(tool: &FetchUrl, url: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
    let arguments = json!({ "url": url }).as_object().expect("an object").clone();
    tokio::time::timeout(PATIENCE, tool.call(arguments, context)).await.expect("a fetch always ends")
}

/// Fetches in a turn of its own.
async fn fetch(tool: &FetchUrl, url: &str) -> Result<ToolOutput, ToolError> {
    call(tool, url, &context()).await
}

/// A tool for which only this server is let through.
fn tool(server: &Upstream, change: impl FnOnce(&mut FetchUrlOptions)) -> FetchUrl {
    let host = server.base_url().trim_start_matches("http://").parse().expect("host:port");
    let mut options = FetchUrlOptions { urls: Urls::Any, allow_hosts: vec![host], ..FetchUrlOptions::default() };
    change(&mut options);
    FetchUrl::new(options, Names::default().lookup())
}

/// A scripted DNS: each question takes the next answer, the last one stays.
#[derive(Clone, Default)]
struct Names {
    answers: Arc<Vec<Vec<String>>>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    fn answering(answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|&ip| ip.to_owned()).collect()).collect();
        Self { answers: Arc::new(answers), asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn lookup(&self) -> Lookup {
        let names = self.clone();
        Arc::new(move |_, port| {
            let n = names.asked.fetch_add(1, Ordering::SeqCst);
            let answer = names.answers.get(n).or(names.answers.last()).cloned().unwrap_or_default();
            let found = answer.iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), port)).collect();
            Box::pin(std::future::ready(io::Result::Ok(found)))
        })
    }
}

/// A listener that nobody may ever reach.
struct Canary {
    port: u16,
    seen: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

impl Canary {
    /// On 127.0.0.1 and, where the machine has it, on the same port of ::1.
    async fn start() -> Self {
        let first = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let port = first.local_addr().expect("bound").port();
        Self::on([Ok(first), TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await], port)
    }

    fn on(listeners: impl IntoIterator<Item = io::Result<TcpListener>>, port: u16) -> Self {
        let (count, seen) = watch::channel(0);
        let mut tasks = JoinSet::new();
        for listener in listeners.into_iter().flatten() {
            let count = count.clone();
            tasks.spawn(async move {
                let mut kept = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    kept.push(stream);
                    count.send_modify(|n| *n += 1);
                }
            });
        }
        Self { port, seen, _tasks: tasks }
    }

    /// Connects itself and waits to be counted: whoever came before would be counted too.
    async fn assert_unseen(&mut self) {
        let mut probes = Vec::new();
        for ip in ["127.0.0.1", "::1"] {
            if let Ok(mut probe) = TcpStream::connect((ip, self.port)).await {
                probe.write_all(b"probe").await.expect("the canary listens");
                probes.push(probe);
            }
        }
        assert!(!probes.is_empty(), "the canary is deaf");
        let all = self.seen.wait_for(|n| *n >= probes.len());
        let all = *tokio::time::timeout(PATIENCE, all).await.expect("counted").expect("the canary lives");
        assert_eq!(all, probes.len(), "somebody reached the canary");
    }
}

/// A page with a title and one paragraph.
fn page(title: &str, text: &str) -> Script {
    let html = format!("<html><head><title>{title}</title></head><body><main><p>{text}</p></main></body></html>");
    Script::body(200, "text/html; charset=utf-8", html)
}

fn redirect(status: u16, location: &str) -> Script {
    Script { status, headers: vec![("location".into(), location.into())], steps: Vec::new() }
}
