//! One collection: a folder of the engine, opened on first use, and the locks that keep its parts apart.

use super::convert;
use crate::knowledge::StoreError;
use crate::knowledge::store::{BM25, DENSE};
use qdrant_edge as engine;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Payload keys that every search filters by or every delete looks for.
const INDEXED: [(&str, engine::PayloadSchemaType); 3] = [
    ("scope", engine::PayloadSchemaType::Keyword),
    ("document_id", engine::PayloadSchemaType::Keyword),
    ("expires_at", engine::PayloadSchemaType::Integer),
];

/// Bytes of one file of the engine's log. The engine's 32 MiB are too many for a collection of one document.
const LOG_FILE_BYTES: usize = 4 * 1024 * 1024;
/// First part of a deleted collection's folder name; no collection's name begins with a dot.
pub(super) const DELETED: &str = ".deleted-";

#[derive(Debug)]
pub(super) struct Collection {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// `None` until opened and after deletion. Readers use the engine; a writer opens it or takes it away.
    pub(super) shard: RwLock<Option<engine::EdgeShard>>,
    /// One change at a time, and none during a flush: the engine's flush panics if a write is under way.
    pub(super) writing: Mutex<()>,
    /// `flush` or `optimize`, never both: the engine's flush panics if segments are being swapped.
    pub(super) upkeep: Mutex<()>,
    /// Points written or deleted since the last `optimize`.
    pub(super) unsettled: AtomicUsize,
}

impl Collection {
    /// Not opened yet.
    pub(super) fn new(root: &Path, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            folder: root.join(name),
            shard: RwLock::default(),
            writing: Mutex::default(),
            upkeep: Mutex::default(),
            unsettled: AtomicUsize::new(0),
        }
    }

    /// Runs `work` with the engine, opening it first if need be.
    pub(super) fn open<R>(
        &self,
        work: impl FnOnce(&engine::EdgeShard) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
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
    pub(super) fn change(
        &self,
        shard: &engine::EdgeShard,
        change: engine::PointOperations,
        points: usize,
    ) -> Result<(), StoreError> {
        let _writing = hold(&self.writing);
        self.unsettled.fetch_add(points, Ordering::Relaxed);
        shard.update(engine::UpdateOperation::PointOperation(change)).map_err(failed)
    }

    /// Makes durable what has been applied. The caller holds `upkeep`.
    pub(super) fn flush(&self, shard: &engine::EdgeShard) {
        let _writing = hold(&self.writing);
        shard.flush();
    }

    pub(super) fn exists(&self) -> bool {
        engine::EdgeConfig::load(&self.folder).is_some()
    }

    pub(super) fn create(&self, dimension: usize) -> Result<engine::EdgeShard, StoreError> {
        let dense = engine::EdgeVectorParams::builder(dimension, engine::Distance::Cosine).build();
        let bm25 = engine::EdgeSparseVectorParams::builder().modifier(engine::Modifier::Idf).build();
        let log = engine::WalOptions { segment_capacity: LOG_FILE_BYTES, ..engine::WalOptions::default() };
        // Half of the cores build the graph; the others answer.
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let graph =
            engine::HnswIndexConfig { max_indexing_threads: (cores / 2).max(1), ..engine::HnswIndexConfig::default() };
        let config = engine::EdgeConfig::builder()
            .vector(DENSE, dense)
            .sparse_vector(BM25, bm25)
            .hnsw_config(graph)
            .wal_options(log)
            .build();
        fs::create_dir_all(&self.folder).map_err(|e| self.io(&e))?;
        let shard = engine::EdgeShard::new(&self.folder, config).map_err(failed)?;
        self.index(&shard)?;
        Ok(shard)
    }

    /// [`StoreError::Unreadable`] where the engine refuses its files or trips over them.
    pub(super) fn load(&self) -> Result<engine::EdgeShard, StoreError> {
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
    pub(super) fn remove(&self) -> Result<(), StoreError> {
        let aside = self.folder.with_file_name(format!("{DELETED}{}", self.name));
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(|e| self.io(&e))?;
        }
        match fs::rename(&self.folder, &aside) {
            Ok(()) => fs::remove_dir_all(&aside).map_err(|e| self.io(&e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(self.io(&e)),
        }
    }

    pub(super) fn check_dimension(&self, found: usize, wanted: usize) -> Result<(), StoreError> {
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
pub(super) fn dimension_of(shard: &engine::EdgeShard) -> usize {
    shard.config().vectors.get(DENSE).map_or(0, |dense| dense.size)
}

pub(super) fn failed(e: engine::OperationError) -> StoreError {
    StoreError::Failed(e.to_string())
}

/// A panic elsewhere leaves nothing half done in what these locks guard.
pub(super) fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
