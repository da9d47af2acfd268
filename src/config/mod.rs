//! Every setting: one struct a section, its keys and limits beside it, its default and reason in
//! `default.toml`. Nothing is read anywhere else: whoever has a [`Config`] knows it was checked.

mod embedding;
mod engine;
mod extract;
mod ingest;
mod key;
mod layers;
mod llm;
mod map;
mod messages;
mod problem;
mod retrieval;
mod server;
mod storage;
#[cfg(test)]
mod tests;
mod tools;

pub use embedding::{Embedding, Models, OpenaiEmbedding};
pub use engine::{Engine, Turns};
pub use extract::Extract;
pub use ingest::{Ingest, ToolResults, WatchedFolder};
pub use llm::{Anthropic, Llm, Local, Openai, ProviderName};
pub use map::Map;
pub use messages::{Format, Level, Locale, Log, Messages};
pub use problem::{ConfigErrors, Problem};
pub use retrieval::Retrieval;
pub use server::Server;
pub use storage::{Qdrant, Storage};
pub use tools::{FetchUrl, Tools, Urls};

use key::Key;
use serde::de::value::StringDeserializer;
use serde::{Deserialize, Deserializer};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The effective settings, section by section.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    pub storage: Storage,
    pub qdrant: Qdrant,
    pub models: Models,
    pub embedding: Embedding,
    pub llm: Llm,
    pub engine: Engine,
    pub turns: Turns,
    pub ingest: Ingest,
    pub retrieval: Retrieval,
    pub map: Map,
    pub tools: Tools,
    pub messages: Messages,
    pub log: Log,
}

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct LoadArgs {
    /// `--config FILE`.
    pub config_file: Option<PathBuf>,
    /// Flags, as (key, text): `("server.listen", "127.0.0.1:0")`. Lists as JSON.
    pub overrides: Vec<(String, String)>,
}

/// A checked configuration, and for each key its value and origin.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// One for each key, in the order of `default.toml`.
    pub settings: Vec<Setting>,
}

/// One effective value, fit to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Dotted: `server.listen`.
    pub key: &'static str,
    /// As TOML would write it; secrets are `***`.
    pub value: String,
    /// `default`, `file X`, `environment variable X` or `command line`.
    pub source: String,
}

impl Config {
    /// Reads the default, the file, the environment and the flags, in rising order of precedence.
    ///
    /// # Errors
    /// All that is wrong in any of them: unknown keys, wrong values, values that contradict each other.
    pub fn load(args: &LoadArgs) -> Result<Loaded, ConfigErrors> {
        Self::load_from(args, std::env::vars_os())
    }

    /// The same with another environment: for tests, and for what must not depend on the process.
    pub fn load_from(
        args: &LoadArgs,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Loaded, ConfigErrors> {
        layers::load(args, environment)
    }

    /// What no single value shows: values that contradict each other.
    fn contradictions(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut check = |right: bool, name: &str, message: String| {
            if !right {
                problems.push(Problem { name: name.to_owned(), source: "effective values".to_owned(), message });
            }
        };
        let Retrieval { limit, prefetch, .. } = self.retrieval;
        check(
            prefetch >= limit,
            "retrieval.prefetch",
            format!("{prefetch} is below retrieval.limit ({limit}): use at least {limit}"),
        );
        check(
            self.qdrant.api_key.is_none() || self.qdrant.url.is_some(),
            "qdrant.api_key",
            "there is no qdrant.url that it could be for: set QDRANT_URL, or unset QDRANT_API_KEY".to_owned(),
        );
        problems
    }
}

/// Every key, in the order of `default.toml`.
fn keys() -> impl Iterator<Item = &'static Key> {
    [
        server::KEYS,
        storage::KEYS,
        embedding::KEYS,
        llm::KEYS,
        engine::KEYS,
        ingest::KEYS,
        extract::KEYS,
        retrieval::KEYS,
        map::KEYS,
        tools::KEYS,
        messages::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// Whole milliseconds.
fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// The empty text means "not set".
fn filled<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { T::deserialize(StringDeserializer::new(text)).map(Some) }
}
