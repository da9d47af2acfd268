//! The in-process store: one folder of the embedded engine a collection, under `<data>/vectors`.
//!
//! Invariants: a write is applied when its call returns, and survives a crash only after [`flush`]
//! (this version of the engine does not replay its log on load; SQL does). Every call into the engine runs
//! on a blocking thread. Searches never wait for `flush` or [`EdgeStore::maintain`]; writes wait for a
//! flush that is under way, never for segments to be rebuilt. One process at a time: the folder is locked.
//!
//! [`flush`]: VectorStore::flush

mod collection;
mod convert;

use crate::knowledge::filter::Filter;
use crate::knowledge::store::{batches, best, check_name};
use crate::knowledge::{Legs, Point, ScoredPoint, StoreError, StoreQuery, VectorStore};
use async_trait::async_trait;
use collection::{Collection, DELETED, dimension_of, failed, hold};
use qdrant_edge as engine;
use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Points written or deleted since the last time, before [`EdgeStore::maintain`] looks at a collection again.
const MAINTAIN_AFTER: usize = 1000;
/// Ids read at a time.
const PAGE: usize = 10_000;

/// All collections of one data folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EdgeStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// Opened on first use. The lock is held for a look-up only.
    collections: Mutex<HashMap<String, Arc<Collection>>>,
    /// Held for as long as the store lives; the system lets go of it when the process ends.
    _lock: File,
}

impl EdgeStore {
    /// Locks the folder and makes it if need be. Collections are read on first use.
    /// [`StoreError::InUse`] if another process has it.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let failed = |e: io::Error| StoreError::Failed(format!("vector folder `{}`: {e}", root.display()));
        fs::create_dir_all(root).map_err(failed)?;
        let lock = File::options().create(true).truncate(false).write(true).open(root.join(".lock")).map_err(failed)?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => StoreError::InUse(root.display().to_string()),
            TryLockError::Error(e) => failed(e),
        })?;
        for entry in fs::read_dir(root).map_err(failed)?.flatten() {
            // What a deletion left behind that did not end.
            if entry.file_name().to_string_lossy().starts_with(DELETED) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let inner = Inner { root: root.to_owned(), collections: Mutex::default(), _lock: lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Indexes, merges and compacts what has changed. Slow and CPU-bound, but searches and writes go on:
    /// call it now and then from one background task. Returns the collections that were rebuilt.
    pub async fn maintain(&self) -> Result<Vec<String>, StoreError> {
        let open: Vec<Arc<Collection>> = hold(&self.inner.collections).values().cloned().collect();
        let mut rebuilt = Vec::new();
        for collection in open {
            if collection.unsettled.load(Ordering::Relaxed) < MAINTAIN_AFTER {
                continue;
            }
            let name = collection.name.clone();
            let changed = blocking(move || {
                // A reader of the shard for as long as it takes: only opening and deleting need more.
                let shard = collection.shard.read().unwrap_or_else(PoisonError::into_inner);
                let Some(shard) = shard.as_ref() else { return Ok(false) };
                let _upkeep = hold(&collection.upkeep);
                collection.unsettled.store(0, Ordering::Relaxed);
                // Rebuilt segments are durable at once. The log that numbers their changes must not be behind
                // them: after a power cut, later changes would be taken for older ones.
                collection.flush(shard);
                let changed = shard.optimize().map_err(failed)?;
                collection.flush(shard);
                Ok(changed)
            });
            if changed.await? {
                rebuilt.push(name);
            }
        }
        Ok(rebuilt)
    }

    /// Flushes and closes every collection. A later call opens it again.
    pub async fn close(&self) -> Result<(), StoreError> {
        let open: Vec<Arc<Collection>> = hold(&self.inner.collections).values().cloned().collect();
        blocking(move || {
            for collection in open {
                // The engine flushes when it is dropped.
                collection.shard.write().unwrap_or_else(PoisonError::into_inner).take();
            }
            Ok(())
        })
        .await
    }

    fn collection(&self, name: &str) -> Arc<Collection> {
        hold(&self.inner.collections)
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Collection::new(&self.inner.root, name)))
            .clone()
    }

    /// Runs `work` on a blocking thread with the collection open.
    async fn with<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Collection, &engine::EdgeShard) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        check_name(name)?;
        let collection = self.collection(name);
        blocking(move || collection.open(|shard| work(&collection, shard))).await
    }
}

