//! SQL and the store compared id by id and mended, while documents come and go.
//! Invariant: only what differed at two looks is touched, and a point that a row wants is there afterwards, whatever was
//! committed meanwhile.

use super::super::base::Base;
use super::super::error::KnowledgeError;
use super::super::reconcile::{self, Comparison};
use super::Ingest;
use crate::storage::audit::{self, Orphans};
use crate::storage::documents::DocumentKey;
use crate::storage::points;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Between two looks: longer than a point may be in the store before its row is.
const SETTLE: Duration = Duration::from_secs(20);
/// Ids that are dealt with at a time.
const PAGE: usize = 512;

/// What an audit found and mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Points of rows that the store had lost.
    pub missing: u64,
    /// Points in the store that no row knows.
    pub extra: u64,
    pub orphans: Orphans,
}

impl Mended {
    pub fn nothing(self) -> bool {
        self == Self::default()
    }
}

impl Ingest {
    /// Audits every so often until `stop` is cancelled. One task of the service.
    pub async fn run_audit(self, every: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            let audited = stop.run_until_cancelled(self.audit(SETTLE)).await;
            match audited {
                None => return,
                Some(Err(error)) => tracing::warn!(error = %error, "the audit of the knowledge base failed"),
                Some(Ok(mended)) if mended.nothing() => tracing::debug!("rows and points agree"),
                Some(Ok(mended)) => tracing::warn!(
                    points.missing = mended.missing,
                    points.extra = mended.extra,
                    rows.chunks = mended.orphans.chunks,
                    rows.versions = mended.orphans.versions,
                    rows.contents = mended.orphans.contents,
                    rows.stuck = mended.orphans.stuck,
                    "rows and points did not agree, and do now"
                ),
            }
        }
    }

    /// Looks twice, `settle` apart, and mends what differed both times. Where nothing else runs, no time is needed.
    ///
    /// # Errors
    /// What the store and the database say.
    pub async fn audit(&self, settle: Duration) -> Result<Mended, KnowledgeError> {
        let base = &self.inner.base;
        let orphans = audit::remove_orphans(&base.db).await?;
        let mut mended = Mended { orphans, ..Mended::default() };
        let first = reconcile::compare(base).await?;
        if first.iter().all(Comparison::agrees) {
            return Ok(mended);
        }
        tokio::time::sleep(settle).await;
        for second in reconcile::compare(base).await? {
            let Some(first) = first.iter().find(|first| first.collection == second.collection) else { continue };
            // Another build must not come into its place meanwhile.
            let _writing = self.inner.gates.write(&second.collection).await;
            let missing = both(&first.missing, &second.missing);
            let extra = both(&first.extra, &second.extra);
            mended.missing += missing.len() as u64;
            for ids in extra.chunks(PAGE) {
                // A version that is being built has its points before it is live.
                let stray = points::without_rows(&base.db, ids).await?;
                base.store.delete(&second.collection, &stray).await?;
                mended.extra += stray.len() as u64;
            }
            // What was an extra point may have got its row while it was deleted.
            for ids in missing.chunks(PAGE).chain(extra.chunks(PAGE)) {
                self.put_again(&second.collection, ids).await?;
            }
        }
        self.inner.stirred.notify_one();
        Ok(mended)
    }

    /// Writes those of the points again that rows of live versions want, each with its document held still.
    async fn put_again(&self, collection: &str, ids: &[Uuid]) -> Result<(), KnowledgeError> {
        let base: &Base = &self.inner.base;
        let collection = match base.collection(collection).await {
            // Deleted meanwhile, or refused until its model runs again: nothing goes in.
            Err(KnowledgeError::NoCollection(_) | KnowledgeError::Model { .. }) => return Ok(()),
            other => other?,
        };
        let mut of: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for point in points::with_ids(&base.db, &collection.name, ids).await? {
            of.entry(point.document_id).or_default().push(point.point_id);
        }
        for (document, ids) in of {
            let key = DocumentKey { collection: collection.name.clone(), id: document };
            let _inside = self.inner.turnstile.enter(&key).await;
            let stored = points::with_ids(&base.db, &collection.name, &ids).await?;
            reconcile::put(base, &collection, stored).await?;
        }
        Ok(())
    }
}

fn both(first: &[Uuid], second: &[Uuid]) -> Vec<Uuid> {
    let first: HashSet<&Uuid> = first.iter().collect();
    second.iter().filter(|id| first.contains(id)).copied().collect()
}
