//! `POST /api/v1/collections/{c}/documents`: files as multipart, or documents as JSON. Each document is
//! taken in or refused by itself; one bad file does not stop the others.

use super::body::{self, Object, Path, QueryOf};
use super::caller::Caller;
use super::problem::Problem;
use super::spool::Spool;
use super::state::AppState;
use crate::knowledge::identity;
use crate::knowledge::ingest::NewDocument;
use axum::Json;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Documents of one request that are taken in at the same time: they share commits. How many are worked on at a time
/// is `ingest.parallel`.
const AT_ONCE: usize = 64;
/// More than what stands around the files of a request that is just large enough.
const PART_HEADS: u64 = 1 << 20;
/// Documents in one request.
const MAX_DOCUMENTS: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadParams {
    #[serde(default)]
    wait: bool,
}

pub(super) async fn upload(
    State(app): State<AppState>,
    Path(collection): Path<String>,
    caller: Caller,
    QueryOf(params): QueryOf<UploadParams>,
    request: Request,
) -> Result<Response, Problem> {
    app.collection(&collection).await?;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let documents = match kind.as_str() {
        "multipart/form-data" => from_multipart(&app, &collection, request).await?,
        "application/json" => from_json(&app, &collection, &body::read(request).await?).await?,
        _ => {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "send `multipart/form-data` with `file` parts, or `application/json`",
            ));
        }
    };
    if documents.is_empty() {
        return Err(Problem::unprocessable("invalid_field", "there is no document in the request"));
    }
    if documents.len() > MAX_DOCUMENTS {
        let detail = format!("{} documents, at most {MAX_DOCUMENTS} are taken in one request", documents.len());
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_documents", detail));
    }
    let wait = params.wait;
    let outcomes: Vec<Outcome> =
        stream::iter(documents).map(|document| sent(&app, &caller, document, wait)).buffered(AT_ONCE).concat().await;
    let watermark = crate::storage::collections::watermark(&app.base.db).await?;
    Ok(answer(&outcomes, wait, watermark))
}

/// A document as it was sent, its content perhaps still on disk, or why it cannot be one.
type Sent = Result<(NewDocument, Option<Spool>), (String, Problem)>;

enum Outcome {
    Taken(Value),
    Refused { id: String, job: Option<Uuid>, problem: Problem },
}

/// What became of a document, or of each in an archive.
async fn sent(app: &AppState, caller: &Caller, sent: Sent, wait: bool) -> Vec<Outcome> {
    let (mut document, spool) = match sent {
        Ok(sent) => sent,
        Err(refused) => return vec![one(app, caller, Err(refused), wait).await],
    };
    let mut outcomes = Vec::new();
    let uri = document.uri.clone().unwrap_or_default();
    if let Some(spool) = spool {
        document.content = match spool.bytes().await {
            Ok(content) => content,
            Err(error) => return vec![one(app, caller, Err((uri, Problem::internal(&error))), wait).await],
        };
    }
    match app.ingest.expand(document).await {
        Err(error) => outcomes.push(one(app, caller, Err((uri, error.into())), wait).await),
        Ok(mut expanded) => {
            while let Some((uri, document)) = expanded.next().await {
                outcomes.push(one(app, caller, document.map_err(|error| (uri, error.into())), wait).await);
            }
        }
    }
    outcomes
}

async fn one(app: &AppState, caller: &Caller, sent: Result<NewDocument, (String, Problem)>, wait: bool) -> Outcome {
    let document = match sent {
        Ok(document) => document,
        Err((id, problem)) => return Outcome::Refused { id, job: None, problem },
    };
    let id = document.id.clone().unwrap_or_else(|| match &document.uri {
        Some(uri) => identity::document_id(&document.collection, uri),
        None => String::new(),
    });
    let accepted = match app.ingest.accept(document, caller.key_id(), wait).await {
        Ok(accepted) => accepted,
        Err(error) => return Outcome::Refused { id, job: None, problem: error.into() },
    };
    let job = accepted.job_id;
    if !wait {
        return Outcome::Taken(json!({
            "id": accepted.document_id, "job_id": job, "status": accepted.status.as_str(),
            "unchanged": accepted.unchanged,
        }));
    }
    match accepted.end().await {
        Ok(done) => Outcome::Taken(json!({
            "id": done.document_id, "job_id": job, "status": done.status.as_str(), "unchanged": done.unchanged,
            "version": done.version, "chunks": done.chunks, "notes": done.notes,
        })),
        Err(error) => Outcome::Refused { id, job: Some(job), problem: error.into() },
    }
}

