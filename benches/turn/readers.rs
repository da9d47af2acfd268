//! What readers cost: memory for each that waits, what those that stop reading do to the others, and how soon one
//! that comes back has its next frame.

use super::client::{self, Asking, new_id, turn_from};
use super::process::{Side, median, percentile};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Memory per reader is the slope between these two numbers.
const FEW: usize = 500;
const MANY: usize = 5000;
/// Readers that stop reading.
const STOPPED: usize = 1000;
/// What their own system takes for them, in bytes: soon full, so that the server has to hold the rest.
const RECEIVE: u32 = 4 * 1024;
/// Until it and what the server's system holds are full.
const FILLING: Duration = Duration::from_secs(5);
const RESUMES: usize = 200;
/// Open files are limited: both ends of a connection are on this machine, but in two processes.
const ROUND: usize = 250;

/// KiB for each idle socket and for each reader of a turn that is silent.
pub async fn memory(tailrace: &Side) {
    println!("| idle reader | KiB each, from {FEW} to {MANY} |\n|---|---|");
    let socket = "GET /api/v1/ws HTTP/1.1\r\nhost: HOST\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                  sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    println!("| WebSocket | {:.1} |", slope(tailrace, socket).await);
    let silent = Begun::turn(tailrace, 2, Duration::from_secs(600)).await;
    let events = format!("GET /api/v1/turns/{}/events HTTP/1.1\r\nhost: HOST\r\n\r\n", silent.id);
    println!("| SSE | {:.1} |", slope(tailrace, &events).await);
}

async fn slope(side: &Side, request: &str) -> f64 {
    let mut open = Vec::new();
    connect(side, request, FEW, &mut open).await;
    let few = side.rss_kib();
    connect(side, request, MANY - FEW, &mut open).await;
    (side.rss_kib() - few) / (MANY - FEW) as f64
}

/// Each has answered with its head, and is not read any more.
async fn connect(side: &Side, request: &str, count: usize, open: &mut Vec<TcpStream>) {
    let request = request.replace("HOST", &side.address);
    for _ in 0..count.div_ceil(ROUND) {
        let mut tasks = JoinSet::new();
        for _ in 0..ROUND {
            let (address, request) = (side.address.clone(), request.clone());
            tasks.spawn(async move {
                let socket = TcpSocket::new_v4().unwrap();
                socket.set_recv_buffer_size(RECEIVE).unwrap();
                let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut head = [0; 512];
                let read = stream.read(&mut head).await.unwrap();
                assert!(head[..read].starts_with(b"HTTP/1.1 101") || head[..read].starts_with(b"HTTP/1.1 200"));
                stream
            });
        }
        open.extend(tasks.join_all().await);
    }
    // What was needed for connecting only is given back by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// A turn that runs, and the connection that began it.
struct Begun {
    id: String,
    _stream: TcpStream,
}

impl Begun {
    async fn turn(side: &Side, deltas: usize, gap: Duration) -> Self {
        let order = json!({"id": new_id(), "deltas": deltas, "gap_us": gap.as_micros(), "call": null}).to_string();
        let asking = Asking { mode: "inline", provider: "openai" };
        let mut stream = client::ask(&side.address, true, &order, asking).await;
        let mut seen = Vec::new();
        loop {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
            let text = String::from_utf8_lossy(&seen);
            if let Some(rest) = text.split("\"turn_id\":\"").nth(1).filter(|rest| rest.len() > 36) {
                return Self { id: rest[..36].to_owned(), _stream: stream };
            }
        }
    }
}

/// Others' delays while 1,000 readers of a busy turn have stopped reading, against the same without them.
pub async fn stopped(tailrace: &Side) {
    let gap = Duration::from_millis(10);
    let mut without = client::streams(tailrace, 16, 200, gap).await;
    let before = tailrace.rss_kib();
    // 300 deltas a second for the whole measurement: more than the systems' buffers hold.
    let busy = Begun::turn(tailrace, 12_000, Duration::from_micros(3300)).await;
    let request = format!("GET /api/v1/turns/{}/events HTTP/1.1\r\nhost: HOST\r\n\r\n", busy.id);
    let mut open = Vec::new();
    connect(tailrace, &request, STOPPED, &mut open).await;
    tokio::time::sleep(FILLING).await;
    let mut with = client::streams(tailrace, 16, 200, gap).await;
    let grown = (tailrace.rss_kib() - before) / 1024.0;
    without.sort_by(f64::total_cmp);
    with.sort_by(f64::total_cmp);
    println!("| readers that stopped | others' p50 / p99 µs | memory MiB |\n|---|---|---|");
    println!("| 0 | {:.0} / {:.0} | |", percentile(&without, 50.0), percentile(&without, 99.0));
    println!("| {STOPPED} | {:.0} / {:.0} | {grown:.0} |", percentile(&with, 50.0), percentile(&with, 99.0));
}

/// From a reader's request to its first missing frame, in the middle of a turn of some 300.
pub async fn resume(tailrace: &Side) {
    let order = json!({"id": new_id(), "deltas": 300, "gap_us": 100, "call": null}).to_string();
    let id = turn_from(&tailrace.address, &order).await;
    let mut times = Vec::new();
    for _ in 0..RESUMES {
        let began = Instant::now();
        let mut stream = TcpStream::connect(&tailrace.address).await.unwrap();
        let request = format!("GET /api/v1/turns/{id}/events?after=150 HTTP/1.1\r\nhost: {}\r\n\r\n", tailrace.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !seen.windows(7).any(|w| w == b"id: 151") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!("| p50 ms | p99 ms | resumes |\n|---|---|---|");
    let p50 = median(&mut times);
    println!("| {p50:.2} | {:.2} | {RESUMES} |", percentile(&times, 99.0));
}
