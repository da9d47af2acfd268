//! Who may call what: the one route table, keys, browsers' origins, and the rule for servers without
//! keys. Deny by default: a route that the table does not name cannot be called.

use super::caller::Caller;
use super::problem::Problem;
use crate::keys::{Key, Keys, Scope};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Public,
    Key(Scope),
    /// A key with the scope `chat`, in the header or, because browsers cannot set one here, in the first message.
    FirstMessage,
}

const CHAT: Access = Access::Key(Scope::Chat);
const SEARCH: Access = Access::Key(Scope::Search);
const INGEST: Access = Access::Key(Scope::Ingest);
const ADMIN: Access = Access::Key(Scope::Admin);

/// Every route with what it asks.
pub const ROUTES: &[(Method, &str, Access)] = &[
    (Method::GET, "/healthz", Access::Public),
    (Method::GET, "/readyz", Access::Public),
    (Method::GET, "/metrics", ADMIN),
    (Method::POST, "/api/v1/chat", CHAT),
    (Method::GET, "/api/v1/collections", SEARCH),
    (Method::POST, "/api/v1/collections", ADMIN),
    (Method::GET, "/api/v1/collections/{collection}", SEARCH),
    (Method::DELETE, "/api/v1/collections/{collection}", ADMIN),
    (Method::POST, "/api/v1/collections/{collection}/documents", INGEST),
    (Method::GET, "/api/v1/collections/{collection}/documents", SEARCH),
    (Method::GET, "/api/v1/collections/{collection}/documents/{document}", SEARCH),
    (Method::PATCH, "/api/v1/collections/{collection}/documents/{document}", INGEST),
    (Method::DELETE, "/api/v1/collections/{collection}/documents/{document}", INGEST),
    (Method::POST, "/api/v1/collections/{collection}/documents/{document}/keep", INGEST),
    (Method::GET, "/api/v1/collections/{collection}/documents/{document}/chunks", SEARCH),
    (Method::GET, "/api/v1/collections/{collection}/documents/{document}/content", SEARCH),
    (Method::POST, "/api/v1/collections/{collection}/documents/{document}/reindex", INGEST),
    (Method::POST, "/api/v1/collections/{collection}/reindex", ADMIN),
    (Method::GET, "/api/v1/collections/{collection}/map", SEARCH),
    (Method::POST, "/api/v1/collections/{collection}/search", SEARCH),
    (Method::GET, "/api/v1/jobs", INGEST),
    (Method::GET, "/api/v1/jobs/{job}", INGEST),
    (Method::GET, "/api/v1/jobs/{job}/events", INGEST),
    (Method::POST, "/api/v1/jobs/{job}/cancel", INGEST),
    (Method::POST, "/api/v1/jobs/{job}/retry", INGEST),
    (Method::GET, "/api/v1/conversations", CHAT),
    (Method::GET, "/api/v1/conversations/{conversation}", CHAT),
    (Method::PATCH, "/api/v1/conversations/{conversation}", CHAT),
    (Method::DELETE, "/api/v1/conversations/{conversation}", CHAT),
    (Method::GET, "/api/v1/conversations/{conversation}/messages", CHAT),
    (Method::GET, "/api/v1/conversations/{conversation}/export", CHAT),
    (Method::GET, "/api/v1/turns/{turn}", CHAT),
    (Method::GET, "/api/v1/turns/{turn}/events", CHAT),
    (Method::POST, "/api/v1/turns/{turn}/cancel", CHAT),
    (Method::POST, "/api/v1/turns/{turn}/approve", CHAT),
    (Method::GET, "/api/v1/ws", Access::FirstMessage),
    (Method::GET, "/api/v1/keys", ADMIN),
    (Method::POST, "/api/v1/keys", ADMIN),
    (Method::DELETE, "/api/v1/keys/{key}", ADMIN),
    (Method::GET, "/api/v1/providers", CHAT),
    (Method::GET, "/api/v1/tools", CHAT),
    (Method::GET, "/api/v1/status", CHAT),
    (Method::GET, "/api/v1/openapi.json", Access::Public),
];

