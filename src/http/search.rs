//! `POST /api/v1/collections/{c}/search`: the retrieval path without a model.

use super::body::{JsonBody, Path};
use super::problem::Problem;
use super::state::AppState;
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::filter_json::filter_from_json;
use crate::knowledge::retrieve::{Dropped, Hit, Place, SearchAnswer, SearchMode, SearchRequest};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

const LIMIT: usize = 10;
const MAX_LIMIT: usize = 100;
const MAX_QUERY_BYTES: usize = 32 * 1024;
const MAX_EXPAND: u32 = 5;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/collections/{collection}/search", post(search))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchBody {
    query: String,
    limit: Option<usize>,
    #[serde(default)]
    mode: ModeWire,
    filter: Option<Value>,
    #[serde(default)]
    rerank: bool,
    min_score: Option<f32>,
    /// Chunks before and after each hit that are joined to it.
    expand: Option<u32>,
    #[serde(default)]
    explain: bool,
    /// The collection as it was then, as far as it keeps versions.
    as_of: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeWire {
    #[default]
    Hybrid,
    Dense,
    Sparse,
}

/// The answer's wire form; the command line prints the same.
#[derive(Serialize)]
pub struct Answer {
    hits: Vec<HitWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<Vec<DroppedWire>>,
    took_ms: u64,
    watermark: i64,
}

#[derive(Serialize)]
struct HitWire {
    document_id: String,
    chunk_id: Uuid,
    title: String,
    uri: String,
    text: String,
    score: f32,
    start: u64,
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    /// First and last, from 1; source code only.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<(u32, u32)>,
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explain>,
}

/// How a hit came to stand where it stands.
#[derive(Serialize)]
struct Explain {
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<PlaceWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bm25: Option<PlaceWire>,
    fused: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerank: Option<f32>,
    cosine: Option<f32>,
    heading_path: Vec<String>,
    ordinal: u32,
}

/// Where a leg saw it, from 1.
#[derive(Serialize)]
struct PlaceWire {
    rank: u32,
    score: f32,
}

/// What a leg named and the answer left out. Of what may not be shown there are no ids.
#[derive(Serialize)]
struct DroppedWire {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_id: Option<Uuid>,
    fused: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<PlaceWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bm25: Option<PlaceWire>,
}

impl From<Place> for PlaceWire {
    fn from(place: Place) -> Self {
        Self { rank: place.rank, score: place.score }
    }
}

impl From<Dropped> for DroppedWire {
    fn from(dropped: Dropped) -> Self {
        let (document_id, chunk_id) = dropped.chunk.unzip();
        Self {
            reason: dropped.why.as_str(),
            document_id,
            chunk_id,
            fused: dropped.score,
            dense: dropped.dense.map(Into::into),
            bm25: dropped.bm25.map(Into::into),
        }
    }
}

async fn search(
    State(app): State<AppState>,
    Path(collection): Path<String>,
    JsonBody(body): JsonBody<SearchBody>,
) -> Result<Json<Answer>, Problem> {
    let explain = body.explain;
    let request = body.check(collection)?;
    Ok(Json(Answer::new(app.retrieve.search(&request).await?, explain)))
}

impl Answer {
    pub fn new(found: SearchAnswer, explain: bool) -> Self {
        Self {
            hits: found.hits.into_iter().map(|hit| wire(hit, explain)).collect(),
            dropped: explain.then(|| found.dropped.into_iter().map(Into::into).collect()),
            took_ms: u64::try_from(found.took.as_millis()).unwrap_or(u64::MAX),
            watermark: found.watermark,
        }
    }
}

impl SearchBody {
    fn check(self, collection: String) -> Result<SearchRequest, Problem> {
        let refused = |detail: String| Problem::unprocessable("invalid_field", detail);
        if self.query.trim().is_empty() {
            return Err(refused("field `query`: it must not be empty".to_owned()));
        }
        if self.query.len() > MAX_QUERY_BYTES {
            return Err(refused(format!("field `query`: at most {MAX_QUERY_BYTES} bytes")));
        }
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(refused(format!("field `limit`: {limit} is not within 1 to {MAX_LIMIT}")));
        }
        let neighbours = self.expand.unwrap_or(0);
        if neighbours > MAX_EXPAND {
            return Err(refused(format!("field `expand`: {neighbours} is not within 0 to {MAX_EXPAND}")));
        }
        let mode = match self.mode {
            ModeWire::Hybrid => SearchMode::Hybrid,
            ModeWire::Dense => SearchMode::Dense,
            ModeWire::Sparse => SearchMode::Sparse,
        };
        if self.min_score.is_some() && mode != SearchMode::Dense && !self.rerank {
            let detail = "field `min_score`: only with `mode` dense, where a score is a cosine, or with `rerank`; fused \
                          and keyword scores are not comparable";
            return Err(refused(detail.to_owned()));
        }
        let filter = match &self.filter {
            None => Default::default(),
            Some(filter) => filter_from_json(filter).map_err(KnowledgeError::from)?,
        };
        Ok(SearchRequest {
            mode,
            filter,
            min_cosine: self.min_score.filter(|_| !self.rerank),
            rerank: self.rerank,
            min_rerank: self.min_score.filter(|_| self.rerank),
            neighbours,
            as_of: self.as_of,
            explain: self.explain,
            ..SearchRequest::new(&collection, &self.query, limit)
        })
    }
}

fn wire(hit: Hit, explain: bool) -> HitWire {
    HitWire {
        document_id: hit.document_id,
        chunk_id: hit.chunk_id,
        title: hit.title,
        uri: hit.uri,
        text: hit.text,
        score: hit.score,
        start: hit.start,
        end: hit.end,
        page: hit.page,
        lines: hit.lines,
        metadata: hit.metadata,
        explain: explain.then(|| Explain {
            dense: hit.dense.map(Into::into),
            bm25: hit.bm25.map(Into::into),
            fused: hit.fused,
            rerank: hit.rerank,
            cosine: hit.cosine,
            heading_path: hit.heading_path,
            ordinal: hit.ordinal,
        }),
    }
}
