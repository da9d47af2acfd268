//! SQL and the store brought into step at start-up, and compared for `doctor`.
//! Invariant: afterwards the store holds exactly the points of live versions, whatever the process was
//! doing when it ended; nothing is embedded again for it.

use super::base::Base;
use super::error::KnowledgeError;
use super::filter::Filter;
use super::ingest::Ingest;
use super::store::builds::Numbers;
use super::{Priority, StoreError};
use crate::storage::collections::{self, Collection};
use crate::storage::documents;
use crate::storage::points::{self, PointCursor, StoredPoint};
use crate::storage::{generations, jobs, tombstones};
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// Points that are read, and written again, at a time.
const PAGE: u32 = 512;

/// What a start found to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Documents that had been half built and were sent again by nobody: they now say `failed`.
    pub interrupted: u64,
    /// Documents that wait in the queue to be ingested.
    pub queued: u64,
    /// Points written again from SQL.
    pub replayed: u64,
    /// Points the store had and SQL did not know, or no longer.
    pub dropped: u64,
    /// Collections whose points were built by another model than the one that runs; they are refused
    /// until that is changed.
    pub other_model: Vec<String>,
}

/// One collection's points on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub collection: String,
    /// In SQL.
    pub rows: u64,
    /// In the store.
    pub points: u64,
    /// In SQL and not in the store.
    pub missing: Vec<Uuid>,
    /// In the store and not in SQL.
    pub extra: Vec<Uuid>,
}

impl Comparison {
    pub fn agrees(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }
}

/// Brings everything into step. Runs before anything is ingested or searched.
///
/// # Errors
/// What the store and the database say.
pub async fn start(base: &Base, ingest: &Ingest) -> Result<Reconciled, KnowledgeError> {
    let mut done = Reconciled::default();
    let mut suspects = HashSet::new();
    for document in documents::building(&base.db).await? {
        let waits = !jobs::unfinished(&base.db, &document.key).await?.is_empty();
        let why = "the server stopped while it was being read: send it again";
        if let Some(version) = document.building {
            let why = ("interrupted", why.to_owned());
            tombstones::fail(&base.db, document.key.clone(), version, Vec::new(), why, true).await?;
        }
        if !waits {
            done.interrupted += 1;
        }
        suspects.insert(document.key.collection);
    }
    // Nobody else works on this database: every lease is of a process that has ended.
    done.queued = jobs::release(&base.db, i64::MAX, ingest.max_attempts()).await?.queued;
    let builds = generations::list(&base.db).await?;
    for collection in collections::list(&base.db).await? {
        let aside = builds.iter().find(|build| build.collection == collection.name && !build.leaving);
        let aside = aside.map(|build| build.generation);
        base.builds.set(&collection.name, Numbers { live: collection.generation, aside });
        if collection.deleting {
            ingest.finish_deleting(&collection.name).await?;
        } else if base.check_model(&collection).is_err() && points::count(&base.db, &collection.name).await? > 0 {
            done.other_model.push(collection.name);
        } else {
            let suspect = suspects.contains(&collection.name);
            let (replayed, dropped) = bring_into_step(base, &collection, suspect).await?;
            done.replayed += replayed;
            done.dropped += dropped;
        }
    }
    Ok(done)
}