/// The address at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// What the guard checks against.
#[derive(Clone, Debug)]
pub struct Guard {
    pub keys: Keys,
    pub allowed_origins: Arc<[String]>,
    /// `--insecure-no-auth`: no key, any address.
    pub insecure: bool,
}

/// Whether a server may start as it is configured.
///
/// # Errors
/// A sentence that says what would work.
pub fn may_listen(address: SocketAddr, guard: &Guard) -> Result<(), String> {
    if guard.keys.any() || guard.insecure || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "refusing to listen on {address} without a key: set TAILRACE_ADMIN_KEY, make one with `tailrace keys create`, \
         or listen on 127.0.0.1, or pass \
         --insecure-no-auth to let anyone in"
    ))
}

/// The outermost check of every request.
pub async fn check(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let allowed = match guard.browser(request.headers()) {
        Ok(allowed) => allowed,
        Err(problem) => return problem.into_response(),
    };
    if let (Some(origin), &Method::OPTIONS) = (&allowed, request.method()) {
        return preflight(origin);
    }
    let mut response = match guard.admit(&request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(origin) = allowed {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id, retry-after"));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// The check of the page (`assets.rs`): no key, since it holds nothing, and links to it from elsewhere are no
/// attack; but without keys it is there for this machine only, like all else.
#[cfg(feature = "web")]
pub async fn visit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if !guard.keys.any()
        && !guard.insecure
        && let Err(problem) = open_on_loopback(&request)
    {
        return problem.into_response();
    }
    next.run(request).await
}

fn preflight(origin: &HeaderValue) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PATCH, DELETE"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, content-type, idempotency-key, last-event-id"),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

impl Guard {
    /// Refuses other sites' pages. `Some`: the origin is another one that the operator allows, and
    /// the browser has to be told so.
    fn browser(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
        let refused = |detail| Problem::new(StatusCode::FORBIDDEN, "origin_not_allowed", detail);
        if let Some(origin) = headers.get(header::ORIGIN) {
            let text = origin.to_str().unwrap_or_default();
            if self.allowed_origins.iter().any(|o| o.eq_ignore_ascii_case(text)) {
                return Ok(Some(origin.clone()));
            }
            if !own_origin(text, headers) {
                return Err(refused("this origin is neither the server's own nor in server.allowed_origins"));
            }
        }
        if headers.get("sec-fetch-site").is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"cross-site")) {
            return Err(refused("cross-site requests are refused: add the page's origin to server.allowed_origins"));
        }
        Ok(None)
    }

    fn anyone(&self) -> Caller {
        Caller::anyone(self.keys.anyone())
    }

    fn admit(&self, request: &Request) -> Result<Caller, Problem> {
        let keys_needed = self.keys.any();
        if !keys_needed && !self.insecure {
            open_on_loopback(request)?;
        }
        let Some(path) = request.extensions().get::<MatchedPath>() else {
            // No such route: the router's own answer says so.
            return Ok(self.anyone());
        };
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let mut named = ROUTES.iter().filter(|(_, route, _)| *route == path.as_str()).peekable();
        if named.peek().is_none() {
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "this route is not in the route table"));
        }
        let access = named.find(|(m, _, _)| m == method).map(|(_, _, access)| *access);
        let scope = match access {
            _ if !keys_needed => return Ok(self.anyone()),
            Some(Access::Public) => return Ok(self.anyone()),
            Some(Access::FirstMessage) if !request.headers().contains_key(header::AUTHORIZATION) => {
                return Ok(self.anyone());
            }
            Some(Access::FirstMessage) => Some(Scope::Chat),
            Some(Access::Key(scope)) => Some(scope),
            // The router says that the route does not take the method, to those who may know.
            None => None,
        };
        let key = bearer(request.headers(), &self.keys)?;
        if let Some(scope) = scope.filter(|scope| !key.may(*scope)) {
            let detail = format!("this key may not do that: it needs the scope `{}`", scope.as_str());
            return Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail));
        }
        let caller = Caller::of(key);
        match collection_of(request.uri().path()) {
            Some(name) => caller.may_use(&name).map(|()| caller),
            None => Ok(caller),
        }
    }
}

