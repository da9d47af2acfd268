//! The edge: routes, wire forms, and who may call. Handlers are thin; nothing below knows of HTTP.

#[cfg(feature = "web")]
mod assets;
pub mod body;
mod caller;
pub mod chat;
mod collections;
mod conversations;
mod detached;
mod documents;
mod export;
pub mod frame;
pub mod guard;
mod health;
mod jobs;
pub mod keys;
mod map;
mod openapi;
pub mod problem;
pub mod search;
pub mod server;
mod spool;
mod sse;
mod stall;
pub mod state;
mod status;
mod turns;
mod upload;
mod ws;

use body::BodyLimit;
use guard::Guard;
use problem::Problem;
use state::AppState;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The whole service: every route behind the guard, every response with `x-request-id`.
pub fn router(state: AppState, guard: Guard) -> Router {
    let limit = BodyLimit(state.config.server.max_body_bytes);
    let routes = Router::new()
        .merge(chat::router())
        .merge(collections::router())
        .merge(documents::router())
        .merge(jobs::router())
        .merge(search::router())
        .merge(conversations::router())
        .merge(export::router())
        .merge(turns::router())
        .merge(ws::router())
        .merge(keys::router())
        .merge(health::router())
        .merge(map::router())
        .merge(status::router())
        .merge(openapi::router())
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this route does not take that method")
        })
        .route_layer(middleware::from_fn_with_state(state.clone(), detached::to_the_end))
        .route_layer(middleware::from_fn_with_state(guard.clone(), guard::check));
    #[cfg(feature = "web")]
    let routes = routes.merge(assets::router().layer(middleware::from_fn_with_state(guard, guard::visit)));
    routes
        .fallback(async |request: Request| Problem::not_found("route", request.uri().path()))
        .layer(CatchPanicLayer::custom(|_panic: Box<dyn std::any::Any + Send>| {
            axum::response::IntoResponse::into_response(Problem::internal(&"a handler panicked"))
        }))
        .layer(middleware::from_fn(move |request, next| with_request_id(limit, request, next)))
        .with_state(state)
}

/// A client's own id is kept if it is a plain word, so that its log and ours can be joined.
async fn with_request_id(limit: BodyLimit, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|v| {
        let bytes = v.as_bytes();
        (1..=128).contains(&bytes.len()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    });
    let id = match given.cloned() {
        Some(id) => id,
        None => HeaderValue::from_str(&Uuid::now_v7().to_string()).unwrap_or(HeaderValue::from_static("unknown")),
    };
    request.extensions_mut().insert(limit);
    let span = tracing::info_span!("request", request.id = id.to_str().unwrap_or_default(), method = %request.method(),
        path = request.uri().path());
    let mut response = tracing::Instrument::instrument(next.run(request), span).await;
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}
