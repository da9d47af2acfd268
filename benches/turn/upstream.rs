//! A model server on loopback that stamps what it sends, and a page server that stamps when it is asked.
//!
//! What to send stands in the user's message as `BENCH {json}`; see [`Order`].

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// What one turn's upstream does in its first round. The second round answers one word.
#[derive(Clone, Debug, Deserialize)]
pub struct Order {
    pub id: String,
    /// Deltas, each the time it was sent.
    pub deltas: usize,
    pub gap_us: u64,
    /// Before which delta a call of `fetch_url` stands, and its URL.
    pub call: Option<(usize, String)>,
}

/// When the rounds of a turn were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub first: Instant,
    pub second: Instant,
}

type Times = Arc<Mutex<HashMap<String, Vec<Instant>>>>;

pub struct Upstream {
    pub address: String,
    asked: Times,
    _server: JoinSet<()>,
}

/// Nanoseconds since 1970: the same clock in every process.
pub fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Times::default();
        let mut server = JoinSet::new();
        let seen = Arc::clone(&asked);
        server.spawn(async move {
            let mut tasks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                tasks.spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        Self { address, asked, _server: server }
    }

    /// When both rounds of a finished turn were asked for.
    pub fn asked(&self, id: &str) -> Asked {
        let asked = self.asked.lock().unwrap();
        let times = &asked[id];
        Asked { first: times[0], second: times[1] }
    }
}

async fn serve(mut stream: TcpStream, asked: Times) {
    stream.set_nodelay(true).unwrap();
    let mut unread = Vec::new();
    while let Some((path, body)) = request(&mut stream, &mut unread).await {
        let now = Instant::now();
        let order = order(&body);
        let round = {
            let mut asked = asked.lock().unwrap();
            let times = asked.entry(order.id.clone()).or_default();
            times.push(now);
            times.len()
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let wire = Wire { anthropic: path.ends_with("/messages"), native: body["tools"].is_array() };
        if stream.write_all(head.as_bytes()).await.is_err() || answer(&mut stream, wire, &order, round).await.is_err() {
            return;
        }
    }
}

#[derive(Clone, Copy)]
struct Wire {
    anthropic: bool,
    native: bool,
}

impl Wire {
    fn begin(self) -> String {
        if !self.anthropic {
            return String::new();
        }
        let message =
            json!({"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 1}});
        named(&json!({"type": "message_start", "message": message}))
            + &named(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))
    }

    fn text(self, text: &str) -> String {
        if self.anthropic {
            let delta = json!({"type": "text_delta", "text": text});
            return named(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        plain(&json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
    }

    fn call(self, url: &str) -> String {
        let arguments = json!({"url": url}).to_string();
        if !self.native {
            return self.text(&format!("<tool name=\"fetch_url\">{arguments}</tool>"));
        }
        if self.anthropic {
            let block = json!({"type": "tool_use", "id": "c1", "name": "fetch_url", "input": {}});
            let delta = json!({"type": "input_json_delta", "partial_json": arguments});
            return named(&json!({"type": "content_block_start", "index": 1, "content_block": block}))
                + &named(&json!({"type": "content_block_delta", "index": 1, "delta": delta}));
        }
        let function = json!({"name": "fetch_url", "arguments": arguments});
        let call = json!({"index": 0, "id": "c1", "type": "function", "function": function});
        plain(&json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
    }

    fn end(self, called: bool) -> String {
        let tools = called && self.native;
        if self.anthropic {
            let stop = if tools { "tool_use" } else { "end_turn" };
            let delta = json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}});
            return named(&delta) + &named(&json!({"type": "message_stop"}));
        }
        let stop = if tools { "tool_calls" } else { "stop" };
        plain(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})) + "data: [DONE]\n\n"
    }
}

fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn named(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

async fn answer(stream: &mut TcpStream, wire: Wire, order: &Order, round: usize) -> std::io::Result<()> {
    send(stream, &wire.begin()).await?;
    if round > 1 {
        send(stream, &wire.text("Done.")).await?;
        send(stream, &wire.end(false)).await?;
        return stream.write_all(b"0\r\n\r\n").await;
    }
    let began = tokio::time::Instant::now();
    for i in 0..order.deltas {
        tokio::time::sleep_until(began + Duration::from_micros(order.gap_us * i as u64)).await;
        if let Some((at, url)) = &order.call
            && *at == i
        {
            let url = url.replace("STAMP", &now_ns().to_string());
            send(stream, &wire.call(&url)).await?;
        }
        send(stream, &wire.text(&format!("{} ", now_ns()))).await?;
    }
    send(stream, &wire.end(order.call.is_some())).await?;
    stream.write_all(b"0\r\n\r\n").await
}

async fn send(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

/// The order in the user's message; tool results of later rounds come after it.
fn order(body: &Value) -> Order {
    fn find(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) if text.contains("BENCH ") => Some(text),
            Value::Array(items) => items.iter().find_map(find),
            Value::Object(fields) => fields.values().find_map(find),
            _ => None,
        }
    }
    let text = find(&body["messages"]).expect("a request without an order");
    let json = text.split("BENCH ").nth(1).unwrap();
    serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap()
}

/// Path and JSON body of the next request on the connection.
async fn request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, Value)> {
    loop {
        if let Some(end) = unread.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
            let body = end + 4;
            if unread.len() >= body + length {
                let path = head.split_whitespace().nth(1)?.to_owned();
                let value = serde_json::from_slice(&unread[body..body + length]).unwrap_or_default();
                unread.drain(..body + length);
                return Some((path, value));
            }
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Duration>>>>;

/// Answers `/<id>/<delay_ms>/<stamp>` after the delay, and notes how long after the stamp it was asked.
pub struct ToolServer {
    pub address: String,
    waiting: Waiting,
    _server: JoinSet<()>,
}

impl ToolServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let waiting = Waiting::default();
        let mut server = JoinSet::new();
        let told = Arc::clone(&waiting);
        server.spawn(async move {
            let mut tasks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // Once it connects, the tool has begun.
                tasks.spawn(page(stream, now_ns(), Arc::clone(&told)));
            }
        });
        Self { address, waiting, _server: server }
    }

    /// A URL that is answered after `delay`, and how long after its stamp it will have been asked.
    pub fn url(&self, id: &str, delay: Duration) -> (String, oneshot::Receiver<Duration>) {
        let (send, receive) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.to_owned(), send);
        (format!("http://{}/{id}/{}/STAMP", self.address, delay.as_millis()), receive)
    }
}

async fn page(mut stream: TcpStream, accepted: u128, told: Waiting) {
    let mut unread = Vec::new();
    while !unread.windows(4).any(|w| w == b"\r\n\r\n") {
        if stream.read_buf(&mut unread).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&unread).into_owned();
    let parts: Vec<&str> = head.split_whitespace().nth(1).unwrap_or_default().split('/').collect();
    let [_, id, delay, stamp] = parts.as_slice() else { return };
    let since = accepted.saturating_sub(stamp.parse().unwrap_or(accepted));
    if let Some(tell) = told.lock().unwrap().remove(*id) {
        let _ = tell.send(Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX)));
    }
    tokio::time::sleep(Duration::from_millis(delay.parse().unwrap_or(0))).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\nconnection: close\r\n\r\n";
    drop(stream.write_all(format!("{head}A page.").as_bytes()).await);
}
