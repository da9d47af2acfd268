//! Documents: list, look at, delete. Putting them in is in `upload.rs`.

use super::body::QueryOf;
use super::problem::Problem;
use super::state::AppState;
use super::upload;
use crate::knowledge::error::KnowledgeError;
use crate::storage::documents::{self, DocumentKey, StoredDocument};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const PAGE: u32 = 100;
const MAX_PAGE: u32 = 500;

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/collections/{collection}/documents", get(list).post(upload::upload))
        .route("/api/v1/collections/{collection}/documents/{document}", get(find).delete(delete))
        // The limit is server.max_body_bytes, checked while the body is read.
        .layer(DefaultBodyLimit::disable())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    limit: Option<u32>,
    /// `next` of the page before: the id of its last document.
    after: Option<String>,
}

#[derive(Serialize)]
struct DocumentWire {
    id: String,
    title: String,
    uri: String,
    status: &'static str,
    /// Where the work is; the same word as `status` until it is done.
    stage: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime: Option<String>,
    chunks: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    metadata: Map<String, Value>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<StoredDocument> for DocumentWire {
    fn from(d: StoredDocument) -> Self {
        let status = d.status.as_str();
        let (version, hash, bytes, mime, notes, chunks) = match d.live {
            Some(v) => (Some(v.version), Some(v.hash), Some(v.bytes), Some(v.mime), v.notes, v.chunks),
            None => (None, None, None, None, vec![], 0),
        };
        Self {
            id: d.key.id,
            title: d.description.title,
            uri: d.description.uri,
            status,
            stage: status,
            error: d.error.map(|(code, message)| json!({"code": code, "message": message})),
            version,
            hash,
            bytes,
            mime,
            chunks,
            notes,
            metadata: d.description.metadata,
            created_at: d.created,
            updated_at: d.updated,
        }
    }
}

async fn list(
    State(app): State<AppState>,
    Path(collection): Path<String>,
    QueryOf(params): QueryOf<ListParams>,
) -> Result<Json<Value>, Problem> {
    app.collection(&collection).await?;
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::unprocessable("invalid_parameter", format!("parameter `limit`: 1 to {MAX_PAGE}")));
    }
    let found = documents::list(&app.base.db, &collection, params.after.as_deref(), limit).await?;
    let next = (found.len() == limit as usize).then(|| found.last().map(|d| d.key.id.clone())).flatten();
    let found: Vec<DocumentWire> = found.into_iter().map(Into::into).collect();
    let mut answer = json!({ "documents": found });
    if let Some(next) = next {
        answer["next"] = next.into();
    }
    Ok(Json(answer))
}

async fn find(
    State(app): State<AppState>,
    Path((collection, id)): Path<(String, String)>,
) -> Result<Json<DocumentWire>, Problem> {
    app.collection(&collection).await?;
    let key = DocumentKey { collection, id };
    match documents::find(&app.base.db, &key).await? {
        Some(found) => Ok(Json(found.into())),
        None => Err(KnowledgeError::NoDocument(key.id).into()),
    }
}

async fn delete(
    State(app): State<AppState>,
    Path((collection, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let deleted = app.ingest.delete_document(&collection, &id).await?;
    Ok(Json(json!({
        "document_id": deleted.document_id,
        "points_before": deleted.points_before,
        "points_after": deleted.points_after,
    })))
}
