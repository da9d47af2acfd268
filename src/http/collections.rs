//! Collections: list, make, look at, delete.

use super::body::JsonBody;
use super::caller::Caller;
use super::problem::Problem;
use super::state::AppState;
use crate::knowledge::base::AUTO;
use crate::storage::collections::{self, Collection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/collections", get(list).post(create))
        .route("/api/v1/collections/{collection}", get(find).delete(delete))
}

#[derive(Serialize)]
struct CollectionWire {
    name: String,
    embedding_model: String,
    dimension: u64,
    language: String,
    /// What `auto` has found; absent until a first document decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword_language: Option<String>,
    documents: u64,
    chunks: u64,
    created_at: Timestamp,
}

impl From<Collection> for CollectionWire {
    fn from(c: Collection) -> Self {
        Self {
            name: c.name,
            embedding_model: c.embedding_model,
            dimension: c.dimension,
            language: c.language,
            keyword_language: (!c.keyword_language.is_empty()).then_some(c.keyword_language),
            documents: c.documents,
            chunks: c.chunks,
            created_at: c.created,
        }
    }
}

async fn list(State(app): State<AppState>, caller: Caller) -> Result<Json<Value>, Problem> {
    let found = collections::list(&app.base.db).await?;
    let found = found.into_iter().filter(|c| !c.deleting && caller.sees(&c.name));
    let found: Vec<CollectionWire> = found.map(Into::into).collect();
    Ok(Json(json!({ "collections": found })))
}

async fn find(State(app): State<AppState>, Path(name): Path<String>) -> Result<Json<CollectionWire>, Problem> {
    let found = collections::find(&app.base.db, &name).await?.filter(|c| !c.deleting);
    found.map(|c| Json(c.into())).ok_or_else(|| crate::knowledge::error::KnowledgeError::NoCollection(name).into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCollection {
    name: String,
    embedding_model: Option<String>,
    language: Option<String>,
    keep_versions: Option<u32>,
}

async fn create(
    State(app): State<AppState>,
    JsonBody(new): JsonBody<NewCollection>,
) -> Result<(StatusCode, Json<CollectionWire>), Problem> {
    let running = &app.base.embedder.model().name;
    if let Some(asked) = new.embedding_model.filter(|asked| asked != running) {
        let detail = format!("field `embedding_model`: this server runs `{running}`, not `{asked}` (embedding.model)");
        return Err(Problem::unprocessable("unknown_embedding_model", detail));
    }
    if new.keep_versions.is_some_and(|n| n != 1) {
        let detail = "field `keep_versions`: this version keeps 1, the live one";
        return Err(Problem::unprocessable("invalid_field", detail));
    }
    let made = app.ingest.create_collection(&new.name, new.language.as_deref().unwrap_or(AUTO)).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

async fn delete(State(app): State<AppState>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    app.ingest.delete_collection(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
