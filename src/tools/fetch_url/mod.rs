//! The tool `fetch_url`: one web page as readable text.
//!
//! Invariant: before each request, the first one and every redirect, the parsed URL has passed the
//! address guard and the rule on who may name it; see `hop` for what a request can connect to.

mod crawl;
mod hop;
mod page;
mod robots;

pub use crawl::Crawl;
pub use hop::{Lookup, system};

use super::address_guard::{self, AddressGuard, DEFAULT_PORTS, HostPort, HostPortError, Refusal, Target};
use super::seen_urls::SeenUrls;
use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::config::{self, Urls};
use crate::knowledge::extract::{self, Links, Reader};
use crate::message::Arguments;
use async_trait::async_trait;
use bytes::Bytes;
use hop::{Answer, Body, Limits};
use moka::future::Cache;
use page::Page;
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Memory that remembered pages may take, in bytes of text.
const CACHE_BYTES: u64 = 32 << 20;

/// What the tool may do. The fields' defaults are the settings' defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchUrlOptions {
    /// `Seen`: the conversation must have named a URL, or `allow_hosts` its host, because what a model
    /// makes up itself could carry data out.
    pub urls: Urls,
    /// Let through whatever their address and port are, and without having been seen.
    pub allow_hosts: Vec<HostPort>,
    /// Ports of all other hosts.
    pub ports: Vec<u16>,
    /// Bytes of a page that are read, after decompression; the rest is left.
    pub max_bytes: usize,
    /// Bytes of readable text that are kept.
    pub max_text_bytes: usize,
    /// For one call: all redirects, the body and its extraction.
    pub timeout: Duration,
    pub max_redirects: usize,
    /// How long a page is remembered; zero: not at all.
    pub cache_ttl: Duration,
}

impl Default for FetchUrlOptions {
    fn default() -> Self {
        Self {
            urls: Urls::Seen,
            allow_hosts: Vec::new(),
            ports: DEFAULT_PORTS.to_vec(),
            max_bytes: 2 << 20,
            // Some 350 chunks: what the default model embeds in about two seconds.
            max_text_bytes: 256 << 10,
            timeout: Duration::from_secs(20),
            max_redirects: 5,
            cache_ttl: Duration::from_secs(300),
        }
    }
}

impl FetchUrlOptions {
    /// Reads the section `[tools.fetch_url]`.
    pub fn from_config(section: &config::FetchUrl) -> Result<Self, HostPortError> {
        Ok(Self {
            urls: section.urls,
            allow_hosts: section.allow_hosts.iter().map(|entry| entry.parse()).collect::<Result<_, _>>()?,
            max_bytes: section.max_bytes,
            max_text_bytes: section.max_text_bytes,
            timeout: section.timeout,
            max_redirects: section.max_redirects,
            cache_ttl: section.cache_ttl,
            ..Self::default()
        })
    }
}

/// The tool. Pages are remembered across conversations: a request carries nothing of anybody's.
pub struct FetchUrl {
    spec: ToolSpec,
    options: FetchUrlOptions,
    guard: AddressGuard,
    lookup: Lookup,
    reader: Reader,
    cache: Option<Cache<String, Arc<Page>>>,
}

impl FetchUrl {
    /// `lookup`: usually [`system`].
    pub fn new(options: FetchUrlOptions, lookup: Lookup) -> Self {
        let guard = AddressGuard::new(options.allow_hosts.clone(), options.ports.clone());
        let cache = (!options.cache_ttl.is_zero()).then(|| {
            Cache::builder()
                .max_capacity(CACHE_BYTES)
                .weigher(|url: &String, page: &Arc<Page>| u32::try_from(url.len() + page.bytes()).unwrap_or(u32::MAX))
                .time_to_live(options.cache_ttl)
                .build()
        });
        Self { spec: spec(options.urls), options, guard, lookup, reader: Reader::default(), cache }
    }

