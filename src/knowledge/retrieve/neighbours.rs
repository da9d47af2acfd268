//! Hits with the chunks around them joined on: more context from the same place.

use super::super::error::KnowledgeError;
use super::choose::Chosen;
use super::{DropReason, Hit, Retrieve};
use crate::storage::documents::DocumentKey;
use crate::storage::{chunks, versions};

impl Retrieve {
    /// Each hit grown by up to `n` chunks on either side; a hit that an earlier one has swallowed goes.
    pub(super) async fn join_neighbours(&self, found: &mut Chosen, n: u32) -> Result<(), KnowledgeError> {
        let mut grown: Vec<(Hit, u32, u32)> = Vec::new();
        for mut hit in std::mem::take(&mut found.hits) {
            let swallowed = grown.iter().any(|(earlier, from, to)| {
                earlier.collection == hit.collection
                    && earlier.document_id == hit.document_id
                    && (*from..=*to).contains(&hit.ordinal)
            });
            if swallowed {
                found.drop_hit(DropReason::Joined, hit);
                continue;
            }
            let (from, to) = (hit.ordinal.saturating_sub(n), hit.ordinal.saturating_add(n));
            let key = DocumentKey { collection: hit.collection.clone(), id: hit.document_id.clone() };
            let around = chunks::of_document(&self.base.db, &key, from, to).await?;
            // The document may have a new version by now: then the hit stays as it was found.
            if around.iter().any(|chunk| chunk.chunk_id == hit.chunk_id)
                && let (Some(first), Some(last)) = (around.first(), around.last())
                && let Some(text) = versions::span(&self.base.db, &key, first.version, first.start..last.end).await?
            {
                (hit.start, hit.end, hit.page) = (first.start, last.end, first.page);
                hit.lines = first.lines.zip(last.lines).map(|((from, _), (_, to))| (from, to));
                // With what stands between the chunks; a table's header in front, as of any piece of one.
                hit.text = format!("{}{text}", first.shown_prefix);
            }
            grown.push((hit, from, to));
        }
        found.hits = grown.into_iter().map(|(hit, _, _)| hit).collect();
        Ok(())
    }
}
