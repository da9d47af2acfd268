//! `[server]`: who is let in, and how much of a request is read.

use super::key::{Key, Rule};
use super::{filled, millis};
use crate::secret::Secret;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;
use url::Url;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub listen: SocketAddr,
    /// Serialized origins: `https://chat.example.org`, no path.
    pub allowed_origins: Vec<String>,
    pub max_body_bytes: usize,
    #[serde(rename = "drain_timeout_ms", deserialize_with = "millis")]
    pub drain_timeout: Duration,
    #[serde(rename = "stall_timeout_ms", deserialize_with = "millis")]
    pub stall_timeout: Duration,
    pub insecure_no_auth: bool,
    /// One key with every scope.
    #[serde(deserialize_with = "filled")]
    pub admin_key: Option<Secret>,
}

pub(super) const KEYS: &[Key] = &[
    Key::text("server.listen", LISTEN),
    Key::list("server.allowed_origins", ORIGIN),
    Key::whole("server.max_body_bytes", 1024, 1 << 31),
    Key::whole("server.drain_timeout_ms", 0, 600_000),
    Key::whole("server.stall_timeout_ms", 100, 600_000),
    Key::flag("server.insecure_no_auth"),
    Key::secret("server.admin_key"),
];

const LISTEN: Rule = Rule {
    works: "an IP address and port such as 127.0.0.1:8787 or [::1]:8787",
    accepts: |text| text.parse::<SocketAddr>().is_ok(),
};

const ORIGIN: Rule = Rule {
    works: "an origin such as https://chat.example.org, without a path",
    accepts: |text| {
        Url::parse(text).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text.to_ascii_lowercase()
        })
    },
};
