//! Logs and metrics. Logs go to standard error; from level `info` up they carry ids, counts, times and
//! error kinds, never a key, a prompt or text of a document (those appear at `debug` at most, keys never).

use crate::config::{Format, Level, Log};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry};

/// Sends this process's logs to standard error from now on.
///
/// # Errors
/// Where another subscriber is in place: logs can be set up once in a process.
pub fn init_logs(log: &Log) -> Result<(), TryInitError> {
    subscriber(log, stderr, stderr().is_terminal()).try_init()
}

fn subscriber<W>(log: &Log, writer: W, colours: bool) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        Format::Pretty => layer().with_writer(writer).with_ansi(colours).boxed(),
        Format::Json => layer().with_writer(writer).json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter(log.level)))
}

/// Our own events at the level asked for, those of the libraries one or two levels less: some of them
/// write requests and statements at `debug`.
fn filter(level: Level) -> Targets {
    let (ours, others) = match level {
        Level::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        Level::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        Level::Info => (LevelFilter::INFO, LevelFilter::WARN),
        Level::Debug => (LevelFilter::DEBUG, LevelFilter::INFO),
        Level::Trace => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    // The vector engine warns about switches that only its server sets, once for each collection.
    let engine = others.min(LevelFilter::ERROR);
    Targets::new().with_default(others).with_target("qdrant_edge", engine).with_target("tailrace", ours)
}

/// The process's metrics, as Prometheus reads them. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// Bounds for names that end in `_seconds`: from a delta's added delay to a long turn.
const SECONDS: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 600.0];

/// Samples of a histogram pile up until somebody reads them; without a scraper this does.
const UPKEEP: Duration = Duration::from_secs(5);

/// The one registry of the process; the first call installs it for the macros of the crate `metrics`.
pub fn metrics_handle() -> Metrics {
    static INSTALLED: OnceLock<Metrics> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
                // Refused for an empty list of buckets only; summaries would do.
                .unwrap_or_else(|_| PrometheusBuilder::new())
                .build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another metrics recorder is installed: /metrics stays empty");
            }
            describe();
            metrics::gauge!("tailrace_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            Metrics { handle }
        })
        .clone()
}

/// The help lines of `/metrics`: every name that the service records.
fn describe() {
    metrics::describe_gauge!("tailrace_build_info", "1, with the version as a label");
    metrics::describe_counter!("tailrace_turns_total", "turns that have ended, by how");
    metrics::describe_counter!("tailrace_tool_calls_total", "tool calls that ran, and that were refused");
    metrics::describe_counter!("tailrace_tokens_total", "tokens that language models read and wrote");
    metrics::describe_histogram!("tailrace_turn_seconds", "a whole turn");
    metrics::describe_histogram!("tailrace_first_delta_seconds", "from the start of a turn to its first text");
    metrics::describe_histogram!("tailrace_tool_seconds", "one call of a tool, by tool");
    metrics::describe_histogram!("tailrace_tool_overlap_seconds", "tool time of a turn hidden behind its streams");
}

impl Metrics {
    /// The text format that Prometheus scrapes (`text/plain; version=0.0.4`).
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// The same as numbers.
    pub fn totals(&self) -> Totals {
        Totals::read(&self.render())
    }

    /// Keeps the memory of histograms bounded until `stop` is cancelled: one task of the service runs it.
    pub async fn upkeep(self, stop: CancellationToken) {
        while tokio::time::timeout(UPKEEP, stop.cancelled()).await.is_err() {
            self.handle.run_upkeep();
        }
    }
}

/// Counters, and counts and sums of histograms, at one moment.
#[derive(Debug, Default)]
pub struct Totals {
    /// Name, labels as they are written, value.
    lines: Vec<(String, String, f64)>,
}

impl Totals {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (named, value) = line.rsplit_once(' ')?;
            let (name, labels) = named.split_once('{').unwrap_or((named, ""));
            Some((name.to_owned(), labels.trim_end_matches('}').to_owned(), value.parse().ok()?))
        });
        Self { lines: lines.collect() }
    }

    /// All of a name together.
    pub fn of(&self, name: &str) -> f64 {
        // Not `sum`, which is -0 for nothing.
        self.lines.iter().filter(|line| line.0 == name).fold(0.0, |sum, line| sum + line.2)
    }

    /// Those of a name by one label's values.
    pub fn by_label(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let begin = format!("{label}=\"");
        let mut found = BTreeMap::new();
        for (_, labels, value) in self.lines.iter().filter(|line| line.0 == name) {
            let of = labels.split(',').find_map(|part| part.trim().strip_prefix(&begin)?.strip_suffix('"'));
            *found.entry(of.unwrap_or_default().to_owned()).or_default() += value;
        }
        found
    }

    pub fn labelled(&self, name: &str, label: &str, value: &str) -> f64 {
        self.by_label(name, label).get(value).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: Level, format: Format, events: fn()) -> String {
        let written = Written::default();
        let to = written.clone();
        tracing::subscriber::with_default(subscriber(&Log { level, format }, move || to.clone(), false), events);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn libraries_speak_less_than_we_do() {
        fn events() {
            tracing::info!(target: "tailrace::turns", "ours");
            tracing::debug!(target: "tailrace::turns", "our detail");
            tracing::info!(target: "sqlx::query", "theirs");
            tracing::warn!(target: "hyper", "their warning");
        }
        for (level, expected) in [
            (Level::Error, vec![]),
            (Level::Warn, vec!["their warning"]),
            (Level::Info, vec!["ours", "their warning"]),
            (Level::Debug, vec!["ours", "our detail", "theirs", "their warning"]),
        ] {
            let text = logged(level, Format::Pretty, events);
            let lines: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
            assert_eq!(lines, expected, "{level:?}");
        }
    }

    #[test]
    fn json_is_one_object_a_line_with_the_fields_of_its_span() {
        let text = logged(Level::Info, Format::Json, || {
            let _turn = tracing::info_span!(target: "tailrace", "turn", turn.id = 7).entered();
            tracing::info!(target: "tailrace", { turn.ms = 12 }, "ended");
        });
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((&line["message"], &line["turn.ms"]), (&"ended".into(), &12.into()));
        assert_eq!((&line["level"], &line["span"]["turn.id"]), (&"INFO".into(), &7.into()));
    }

    #[test]
    fn totals_add_up_by_name_and_label() {
        let totals = Totals::read(
            "# HELP x y\nx_total{finish=\"complete\"} 3\nx_total{finish=\"timeout\",b=\"c\"} 2\nx_seconds_sum 0.5\nodd",
        );
        assert!((totals.of("x_total") - 5.0).abs() < 1e-9 && (totals.of("x_seconds_sum") - 0.5).abs() < 1e-9);
        assert!((totals.labelled("x_total", "finish", "timeout") - 2.0).abs() < 1e-9);
        assert!(totals.by_label("x_total", "b").contains_key("c") && totals.of("nothing") == 0.0);
    }

    #[tokio::test]
    async fn metrics_are_read_as_text_and_upkeep_ends_when_told() {
        let metrics = metrics_handle();
        metrics::histogram!("tailrace_test_seconds").record(0.002);
        let stop = CancellationToken::new();
        stop.cancel();
        metrics.upkeep(stop).await;
        let text = metrics_handle().render();
        assert!(text.contains("tailrace_build_info{version=\""), "{text}");
        assert!(text.contains("tailrace_test_seconds_bucket{le=\"0.003\"} 1"), "{text}");
        assert!(text.contains("tailrace_test_seconds_bucket{le=\"0.001\"} 0"), "{text}");
    }
}
