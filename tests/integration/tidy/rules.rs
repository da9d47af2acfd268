//! The rules of the house, as data. ARCHITECTURE.md explains them; a change here is a decision.

/// A library that only some files may know, so that it can be replaced there. Prefixes of paths.
pub const VENDORS: &[(&str, &[&str])] = &[
    ("axum", &["src/http/"]),
    ("candle_core", &["src/llm/local"]),
    ("candle_transformers", &["src/llm/local"]),
    ("csv", &["src/knowledge/extract/rows.rs"]),
    ("chardetng", &["src/knowledge/extract/"]),
    ("clap", &["src/cli/", "src/main.rs"]),
    ("fastembed", &["src/knowledge/embed/"]),
    ("figment", &["src/config/"]),
    ("html5ever", &["src/knowledge/extract/html"]),
    ("hyper", &["src/http/"]),
    ("hyper_util", &["src/http/"]),
    ("ignore", &["src/knowledge/walk.rs"]),
    ("indicatif", &["src/cli/"]),
    ("infer", &["src/knowledge/extract/"]),
    ("mail_parser", &["src/knowledge/extract/email"]),
    ("metrics_exporter_prometheus", &["src/telemetry.rs"]),
    ("notify_debouncer_full", &["src/knowledge/watch.rs"]),
    ("ort", &["src/knowledge/embed/"]),
    ("pdf_oxide", &["src/knowledge/extract/pdf"]),
    ("pulldown_cmark", &["src/knowledge/extract/markdown.rs", "src/knowledge/chunker/outline.rs"]),
    ("qdrant_client", &["src/knowledge/store/qdrant"]),
    ("qdrant_edge", &["src/knowledge/store/edge", "src/knowledge/store/bm25.rs"]),
    ("quick_xml", &["src/engine/xml_block", "src/engine/arguments", "src/knowledge/extract/markup.rs"]),
    // The command line asks a running server where that one holds the data folder.
    ("reqwest", &["src/llm/transport", "src/tools/fetch_url", "src/knowledge/embed/openai.rs", "src/cli/remote.rs"]),
    ("rlimit", &["src/knowledge/extract/apart/worker.rs"]),
    ("rust_embed", &["src/http/assets.rs"]),
    ("sqlx", &["src/storage/"]),
    ("texting_robots", &["src/tools/fetch_url/robots.rs"]),
    ("text_splitter", &["src/knowledge/chunker"]),
    ("tower", &["src/http/"]),
    ("tower_http", &["src/http/"]),
    ("tracing_subscriber", &["src/telemetry.rs"]),
    ("zip", &["src/knowledge/extract/archive.rs"]),
];

/// What a module may import beside itself. The longest name that fits counts. An entry that ends in
/// `::` allows only what that module itself declares (types, traits, constants): its port.
pub const MAY_IMPORT: &[(&str, &[&str])] = &[
    (
        "http",
        &[
            "app",
            "keys",
            "turns",
            "engine",
            "knowledge",
            "storage",
            "llm",
            "tools",
            "message",
            "config",
            "secret",
            "shutdown",
            "telemetry",
        ],
    ),
    (
        "app",
        &[
            "keys",
            "turns",
            "engine",
            "knowledge",
            "storage",
            "llm",
            "tools",
            "message",
            "config",
            "secret",
            "shutdown",
            "telemetry",
        ],
    ),
    ("turns", &["engine", "knowledge", "storage", "llm", "tools", "message", "config", "shutdown"]),
    ("engine", &["llm::", "tools", "message", "config", "shutdown"]),
    // A tool's task also stores what the tool brought.
    (
        "engine::tool_task",
        &["llm::", "tools", "message", "config", "shutdown", "knowledge::", "knowledge::identity", "knowledge::ingest"],
    ),
    ("knowledge", &["storage", "message", "config", "secret", "shutdown"]),
    ("storage", &["knowledge::", "message", "config"]),
    ("llm", &["tools::", "message", "config", "secret"]),
    ("tools", &["knowledge::", "knowledge::pending", "message", "config"]),
    ("tools::vector_search", &["knowledge", "message", "config"]),
    ("tools::fetch_url", &["knowledge", "message", "config"]),
    ("keys", &["storage", "secret"]),
    ("telemetry", &["config"]),
    ("config", &["secret"]),
    ("message", &[]),
    ("secret", &[]),
    ("shutdown", &[]),
];

/// Not in the table above: they may import everything.
pub const UNBOUND: &[&str] = &["", "main", "cli"];

/// Concrete parts behind a port. Only these name them: the part itself, `app`, and commands that
/// exist to look into one (`inspect`).
pub const ADAPTERS: &[&str] = &[
    "knowledge::embed::cross_encoder",
    "knowledge::embed::fastembed",
    "knowledge::embed::openai",
    "knowledge::store::edge",
    "knowledge::store::qdrant",
    "llm::anthropic",
    "llm::extractive",
    "llm::local",
    "llm::openai",
    "tools::fetch_url",
    "tools::vector_search",
];
pub const MAY_NAME_ADAPTERS: &[&str] = &["app", "cli"];

/// Names that no shipped code may use but in these places, and why (invariant 12: every task is tracked,
/// every channel bounded). What clippy can see, such as `tokio::spawn`, is in `clippy.toml`.
pub const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("unbounded_channel", &[], "a slow reader would cost memory without end: give the channel a bound"),
    ("mpsc::channel::<", &[], "std's channel has no bound: use sync_channel, or tokio's with a bound"),
    ("std::sync::mpsc::channel", &[], "std's channel has no bound: use sync_channel, or tokio's with a bound"),
    ("block_on", &["src/cli/"], "it stops a thread of the runtime: await"),
    ("lazy_static", &[], "use LazyLock, or better no global"),
];

/// Names of drawers: a file has a subject and is called by it.
pub const DRAWERS: &[&str] = &["common", "helper", "helpers", "misc", "shared", "types", "util", "utils"];

pub const MOST_LINES: usize = 400;
/// Files that may be longer, each with its reason.
pub const LONG_FILES: &[(&str, &str)] = &[];
