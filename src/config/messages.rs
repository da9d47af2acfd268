//! `[messages]`, `[log]`: what the service says to users and to operators.

use super::key::Key;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    pub locale: Locale,
}

/// Language of the sentences that the service itself writes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Locale {
    En,
    De,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub level: Level,
    pub format: Format,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Pretty,
    /// One object a line.
    Json,
}

pub(super) const KEYS: &[Key] = &[
    Key::word("messages.locale", &["en", "de"]),
    Key::word("log.level", &["error", "warn", "info", "debug", "trace"]),
    Key::word("log.format", &["pretty", "json"]),
];
