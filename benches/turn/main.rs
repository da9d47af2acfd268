//! What Tailrace adds to a stream, against a bare byte relay in the same run: delay per delta, CPU per
//! frame, time from a call's last byte to its tool's start, and the share of the attainable overlap.
//!
//! Every figure is a ratio or a difference within one run; rounds are interleaved, so that a busy
//! machine hits both sides. Run by `scripts/bench`; results are printed as Markdown rows. All on loopback,
//! bounded in count and time.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on has nothing to say")]
#![expect(clippy::print_stdout, reason = "its result is a table on stdout")]

mod client;
mod overlap;
mod process;
mod readers;
mod relay;
mod upstream;

use process::{Side, median, percentile};
use std::time::Duration;

/// Interleaved rounds; each figure is the median over them.
const ROUNDS: usize = 7;
const DELTAS: usize = 200;
const GAP: Duration = Duration::from_millis(10);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if arguments.next().as_deref() == Some("relay") {
        let upstream = arguments.next().unwrap();
        return runtime.block_on(relay::run(&upstream));
    }
    runtime.block_on(measure());
}

async fn measure() {
    let upstream = upstream::Upstream::start().await;
    let tool = upstream::ToolServer::start().await;
    let relay = Side::relay(&upstream.address).await;
    let tailrace = Side::tailrace(&upstream.address, &tool.address, true).await;
    println!("### Delay and CPU, against a bare byte relay in the same run\n");
    println!(
        "| streams | relay p50 / p99 µs | Tailrace p50 / p99 µs | added p50 / p99 µs | CPU µs a frame: relay / Tailrace |"
    );
    println!("|---|---|---|---|---|");
    for streams in [1, 64, 256] {
        delay(&relay, &tailrace, streams).await;
    }
    println!("\n### 500 streams of 50 deltas a second for a minute, load generator included\n");
    load(&tailrace).await;
    println!("\n### Readers\n");
    readers::resume(&tailrace).await;
    println!();
    readers::stopped(&tailrace).await;
    println!();
    readers::memory(&Side::tailrace(&upstream.address, &tool.address, true).await).await;
    println!("\n### Tool start after the call's last byte\n");
    overlap::tool_start(&tailrace, &tool).await;
    println!("\n### Overlap: share of the attainable gain, (S + t − T) / (S + t − max(S, c + t))\n");
    overlap::grid(&upstream, &tool).await;
}

async fn load(tailrace: &Side) {
    const STREAMS: usize = 500;
    const DELTAS: usize = 50 * 60;
    let before = tailrace.cpu();
    let mut delays = client::streams(tailrace, STREAMS, DELTAS, Duration::from_millis(20)).await;
    let cpu = (tailrace.cpu() - before).as_secs_f64() * 1e6 / delays.len() as f64;
    delays.sort_by(f64::total_cmp);
    let lost = STREAMS * DELTAS - delays.len();
    println!("| frames lost | p50 ms | p99 ms | CPU µs a frame |\n|---|---|---|---|");
    let ms = |percent| percentile(&delays, percent) / 1e3;
    println!("| {lost} | {:.2} | {:.2} | {cpu:.1} |", ms(50.0), ms(99.0));
}

async fn delay(relay: &Side, tailrace: &Side, streams: usize) {
    let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
    for round in 0..=ROUNDS {
        for (side, into) in [(relay, &mut theirs), (tailrace, &mut ours)] {
            let before = side.cpu();
            let mut delays = client::streams(side, streams, DELTAS, GAP).await;
            let cpu = side.cpu() - before;
            // The first round warms up connections and caches.
            if round > 0 {
                into.add(&mut delays, cpu);
            }
        }
    }
    let (relay, tailrace) = (theirs.sum_up(), ours.sum_up());
    println!(
        "| {streams} | {:.0} / {:.0} | {:.0} / {:.0} | {:.0} / {:.0} | {:.1} / {:.1} |",
        relay.p50,
        relay.p99,
        tailrace.p50,
        tailrace.p99,
        tailrace.p50 - relay.p50,
        tailrace.p99 - relay.p99,
        relay.cpu,
        tailrace.cpu
    );
}

#[derive(Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
}

struct Summary {
    p50: f64,
    p99: f64,
    cpu: f64,
}

impl Rounds {
    fn add(&mut self, delays_us: &mut [f64], cpu: Duration) {
        delays_us.sort_by(f64::total_cmp);
        self.p50.push(percentile(delays_us, 50.0));
        self.p99.push(percentile(delays_us, 99.0));
        self.cpu.push(cpu.as_secs_f64() * 1e6 / delays_us.len() as f64);
    }

    fn sum_up(mut self) -> Summary {
        Summary { p50: median(&mut self.p50), p99: median(&mut self.p99), cpu: median(&mut self.cpu) }
    }
}