/// One document: its own status. Several: 202 or 200 where all were taken, else 207.
fn answer(outcomes: &[Outcome], wait: bool, watermark: i64) -> Response {
    if let [Outcome::Refused { problem, .. }] = outcomes {
        return problem.clone().into_response();
    }
    let refused = outcomes.iter().any(|o| matches!(o, Outcome::Refused { .. }));
    let documents: Vec<Value> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Taken(value) => value.clone(),
            Outcome::Refused { id, job, problem } => {
                json!({"id": id, "job_id": job, "status": "failed", "unchanged": false, "error": problem.to_value()})
            }
        })
        .collect();
    let status = match (refused, wait) {
        (true, _) => StatusCode::MULTI_STATUS,
        (false, true) => StatusCode::OK,
        (false, false) => StatusCode::ACCEPTED,
    };
    (status, Json(json!({"documents": documents, "watermark": watermark}))).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonUpload {
    documents: Vec<Object<JsonDocument>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonDocument {
    id: Option<String>,
    title: Option<String>,
    uri: Option<String>,
    text: Option<String>,
    url: Option<String>,
    mime: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

async fn from_json(app: &AppState, collection: &str, bytes: &[u8]) -> Result<Vec<Sent>, Problem> {
    let upload: JsonUpload = body::parse(bytes)?;
    let mut sent = Vec::with_capacity(upload.documents.len());
    for (i, Object(d)) in upload.documents.into_iter().enumerate() {
        let known = d.id.clone().or_else(|| d.uri.clone()).unwrap_or_else(|| format!("documents[{i}]"));
        let mut new = NewDocument {
            collection: collection.to_owned(),
            id: d.id,
            uri: d.uri,
            title: d.title,
            content: Bytes::new(),
            mime: d.mime,
            metadata: d.metadata,
        };
        sent.push(match (d.text, d.url) {
            (Some(text), None) => {
                new.content = Bytes::from(text);
                Ok((new, None))
            }
            (None, Some(url)) => match app.fetch.raw(&url).await {
                Ok(page) => {
                    new.content = page.bytes;
                    new.mime = new.mime.or(page.content_type);
                    new.uri = new.uri.or_else(|| Some(page.url.to_string()));
                    Ok((new, None))
                }
                Err(why) => Err((known, Problem::unprocessable("fetch_failed", format!("documents[{i}].url: {why}")))),
            },
            _ => {
                let detail = format!("documents[{i}]: give either `text` or `url`");
                Err((known, Problem::unprocessable("invalid_field", detail)))
            }
        });
    }
    Ok(sent)
}

async fn from_multipart(app: &AppState, collection: &str, request: Request) -> Result<Vec<Sent>, Problem> {
    let limit = body::limit_of(request.extensions());
    // Borders and heads of parts do not count.
    if body::asks_for_more(request.headers(), (limit as u64).saturating_add(PART_HEADS)) {
        return Err(body::too_large(limit));
    }
    let (folder, small) = (&app.config.storage.data_dir, app.config.ingest.upload_memory_bytes);
    let mut parts = Multipart::from_request(request, &())
        .await
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, "invalid_multipart", e.body_text()))?;
    let mut files = Vec::new();
    let mut metadata = None;
    let mut taken = 0;
    while let Some(mut part) = parts.next_field().await.map_err(broken)? {
        let name = part.name().unwrap_or_default().to_owned();
        let file_name = part.file_name().map(str::to_owned);
        let mime = part.content_type().map(str::to_owned);
        let mut content = Spool::new(folder, small);
        while let Some(piece) = part.chunk().await.map_err(broken)? {
            taken += piece.len();
            if taken > limit {
                return Err(body::too_large(limit));
            }
            content.push(&piece).await.map_err(|error| Problem::internal(&error))?;
        }
        match name.as_str() {
            "file" => files.push((file_name, mime, content)),
            "metadata" if metadata.is_none() => {
                let bytes = content.bytes().await.map_err(|error| Problem::internal(&error))?;
                let read = body::parse::<Map<String, Value>>(&bytes);
                metadata = Some(read.map_err(|problem| in_part("metadata", &problem))?);
            }
            "metadata" => {
                return Err(Problem::unprocessable("invalid_field", "part `metadata`: send it once, for all files"));
            }
            other => {
                let detail = format!("part `{other}` is not known: send `file` parts and an optional `metadata` part");
                return Err(Problem::unprocessable("invalid_field", detail));
            }
        }
    }
    let metadata = metadata.unwrap_or_default();
    let named = |(file_name, mime, content): (Option<String>, Option<String>, Spool)| {
        let uri = file_name.as_deref().map(client_uri).filter(|uri| !uri.is_empty());
        let Some(uri) = uri else {
            let shown = file_name.unwrap_or_default();
            let detail = format!("a `file` part needs a usable file name; got {shown:?}");
            return Err((shown, Problem::unprocessable("invalid_field", detail)));
        };
        let new = NewDocument {
            collection: collection.to_owned(),
            uri: Some(uri),
            mime: mime.filter(|m| m != "application/octet-stream"),
            metadata: metadata.clone(),
            ..NewDocument::default()
        };
        Ok((new, Some(content)))
    };
    Ok(files.into_iter().map(named).collect())
}

/// What is wrong with a part of the body.
fn in_part(part: &str, problem: &Problem) -> Problem {
    Problem::unprocessable("invalid_field", format!("part `{part}`: {}", problem.detail))
}

fn broken(error: MultipartError) -> Problem {
    if let Some(stalled) = body::stalled(&error) {
        return stalled;
    }
    Problem::new(StatusCode::BAD_REQUEST, "invalid_multipart", error.body_text())
}

/// A client's file name as a relative URI: it is only ever a name, never a path that is opened. Parts
/// that climb, drive letters and control characters are dropped.
fn client_uri(name: &str) -> String {
    let plain: String = name.chars().filter(|c| !c.is_control() && !is_direction_mark(*c)).collect();
    let uri = identity::file_uri(&plain);
    uri.split('/').filter(|part| *part != ".." && !part.ends_with(':')).collect::<Vec<_>>().join("/")
}

/// Marks that turn the shown order of a name around (`\u{202E}txt.exe`).
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_stays_a_relative_name() {
        for (name, want) in [
            ("a/readme.md", "a/readme.md"),
            ("../../outside.txt", "outside.txt"),
            ("..\\..\\outside.txt", "outside.txt"),
            ("/etc/outside.txt", "etc/outside.txt"),
            ("C:\\x.txt", "x.txt"),
            ("a\u{0}b.txt", "ab.txt"),
            (".", ""),
            ("\u{202E}txt.exe", "txt.exe"),
            ("x\r\nSet-Cookie: a=b", "xSet-Cookie: a=b"),
        ] {
            assert_eq!(client_uri(name), want, "{name:?}");
        }
    }
}
