//! How soon a tool starts, and how much of its time is hidden behind the stream.

use super::client::{Asking, new_id, turn};
use super::process::{Side, median, percentile};
use super::upstream::{ToolServer, Upstream};
use serde_json::json;
use std::time::Duration;

const STARTS: usize = 200;
/// S: how long the first round streams.
const STREAM: Duration = Duration::from_millis(1000);
const PIECES: u32 = 100;
const REPEATS: usize = 5;

/// From the write of the block's last byte to the page server's accept: parse, admit, spawn, connect.
pub async fn tool_start(tailrace: &Side, tool: &ToolServer) {
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let id = new_id();
        let (url, asked) = tool.url(&id, Duration::ZERO);
        let order = json!({"id": id, "deltas": 4, "gap_us": 2000, "call": [1, url]}).to_string();
        turn(tailrace.address.clone(), true, order, Asking { mode: "inline", provider: "openai" }).await;
        starts.push(asked.await.unwrap().as_secs_f64() * 1e6);
    }
    starts.sort_by(f64::total_cmp);
    println!("| p50 µs | p90 µs | p99 µs | starts |\n|---|---|---|---|");
    let at = |percent| percentile(&starts, percent);
    println!("| {:.0} | {:.0} | {:.0} | {STARTS} |", at(50.0), at(90.0), at(99.0));
}

/// 3 tag positions × 2 tool times, inline and native on both wires, with and without overlap.
pub async fn grid(upstream: &Upstream, tool: &ToolServer) {
    let eager = Side::tailrace(&upstream.address, &tool.address, true).await;
    let sequential = Side::tailrace(&upstream.address, &tool.address, false).await;
    println!(
        "| calls | c / S | t ms | T ms | share of the gain | T ms with engine.overlap = false |\n|---|---|---|---|---|---|"
    );
    for (mode, provider) in [("inline", "openai"), ("native", "openai"), ("native", "anthropic")] {
        for at in [20, 50, 80] {
            for tool_ms in [300u64, 800] {
                let asking = Asking { mode, provider };
                let t = Duration::from_millis(tool_ms);
                let gap = STREAM / PIECES;
                let (stream, call) = (gap * (PIECES - 1), gap * at);
                let attainable = (stream + t).saturating_sub(stream.max(call + t)).as_secs_f64();
                let (mut shares, mut eager_ms, mut sequential_ms) = (vec![], vec![], vec![]);
                for _ in 0..REPEATS {
                    let ran = one(&eager, upstream, tool, asking, at, t).await;
                    let slow = one(&sequential, upstream, tool, asking, at, t).await;
                    shares.push((stream + t).saturating_sub(ran).as_secs_f64() / attainable);
                    eager_ms.push(ran.as_secs_f64() * 1e3);
                    sequential_ms.push(slow.as_secs_f64() * 1e3);
                }
                println!(
                    "| {mode}, {provider} | 0.{at} | {tool_ms} | {:.0} | {:.1} % | {:.0} |",
                    median(&mut eager_ms),
                    median(&mut shares) * 100.0,
                    median(&mut sequential_ms)
                );
            }
        }
    }
}

/// T: from the first round's request to the second's.
async fn one(side: &Side, upstream: &Upstream, tool: &ToolServer, asking: Asking, at: u32, t: Duration) -> Duration {
    let id = new_id();
    let (url, _asked) = tool.url(&id, t);
    let gap_us = u64::try_from((STREAM / PIECES).as_micros()).unwrap();
    let order = json!({"id": id, "deltas": PIECES, "gap_us": gap_us, "call": [at, url]}).to_string();
    turn(side.address.clone(), true, order, asking).await;
    let asked = upstream.asked(&id);
    asked.second - asked.first
}