#[async_trait]
impl VectorStore for EdgeStore {
    fn kind(&self) -> &'static str {
        "edge"
    }

    async fn create_collection(&self, collection: &str, dimension: usize) -> Result<(), StoreError> {
        check_name(collection)?;
        let collection = self.collection(collection);
        blocking(move || {
            let mut slot = collection.shard.write().unwrap_or_else(PoisonError::into_inner);
            let shard = match slot.take() {
                Some(shard) => shard,
                None if collection.exists() => collection.load()?,
                None => collection.create(dimension)?,
            };
            let found = dimension_of(&shard);
            *slot = Some(shard);
            collection.check_dimension(found, dimension)
        })
        .await
    }

    async fn delete_collection(&self, collection: &str) -> Result<(), StoreError> {
        check_name(collection)?;
        let collection = self.collection(collection);
        blocking(move || {
            // Waits for all that is under way; the engine writes to its folder when it is dropped.
            let mut slot = collection.shard.write().unwrap_or_else(PoisonError::into_inner);
            slot.take();
            collection.remove()
        })
        .await
    }

    async fn upsert(&self, collection: &str, points: Vec<Point>) -> Result<(), StoreError> {
        self.with(collection, move |collection, shard| {
            let wanted = dimension_of(shard);
            for point in &points {
                collection.check_dimension(wanted, point.dense.len())?;
            }
            for batch in batches(points) {
                let count = batch.len();
                let points = batch.into_iter().map(convert::point).collect();
                let insert = engine::PointInsertOperations::PointsList(points);
                collection.change(shard, engine::PointOperations::UpsertPoints(insert), count)?;
            }
            Ok(())
        })
        .await
    }

    async fn delete(&self, collection: &str, ids: &[Uuid]) -> Result<(), StoreError> {
        let ids: Vec<engine::PointId> = ids.iter().copied().map(engine::PointId::Uuid).collect();
        self.with(collection, move |collection, shard| {
            let count = ids.len();
            collection.change(shard, engine::PointOperations::DeletePoints { ids }, count)
        })
        .await
    }

    async fn search(&self, collection: &str, query: &StoreQuery) -> Result<Legs, StoreError> {
        let [dense, bm25] = convert::legs(query)?;
        let (limit, dimension) = (query.limit, query.dense.as_ref().map(Vec::len));
        self.with(collection, move |collection, shard| {
            if let Some(dimension) = dimension {
                collection.check_dimension(dimension_of(shard), dimension)?;
            }
            let run = |leg: Option<engine::QueryRequest>| {
                let Some(leg) = leg else { return Ok(Vec::new()) };
                let found = shard.query(leg).map_err(failed)?;
                let found = found.into_iter().filter_map(|p| Some(ScoredPoint { id: uuid(p.id)?, score: p.score }));
                Ok(best(found.collect(), limit))
            };
            Ok(Legs { dense: run(dense)?, bm25: run(bm25)? })
        })
        .await
    }

    async fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError> {
        let request = engine::CountRequest { filter: convert::filter(filter)?, exact: true };
        self.with(collection, move |_, shard| Ok(shard.count(request).map_err(failed)? as u64)).await
    }

    async fn ids(&self, collection: &str) -> Result<Vec<Uuid>, StoreError> {
        self.with(collection, |_, shard| {
            let mut ids = Vec::new();
            let mut offset = None;
            loop {
                let (page, next) = shard
                    .scroll(engine::ScrollRequest {
                        offset,
                        limit: Some(PAGE),
                        filter: None,
                        with_payload: Some(engine::WithPayloadInterface::Bool(false)),
                        with_vector: engine::WithVector::Bool(false),
                        order_by: None,
                    })
                    .map_err(failed)?;
                ids.extend(page.into_iter().filter_map(|record| uuid(record.id)));
                offset = next;
                if offset.is_none() {
                    return Ok(ids);
                }
            }
        })
        .await
    }

    fn needs_flush(&self) -> bool {
        true
    }

    async fn flush(&self, collection: &str) -> Result<(), StoreError> {
        self.with(collection, |collection, shard| {
            let _upkeep = hold(&collection.upkeep);
            collection.flush(shard);
            Ok(())
        })
        .await
    }
}

/// All our ids are UUIDs.
fn uuid(id: engine::PointId) -> Option<Uuid> {
    match id {
        engine::PointId::Uuid(id) => Some(id),
        engine::PointId::NumId(_) => None,
    }
}

/// The engine blocks: it runs on the runtime's blocking threads, under the caller's span.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    let span = tracing::Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.unwrap_or_else(|e| Err(StoreError::Failed(format!("the vector engine stopped: {e}"))))
}