    /// Pages that are PDF, office files and the like are read by this one.
    pub fn with_reader(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// A page or file that a client names itself, as it came: guarded like any other, but not bound to what a
    /// conversation has named. It goes into the knowledge base like a file.
    ///
    /// # Errors
    /// Why it was refused, or could not be had whole.
    pub async fn raw(&self, url: &str) -> Result<Fetched, ToolError> {
        self.file(url).await.map_err(ToolError::from)
    }

    /// The same, with the status of a server that refuses.
    async fn file(&self, url: &str) -> Result<Fetched, Failure> {
        let url = without_fragment(address_guard::parse(url).map_err(refused)?);
        let target = self.guard.check_url(&url).map_err(refused)?;
        let named = SeenUrls::default();
        named.add_text(url.as_str());
        let timeout = self.options.timeout;
        let followed = tokio::time::timeout(timeout, self.follow(url, target, &named)).await;
        let (body, url) = followed.map_err(|_| too_slow(timeout))??;
        if body.cut {
            let limit = self.options.max_bytes;
            return Err(ToolError(format!("it has more than {limit} bytes (`tools.fetch_url.max_bytes`)")).into());
        }
        Ok(Fetched { url, bytes: body.bytes.into(), content_type: body.content_type })
    }

    /// The page behind a URL that the guard and the policy have passed.
    async fn page(&self, first: Url, target: Target, seen: &SeenUrls) -> Result<Arc<Page>, ToolError> {
        let key = first.to_string();
        let timeout = self.options.timeout;
        let fetch = async {
            let fetched = tokio::time::timeout(timeout, self.fetch(first, target, seen)).await;
            fetched.unwrap_or_else(|_| Err(too_slow(timeout)))
        };
        match &self.cache {
            Some(cache) => cache.try_get_with(key, fetch).await.map_err(|error| ToolError::clone(&error)),
            None => fetch.await,
        }
    }

    async fn fetch(&self, first: Url, target: Target, seen: &SeenUrls) -> Result<Arc<Page>, ToolError> {
        let (body, url) = self.follow(first, target, seen).await?;
        page::read(body, url, self.options.max_text_bytes, &self.reader).await.map(Arc::new)
    }

    /// What stands at the end of all redirects, and where that is.
    async fn follow(&self, first: Url, target: Target, seen: &SeenUrls) -> Result<(Body, Url), Failure> {
        let options = &self.options;
        let limits = Limits { max_bytes: options.max_bytes, connect_timeout: options.timeout / 2 };
        // A URL that the conversation named may lead on as its server likes. One that the model built
        // for an allowed host may not: a redirector there would carry its data to any other.
        let free = options.urls == Urls::Any || seen.contains(first.as_str());
        let (mut url, mut target) = (first, target);
        for _ in 0..=options.max_redirects {
            let location = match hop::ask(&url, &target, &self.guard, &self.lookup, limits).await? {
                Answer::Redirect(location) => location,
                Answer::Body(body) => return Ok((body, url)),
                Answer::Failed(status) => return Err(Failure::Status(status)),
            };
            let next = next(&url, &location)?;
            target = self.guard.check_url(&next).map_err(led_astray)?;
            if !(free || target.allowed || seen.contains(next.as_str())) {
                let why = "the page redirects to a URL that this conversation has not named";
                return Err(ToolError(why.into()).into());
            }
            url = next;
        }
        Err(ToolError(format!("the page redirects more than {} times", options.max_redirects)).into())
    }
}

/// A page or file as it came, whole.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Where the redirects ended.
    pub url: Url,
    pub bytes: Bytes,
    /// As the server declared it.
    pub content_type: Option<String>,
}

impl Fetched {
    /// Where a page of HTML leads; nothing where it is none.
    fn links(&self) -> Links {
        let declared = self.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
        match declared.contains("html") {
            true => extract::links(&String::from_utf8_lossy(&self.bytes)),
            false => Links::default(),
        }
    }
}

