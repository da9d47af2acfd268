//! What a host allows: its robots.txt, as RFC 9309 reads it. None there: everything. One that cannot be had: nothing.

use super::crawl::same_host;
use super::{Failure, FetchUrl, Fetched};
use crate::tools::ToolError;
use reqwest::Url;
use std::time::Duration;
use texting_robots::Robot;

/// By which name hosts know this program.
const AGENT: &str = "tailrace";
/// Longest wait between two requests that a host may ask for.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

pub(super) struct Robots {
    host: Url,
    /// `None`: everything is allowed.
    rules: Option<Robot>,
}

impl Robots {
    pub async fn of(fetch: &FetchUrl, page: &Url) -> Result<Self, ToolError> {
        let mut url = page.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        let rules = match fetch.file(url.as_str()).await {
            Ok(Fetched { bytes, .. }) => Some(bytes),
            Err(Failure::Status(status)) if status.is_client_error() => None,
            Err(other) => return Err(ToolError(format!("its robots.txt: {}", ToolError::from(other)))),
        };
        Ok(Self { host: page.clone(), rules: rules.and_then(|bytes| Robot::new(AGENT, &bytes).ok()) })
    }

    pub fn allows(&self, url: &Url) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.allowed(url.as_str()))
    }

    pub fn is_of(&self, url: &Url) -> bool {
        same_host(&self.host, url)
    }

    pub fn delay(&self) -> Duration {
        let seconds = self.rules.as_ref().and_then(|rules| rules.delay).unwrap_or(0.0);
        Duration::try_from_secs_f32(seconds.max(0.0)).unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY)
    }

    /// Those it names, else the usual place.
    pub fn sitemaps(&self, host: &Url) -> Vec<Url> {
        let named: Vec<Url> =
            self.rules.iter().flat_map(|rules| &rules.sitemaps).filter_map(|url| Url::parse(url).ok()).collect();
        if named.is_empty() { host.join("/sitemap.xml").into_iter().collect() } else { named }
    }
}
