//! `GET /api/v1/status`: what runs, how much there is, how long things take. Numbers only, nothing of what was said;
//! a page that polls it makes rates of the totals.

use super::caller::Caller;
use super::problem::Problem;
use super::state::AppState;
use crate::storage::{collections, documents, generations};
use crate::telemetry::Totals;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/status", get(status))
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_ms: u64,
    stopping: bool,
    turns: TurnsWire,
    tokens: TokensWire,
    tools: BTreeMap<String, ToolWire>,
    queues: QueuesWire,
    memory: MemoryWire,
    storage: StorageWire,
    knowledge: KnowledgeWire,
    embedding_models: Vec<ModelWire>,
}

/// Totals are since the process began.
#[derive(Serialize)]
struct TurnsWire {
    running: usize,
    ended: BTreeMap<String, f64>,
    seconds: Timed,
    first_delta_seconds: Timed,
    tool_calls: f64,
    tool_calls_rejected: f64,
    tool_seconds_hidden: f64,
}

#[derive(Serialize)]
struct TokensWire {
    input: f64,
    output: f64,
}

/// How often, and how long together.
#[derive(Serialize)]
struct Timed {
    count: f64,
    sum: f64,
}

#[derive(Serialize)]
struct ToolWire {
    calls: f64,
    seconds: f64,
}

#[derive(Serialize)]
struct QueuesWire {
    /// Documents that wait or are being read, by status.
    documents: BTreeMap<String, u64>,
    /// Collections that are built anew.
    reindexing: usize,
    tasks: usize,
}

#[derive(Serialize)]
struct MemoryWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
}

#[derive(Serialize)]
struct StorageWire {
    vector_store: &'static str,
    database_bytes: u64,
    /// Of the store in process.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors_bytes: Option<u64>,
}

#[derive(Serialize)]
struct KnowledgeWire {
    collections: usize,
    documents: u64,
    chunks: u64,
}

#[derive(Serialize)]
struct ModelWire {
    name: String,
    dimension: usize,
}

async fn status(State(app): State<AppState>, caller: Caller) -> Result<Json<Status>, Problem> {
    let db = &app.base.db;
    let totals = app.metrics.totals();
    let seen: Vec<_> =
        collections::list(db).await?.into_iter().filter(|c| !c.deleting && caller.sees(&c.name)).collect();
    let builds = generations::list(db).await?;
    let vectors = app.config.storage.data_dir.join("vectors");
    let in_process = app.base.store.kind() == "edge";
    let sizes = tokio::task::spawn_blocking(move || (resident_bytes(), in_process.then(|| folder_bytes(&vectors))));
    let (resident_bytes, vectors_bytes) = sizes.await.map_err(|error| Problem::internal(&error))?;
    let timed =
        |name: &str| Timed { count: totals.of(&format!("{name}_count")), sum: totals.of(&format!("{name}_sum")) };
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: u64::try_from(app.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        stopping: app.shutdown.is_stopping(),
        turns: TurnsWire {
            running: app.turns.live().count(),
            ended: totals.by_label("tailrace_turns_total", "finish"),
            seconds: timed("tailrace_turn_seconds"),
            first_delta_seconds: timed("tailrace_first_delta_seconds"),
            tool_calls: totals.labelled("tailrace_tool_calls_total", "outcome", "run"),
            tool_calls_rejected: totals.labelled("tailrace_tool_calls_total", "outcome", "rejected"),
            tool_seconds_hidden: totals.of("tailrace_tool_overlap_seconds_sum"),
        },
        tokens: TokensWire {
            input: totals.labelled("tailrace_tokens_total", "direction", "input"),
            output: totals.labelled("tailrace_tokens_total", "direction", "output"),
        },
        tools: tools(&totals),
        queues: QueuesWire {
            documents: documents::under_way(db).await?.into_iter().collect(),
            reindexing: builds.iter().filter(|b| !b.leaving && caller.sees(&b.collection)).count(),
            tasks: app.shutdown.running(),
        },
        memory: MemoryWire { resident_bytes },
        storage: StorageWire { vector_store: app.base.store.kind(), database_bytes: db.bytes().await?, vectors_bytes },
        knowledge: KnowledgeWire {
            collections: seen.len(),
            documents: seen.iter().map(|c| c.documents).sum(),
            chunks: seen.iter().map(|c| c.chunks).sum(),
        },
        embedding_models: app
            .base
            .embedders
            .all()
            .map(|embedder| embedder.model())
            .map(|model| ModelWire { name: model.name.clone(), dimension: model.dimension })
            .collect(),
    }))
}

fn tools(totals: &Totals) -> BTreeMap<String, ToolWire> {
    let mut seconds = totals.by_label("tailrace_tool_seconds_sum", "tool");
    totals
        .by_label("tailrace_tool_seconds_count", "tool")
        .into_iter()
        .map(|(tool, calls)| {
            let seconds = seconds.remove(&tool).unwrap_or_default();
            (tool, ToolWire { calls, seconds })
        })
        .collect()
}

/// What the process holds in memory, as Linux tells; nothing elsewhere.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// What the files of a folder take on disk; what vanishes meanwhile counts nothing.
fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
