//! One request of a fetch: resolve, judge, connect to what was judged, read at most so much.
//!
//! Invariant: the client of a hop knows the judged addresses and no other way to resolve a name, uses
//! no proxy, follows no redirect and keeps no connection, so it can connect to nothing else.

use crate::tools::ToolError;
use crate::tools::address_guard::{AddressGuard, Refusal, Target};
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::Host;

/// Resolves a host name for a port. [`system`], or a script in tests.
pub type Lookup = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver.
pub fn system() -> Lookup {
    Arc::new(|host, port| Box::pin(async move { Ok(tokio::net::lookup_host((host.as_str(), port)).await?.collect()) }))
}

/// What bounds a hop. The time is bounded outside, for all hops together.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Bytes of body that are kept, after decompression.
    pub max_bytes: usize,
    /// For all of a name's addresses together.
    pub connect_timeout: Duration,
}

/// How a server answered.
pub enum Answer {
    /// The `Location`, not yet judged.
    Redirect(String),
    Body(Body),
}

/// A page as it came, decompressed.
pub struct Body {
    pub bytes: Vec<u8>,
    pub content_type: Option<String>,
    /// `bytes` is only the beginning.
    pub cut: bool,
}

/// What a page may be; everything else is refused by its type.
const READABLE: &[&str] = &["application/json", "application/xml", "application/xhtml+xml", "application/markdown"];
const ACCEPTED: &str = "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/json;q=0.8,\
                        application/xml;q=0.8,text/*;q=0.7";

/// Headers of an answer that are accepted; more of them, or some 400 KB in all, break the fetch off.
const MAX_HEADERS: usize = 100;

/// Asks once. `target` is what the guard made of `url`.
pub async fn ask(
    url: &Url,
    target: &Target,
    guard: &AddressGuard,
    lookup: &Lookup,
    limits: Limits,
) -> Result<Answer, ToolError> {
    let addresses = addresses(url, target, guard, lookup).await?;
    let client = client(url, addresses, limits.connect_timeout).await?;
    let response = client.get(url.clone()).header(ACCEPT, ACCEPTED).send().await.map_err(broken)?;
    let status = response.status();
    if is_redirect(status) {
        let location = header(response.headers(), &LOCATION);
        let location = location.ok_or_else(|| ToolError(format!("the server answered {status} without saying where")));
        return location.map(Answer::Redirect);
    }
    if !status.is_success() {
        return Err(ToolError(format!("the server answered {status}")));
    }
    read(response, limits.max_bytes).await.map(Answer::Body)
}

/// 300 and 304 are answers to other questions than ours.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The only place where a name becomes addresses: once for a hop, judged before anybody connects.
async fn addresses(
    url: &Url,
    target: &Target,
    guard: &AddressGuard,
    lookup: &Lookup,
) -> Result<Vec<SocketAddr>, ToolError> {
    match target.host {
        Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(ip.into(), target.port)]),
        Host::Ipv6(ip) => return Ok(vec![SocketAddr::new(ip.into(), target.port)]),
        Host::Domain(_) => {}
    }
    let name = url.host_str().unwrap_or_default();
    let found = lookup(name.to_owned(), target.port).await.unwrap_or_default();
    if found.is_empty() {
        return Err(ToolError(format!("the host name {name} was not found")));
    }
    let ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    guard.check_addresses(target, &ips).map_err(|refusal: Refusal| ToolError(refusal.to_string()))?;
    Ok(found)
}

/// A client that can reach these addresses and nothing else.
async fn client(url: &Url, addresses: Vec<SocketAddr>, connect_timeout: Duration) -> Result<Client, ToolError> {
    let name = url.host_str().unwrap_or_default().to_owned();
    let builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .dns_resolver(Judged { name, addresses })
        .connect_timeout(connect_timeout)
        .pool_max_idle_per_host(0)
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        .user_agent(concat!("Tailrace/", env!("CARGO_PKG_VERSION")));
    // An installed provider is as good as ours: the error says only that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = if url.scheme() == "https" {
        // Reads the system's certificates from disk.
        tokio::task::spawn_blocking(|| builder.build()).await.map_err(|_| ToolError("the fetch was stopped".into()))?
    } else {
        builder.tls_certs_only([]).build()
    };
    client.map_err(|error| {
        tracing::warn!(error.cause = %chain(&error), "no client for fetch_url");
        ToolError("this service cannot make such connections: its certificates cannot be read".into())
    })
}

/// Answers with what was judged, and only for the name it was judged for.
struct Judged {
    name: String,
    addresses: Vec<SocketAddr>,
}

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let judged = if name.as_str() == self.name {
            Ok(Box::new(self.addresses.clone().into_iter()) as Addrs)
        } else {
            Err("a name that was not judged".into())
        };
        Box::pin(std::future::ready(judged))
    }
}

/// Reads a page of a type that can be read, up to `max_bytes` of it.
async fn read(mut response: Response, max_bytes: usize) -> Result<Body, ToolError> {
    let content_type = header(response.headers(), &CONTENT_TYPE);
    if let Some(declared) = &content_type
        && !is_readable(declared)
    {
        return Err(ToolError(format!("the page is of type {}, which is not text", shown_type(declared))));
    }
    // What was asked for is decompressed, and its header gone; what is left would be read as noise.
    if header(response.headers(), &CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(ToolError("the page is compressed in a way that was not asked for".into()));
    }
    let (mut bytes, mut cut) = (Vec::new(), false);
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        let room = max_bytes - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            cut = true;
            break;
        }
        // Decompressing what has long arrived never waits by itself.
        tokio::task::consume_budget().await;
    }
    Ok(Body { bytes, content_type, cut })
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn is_readable(content_type: &str) -> bool {
    let essence = essence(content_type);
    essence.starts_with("text/")
        || READABLE.contains(&essence.as_str())
        || (essence.starts_with("application/") && (essence.ends_with("+json") || essence.ends_with("+xml")))
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A type as a server wrote it is foreign text: only what a type can consist of is repeated.
fn shown_type(content_type: &str) -> String {
    let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '/' | '+' | '.' | '-');
    essence(content_type).chars().filter(kept).take(80).collect()
}

/// Why a request failed, without the addresses that the cause may name.
fn broken(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    tracing::debug!(error.cause = %chain(&error), "fetch_url was broken off");
    let text = if error.is_connect() {
        "no connection to the server could be made"
    } else {
        "the server broke the connection off or answered nonsense"
    };
    ToolError(text.into())
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
