//! Jobs: what became of documents that were accepted; followed, cancelled, tried again. A key sees its own, in the
//! collections that it may use.

use super::body::{self, Path, QueryOf};
use super::caller::Caller;
use super::problem::Problem;
use super::sse;
use super::state::AppState;
use crate::storage::jobs::{Job, JobFilter, JobStatus, Retried};
use crate::turns::Owner;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::StreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

const PAGE: u32 = 100;
const MAX_PAGE: u32 = 500;
/// Between two looks at a job that is followed: people and bars need no more.
const LOOK: Duration = Duration::from_millis(100);

pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/v1/jobs", get(list))
        .route("/api/v1/jobs/{job}", get(find))
        .route("/api/v1/jobs/{job}/events", get(events))
        .route("/api/v1/jobs/{job}/cancel", post(cancel))
        .route("/api/v1/jobs/{job}/retry", post(retry))
}

#[derive(Debug, PartialEq, Serialize)]
struct JobWire {
    id: Uuid,
    kind: String,
    collection: String,
    document_id: Option<String>,
    uri: String,
    status: &'static str,
    /// Where the work is, or where it was when it failed.
    stage: &'static str,
    /// Chunks that can be found, of all; 0 until they are known.
    done: u64,
    total: u64,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
}

impl From<Job> for JobWire {
    fn from(job: Job) -> Self {
        Self {
            id: job.id,
            kind: job.kind,
            collection: job.collection,
            document_id: job.document_id,
            uri: job.request.uri,
            status: job.status.as_str(),
            stage: job.stage.as_str(),
            done: job.done,
            total: job.total,
            attempts: job.attempts,
            error: job.error.map(|(code, message)| json!({"code": code, "message": message})),
            created_at: job.created,
            updated_at: job.updated,
            ended_at: job.ended,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    limit: Option<u32>,
    /// `next` of the page before.
    after: Option<Uuid>,
    status: Option<String>,
    collection: Option<String>,
}

async fn list(
    State(app): State<AppState>,
    caller: Caller,
    QueryOf(params): QueryOf<ListParams>,
) -> Result<Json<Value>, Problem> {
    let limit = body::page_limit(params.limit, PAGE, MAX_PAGE)?;
    let status = params.status.map(|word| JobStatus::of_word(&word).ok_or_else(unknown_status)).transpose()?;
    let collections = match params.collection {
        Some(name) => {
            caller.may_use(&name)?;
            Some(vec![name])
        }
        None => caller.collections().map(<[String]>::to_vec),
    };
    let owner = match caller.owner() {
        Owner::Any => None,
        Owner::Key(key) => Some(key.to_owned()),
    };
    let filter = JobFilter { owner, collections, status, after: params.after };
    let found = app.ingest.jobs(&filter, limit).await?;
    let next = (found.len() == limit as usize).then(|| found.last().map(|job| job.id)).flatten();
    let found: Vec<JobWire> = found.into_iter().map(Into::into).collect();
    let mut answer = json!({ "jobs": found });
    if let Some(next) = next {
        answer["next"] = json!(next);
    }
    Ok(Json(answer))
}

fn unknown_status() -> Problem {
    let words = JobStatus::ALL.map(JobStatus::as_str).join(", ");
    Problem::unprocessable("invalid_parameter", format!("parameter `status`: one of {words}"))
}

/// The job, if the caller may see it.
async fn load(app: &AppState, caller: &Caller, id: &str) -> Result<Job, Problem> {
    let unknown = || Problem::not_found("job", id);
    let job = app.ingest.job(id.parse().map_err(|_| unknown())?).await?.ok_or_else(unknown)?;
    let seen = caller.sees(&job.collection) && caller.owner().may_see(job.owner.as_deref());
    if seen { Ok(job) } else { Err(unknown()) }
}

async fn find(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Result<Json<JobWire>, Problem> {
    Ok(Json(load(&app, &caller, &id).await?.into()))
}

async fn cancel(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    let job = load(&app, &caller, &id).await?;
    if !app.ingest.cancel_job(job.id).await? {
        let detail = format!("the job has ended as `{}`: there is nothing to cancel", job.status.as_str());
        return Err(Problem::new(StatusCode::CONFLICT, "job_ended", detail));
    }
    let now: JobWire = load(&app, &caller, &id).await?.into();
    Ok((StatusCode::ACCEPTED, Json(now)).into_response())
}

async fn retry(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    let job = load(&app, &caller, &id).await?;
    let conflict = |code, detail: String| Err(Problem::new(StatusCode::CONFLICT, code, detail));
    if job.kind == "reindex" && job.status.has_ended() {
        let begin = format!("`POST /api/v1/collections/{}/reindex`", job.collection);
        return conflict("job_not_retried", format!("a re-index is begun again with {begin}"));
    }
    match app.ingest.retry_job(job.id).await? {
        Retried::Yes => {}
        Retried::Unknown => return Err(Problem::not_found("job", &id)),
        Retried::NotFailed => {
            let detail = "only a job that failed or was cancelled can be tried again; this one is";
            return conflict("job_not_failed", format!("{detail} `{}`", job.status.as_str()));
        }
        Retried::Superseded => {
            return conflict("job_superseded", "the document was sent again since: see its newest job".to_owned());
        }
        Retried::ContentGone => {
            return conflict("content_gone", "what was sent is not kept any more: send the document again".to_owned());
        }
    }
    let now: JobWire = load(&app, &caller, &id).await?.into();
    Ok((StatusCode::ACCEPTED, Json(now)).into_response())
}

/// The job each time that something about it has changed, until it has ended.
async fn events(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    // Before the first look, so that no change falls between.
    let changes = app.ingest.job_changes();
    let first = load(&app, &caller, &id).await?;
    let following = Following { app, changes, job: first.id, told: None, looked: None, number: 0 };
    let frames = futures_util::stream::unfold(Some(following), |following| async move {
        let mut following = following?;
        let (bytes, open) = following.next().await;
        Some((Ok::<Bytes, Infallible>(bytes), open.then_some(following)))
    });
    let frames = frames.take_until(caller.gone().cancelled_owned());
    Ok(sse::headers(Body::from_stream(frames).into_response()))
}

struct Following {
    app: AppState,
    changes: watch::Receiver<u64>,
    job: Uuid,
    told: Option<JobWire>,
    looked: Option<Instant>,
    number: u64,
}

impl Following {
    /// The next frame, and whether more follow.
    async fn next(&mut self) -> (Bytes, bool) {
        let silence = Instant::now() + sse::KEEP_ALIVE;
        loop {
            if let Some(looked) = self.looked {
                match timeout_at(silence, self.changes.changed()).await {
                    Err(_) => return (super::frame::KEEP_ALIVE, true),
                    // The service is gone.
                    Ok(Err(_)) => return (Bytes::new(), false),
                    Ok(Ok(())) => sleep_until(looked + LOOK).await,
                }
            }
            self.changes.mark_unchanged();
            self.looked = Some(Instant::now());
            let found = match self.app.ingest.job(self.job).await {
                Ok(Some(job)) => job,
                // Forgotten with its collection, or the database is closing.
                Ok(None) | Err(_) => return (Bytes::new(), false),
            };
            let (open, now) = (!found.status.has_ended(), JobWire::from(found));
            if self.told.as_ref() != Some(&now) {
                self.number += 1;
                let payload = serde_json::to_string(&now).unwrap_or_default();
                let frame = format!("id: {}\nevent: progress\ndata: {payload}\n\n", self.number);
                self.told = Some(now);
                return (Bytes::from(frame), open);
            }
        }
    }
}
