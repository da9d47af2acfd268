//! The in-process store: one folder of the embedded engine a collection, under `<data>/vectors`.
//!
//! Invariants: a write is applied when its call returns, and survives a crash only after [`flush`]
//! (this version of the engine does not replay its log on load; SQL does). Every call into the engine runs
//! on a blocking thread. Searches never wait for `flush` or [`EdgeStore::maintain`]; writes wait for a
//! `flush` that is under way, never for `maintain`. One process at a time: the folder is locked.
//!
//! [`flush`]: VectorStore::flush

mod convert;

use crate::knowledge::filter::Filter;
use crate::knowledge::store::{BM25, DENSE, batches, best, check_name};
use crate::knowledge::{Point, ScoredPoint, StoreError, StoreQuery, VectorStore};
use async_trait::async_trait;
use qdrant_edge as engine;
use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use uuid::Uuid;

/// Payload keys that every search filters by or every delete looks for.
const INDEXED: [(&str, engine::PayloadSchemaType); 3] = [
    ("scope", engine::PayloadSchemaType::Keyword),
    ("document_id", engine::PayloadSchemaType::Keyword),
    ("expires_at", engine::PayloadSchemaType::Integer),
];

/// Bytes of one file of the engine's log. The engine's 32 MiB are too many for a collection of one document.
const LOG_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Points written or deleted since the last time, before [`EdgeStore::maintain`] looks at a collection again.
const MAINTAIN_AFTER: usize = 1000;
/// First part of a deleted collection's folder name; no collection's name begins with a dot.
const DELETED: &str = ".deleted-";
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

#[derive(Debug)]
struct Collection {
    name: String,
    folder: PathBuf,
    /// `None` until opened and after deletion. Readers use the engine; a writer opens it or takes it away.
    shard: RwLock<Option<engine::EdgeShard>>,
    /// One change at a time, and none during a flush: the engine's flush panics if a write is under way.
    writing: Mutex<()>,
    /// `flush` or `optimize`, never both: the engine's flush panics if segments are being swapped.
    upkeep: Mutex<()>,
    /// Points written or deleted since the last `optimize`.
    unsettled: AtomicUsize,
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
                shard.optimize().map_err(failed)
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
        let entry = |name: &str| {
            Arc::new(Collection {
                name: name.to_owned(),
                folder: self.inner.root.join(name),
                shard: RwLock::default(),
                writing: Mutex::default(),
                upkeep: Mutex::default(),
                unsettled: AtomicUsize::new(0),
            })
        };
        hold(&self.inner.collections).entry(name.to_owned()).or_insert_with(|| entry(name)).clone()
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

    async fn search(&self, collection: &str, query: &StoreQuery) -> Result<Vec<ScoredPoint>, StoreError> {
        let request = convert::query(query)?;
        let (limit, dimension) = (query.limit, query.dense.as_ref().map(Vec::len));
        self.with(collection, move |collection, shard| {
            if let Some(dimension) = dimension {
                collection.check_dimension(dimension_of(shard), dimension)?;
            }
            let Some(request) = request.filter(|_| limit > 0) else { return Ok(Vec::new()) };
            let found = shard.query(request).map_err(failed)?;
            let found = found.into_iter().filter_map(|p| Some(ScoredPoint { id: uuid(p.id)?, score: p.score }));
            Ok(best(found.collect(), limit))
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
            let _writing = hold(&collection.writing);
            shard.flush();
            Ok(())
        })
        .await
    }
}

