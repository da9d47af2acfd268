//! Documents: list, look at, delete. Putting them in is in `upload.rs`.

use super::body::{self, JsonBody, Path, QueryOf};
use super::caller::Caller;
use super::problem::Problem;
use super::state::AppState;
use super::upload;
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::ingest::Change;
use crate::storage::chunks::{self, LiveChunk};
use crate::storage::conversations;
use crate::storage::documents::{self, DocumentKey, DocumentStatus, StoredDocument};
use crate::storage::jobs::Job;
use crate::storage::versions::{self, VersionInShort};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const PAGE: u32 = 100;
const MAX_PAGE: u32 = 500;
/// Conversations that a document says it was cited in, the latest first.
const MOST_CITING: u32 = 50;

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/collections/{collection}/documents", get(list).post(upload::upload))
        .route("/api/v1/collections/{collection}/documents/{document}", get(find).patch(describe).delete(delete))
        .route("/api/v1/collections/{collection}/documents/{document}/keep", post(keep))
        .route("/api/v1/collections/{collection}/documents/{document}/reindex", post(reindex))
        .route("/api/v1/collections/{collection}/documents/{document}/chunks", get(list_chunks))
        .route("/api/v1/collections/{collection}/documents/{document}/content", get(content))
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
    /// Where the work is, or where it was when it failed.
    stage: &'static str,
    /// Of the work that goes on, or failed: chunks that are stored, of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// The newest job about it, where that is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<Uuid>,
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
            done: None,
            total: None,
            job_id: None,
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

impl DocumentWire {
    /// With what its newest job says.
    fn with(mut self, job: Option<&Job>) -> Self {
        // What builds a document again is no job, and one that has ended says nothing of it.
        let is_about = |job: &&Job| !job.status.has_ended() || self.status == DocumentStatus::Failed.as_str();
        if let Some(job) = job.filter(|_| self.status != DocumentStatus::Indexed.as_str()).filter(is_about) {
            // While the job runs it knows better than the row.
            if !job.status.has_ended() {
                self.status = job.status.as_str();
            }
            self.stage = job.stage.as_str();
            self.job_id = Some(job.id);
            (self.done, self.total) = (Some(job.done), Some(job.total));
        }
        self
    }
}

/// Documents with what their jobs say of them.
async fn with_jobs(app: &AppState, collection: &str, found: Vec<StoredDocument>) -> Result<Vec<DocumentWire>, Problem> {
    let open = found.iter().filter(|d| d.status != DocumentStatus::Indexed);
    let open: Vec<&str> = open.map(|d| d.key.id.as_str()).collect();
    let jobs = app.ingest.jobs_of(collection, &open).await?;
    let wire = found.into_iter().map(|document| {
        let job = jobs.iter().find(|job| job.document_id.as_deref() == Some(document.key.id.as_str()));
        DocumentWire::from(document).with(job)
    });
    Ok(wire.collect())
}

async fn list(
    State(app): State<AppState>,
    Path(collection): Path<String>,
    QueryOf(params): QueryOf<ListParams>,
) -> Result<Json<Value>, Problem> {
    app.collection(&collection).await?;
    let limit = body::page_limit(params.limit, PAGE, MAX_PAGE)?;
    let found = documents::list(&app.base.db, &collection, params.after.as_deref(), limit).await?;
    let next = (found.len() == limit as usize).then(|| found.last().map(|d| d.key.id.clone())).flatten();
    let found = with_jobs(&app, &collection, found).await?;
    let mut answer = json!({ "documents": found });
    if let Some(next) = next {
        answer["next"] = next.into();
    }
    Ok(Json(answer))
}

/// The document. What a tool has found for one conversation is there for those who may see that conversation.
async fn load(app: &AppState, caller: &Caller, collection: String, id: String) -> Result<StoredDocument, Problem> {
    app.collection(&collection).await?;
    let unknown = |id: String| Problem::from(KnowledgeError::NoDocument(id));
    let key = DocumentKey { collection, id };
    let Some(found) = documents::find(&app.base.db, &key).await? else { return Err(unknown(key.id)) };
    if let Ok(conversation) = found.description.scope.parse() {
        let conversation = conversations::find(&app.base.db, conversation).await?;
        if !conversation.is_some_and(|c| caller.owner().may_see(c.owner.as_deref())) {
            return Err(unknown(key.id));
        }
    }
    Ok(found)
}

async fn find(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
) -> Result<Json<FullDocument>, Problem> {
    let found = load(&app, &caller, collection, id).await?;
    let versions = versions::of_document(&app.base.db, &found.key).await?;
    let cited_in = conversations::citing(&app.base.db, &found.key.id, caller.key_id(), MOST_CITING).await?;
    let collection = found.key.collection.clone();
    let mut found = with_jobs(&app, &collection, vec![found]).await?;
    let document = found.pop().ok_or_else(|| Problem::internal(&"a document was lost on its way"))?;
    Ok(Json(FullDocument {
        document,
        versions: versions.into_iter().map(Into::into).collect(),
        cited_in: cited_in.into_iter().map(|(id, title)| CitingWire { id, title }).collect(),
    }))
}