/// The collection that a path names.
fn collection_of(path: &str) -> Option<String> {
    let name = path.strip_prefix("/api/v1/collections/")?.split('/').next()?;
    Some(percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned())
}

fn own_origin(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && authority.is_some_and(|a| a.eq_ignore_ascii_case(host))
}

fn bearer(headers: &HeaderMap, keys: &Keys) -> Result<Arc<Key>, Problem> {
    let unauthorized = |detail| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let value = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    match value.and_then(|value| value.split_once(' ')) {
        Some((kind, sent)) if kind.eq_ignore_ascii_case("bearer") => {
            keys.find(sent.trim()).ok_or_else(|| unauthorized("this key is not known, or has ended"))
        }
        _ => Err(unauthorized("send `Authorization: Bearer <key>`")),
    }
}

/// Without keys the server answers only to this machine, and only where no proxy stands between: a
/// foreign `Host` is a rebound name, a forwarding header is somebody else's request.
fn open_on_loopback(request: &Request) -> Result<(), Problem> {
    let refused = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, "loopback_only", detail));
    let help = "set TAILRACE_ADMIN_KEY to serve others than this machine";
    if request.extensions().get::<Peer>().is_some_and(|peer| !peer.0.ip().to_canonical().is_loopback()) {
        return refused(format!("without a key the server answers on loopback only: {help}"));
    }
    let headers = request.headers();
    let forwarded = headers
        .keys()
        .map(|k| k.as_str())
        .find(|k| *k == "forwarded" || *k == "via" || k.starts_with("x-forwarded-") || *k == "x-real-ip");
    if let Some(name) = forwarded {
        return refused(format!("without a key requests with a `{name}` header are refused: {help}"));
    }
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(|a| a.as_str())).unwrap_or_default();
    if !loopback_host(host) {
        let detail = format!("without a key the `Host` must be a loopback address or localhost: {help}");
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "loopback_only", detail));
    }
    Ok(())
}

fn loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use crate::storage::{Db, DbOptions};

    #[test]
    fn only_loopback_names_are_loopback() {
        for (host, want) in [
            ("localhost:8787", true),
            ("127.0.0.1", true),
            ("127.9.9.9:1", true),
            ("[::1]:8787", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:8787", false),
            ("localhost.evil", false),
            ("", false),
        ] {
            assert_eq!(loopback_host(host), want, "{host}");
        }
    }

    #[test]
    fn the_collection_in_a_path_is_found() {
        for (path, want) in [
            ("/api/v1/collections/a", Some("a")),
            ("/api/v1/collections/%61b/documents/x", Some("ab")),
            ("/api/v1/collections", None),
            ("/api/v1/chat", None),
        ] {
            assert_eq!(collection_of(path).as_deref(), want, "{path}");
        }
    }

    #[tokio::test]
    async fn no_key_no_foreign_address() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&DbOptions { data_dir: folder.path().into(), url: None }).await.unwrap();
        let guard = async |admin_key: Option<&str>| Guard {
            keys: Keys::load(db.clone(), admin_key.map(Secret::new)).await.unwrap(),
            allowed_origins: Arc::from([]),
            insecure: false,
        };
        let open = guard(None).await;
        assert!(may_listen("127.0.0.1:1".parse().unwrap(), &open).is_ok());
        assert!(may_listen("[::1]:1".parse().unwrap(), &open).is_ok());
        let everywhere = "0.0.0.0:1".parse().unwrap();
        assert!(may_listen(everywhere, &open).unwrap_err().contains("TAILRACE_ADMIN_KEY"));
        assert!(may_listen(everywhere, &guard(Some("k")).await).is_ok());
    }
}
