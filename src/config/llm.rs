//! `[llm]`: which language model answers, and how long it is waited for.

use super::key::{Key, Rule};
use super::storage::{ADDRESS, OPTIONAL_ADDRESS};
use super::{filled, millis};
use crate::secret::Secret;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    /// `None`: chosen at start.
    #[serde(deserialize_with = "filled")]
    pub provider: Option<ProviderName>,
    /// `None`: the provider's default.
    #[serde(deserialize_with = "filled")]
    pub model: Option<String>,
    /// Longest answer of a remote model in one round, in tokens.
    pub max_tokens: u32,
    /// What the model can read and write in one request; 0: not known.
    pub context_tokens: u32,
    #[serde(rename = "first_byte_timeout_ms", deserialize_with = "millis")]
    pub first_byte_timeout: Duration,
    #[serde(rename = "idle_timeout_ms", deserialize_with = "millis")]
    pub idle_timeout: Duration,
    /// Of one provider, for one round, before anything of its answer has been seen.
    pub max_retries: u32,
    pub retry_after_text: bool,
    /// Who answers where the chosen provider cannot, in this order.
    pub fallbacks: Vec<ProviderName>,
    pub anthropic: Anthropic,
    pub openai: Openai,
    pub local: Local,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    Anthropic,
    Openai,
    Local,
    Extractive,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anthropic {
    #[serde(deserialize_with = "filled")]
    pub api_key: Option<Secret>,
    /// With or without `/v1`.
    pub base_url: String,
}

/// A server that speaks OpenAI's chat completions. Configured once either is set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Openai {
    #[serde(deserialize_with = "filled")]
    pub api_key: Option<Secret>,
    /// With or without `/v1`; `None`: the vendor's own address.
    #[serde(deserialize_with = "filled")]
    pub base_url: Option<String>,
}

/// The small model in this process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// A GGUF file; `None`: the one under `models.dir`.
    #[serde(deserialize_with = "filled")]
    pub model: Option<PathBuf>,
    pub temperature: f64,
    /// Longest answer in one round, in tokens.
    pub max_tokens: u32,
    /// 1: one core; else all of them.
    pub threads: usize,
}

pub(super) const KEYS: &[Key] = &[
    Key::word("llm.provider", &["", "anthropic", "openai", "local", "extractive"]),
    Key::text("llm.model", Rule::ANY),
    Key::whole("llm.max_tokens", 1, 1_000_000),
    Key::whole("llm.context_tokens", 0, 100_000_000),
    Key::whole("llm.first_byte_timeout_ms", 100, 3_600_000),
    Key::whole("llm.idle_timeout_ms", 100, 3_600_000),
    Key::whole("llm.max_retries", 0, 10),
    Key::flag("llm.retry_after_text"),
    Key::list("llm.fallbacks", PROVIDER),
    Key::secret("llm.anthropic.api_key"),
    Key::text("llm.anthropic.base_url", ADDRESS),
    Key::secret("llm.openai.api_key"),
    Key::text("llm.openai.base_url", OPTIONAL_ADDRESS),
    Key::text("llm.local.model", Rule::ANY),
    Key::real("llm.local.temperature", 0.0, 2.0),
    Key::whole("llm.local.max_tokens", 1, 8192),
    Key::whole("llm.local.threads", 0, 1),
];

const PROVIDER: Rule = Rule {
    works: "anthropic, openai, local or extractive",
    accepts: |word| matches!(word, "anthropic" | "openai" | "local" | "extractive"),
};

impl ProviderName {
    /// As users write and see it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Local => "local",
            Self::Extractive => "extractive",
        }
    }
}
