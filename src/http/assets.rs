//! The web page: the files of `web/dist`, compiled in (a debug build reads them from the disk), under a
//! policy that lets them do nothing but talk to this server. The API knows nothing of it. Where the page
//! has not been built there is one that says how to.

use super::body::Path;
use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::Embed;
use std::borrow::Cow;

#[derive(Embed)]
#[folder = "web/dist"]
#[allow_missing = true]
struct Dist;

/// Scripts, styles and fonts from here only, nothing inline, no frames, no forms; strings become markup
/// only through the sanitizer. `web/e2e` reads this line.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; \
     connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types dompurify";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
];

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Tailrace</title>\
     <h1>The web page has not been built</h1>\
     <p>The server runs, and its API answers. To get the page, run <code>scripts/web</code> (it needs Node 20.19 or \
     newer) in Tailrace's folder and build the program again, or start it with <code>scripts/start</code>, which does \
     both.</p><p>Without it: <code>tailrace chat</code> in a terminal.</p>";

/// Every address that shows the page, and the files it is made of. They hold nothing and need no key; what the
/// page asks the API for is guarded there.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(page))
        .route("/c/{conversation}", get(page))
        .route("/knowledge", get(page))
        .route("/knowledge/{collection}", get(page))
        .route("/knowledge/{collection}/{document}", get(page))
        .route("/search", get(page))
        .route("/status", get(page))
        .route("/settings", get(page))
        .route("/icon.svg", get(async || file("icon.svg")))
        .route("/theme.js", get(async || file("theme.js")))
        .route("/assets/{*path}", get(async |Path(path): Path<String>| file(&format!("assets/{path}"))))
}

async fn page() -> Response {
    match Dist::get("index.html") {
        Some(found) => answer("index.html", found.data),
        None => answer("index.html", Cow::Borrowed(NOT_BUILT.as_bytes())),
    }
}

fn file(path: &str) -> Response {
    let inside = path.split(['/', '\\']).all(|part| !part.starts_with('.'));
    match Dist::get(path).filter(|_| inside) {
        Some(found) => answer(path, found.data),
        None => (StatusCode::NOT_FOUND, headers("no-cache", "text/plain")).into_response(),
    }
}

fn answer(path: &str, data: Cow<'static, [u8]>) -> Response {
    // Names under assets/ carry a hash of what they hold; the others may change with the next version.
    let keep = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    (headers(keep, kind(path)), data).into_response()
}

fn headers(cache: &'static str, kind: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    async fn ask(path: &str) -> Response {
        router::<()>().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn every_answer_is_under_the_policy() {
        for path in ["/", "/c/1", "/knowledge/default/a%2Fb", "/settings", "/icon.svg", "/assets/none.js"] {
            let response = ask(path).await;
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && policy.contains("require-trusted-types-for"), "{path}");
            assert!(!policy.contains("unsafe"), "{path}");
        }
    }

    #[tokio::test]
    async fn only_files_of_the_page_are_served() {
        for path in ["/assets/../index.html", "/assets/..%2f..%2fpackage.json", "/assets/%2e%2e/%2e%2e/Cargo.toml"] {
            assert_eq!(ask(path).await.status(), StatusCode::NOT_FOUND, "{path}");
        }
    }

    #[tokio::test]
    async fn there_is_a_page_with_and_without_a_build() {
        let response = ask("/").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert!(NOT_BUILT.contains("scripts/web"));
    }
}
