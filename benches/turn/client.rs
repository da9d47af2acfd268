//! Streams that are read as they come; each delta carries the time it was sent.

use super::process::Side;
use super::upstream::now_ns;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that no other turn of this run has.
pub fn new_id() -> String {
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How a turn is asked for.
#[derive(Clone, Copy)]
pub struct Asking {
    /// `inline`, `native`, `off`.
    pub mode: &'static str,
    pub provider: &'static str,
}

/// Opens `streams` at once and returns the delay of every delta in microseconds.
pub async fn streams(side: &Side, streams: usize, deltas: usize, gap: Duration) -> Vec<f64> {
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let gap_us = u64::try_from(gap.as_micros()).unwrap();
        let order = json!({"id": new_id(), "deltas": deltas, "gap_us": gap_us, "call": null}).to_string();
        let asking = Asking { mode: "inline", provider: "openai" };
        tasks.spawn(turn(side.address.clone(), side.tailrace, order, asking));
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Asks for a turn.
pub async fn ask(address: &str, tailrace: bool, order: &str, asking: Asking) -> TcpStream {
    let message = format!("BENCH {order}");
    let (path, body) = if tailrace {
        let Asking { mode, provider } = asking;
        let body = json!({"message": message, "retrieval": "off", "tool_mode": mode, "provider": provider});
        ("/api/v1/chat", body)
    } else {
        let messages = json!([{"role": "user", "content": message}]);
        ("/v1/chat/completions", json!({"model": "m", "stream": true, "messages": messages}))
    };
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    stream
}

/// A whole turn; its id.
pub async fn turn_from(address: &str, order: &str) -> String {
    let mut stream = ask(address, true, order, Asking { mode: "inline", provider: "openai" }).await;
    let mut seen = Vec::new();
    while !seen.windows(6).any(|w| w == b"[DONE]") {
        assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
    }
    let text = String::from_utf8_lossy(&seen);
    text.split("\"turn_id\":\"").nth(1).unwrap()[..36].to_owned()
}

/// One turn to its end; the delays of its deltas in microseconds.
pub async fn turn(address: String, tailrace: bool, order: String, asking: Asking) -> Vec<f64> {
    let mut stream = ask(&address, tailrace, &order, asking).await;
    let mut delays = Vec::new();
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut read = 0;
    loop {
        if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
            return delays;
        }
        let now = now_ns();
        while let Some(at) = buffer[read..].windows(2).position(|w| w == b"\n\n") {
            let event = &buffer[read..read + at];
            read += at + 2;
            if let Some(sent) = stamp(event) {
                delays.push(now.saturating_sub(sent) as f64 / 1000.0);
            }
            if event.ends_with(b"data: [DONE]") {
                return delays;
            }
        }
    }
}

/// The stamp in a delta: 19 digits behind `"content":"` or `data: "`.
fn stamp(event: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(event).ok()?;
    let at = ["\"content\":\"", "data: \""].iter().find_map(|mark| text.find(mark).map(|at| at + mark.len()))?;
    let digits = text[at..].split(|c: char| !c.is_ascii_digit()).next()?;
    if digits.len() < 19 { None } else { digits.parse().ok() }
}
