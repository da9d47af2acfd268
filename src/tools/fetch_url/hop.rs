//! One request of a fetch: resolve, judge, connect to what was judged, read at most so much.
//!
//! Invariant: a request goes to an address that was judged, and its client knows no way to resolve a name (for http
//! the address stands in the request itself), uses no proxy, follows no redirect and keeps no connection, so it can
//! connect to nothing else.

use crate::tools::ToolError;
use crate::tools::address_guard::{AddressGuard, Refusal, Target};
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, LOCATION};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, Url};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
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
    /// Neither.
    Failed(StatusCode),
}

/// A page as it came, decompressed.
pub struct Body {
    pub bytes: Vec<u8>,
    pub content_type: Option<String>,
    /// `bytes` is only the beginning.
    pub cut: bool,
}

/// What a page may be; everything else is refused by its type.
const READABLE: &[&str] = &[
    "application/json",
    "application/xml",
    "application/xhtml+xml",
    "application/markdown",
    "application/pdf",
    "application/epub+zip",
    "application/x-ndjson",
    "message/rfc822",
];
/// Office files, by the beginning of their types.
const OFFICE: &str = "application/vnd.openxmlformats-officedocument.";
const ACCEPTED: &str = "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/json;q=0.8,\
                        application/xml;q=0.8,application/pdf;q=0.8,text/*;q=0.7";

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
    let response = match url.scheme() {
        "https" => send(tls_client(url, addresses, limits.connect_timeout).await?.get(url.clone())).await,
        _ => plainly(url, &addresses, plain_client(limits.connect_timeout)?).await,
    };
    let response = response.map_err(broken)?;
    let status = response.status();
    if is_redirect(status) {
        let location = header(response.headers(), &LOCATION);
        let location = location.ok_or_else(|| ToolError(format!("the server answered {status} without saying where")));
        return location.map(Answer::Redirect);
    }
    if !status.is_success() {
        return Ok(Answer::Failed(status));
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

async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    request.header(ACCEPT, ACCEPTED).send().await
}

/// Without TLS nothing but the header needs the name: the URL names the address itself. The first address that can be
/// connected to answers.
async fn plainly(url: &Url, addresses: &[SocketAddr], client: &Client) -> reqwest::Result<Response> {
    let name = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut sent = None;
    for address in addresses {
        let mut direct = url.clone();
        // Neither can fail: the URL has a host, and 80 or another port.
        let _ = direct.set_ip_host(address.ip());
        sent = Some(send(client.get(direct).header(HOST, &name)).await);
        if !matches!(&sent, Some(Err(error)) if error.is_connect()) {
            break;
        }
    }
    match sent {
        Some(sent) => sent,
        None => send(client.get(url.clone())).await,
    }
}

/// One for all: making a client takes longer than connecting with it.
fn plain_client(connect_timeout: Duration) -> Result<&'static Client, ToolError> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    let nobody = Judged { name: String::new(), addresses: Vec::new() };
    let client =
        CLIENT.get_or_init(|| builder(nobody, connect_timeout).tls_certs_only([]).build().map_err(unusable).ok());
    client.as_ref().ok_or_else(no_client)
}

/// A client that can reach these addresses and nothing else.
async fn tls_client(url: &Url, addresses: Vec<SocketAddr>, connect_timeout: Duration) -> Result<Client, ToolError> {
    let name = url.host_str().unwrap_or_default().to_owned();
    let builder = builder(Judged { name, addresses }, connect_timeout);
    // Reads the system's certificates from disk.
    let built = tokio::task::spawn_blocking(|| builder.build()).await;
    built.map_err(|_| ToolError("the fetch was stopped".into()))?.map_err(unusable).map_err(|()| no_client())
}

fn builder(judged: Judged, connect_timeout: Duration) -> ClientBuilder {
    // An installed provider is as good as ours: the error says only that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .dns_resolver(judged)
        .connect_timeout(connect_timeout)
        .pool_max_idle_per_host(0)
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        .user_agent(concat!("Tailrace/", env!("CARGO_PKG_VERSION")))
}

fn unusable(error: reqwest::Error) {
    tracing::warn!(error.cause = %chain(&error), "no client for fetch_url");
}

fn no_client() -> ToolError {
    ToolError("this service cannot make such connections: its certificates cannot be read".into())
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
        || essence.starts_with(OFFICE)
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
