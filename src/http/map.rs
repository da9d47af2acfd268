//! `GET /api/v1/collections/{c}/map`: a collection drawn on a plane.

use super::body::Path;
use super::problem::Problem;
use super::state::AppState;
use crate::knowledge::map::{Cluster, Map, MapDocument, MapPoint};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use uuid::Uuid;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/collections/{collection}/map", get(map))
}

#[derive(Serialize)]
struct MapWire<'a> {
    /// Chunks in the collection; more than `points` where those are a sample.
    total: u64,
    documents: Vec<DocumentWire<'a>>,
    points: Vec<PointWire>,
    clusters: Vec<ClusterWire<'a>>,
}

#[derive(Serialize)]
struct DocumentWire<'a> {
    id: &'a str,
    title: &'a str,
    uri: &'a str,
}

/// `document` and `cluster` are places in the lists beside.
#[derive(Serialize)]
struct PointWire {
    chunk_id: Uuid,
    document: usize,
    x: f32,
    y: f32,
    cluster: usize,
}

#[derive(Serialize)]
struct ClusterWire<'a> {
    terms: &'a [String],
    x: f32,
    y: f32,
    points: u64,
}

impl<'a> From<&'a Map> for MapWire<'a> {
    fn from(map: &'a Map) -> Self {
        let document = |d: &'a MapDocument| DocumentWire { id: &d.id, title: &d.title, uri: &d.uri };
        let point = |p: &MapPoint| PointWire {
            chunk_id: p.chunk_id,
            document: p.document,
            x: rounded(p.x),
            y: rounded(p.y),
            cluster: p.cluster,
        };
        let cluster =
            |c: &'a Cluster| ClusterWire { terms: &c.terms, x: rounded(c.x), y: rounded(c.y), points: c.points };
        Self {
            total: map.total,
            documents: map.documents.iter().map(document).collect(),
            points: map.points.iter().map(point).collect(),
            clusters: map.clusters.iter().map(cluster).collect(),
        }
    }
}

/// Finer than any screen, and shorter to send.
fn rounded(x: f32) -> f32 {
    (x * 10_000.0).round() / 10_000.0
}

async fn map(State(app): State<AppState>, Path(name): Path<String>) -> Result<Json<serde_json::Value>, Problem> {
    let map = app.maps.of(&name).await?;
    let wire = serde_json::to_value(MapWire::from(map.as_ref()));
    wire.map(Json).map_err(|error| Problem::internal(&error))
}