/// (points written, points dropped).
async fn bring_into_step(base: &Base, collection: &Collection, suspect: bool) -> Result<(u64, u64), KnowledgeError> {
    let name = collection.name.as_str();
    let dimension = dimension(base, collection);
    match base.store.create_collection(name, dimension).await {
        Ok(()) => {}
        // Its rows are of the model that runs, or it has none: what the store has is a leftover.
        Err(StoreError::Dimension { .. }) => make_anew(base, name, dimension).await?,
        // What a crash left in this process's own folder cannot be read; a server's trouble is its own.
        Err(StoreError::Failed(why)) if base.store.needs_flush() => {
            tracing::warn!(collection = name, why, "the vector store's files are unreadable and built again");
            make_anew(base, name, dimension).await?;
        }
        Err(other) => return Err(other.into()),
    }
    let flushed_seq = collections::find(&base.db, name).await?.map_or(0, |c| c.flushed_seq);
    let mut dropped = 0;
    loop {
        let dead = tombstones::list(&base.db, name, dropped, PAGE).await?;
        if dead.is_empty() {
            break;
        }
        base.store.delete(name, &dead).await?;
        dropped += dead.len() as u64;
    }
    let mut replayed = 0;
    if base.store.needs_flush() {
        replayed += replay(base, collection, flushed_seq).await?;
    }
    let counted = base.store.count(name, &Filter::default()).await?;
    if suspect || counted != points::count(&base.db, name).await? {
        let difference = compare_collection(base, name).await?;
        for ids in difference.missing.chunks(PAGE as usize) {
            replayed += put(base, collection, points::with_ids(&base.db, name, ids).await?).await?;
        }
        for ids in difference.extra.chunks(PAGE as usize) {
            base.store.delete(name, ids).await?;
        }
        dropped += difference.extra.len() as u64;
    }
    Ok((replayed, dropped))
}

/// Of its model; an empty collection whose model does not run here is of the default one when the first document comes.
fn dimension(base: &Base, collection: &Collection) -> usize {
    let embedder = base.embedder_of(collection).unwrap_or_else(|_| Arc::clone(base.embedders.default()));
    embedder.model().dimension
}

async fn make_anew(base: &Base, name: &str, dimension: usize) -> Result<(), KnowledgeError> {
    base.store.delete_collection(name).await?;
    base.store.create_collection(name, dimension).await?;
    Ok(collections::reset_flushed(&base.db, name.to_owned()).await?)
}

/// Writes every point again that is newer than `seq`.
async fn replay(base: &Base, collection: &Collection, seq: i64) -> Result<u64, KnowledgeError> {
    let mut after = PointCursor { seq, point_id: None };
    let mut written = 0;
    loop {
        let page = points::page(&base.db, &collection.name, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(written) };
        after = last.cursor();
        written += put(base, collection, page).await?;
    }
}

pub(super) async fn put(base: &Base, collection: &Collection, stored: Vec<StoredPoint>) -> Result<u64, KnowledgeError> {
    let keywords = base.keywords(&collection.keyword_language)?;
    let made = base.off_runtime(Priority::Bulk, move || Base::points(&keywords, stored)).await??;
    let count = made.len() as u64;
    base.store.upsert(&collection.name, made).await?;
    Ok(count)
}

/// Writes every point of a collection again from SQL, whatever the store holds; nothing is embedded.
/// The number of points.
///
/// # Errors
/// [`KnowledgeError::NoCollection`], [`KnowledgeError::Model`]; what the store and the database say.
pub async fn rebuild(base: &Base, name: &str) -> Result<u64, KnowledgeError> {
    let collection = base.collection(name).await?;
    base.store.create_collection(name, dimension(base, &collection)).await?;
    collections::reset_flushed(&base.db, name.to_owned()).await?;
    replay(base, &collection, 0).await
}

/// Every collection's points, id by id.
///
/// # Errors
/// What the store and the database say; a collection that the store does not have is no error.
pub async fn compare(base: &Base) -> Result<Vec<Comparison>, KnowledgeError> {
    let mut all = Vec::new();
    for collection in collections::list(&base.db).await?.into_iter().filter(|c| !c.deleting) {
        all.push(compare_collection(base, &collection.name).await?);
    }
    Ok(all)
}

async fn compare_collection(base: &Base, name: &str) -> Result<Comparison, KnowledgeError> {
    let stored = match base.store.ids(name).await {
        Err(StoreError::NoCollection(_)) => Vec::new(),
        other => other?,
    };
    let rows: HashSet<Uuid> = points::ids(&base.db, name).await?.into_iter().collect();
    let stored: HashSet<Uuid> = stored.into_iter().collect();
    let mut missing: Vec<Uuid> = rows.difference(&stored).copied().collect();
    let mut extra: Vec<Uuid> = stored.difference(&rows).copied().collect();
    missing.sort_unstable();
    extra.sort_unstable();
    Ok(Comparison { collection: name.to_owned(), rows: rows.len() as u64, points: stored.len() as u64, missing, extra })
}
