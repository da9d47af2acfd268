//! The two vector stores behind one port: [`edge`] in process, [`qdrant`] on a server. Here is what they
//! share: names, the payload's form, the size of requests, the order of results.
//!
//! Invariant: the same points and the same query give the same hits in both.

pub mod bm25;
pub mod builds;
pub mod edge;
pub mod qdrant;
mod terms;

use crate::knowledge::{Payload, Point, ScoredPoint, StoreError};
use serde_json::{Map, Value, json};

/// Names of a point's two vectors.
const DENSE: &str = "dense";
const BM25: &str = "bm25";

/// Most points in one request: under 256.
const BATCH_POINTS: usize = 255;
/// Most bytes in one request: under 8 MiB, with room for what encloses the points.
const BATCH_BYTES: usize = 8 * 1024 * 1024 - 4096;

/// What a point carries besides its vectors. Absent rather than null: `expires_at` of a point that stays.
fn payload_json(payload: &Payload) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("document_id".into(), json!(payload.document_id));
    out.insert("chunk_id".into(), json!(payload.chunk_id));
    out.insert("version".into(), json!(payload.version));
    out.insert("scope".into(), json!(payload.scope.key()));
    out.insert("title".into(), json!(payload.title));
    out.insert("uri".into(), json!(payload.uri));
    out.insert("metadata".into(), Value::Object(payload.metadata.clone()));
    if let Some(at) = payload.expires_at {
        out.insert("expires_at".into(), json!(at));
    }
    out
}

/// Splits points into requests of at most [`BATCH_POINTS`] and [`BATCH_BYTES`], in order. A point that is
/// larger by itself travels alone.
fn batches(points: Vec<Point>) -> Vec<Vec<Point>> {
    let mut out: Vec<Vec<Point>> = Vec::new();
    let mut bytes = 0;
    for point in points {
        let size = point_bytes(&point);
        match out.last_mut() {
            Some(batch) if batch.len() < BATCH_POINTS && bytes + size <= BATCH_BYTES => {
                batch.push(point);
                bytes += size;
            }
            _ => {
                out.push(vec![point]);
                bytes = size;
            }
        }
    }
    out
}

/// At least the bytes of a point in protobuf: 4 a dense number, up to 9 a term, 512 for ids and names.
fn point_bytes(point: &Point) -> usize {
    let payload = &point.payload;
    let strings = payload.document_id.len() + payload.title.len() + payload.uri.len();
    let metadata: usize = payload.metadata.iter().map(|(key, value)| key.len() + 24 + value_bytes(value)).sum();
    512 + 4 * point.dense.len() + 9 * point.bm25.indices.len() + strings + metadata
}

fn value_bytes(value: &Value) -> usize {
    16 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + 24 + value_bytes(value)).sum(),
    }
}

/// Best first, ties by id, at most `limit`. Short texts tie often in their words, and the engines leave the order open.
fn best(mut points: Vec<ScoredPoint>, limit: usize) -> Vec<ScoredPoint> {
    points.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    points.truncate(limit);
    points
}

/// Refuses what cannot name a folder or a server's collection.
fn check_name(collection: &str) -> Result<(), StoreError> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    if collection.is_empty() || collection.len() > 128 || !collection.bytes().all(plain) {
        return Err(StoreError::Failed(format!("`{collection}` is no collection name")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::{Scope, SparseVector};
    use uuid::Uuid;

    fn point(n: u128, title: usize, metadata: Value) -> Point {
        Point {
            id: Uuid::from_u128(n),
            dense: vec![0.5; 4],
            bm25: SparseVector { indices: vec![1, 2], values: vec![1.0, 1.0] },
            payload: Payload {
                document_id: "d".into(),
                chunk_id: Uuid::nil(),
                version: 1,
                scope: Scope::Collection,
                title: "t".repeat(title),
                uri: String::new(),
                metadata: metadata.as_object().cloned().unwrap_or_default(),
                expires_at: None,
            },
        }
    }

    #[test]
    fn requests_keep_the_order_and_both_limits() {
        let check = |titles: Vec<usize>, expected: &[usize]| {
            let points: Vec<Point> = titles.iter().zip(1..).map(|(t, n)| point(n, *t, json!({}))).collect();
            let split = batches(points.clone());
            assert_eq!(split.iter().map(Vec::len).collect::<Vec<_>>(), expected);
            assert!(split.iter().all(|b| b.len() == 1 || b.iter().map(point_bytes).sum::<usize>() <= BATCH_BYTES));
            assert_eq!(split.concat(), points);
        };
        check(vec![], &[]);
        check(vec![0; 255], &[255]);
        check(vec![0; 256], &[255, 1]);
        check(vec![0; 600], &[255, 255, 90]);
        check(vec![3 << 20, 3 << 20, 3 << 20, 1], &[2, 2]);
        check(vec![9 << 20, 1, 9 << 20], &[1, 1, 1]);
    }

    #[test]
    fn nested_metadata_counts() {
        let flat = point_bytes(&point(1, 0, json!({})));
        let deep = point_bytes(&point(1, 0, json!({ "a": { "b": ["x".repeat(1000), 1, null, true] } })));
        assert!(deep > flat + 1000, "{flat} {deep}");
    }

    #[test]
    fn ties_are_ordered_by_id() {
        let scored = |n: u128, score: f32| ScoredPoint { id: Uuid::from_u128(n), score };
        let sorted = best(vec![scored(3, 0.5), scored(1, 0.5), scored(2, 0.7)], 2);
        assert_eq!(sorted, [scored(2, 0.7), scored(1, 0.5)]);
    }

    #[test]
    fn collection_names_cannot_leave_their_folder() {
        for (name, fine) in
            [("default", true), ("a-b_c9", true), ("", false), ("..", false), ("a/b", false), (".x", false)]
        {
            assert_eq!(check_name(name).is_ok(), fine, "{name}");
        }
    }
}