/// Why there is no page.
enum Failure {
    /// The server says so.
    Status(StatusCode),
    Other(ToolError),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Status(status) => Self(format!("the server answered {status}")),
            Failure::Other(error) => error,
        }
    }
}

fn too_slow(timeout: Duration) -> ToolError {
    ToolError(format!("the page took longer than {timeout:?}"))
}

#[async_trait]
impl Tool for FetchUrl {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let text = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let url = without_fragment(address_guard::parse(text).map_err(refused)?);
        let target = self.guard.check_url(&url).map_err(refused)?;
        let seen = &context.seen_urls;
        if self.options.urls == Urls::Seen && !target.allowed && !seen.contains(url.as_str()) {
            return Err(ToolError(
                "refused: this URL stands, letter by letter, in no message of the user, search hit or tool result of \
                 this conversation. Ask the user for it, or fetch one that does."
                    .into(),
            ));
        }
        Ok(self.page(url, target, seen).await?.output())
    }
}

fn spec(urls: Urls) -> ToolSpec {
    let named = match urls {
        Urls::Seen => " Only URLs that the user, a search hit or an earlier result has named can be fetched.",
        Urls::Any => "",
    };
    ToolSpec {
        name: "fetch_url".into(),
        description: format!("Fetches one web page and returns its title and readable text.{named}"),
        parameters: json!({
            "type": "object",
            "properties": {
                "url": { "type": "string", "description": "Absolute http or https URL, copied exactly." }
            },
            "required": ["url"],
            "additionalProperties": false
        }),
        side_effects: false,
    }
}

/// Where a redirect leads, not yet judged. It may not fall back to a connection that anybody can read.
fn next(from: &Url, location: &str) -> Result<Url, ToolError> {
    let next = address_guard::join(from, location).map_err(led_astray)?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(ToolError("the page redirects from https to http".into()));
    }
    Ok(without_fragment(next))
}

/// The fragment is not sent to a server, so URLs that differ in it are one page.
fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

fn refused(refusal: Refusal) -> ToolError {
    ToolError(format!("refused: {refusal}"))
}

/// Says nothing of where to: that may be an address inside.
fn led_astray(refusal: Refusal) -> ToolError {
    ToolError(format!("the page redirects to where nothing is fetched: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, LoadArgs};

    fn section(overrides: &[(&str, &str)]) -> config::FetchUrl {
        let overrides = overrides.iter().map(|&(key, text)| (format!("tools.fetch_url.{key}"), text.to_owned()));
        let args = LoadArgs { config_file: None, overrides: overrides.collect() };
        Config::load_from(&args, []).expect("a configuration").config.tools.fetch_url
    }

    #[test]
    fn options_are_the_settings() {
        assert_eq!(FetchUrlOptions::from_config(&section(&[])), Ok(FetchUrlOptions::default()));
        let changed = section(&[("urls", "any"), ("allow_hosts", r#"["Wiki.lan:8080"]"#), ("cache_ttl_ms", "0")]);
        let expected = FetchUrlOptions {
            urls: Urls::Any,
            allow_hosts: vec!["wiki.lan:8080".parse().expect("host:port")],
            cache_ttl: Duration::ZERO,
            ..FetchUrlOptions::default()
        };
        assert_eq!(FetchUrlOptions::from_config(&changed), Ok(expected));
    }

    #[test]
    fn a_redirect_keeps_https_and_drops_the_fragment() {
        for (from, location, to) in [
            ("https://a.example/x", "/y#z", Some("https://a.example/y")),
            ("https://a.example/x", "//b.example", Some("https://b.example/")),
            ("https://a.example/x", "http://a.example/x", None),
            ("http://a.example/x", "https://a.example/x", Some("https://a.example/x")),
            ("http://a.example/x", "http://b.example/x", Some("http://b.example/x")),
            ("http://a.example/x", "http:\\\\b.example", None),
        ] {
            let from = address_guard::parse(from).expect("valid");
            assert_eq!(next(&from, location).ok().map(String::from).as_deref(), to, "{from} to {location}");
        }
    }
}
