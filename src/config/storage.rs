//! `[storage]`, `[qdrant]`: where what must not be lost is kept, and where its index is.

use super::filled;
use super::key::{Key, Rule};
use crate::secret::Secret;
use serde::Deserialize;
use std::path::PathBuf;
use url::Url;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    pub data_dir: PathBuf,
    /// `sqlite:…`; `None`: a file in the data folder.
    #[serde(deserialize_with = "filled")]
    pub database_url: Option<String>,
}

/// A Qdrant server; without a URL the engine runs in process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qdrant {
    #[serde(deserialize_with = "filled")]
    pub url: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub api_key: Option<Secret>,
}

pub(super) const KEYS: &[Key] = &[
    Key::text("storage.data_dir", Rule::NOT_EMPTY),
    Key::text("storage.database_url", DATABASE_URL),
    Key::text("qdrant.url", OPTIONAL_ADDRESS),
    Key::secret("qdrant.api_key"),
];

const DATABASE_URL: Rule = Rule {
    works: "an address such as sqlite:///var/lib/tailrace/tailrace.db (this version has no PostgreSQL), or nothing",
    accepts: |text| text.is_empty() || text.strip_prefix("sqlite:").is_some_and(|rest| !rest.is_empty()),
};

/// A web address or nothing. No user name or password: keys have their own settings, which are masked.
pub(super) const OPTIONAL_ADDRESS: Rule =
    Rule { works: ADDRESS_WORKS, accepts: |text| text.is_empty() || is_address(text) };

pub(super) const ADDRESS: Rule = Rule { works: ADDRESS_WORKS, accepts: is_address };

const ADDRESS_WORKS: &str = "an address such as http://127.0.0.1:6334, without a user name or password";

fn is_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}