impl Collection {
    /// Runs `work` with the engine, opening it first if need be.
    fn open<R>(&self, work: impl FnOnce(&engine::EdgeShard) -> Result<R, StoreError>) -> Result<R, StoreError> {
        loop {
            if let Some(shard) = self.shard.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
                return work(shard);
            }
            let mut slot = self.shard.write().unwrap_or_else(PoisonError::into_inner);
            if slot.is_none() {
                if !self.exists() {
                    return Err(StoreError::NoCollection(self.name.clone()));
                }
                *slot = Some(self.load()?);
            }
        }
    }

    /// Applies one change.
    fn change(
        &self,
        shard: &engine::EdgeShard,
        change: engine::PointOperations,
        points: usize,
    ) -> Result<(), StoreError> {
        let _writing = hold(&self.writing);
        self.unsettled.fetch_add(points, Ordering::Relaxed);
        shard.update(engine::UpdateOperation::PointOperation(change)).map_err(failed)
    }

    fn exists(&self) -> bool {
        engine::EdgeConfig::load(&self.folder).is_some()
    }

    fn create(&self, dimension: usize) -> Result<engine::EdgeShard, StoreError> {
        let dense = engine::EdgeVectorParams::builder(dimension, engine::Distance::Cosine).build();
        let bm25 = engine::EdgeSparseVectorParams::builder().modifier(engine::Modifier::Idf).build();
        let log = engine::WalOptions { segment_capacity: LOG_FILE_BYTES, ..engine::WalOptions::default() };
        let config =
            engine::EdgeConfig::builder().vector(DENSE, dense).sparse_vector(BM25, bm25).wal_options(log).build();
        fs::create_dir_all(&self.folder).map_err(|e| self.io(&e))?;
        let shard = engine::EdgeShard::new(&self.folder, config).map_err(failed)?;
        self.index(&shard)?;
        Ok(shard)
    }

    /// [`StoreError::Unreadable`] where the engine refuses its files or trips over them.
    fn load(&self) -> Result<engine::EdgeShard, StoreError> {
        let unreadable = |reason: String| StoreError::Unreadable { collection: self.name.clone(), reason };
        self.trim_log().map_err(|e| self.io(&e))?;
        let shard = catch_unwind(AssertUnwindSafe(|| engine::EdgeShard::load(&self.folder, None)))
            .map_err(|_| unreadable("the engine stopped while reading it".into()))?
            .map_err(|e| unreadable(e.to_string()))?;
        self.index(&shard)?;
        Ok(shard)
    }

    /// Makes the payload indexes that are not there.
    fn index(&self, shard: &engine::EdgeShard) -> Result<(), StoreError> {
        let there = shard.info().payload_schema;
        for (name, kind) in INDEXED {
            let field_name = convert::key(name)?;
            if !there.contains_key(&field_name) {
                let field_schema = Some(engine::PayloadFieldSchema::FieldType(kind));
                let create =
                    engine::FieldIndexOperations::CreateIndex(engine::CreateIndex { field_name, field_schema });
                shard.update(engine::UpdateOperation::FieldIndexOperation(create)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes what the engine never reads again and never removes: full files of its log but the last,
    /// which numbers the next change.
    fn trim_log(&self) -> io::Result<()> {
        let folder = self.folder.join("wal");
        if !folder.exists() {
            return Ok(());
        }
        let mut full: Vec<(u64, PathBuf)> = fs::read_dir(folder)?
            .flatten()
            .filter_map(|file| {
                let name = file.file_name();
                Some((name.to_str()?.strip_prefix("closed-")?.parse().ok()?, file.path()))
            })
            .collect();
        full.sort();
        full.pop();
        full.iter().try_for_each(|(_, file)| fs::remove_file(file))
    }

    /// In two steps, so that a crash between leaves no half collection.
    fn remove(&self) -> Result<(), StoreError> {
        let aside = self.folder.with_file_name(format!("{DELETED}{}", self.name));
        match fs::rename(&self.folder, &aside) {
            Ok(()) => fs::remove_dir_all(&aside).map_err(|e| self.io(&e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(self.io(&e)),
        }
    }

    fn check_dimension(&self, found: usize, wanted: usize) -> Result<(), StoreError> {
        if found == wanted {
            return Ok(());
        }
        Err(StoreError::Dimension { collection: self.name.clone(), found, wanted })
    }

    fn io(&self, e: &io::Error) -> StoreError {
        StoreError::Failed(format!("vector folder `{}`: {e}", self.folder.display()))
    }
}

/// Length of the dense vectors.
fn dimension_of(shard: &engine::EdgeShard) -> usize {
    shard.config().vectors.get(DENSE).map_or(0, |dense| dense.size)
}

/// All our ids are UUIDs.
fn uuid(id: engine::PointId) -> Option<Uuid> {
    match id {
        engine::PointId::Uuid(id) => Some(id),
        engine::PointId::NumId(_) => None,
    }
}

fn failed(e: engine::OperationError) -> StoreError {
    StoreError::Failed(e.to_string())
}

/// A panic elsewhere leaves nothing half done in what these locks guard.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine blocks: it runs on the runtime's blocking threads, under the caller's span.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    let span = tracing::Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.unwrap_or_else(|e| Err(StoreError::Failed(format!("the vector engine stopped: {e}"))))
}
