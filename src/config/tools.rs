//! `[tools.*]`: what the built-in tools may reach.

use super::key::{Key, Rule};
use super::millis;
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    pub fetch_url: FetchUrl,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchUrl {
    pub urls: Urls,
    /// `host:port` entries that the address guard lets through.
    pub allow_hosts: Vec<String>,
    /// After decompression.
    pub max_bytes: usize,
    /// Of readable text, for the model and the knowledge base.
    pub max_text_bytes: usize,
    /// For the whole fetch, redirects included.
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Duration,
    pub max_redirects: usize,
    /// Zero: nothing is remembered.
    #[serde(rename = "cache_ttl_ms", deserialize_with = "millis")]
    pub cache_ttl: Duration,
}

/// Which addresses a model may name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Urls {
    /// Those that stand in the conversation.
    Seen,
    Any,
}

pub(super) const KEYS: &[Key] = &[
    Key::word("tools.fetch_url.urls", &["seen", "any"]),
    Key::list("tools.fetch_url.allow_hosts", HOST_PORT),
    Key::whole("tools.fetch_url.max_bytes", 1024, 256 << 20),
    Key::whole("tools.fetch_url.max_text_bytes", 1024, 16 << 20),
    Key::whole("tools.fetch_url.timeout_ms", 1, 600_000),
    Key::whole("tools.fetch_url.max_redirects", 0, 10),
    Key::whole("tools.fetch_url.cache_ttl_ms", 0, 86_400_000),
];

const HOST_PORT: Rule = Rule {
    works: "host:port, such as wiki.internal:443 or [::1]:8080",
    accepts: |text| {
        text.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok_and(|port| port > 0)
                && url::Host::parse(host).is_ok()
                && !host.contains(['/', '@', '*'])
        })
    },
};