/// A document by itself: also its versions, the newest first, and where it was cited.
#[derive(Serialize)]
struct FullDocument {
    #[serde(flatten)]
    document: DocumentWire,
    versions: Vec<VersionWire>,
    cited_in: Vec<CitingWire>,
}

#[derive(Serialize)]
struct VersionWire {
    version: i64,
    hash: String,
    bytes: u64,
    chunks: u64,
    created_at: Timestamp,
    /// Absent for the live one.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_at: Option<Timestamp>,
}

impl From<VersionInShort> for VersionWire {
    fn from(v: VersionInShort) -> Self {
        Self {
            version: v.version,
            hash: v.hash,
            bytes: v.bytes,
            chunks: v.chunks,
            created_at: v.created,
            superseded_at: v.superseded,
        }
    }
}

/// A conversation that cites the document.
#[derive(Serialize)]
struct CitingWire {
    id: Uuid,
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeBody {
    title: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// Changes title and metadata; a metadata key that is null goes.
async fn describe(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
    JsonBody(body): JsonBody<DescribeBody>,
) -> Result<Json<DocumentWire>, Problem> {
    let key = load(&app, &caller, collection, id).await?.key;
    let change = Change { title: body.title, metadata: body.metadata };
    Ok(Json(app.ingest.describe(&key, change).await?.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeepBody {
    collection: String,
}

/// Puts what a conversation has found into a collection, for everybody.
async fn keep(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
    JsonBody(body): JsonBody<KeepBody>,
) -> Result<Json<Value>, Problem> {
    let key = load(&app, &caller, collection, id).await?.key;
    caller.may_use(&body.collection)?;
    let kept = app.ingest.keep(&key, &body.collection).await?;
    Ok(Json(json!({
        "document_id": kept.document_id,
        "collection": body.collection,
        "version": kept.version,
        "chunks": kept.chunks,
        "unchanged": kept.unchanged,
        "watermark": kept.watermark,
    })))
}

/// Builds the document again from its stored text, and answers when the new version is there.
async fn reindex(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let key = load(&app, &caller, collection, id).await?.key;
    let stopping = app.shutdown.token();
    let done = tokio::select! {
        done = app.ingest.rebuild_document(&key) => done,
        // It may take minutes, and changes nothing until it is done.
        () = stopping.cancelled() => Err(KnowledgeError::Stopping),
    }?;
    Ok(Json(json!({
        "document_id": done.document_id,
        "version": done.version,
        "chunks": done.chunks,
        "watermark": done.watermark,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentParams {
    /// A version that is kept; the live one where absent.
    version: Option<i64>,
}

/// The extracted text, in which `start` and `end` count.
async fn content(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
    QueryOf(params): QueryOf<ContentParams>,
) -> Result<impl IntoResponse, Problem> {
    let found = load(&app, &caller, collection, id).await?;
    let content = match params.version {
        None => documents::content(&app.base.db, &found.key).await?.ok_or_else(|| no_text(&found))?,
        Some(version) => versions::content(&app.base.db, &found.key, version)
            .await?
            .ok_or_else(|| Problem::not_found("version", &version.to_string()))?,
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], content))
}

/// No version of it has been ingested.
fn no_text(document: &StoredDocument) -> Problem {
    let detail = format!("document `{}` has no text: it is {}", document.key.id, document.status.as_str());
    Problem::new(StatusCode::CONFLICT, "no_live_version", detail)
}

#[derive(Serialize)]
struct ChunkWire {
    chunk_id: Uuid,
    ordinal: u32,
    text: String,
    start: u64,
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    /// First and last, from 1; source code only.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<(u32, u32)>,
    heading_path: Vec<String>,
}

impl From<LiveChunk> for ChunkWire {
    fn from(c: LiveChunk) -> Self {
        Self {
            chunk_id: c.chunk_id,
            ordinal: c.ordinal,
            text: c.text,
            start: c.start,
            end: c.end,
            page: c.page,
            lines: c.lines,
            heading_path: c.heading_path,
        }
    }
}

/// Chunks are those of the live version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

async fn list_chunks(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
    QueryOf(NoParams {}): QueryOf<NoParams>,
) -> Result<Json<Value>, Problem> {
    let key = load(&app, &caller, collection, id).await?.key;
    let found = chunks::of_document(&app.base.db, &key, 0, u32::MAX).await?;
    let found: Vec<ChunkWire> = found.into_iter().map(Into::into).collect();
    Ok(Json(json!({ "chunks": found })))
}

async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path((collection, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let DocumentKey { collection, id } = load(&app, &caller, collection, id).await?.key;
    let deleted = app.ingest.delete_document(&collection, &id).await?;
    Ok(Json(json!({
        "document_id": deleted.document_id,
        "points_before": deleted.points_before,
        "points_after": deleted.points_after,
    })))
}
