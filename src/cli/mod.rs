//! The command line: one file per command, each thin. Exit codes: 0 done, 1 failed, 2 wrong use.

mod chat;
mod config;
mod crawl;
mod doctor;
mod eval;
mod ingest;
pub mod inspect_inline;
pub mod inspect_sse;
mod keys;
mod output;
mod remote;
mod search;
mod serve;

use crate::config::{Config, Level, LoadArgs, Loaded, Log};
use crate::knowledge::extract;
use clap::{Args, Parser, Subcommand};
use output::Output;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

/// Self-hosted knowledge-base chat: tools start while the answer streams, and the next round finds
/// what they brought.
#[derive(Debug, Parser)]
#[command(name = "tailrace", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
struct Global {
    /// A TOML file with settings; see `tailrace config`
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, e.g. --set llm.provider=extractive; lists as JSON
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Where the embedded database and index are (storage.data_dir)
    #[arg(long, global = true, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API
    Serve(serve::ServeArgs),
    /// Put files, folders and pages of the web into a collection
    Ingest(ingest::IngestArgs),
    /// Search a collection
    Search(search::SearchArgs),
    /// Ask in the terminal
    Chat(chat::ChatArgs),
    /// Measure retrieval on a BEIR folder
    Eval(eval::EvalArgs),
    /// Make, list and revoke the keys of clients
    Keys(keys::KeysArgs),
    /// Show what the stream parsers make of a recorded stream
    #[command(subcommand)]
    Inspect(Inspect),
    /// Print every setting, its value and where it came from
    Config,
    /// Check the models, the database and the index
    Doctor(doctor::DoctorArgs),
    /// Read one document from standard input: what the program starts itself for each
    #[command(name = extract::COMMAND, hide = true)]
    ExtractWorker,
}

#[derive(Debug, Subcommand)]
enum Inspect {
    /// Inline tool calls: JSON lines {"chunks":[…]} on stdin
    Inline,
    /// A provider's raw response body on stdin
    Sse {
        #[arg(long, value_enum)]
        provider: inspect_sse::Wire,
        /// Byte offsets at which the body is cut; the result must not change
        #[arg(long, value_delimiter = ',', value_name = "OFFSETS")]
        chunk_at: Vec<usize>,
        /// Print the vendor's own events too
        #[arg(long)]
        raw: bool,
    },
}

/// `engine.max_block_bytes` as it is by default: `inspect` reads no configuration.
const MAX_BLOCK_BYTES: usize = 65536;

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Why a command failed: one sentence for a person.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    let done = run(cli, &output);
    let done = done.and_then(|()| Output::lost().map_or(Ok(()), |why| Err(why.into())));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.failure(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// A command that somebody watches logs warnings only, unless a level was asked for.
fn log(loaded: &Loaded, serves: bool) -> Log {
    let asked_for = loaded.settings.iter().any(|s| s.key == "log.level" && s.source != "default");
    let mut log = loaded.config.log.clone();
    if !serves && !asked_for {
        log.level = Level::Warn;
    }
    log
}

fn run(cli: Cli, output: &Output) -> Result<(), Failure> {
    if let Command::Inspect(inspect) = &cli.command {
        let (input, out) = (std::io::stdin().lock(), std::io::stdout().lock());
        let shown = match inspect {
            Inspect::Inline => inspect_inline::run(MAX_BLOCK_BYTES, input, out),
            Inspect::Sse { provider, chunk_at, raw } => inspect_sse::run(*provider, chunk_at, *raw, input, out),
        };
        return match shown {
            // Whoever reads has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            shown => Ok(shown?),
        };
    }
    if matches!(cli.command, Command::ExtractWorker) {
        return Ok(extract::worker::run(std::io::stdin().lock(), std::io::stdout().lock())?);
    }
    let mut overrides = cli.global.set;
    overrides.extend(cli.global.data_dir.map(|dir| ("storage.data_dir".to_owned(), dir)));
    if let Command::Serve(args) = &cli.command {
        overrides.extend(args.overrides());
    }
    let loaded = Config::load(&LoadArgs { config_file: cli.global.config, overrides })?;
    if matches!(cli.command, Command::Config) {
        return config::run(&loaded, output);
    }
    crate::telemetry::init_logs(&log(&loaded, matches!(cli.command, Command::Serve(_))))?;
    let Loaded { config, .. } = loaded;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(_) => serve::run(config).await,
            Command::Ingest(args) => ingest::run(config, args, output).await,
            Command::Search(args) => search::run(config, args, output).await,
            Command::Chat(args) => chat::run(config, args, output).await,
            Command::Keys(args) => keys::run(config, args, output).await,
            Command::Eval(args) => eval::run(config, args, output).await,
            Command::Doctor(args) => doctor::run(config, args, output).await,
            Command::Inspect(_) | Command::Config | Command::ExtractWorker => Ok(()),
        }
    });
    // Blocking work that is still running must not hold the exit.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_logs_at_info_without_being_asked() {
        let asked = [("TAILRACE__LOG__LEVEL".into(), "debug".into())];
        for (environment, serves, level) in [
            (&[][..], true, Level::Info),
            (&[], false, Level::Warn),
            (&asked, true, Level::Debug),
            (&asked, false, Level::Debug),
        ] {
            let loaded = Config::load_from(&LoadArgs::default(), environment.iter().cloned()).unwrap();
            assert_eq!(log(&loaded, serves).level, level);
        }
    }
}
