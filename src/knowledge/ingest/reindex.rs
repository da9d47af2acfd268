//! A collection built anew beside the build that answers, and then put into its place: with another model, or because
//! chunk sizes changed or the index was lost. Nothing is uploaded for it: the text is in SQL.
//!
//! Invariants: searches find the old build until the commit that makes the new one answer, and then the new one; that
//! commit happens only when the new build has every version that can be found, as it is now, and the store has exactly
//! its points; what a kill -9 leaves goes on at the next start, from the vectors that are stored.

use super::super::base::Base;
use super::super::error::KnowledgeError;
use super::super::filter::Filter;
use super::super::store::builds::{Numbers, part_name};
use super::super::{Embedder, Priority, StoreError};
use super::Ingest;
use super::slice::Target;
use crate::storage::collections::{self, Collection};
use crate::storage::generations::{self, Build};
use crate::storage::jobs::reindex;
use crate::storage::rebuilt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Points that go to the store at a time, and rows that are taken away in one commit.
const PAGE: usize = 256;
/// Before a build that failed is tried again: a server that embeds may be back by then.
const AGAIN: Duration = Duration::from_secs(30);
/// How often the two sides are made to agree before that counts as a failure.
const LOOKS: usize = 5;

/// How far a build aside has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindexing {
    /// Its job.
    pub job: Option<Uuid>,
    pub embedding_model: String,
    pub dimension: u64,
    /// Versions of documents.
    pub done: u64,
    pub total: u64,
    /// Why the last try stopped; it is tried again.
    pub error: Option<String>,
}

/// What became of a try to change builds.
enum Change {
    Done,
    /// There is more to build.
    Behind,
    /// The store lost or gained points meanwhile.
    Differs,
}

impl Ingest {
    /// Begins to build a collection anew from the stored texts: with the model that is named, else with its own where
    /// that runs here, else with the default one. [`Ingest::run_reindexing`] does the work; it goes on after a restart.
    /// `owner`: the API key that asks.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::NoModel`].
    pub async fn reindex(
        &self,
        name: &str,
        model: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Reindexing, KnowledgeError> {
        let base = &self.inner.base;
        let found = collections::find(&base.db, name).await?.filter(|c| !c.deleting);
        let collection = found.ok_or_else(|| KnowledgeError::NoCollection(name.to_owned()))?;
        let own = base.embedder_of(&collection).ok();
        let embedder = match (model, own) {
            (None, Some(own)) => own,
            (asked, _) => base.embedders.named(asked)?,
        };
        let model = embedder.model();
        let (model, dimension) = (model.name.clone(), model.dimension as u64);
        generations::begin(&base.db, name.to_owned(), model, dimension, owner.map(str::to_owned)).await?;
        self.inner.running.changed();
        self.inner.reindex.notify_one();
        self.reindexing(name).await?.ok_or(KnowledgeError::Overtaken)
    }

    /// The build of a collection that is being made, if any.
    ///
    /// # Errors
    /// What the database says.
    pub async fn reindexing(&self, name: &str) -> Result<Option<Reindexing>, KnowledgeError> {
        let db = &self.inner.base.db;
        let builds = generations::of_collection(db, name).await?;
        let Some(build) = builds.into_iter().find(|build| !build.leaving) else { return Ok(None) };
        let (lacking, total) = rebuilt::lacking(db, &build).await?;
        Ok(Some(Reindexing {
            job: reindex::open(db, name).await?,
            embedding_model: build.embedding_model,
            dimension: build.dimension,
            done: total.saturating_sub(lacking),
            total,
            error: build.error,
        }))
    }

    /// Gives up a re-index; the build that answers stays. `false`: there is none under way.
    ///
    /// # Errors
    /// What the database says.
    pub(super) async fn give_up_reindex(&self, name: &str) -> Result<bool, KnowledgeError> {
        let given_up = generations::give_up(&self.inner.base.db, name.to_owned()).await?;
        self.inner.running.changed();
        self.inner.reindex.notify_one();
        Ok(given_up)
    }

    /// Builds what [`Ingest::reindex`] was asked for and takes away what has been replaced, until `stop` is cancelled.
    /// One task of the service.
    pub async fn run_reindexing(self, stop: CancellationToken) {
        loop {
            let failed = tokio::select! {
                () = stop.cancelled() => return,
                failed = self.reindex_all() => failed,
            };
            let again = async { if failed { tokio::time::sleep(AGAIN).await } else { std::future::pending().await } };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inner.reindex.notified() => {}
                () = again => {}
            }
        }
    }

