//! The two programs under test, each in a process of its own, and what they cost.

use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A server that stands between client and upstream.
pub struct Side {
    pub address: String,
    /// Whether it is Tailrace, whose request and frames differ from the relay's.
    pub tailrace: bool,
    child: Child,
    _data: Option<tempfile::TempDir>,
}

impl Side {
    pub async fn relay(upstream: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["relay", upstream]);
        let (child, address) = listen(command).await;
        Self { address, tailrace: false, child, _data: None }
    }

    /// Both wires answer from the upstream; `fetch_url` may reach the tool server; results are not stored,
    /// so that only the tool itself is measured.
    pub async fn tailrace(upstream: &str, tool: &str, overlap: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailrace"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            .env("OPENAI_BASE_URL", format!("http://{upstream}"))
            .env("ANTHROPIC_BASE_URL", format!("http://{upstream}"))
            .env("ANTHROPIC_API_KEY", "bench")
            .env("TAILRACE__LLM__PROVIDER", "openai")
            .env("TAILRACE__INGEST__TOOL_RESULTS", "off")
            .env("TAILRACE__TOOLS__FETCH_URL__URLS", "any")
            .env("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", format!("[\"{tool}\"]"))
            .env("TAILRACE__ENGINE__OVERLAP", overlap.to_string())
            .env("TAILRACE__LOG__LEVEL", "warn");
        let (child, address) = listen(command).await;
        Self { address, tailrace: true, child, _data: Some(data) }
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Processor time so far, of all threads.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id().unwrap())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // utime and stime, in ticks of 10 ms (Linux's USER_HZ is 100 on every architecture we run on).
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

/// Starts a server that prints a line with its address.
async fn listen(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("a server ended before it listened");
    let url = line.split_whitespace().find(|w| w.starts_with("http://")).unwrap();
    (child, url.trim_start_matches("http://").trim_end_matches([';', ',']).to_owned())
}

/// Nearest rank; `sorted` is not empty.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(values, 50.0)
}
