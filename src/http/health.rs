//! For operators: alive, ready, metrics, what can be chosen.

use super::problem::Problem;
use super::state::AppState;
use crate::tools::ToolSpec;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/providers", get(providers))
        .route("/api/v1/tools", get(tools))
}

/// The process answers.
async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// The process takes work: the database and the vector store answer, and it is not stopping.
async fn ready(State(app): State<AppState>) -> Result<Json<Value>, Problem> {
    if app.shutdown.is_stopping() {
        return Err(Problem::unavailable("stopping", "the server is stopping"));
    }
    app.check().await.map_err(|why| Problem::unavailable("not_ready", why))?;
    Ok(Json(json!({"status": "ready"})))
}

async fn metrics(State(app): State<AppState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}

/// Providers that a request may name; the first is the default.
async fn providers(State(app): State<AppState>) -> Json<Value> {
    let known: Vec<Value> = app
        .providers
        .iter()
        .map(|p| json!({"id": p.id(), "model": p.model(), "native_tools": p.supports_tools()}))
        .collect();
    Json(json!({ "providers": known }))
}

async fn tools(State(app): State<AppState>) -> Json<Value> {
    let known: Vec<Value> = app
        .turns
        .engine()
        .tools()
        .iter()
        .map(|ToolSpec { name, description, parameters, .. }| {
            json!({"name": name, "description": description, "parameters": parameters})
        })
        .collect();
    Json(json!({ "tools": known }))
}