    /// Everything that waits, once; whether something failed.
    pub async fn reindex_all(&self) -> bool {
        let db = &self.inner.base.db;
        let builds = match generations::list(db).await {
            Ok(builds) => builds,
            Err(error) => {
                tracing::error!(%error, "the collections to be re-indexed cannot be read");
                return true;
            }
        };
        let mut failed = false;
        for build in builds {
            let done = if build.leaving { self.take_away(&build).await } else { self.build_aside(&build).await };
            if matches!(done, Err(KnowledgeError::Overtaken)) {
                // Given up for another wish: that one comes next.
                continue;
            }
            if let Err(error) = &done {
                failed = true;
                tracing::warn!(collection = build.collection, code = error.code(), %error, "a re-index stopped");
            }
            if build.leaving {
                continue;
            }
            let why = done.err().map(|error| error.to_string());
            if let Err(error) = generations::set_error(db, &build, why).await {
                tracing::error!(%error, "the state of a re-index could not be noted");
            }
        }
        // What was just replaced can go too.
        for build in generations::list(db).await.unwrap_or_default().iter().filter(|build| build.leaving) {
            failed |= self.take_away(build).await.is_err();
        }
        failed
    }

    async fn build_aside(&self, build: &Build) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let name = build.collection.as_str();
        let Some(collection) = collections::find(&base.db, name).await?.filter(|c| !c.deleting) else {
            return Ok(());
        };
        let embedder = base.embedders.recorded(&build.embedding_model, build.dimension);
        let embedder = embedder.ok_or_else(|| base.embedders.unknown(&build.embedding_model))?;
        base.builds.set(name, Numbers { live: collection.generation, aside: Some(build.generation) });
        self.make_part(build, &embedder).await?;
        let target = Target {
            collection: name.to_owned(),
            generation: build.generation,
            embedder,
            priority: Priority::Bulk,
            anew: false,
        };
        tracing::info!(collection = name, embed.model = build.embedding_model, "a collection is re-indexed");
        let mut looks = 0;
        loop {
            self.catch_up(build, &target, &collection).await?;
            self.agree(build, &collection).await?;
            match self.change(build).await? {
                Change::Done => break,
                Change::Behind => {}
                Change::Differs if looks < LOOKS => looks += 1,
                Change::Differs => {
                    let why = "the store does not hold exactly the points of the new build";
                    return Err(StoreError::Failed(why.to_owned()).into());
                }
            }
        }
        tracing::info!(collection = name, embed.model = build.embedding_model, "the new build answers");
        Ok(())
    }

    /// The build's part of the store, empty or as an earlier try left it.
    async fn make_part(&self, build: &Build, embedder: &Arc<dyn Embedder>) -> Result<(), KnowledgeError> {
        let (parts, part) = (self.inner.base.builds.parts(), part_name(&build.collection, build.generation));
        let dimension = embedder.model().dimension;
        match parts.create_collection(&part, dimension).await {
            // What cannot be read is made anew: its points come from SQL again.
            Err(StoreError::Dimension { .. } | StoreError::Unreadable { .. }) => {
                parts.delete_collection(&part).await?;
                Ok(parts.create_collection(&part, dimension).await?)
            }
            other => Ok(other?),
        }
    }

    /// Builds versions until none is lacking.
    async fn catch_up(&self, build: &Build, target: &Target, collection: &Collection) -> Result<(), KnowledgeError> {
        let db = &self.inner.base.db;
        let keywords = self.inner.base.keywords(&collection.keyword_language)?;
        let (lacking, total) = rebuilt::lacking(db, build).await?;
        generations::set_progress(db, build, total.saturating_sub(lacking), total).await?;
        // From where the last look ended: what lies before it is looked at again when the end is reached.
        let mut after = (String::new(), 0);
        loop {
            self.inner.running.changed();
            let done = match rebuilt::next_behind(db, build, &after).await {
                Ok(None) if after.0.is_empty() => return Ok(()),
                Ok(None) => {
                    after = (String::new(), 0);
                    continue;
                }
                Ok(Some(behind)) => {
                    after = (behind.key.id.clone(), behind.version);
                    self.rebuild_version(build, target, &keywords, behind).await
                }
                Err(error) => Err(error.into()),
            };
            match done {
                // Changed or deleted since it was read: if it is there, it comes again.
                Err(KnowledgeError::Overtaken) => self.must_go_on(build).await?,
                other => other?,
            }
        }
    }

    /// # Errors
    /// [`KnowledgeError::Overtaken`] where the build was given up.
    async fn must_go_on(&self, build: &Build) -> Result<(), KnowledgeError> {
        let builds = generations::of_collection(&self.inner.base.db, &build.collection).await?;
        let going_on = builds.iter().any(|b| b.generation == build.generation && !b.leaving);
        if going_on { Ok(()) } else { Err(KnowledgeError::Overtaken) }
    }

    /// Makes the store hold exactly the points of the build's rows.
    async fn agree(&self, build: &Build, collection: &Collection) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let (parts, part) = (base.builds.parts(), part_name(&build.collection, build.generation));
        let rows: HashSet<Uuid> = rebuilt::ids(&base.db, build).await?.into_iter().collect();
        let stored: HashSet<Uuid> = parts.ids(&part).await?.into_iter().collect();
        let extra: Vec<Uuid> = stored.difference(&rows).copied().collect();
        for ids in extra.chunks(PAGE) {
            parts.delete(&part, ids).await?;
        }
        let keywords = base.keywords(&collection.keyword_language)?;
        let missing: Vec<Uuid> = rows.difference(&stored).copied().collect();
        for ids in missing.chunks(PAGE) {
            let rows = rebuilt::with_ids(&base.db, build, ids).await?;
            let keywords = keywords.clone();
            let points = base.off_runtime(Priority::Bulk, move || Base::points(&keywords, rows)).await??;
            parts.upsert(&part, points).await?;
        }
        Ok(())
    }

    /// Makes the new build the one that answers, if nothing is lacking while nobody writes.
    async fn change(&self, build: &Build) -> Result<Change, KnowledgeError> {
        let base = &self.inner.base;
        let (name, part) = (build.collection.as_str(), part_name(&build.collection, build.generation));
        // The slow part comes before others are made to wait.
        let flushed_seq = collections::watermark(&base.db).await?;
        if base.store.needs_flush() {
            base.builds.parts().flush(&part).await?;
        }
        let _closed = self.inner.gates.close(name).await;
        if rebuilt::lacking(&base.db, build).await?.0 > 0 {
            return Ok(Change::Behind);
        }
        let rows = rebuilt::ids(&base.db, build).await?.len() as u64;
        if base.builds.parts().count(&part, &Filter::default()).await? != rows {
            return Ok(Change::Differs);
        }
        if !generations::switch(&base.db, build, flushed_seq).await? {
            self.must_go_on(build).await?;
            return Ok(Change::Behind);
        }
        base.builds.set(name, Numbers { live: build.generation, aside: None });
        self.inner.running.changed();
        self.inner.stirred.notify_one();
        Ok(Change::Done)
    }

    /// Takes a build away that does not answer any more: its points, then its rows, a few at a time.
    async fn take_away(&self, build: &Build) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        base.builds.leave(&build.collection, build.generation);
        match base.builds.parts().delete_collection(&part_name(&build.collection, build.generation)).await {
            Ok(()) | Err(StoreError::NoCollection(_)) => {}
            Err(other) => return Err(other.into()),
        }
        let page = u32::try_from(PAGE).unwrap_or(u32::MAX);
        while generations::thin_out(&base.db, build, page).await? {
            tokio::task::yield_now().await;
        }
        Ok(generations::forget(&base.db, build).await?)
    }
}
