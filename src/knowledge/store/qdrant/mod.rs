//! The store on a Qdrant server, over gRPC.
//!
//! Invariants: a write has been applied by the server when its call returns (`wait`), and is durable there.
//! Every request is bounded; a server that cannot be reached is named. The connection is made with the
//! first call and again after a failure.

mod convert;

use crate::knowledge::filter::Filter;
use crate::knowledge::store::{BM25, DENSE, batches, best, check_name};
use crate::knowledge::{Legs, Point, ScoredPoint, StoreError, StoreQuery, VectorStore};
use async_trait::async_trait;
use qdrant_client::qdrant as wire;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::{Qdrant, QdrantError};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// Before each collection's name: other programs may share the server.
const PREFIX: &str = "tailrace_";
/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// What [`QdrantStore::new`] is given: a busy server may take long over a write that is waited for.
pub const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Ids in one request or answer.
const PAGE: usize = 10_000;

/// Payload keys that every search filters by or every delete looks for.
const INDEXED: [(&str, wire::FieldType); 3] = [
    ("scope", wire::FieldType::Keyword),
    ("document_id", wire::FieldType::Keyword),
    ("expires_at", wire::FieldType::Integer),
];

// Codes of gRPC that we tell apart.
const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// A server's collections of this program.
pub struct QdrantStore {
    client: Qdrant,
    /// As configured, for messages.
    address: String,
    /// Longest wait for one request.
    call_limit: Duration,
    /// Vector lengths of collections seen so far: they are checked before anything is sent.
    dimensions: Mutex<HashMap<String, usize>>,
}

