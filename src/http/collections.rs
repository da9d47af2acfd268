//! Collections: list, make, look at, delete.

use super::body::{self, JsonBody, Path};
use super::caller::Caller;
use super::problem::Problem;
use super::state::AppState;
use crate::knowledge::base::AUTO;
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::ingest::{NewCollectionOptions, Reindexing};
use crate::knowledge::keyword::Language;
use crate::storage::collections::{self, Collection};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

const MAX_KEEP_VERSIONS: u32 = 100;

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/collections", get(list).post(create))
        .route("/api/v1/collections/{collection}", get(find).delete(delete))
        .route("/api/v1/collections/{collection}/reindex", post(reindex))
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
    keep_versions: u32,
    documents: u64,
    chunks: u64,
    created_at: Timestamp,
    /// It is being built anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    reindex: Option<ReindexWire>,
}

impl From<Collection> for CollectionWire {
    fn from(c: Collection) -> Self {
        Self {
            name: c.name,
            embedding_model: c.embedding_model,
            dimension: c.dimension,
            language: c.language,
            keyword_language: (!c.keyword_language.is_empty()).then_some(c.keyword_language),
            keep_versions: c.keep_versions,
            documents: c.documents,
            chunks: c.chunks,
            created_at: c.created,
            reindex: None,
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
    let mut found: CollectionWire = found.ok_or_else(|| KnowledgeError::NoCollection(name.clone()))?.into();
    found.reindex = app.ingest.reindexing(&name).await?.map(Into::into);
    Ok(Json(found))
}

/// How far the new build of a collection has come, in versions of documents.
#[derive(Serialize)]
struct ReindexWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<Uuid>,
    embedding_model: String,
    dimension: u64,
    done: u64,
    total: u64,
    /// Why the last try stopped; it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<Reindexing> for ReindexWire {
    fn from(r: Reindexing) -> Self {
        Self {
            job_id: r.job,
            embedding_model: r.embedding_model,
            dimension: r.dimension,
            done: r.done,
            total: r.total,
            error: r.error,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReindexBody {
    embedding_model: Option<String>,
}

/// Builds the collection anew beside itself; the old build answers until the new one is complete.
async fn reindex(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<ReindexWire>), Problem> {
    let body = body::optional_json::<ReindexBody>(request).await?;
    let begun = app.ingest.reindex(&name, body.embedding_model.as_deref(), caller.key_id()).await?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
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
    let keep_versions = new.keep_versions.unwrap_or(1);
    if !(1..=MAX_KEEP_VERSIONS).contains(&keep_versions) {
        let detail = format!("field `keep_versions`: {keep_versions} is not within 1 to {MAX_KEEP_VERSIONS}");
        return Err(Problem::unprocessable("invalid_field", detail));
    }
    let language = new.language.clone().unwrap_or_else(|| AUTO.to_owned());
    let options = NewCollectionOptions { language, embedding_model: new.embedding_model, keep_versions };
    let was_there = collections::find(&app.base.db, &new.name).await?.is_some_and(|c| !c.deleting);
    let made = app.ingest.create_collection_with(&new.name, options).await?;
    if !was_there {
        return Ok((StatusCode::CREATED, Json(made.into())));
    }
    // It is what was asked for, or the client is told that it is not.
    let other = |field: &str, is: &str| {
        let detail = format!("collection `{}` is there with another `{field}`: {is}", new.name);
        Err(Problem::new(StatusCode::CONFLICT, "collection_exists", detail))
    };
    if new.keep_versions.is_some_and(|asked| asked != made.keep_versions) {
        return other("keep_versions", &made.keep_versions.to_string());
    }
    if new.language.is_some_and(|asked| !same_language(&asked, &made.language)) {
        return other("language", &made.language);
    }
    Ok((StatusCode::OK, Json(made.into())))
}

/// Whether a language is the one that is stored by its name.
fn same_language(asked: &str, stored: &str) -> bool {
    asked == stored || asked.parse::<Language>().is_ok_and(|language| language.name() == stored)
}

async fn delete(State(app): State<AppState>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    app.ingest.delete_collection(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