impl QdrantStore {
    /// Does not connect yet. `address`: of the gRPC port, such as `http://localhost:6334`. `call_limit`:
    /// longest wait for one request, usually [`CALL_LIMIT`].
    pub fn new(address: &str, api_key: Option<&str>, call_limit: Duration) -> Result<Self, StoreError> {
        let mut config = Qdrant::from_url(address).skip_compatibility_check().keep_alive_while_idle();
        config.set_timeout(call_limit);
        config.set_connect_timeout(CONNECT_LIMIT);
        if let Some(key) = api_key {
            // The client's own refusal would repeat the key.
            if !key.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(StoreError::Failed("the Qdrant API key has characters that no header can carry".into()));
            }
            config.set_api_key(key);
        }
        let client = config.build().map_err(|e| {
            StoreError::Failed(format!("`{address}` is no address of a Qdrant server: {}", message(&e)))
        })?;
        Ok(Self { client, address: address.to_owned(), call_limit, dimensions: Mutex::default() })
    }

    /// One request (boxed by the callers: the client's futures are large), bounded. `collection` is named if the server does not have it.
    async fn call<T>(
        &self,
        collection: &str,
        request: impl Future<Output = Result<T, QdrantError>>,
    ) -> Result<T, StoreError> {
        let error = match tokio::time::timeout(self.call_limit, request).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => return Err(self.unreachable(&format!("no answer within {} ms", self.call_limit.as_millis()))),
        };
        match code(&error) {
            Some(NOT_FOUND) => {
                self.forget(collection);
                Err(StoreError::NoCollection(collection.to_owned()))
            }
            Some(CANCELLED | DEADLINE_EXCEEDED | UNAVAILABLE) => Err(self.unreachable(&message(&error))),
            // The client reports a refused connection with the codes of a server's own failure.
            Some(INTERNAL | UNKNOWN) if !self.answers().await => Err(self.unreachable(&message(&error))),
            other => {
                if other == Some(INVALID_ARGUMENT) {
                    // Perhaps what is remembered of the collection is no longer so.
                    self.forget(collection);
                }
                Err(StoreError::Failed(format!("the Qdrant server at {}: {}", self.address, message(&error))))
            }
        }
    }

    async fn answers(&self) -> bool {
        matches!(tokio::time::timeout(2 * CONNECT_LIMIT, self.client.health_check()).await, Ok(Ok(_)))
    }

    fn unreachable(&self, why: &str) -> StoreError {
        StoreError::Unreachable(format!("the Qdrant server at {} cannot be reached: {why}", self.address))
    }

    /// Vector length and indexed payload keys; `None` if the collection is not there.
    async fn found(&self, collection: &str) -> Result<Option<(usize, Vec<String>)>, StoreError> {
        let info = match self.call(collection, self.client.collection_info(server_name(collection))).await {
            Ok(info) => info.result,
            Err(StoreError::NoCollection(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let Some(info) = info else { return Ok(None) };
        let vectors = info.config.and_then(|c| c.params).and_then(|p| p.vectors_config).and_then(|v| v.config);
        let dimension = match &vectors {
            Some(Config::ParamsMap(named)) => named.map.get(DENSE).map_or(0, |dense| dense.size as usize),
            Some(Config::Params(_)) | None => 0,
        };
        hold(&self.dimensions).insert(collection.to_owned(), dimension);
        Ok(Some((dimension, info.payload_schema.into_keys().collect())))
    }

    /// [`StoreError::Dimension`] if a vector of `wanted` numbers does not fit.
    async fn check_dimension(&self, collection: &str, wanted: usize) -> Result<(), StoreError> {
        let known = hold(&self.dimensions).get(collection).copied();
        if known == Some(wanted) {
            return Ok(());
        }
        // Unknown, or made again with another length by somebody else.
        let (found, _) =
            self.found(collection).await?.ok_or_else(|| StoreError::NoCollection(collection.to_owned()))?;
        if found == wanted {
            return Ok(());
        }
        Err(StoreError::Dimension { collection: collection.to_owned(), found, wanted })
    }

    fn forget(&self, collection: &str) {
        hold(&self.dimensions).remove(collection);
    }

    async fn create(&self, collection: &str, dimension: usize) -> Result<(), StoreError> {
        let dense = wire::VectorParams {
            size: dimension as u64,
            distance: wire::Distance::Cosine.into(),
            ..wire::VectorParams::default()
        };
        let bm25 = wire::SparseVectorParams { modifier: Some(wire::Modifier::Idf.into()), index: None };
        let vectors = wire::VectorParamsMap { map: HashMap::from([(DENSE.to_owned(), dense)]) };
        let request = wire::CreateCollection {
            collection_name: server_name(collection),
            vectors_config: Some(wire::VectorsConfig { config: Some(Config::ParamsMap(vectors)) }),
            sparse_vectors_config: Some(wire::SparseVectorConfig { map: HashMap::from([(BM25.to_owned(), bm25)]) }),
            ..wire::CreateCollection::default()
        };
        self.call(collection, Box::pin(self.client.create_collection(request))).await.map(drop)
    }

    async fn leg(
        &self,
        collection: &str,
        leg: Option<wire::QueryPoints>,
        limit: usize,
    ) -> Result<Vec<ScoredPoint>, StoreError> {
        let Some(leg) = leg else { return Ok(Vec::new()) };
        let found = self.call(collection, Box::pin(self.client.query(leg))).await?.result;
        let found = found.into_iter().filter_map(|p| Some(ScoredPoint { id: convert::uuid(p.id)?, score: p.score }));
        Ok(best(found.collect(), limit))
    }

    async fn index(&self, collection: &str, key: &str, kind: wire::FieldType) -> Result<(), StoreError> {
        let request = wire::CreateFieldIndexCollection {
            collection_name: server_name(collection),
            wait: Some(true),
            field_name: key.to_owned(),
            field_type: Some(kind.into()),
            ..wire::CreateFieldIndexCollection::default()
        };
        self.call(collection, Box::pin(self.client.create_field_index(request))).await.map(drop)
    }
}

#[async_trait]
impl VectorStore for QdrantStore {
    fn kind(&self) -> &'static str {
        "qdrant"
    }

    async fn create_collection(&self, collection: &str, dimension: usize) -> Result<(), StoreError> {
        check_name(collection)?;
        let mut found = self.found(collection).await?;
        if found.is_none() {
            let made = self.create(collection, dimension).await;
            // Another process may have been faster; then ours was refused, and theirs is what counts.
            found = self.found(collection).await?;
            if found.is_none() {
                made?;
            }
        }
        let (length, indexed) = found.ok_or_else(|| StoreError::NoCollection(collection.to_owned()))?;
        if length != dimension {
            let collection = collection.to_owned();
            return Err(StoreError::Dimension { collection, found: length, wanted: dimension });
        }
        for (key, kind) in INDEXED {
            if !indexed.iter().any(|there| there == key) {
                self.index(collection, key, kind).await?;
            }
        }
        Ok(())
    }

    async fn delete_collection(&self, collection: &str) -> Result<(), StoreError> {
        check_name(collection)?;
        self.forget(collection);
        match self.call(collection, self.client.delete_collection(server_name(collection))).await {
            Ok(_) | Err(StoreError::NoCollection(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    async fn upsert(&self, collection: &str, points: Vec<Point>) -> Result<(), StoreError> {
        check_name(collection)?;
        if let Some(first) = points.first() {
            self.check_dimension(collection, first.dense.len()).await?;
            if let Some(other) = points.iter().find(|point| point.dense.len() != first.dense.len()) {
                return self.check_dimension(collection, other.dense.len()).await;
            }
        }
        for batch in batches(points) {
            let request = wire::UpsertPoints {
                collection_name: server_name(collection),
                wait: Some(true),
                points: batch.into_iter().map(convert::point).collect(),
                ..wire::UpsertPoints::default()
            };
            self.call(collection, Box::pin(self.client.upsert_points(request))).await?;
        }
        Ok(())
    }

    async fn delete(&self, collection: &str, ids: &[Uuid]) -> Result<(), StoreError> {
        check_name(collection)?;
        for page in ids.chunks(PAGE) {
            let ids = page.iter().copied().map(convert::id).collect();
            let points = PointsSelectorOneOf::Points(wire::PointsIdsList { ids });
            let request = wire::DeletePoints {
                collection_name: server_name(collection),
                wait: Some(true),
                points: Some(wire::PointsSelector { points_selector_one_of: Some(points) }),
                ..wire::DeletePoints::default()
            };
            self.call(collection, Box::pin(self.client.delete_points(request))).await?;
        }
        Ok(())
    }

    async fn search(&self, collection: &str, query: &StoreQuery) -> Result<Legs, StoreError> {
        check_name(collection)?;
        let [dense, bm25] = convert::legs(&server_name(collection), query)?;
        if let Some(dense) = &query.dense {
            self.check_dimension(collection, dense.len()).await?;
        }
        let (dense, bm25) =
            tokio::try_join!(self.leg(collection, dense, query.limit), self.leg(collection, bm25, query.limit))?;
        Ok(Legs { dense, bm25 })
    }

    async fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError> {
        check_name(collection)?;
        let request = wire::CountPoints {
            collection_name: server_name(collection),
            filter: convert::filter(filter)?,
            exact: Some(true),
            ..wire::CountPoints::default()
        };
        let answer = self.call(collection, Box::pin(self.client.count(request))).await?;
        Ok(answer.result.map_or(0, |result| result.count))
    }

    async fn ids(&self, collection: &str) -> Result<Vec<Uuid>, StoreError> {
        check_name(collection)?;
        let mut ids = Vec::new();
        let mut offset = None;
        loop {
            let request = wire::ScrollPoints {
                collection_name: server_name(collection),
                offset,
                limit: Some(PAGE as u32),
                with_payload: Some(false.into()),
                with_vectors: Some(false.into()),
                ..wire::ScrollPoints::default()
            };
            let page = self.call(collection, Box::pin(self.client.scroll(request))).await?;
            ids.extend(page.result.into_iter().filter_map(|point| convert::uuid(point.id)));
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(ids);
            }
        }
    }

    fn needs_flush(&self) -> bool {
        false
    }

    async fn flush(&self, _collection: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

impl fmt::Debug for QdrantStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QdrantStore").field("address", &self.address).finish_non_exhaustive()
    }
}

fn server_name(collection: &str) -> String {
    format!("{PREFIX}{collection}")
}

fn code(error: &QdrantError) -> Option<i32> {
    match error {
        QdrantError::ResponseError { status } | QdrantError::ResourceExhaustedError { status, .. } => {
            Some(status.code().into())
        }
        _ => None,
    }
}

/// What the server said, without the headers that came with it.
fn message(error: &QdrantError) -> String {
    match error {
        QdrantError::ResponseError { status } | QdrantError::ResourceExhaustedError { status, .. } => {
            status.message().to_owned()
        }
        other => other.to_string(),
    }
}

fn hold<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
