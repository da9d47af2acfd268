//! Hits with the chunks around them joined on: more context from the same place.

use super::super::error::KnowledgeError;
use super::choose::Chosen;
use super::{DropReason, Hit, Retrieve};
use crate::storage::chunks::{self, LiveChunk};
use crate::storage::documents::DocumentKey;

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
            {
                (hit.start, hit.end) = (first.start, last.end);
                hit.lines = first.lines.zip(last.lines).map(|((from, _), (_, to))| (from, to));
                hit.text = join(&around);
            }
            grown.push((hit, from, to));
        }
        found.hits = grown.into_iter().map(|(hit, _, _)| hit).collect();
        Ok(())
    }
}

/// Texts of neighbours as one, what overlaps once.
fn join(chunks: &[LiveChunk]) -> String {
    let mut text = String::new();
    let mut end = 0u64;
    for chunk in chunks {
        let overlap = usize::try_from(end.saturating_sub(chunk.start)).unwrap_or_default();
        match chunk.text.get(overlap..) {
            // A table's header is repeated only where the table does not go on from what stands before.
            Some(rest) if !text.is_empty() && chunk.start <= end => text.push_str(rest),
            _ => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&chunk.shown_prefix);
                text.push_str(&chunk.text);
            }
        }
        end = chunk.end.max(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use uuid::Uuid;

    fn chunk(content: &str, start: usize, end: usize, header: &str) -> LiveChunk {
        LiveChunk {
            point_id: Uuid::nil(),
            chunk_id: Uuid::nil(),
            document_id: String::new(),
            version: 1,
            ordinal: 0,
            title: String::new(),
            uri: String::new(),
            metadata: Map::new(),
            text: content[start..end].to_owned(),
            shown_prefix: header.to_owned(),
            heading_path: Vec::new(),
            start: start as u64,
            end: end as u64,
            page: None,
            lines: None,
            embedding: Vec::new(),
        }
    }

    #[test]
    fn what_overlaps_stands_once() {
        let content = "one two three four five";
        let pieces = |cuts: &[(usize, usize)]| cuts.iter().map(|(s, e)| chunk(content, *s, *e, "")).collect::<Vec<_>>();
        assert_eq!(join(&pieces(&[(0, 13), (8, 18), (14, 23)])), content);
        assert_eq!(join(&pieces(&[(0, 7), (8, 13)])), "one two\nthree");
        assert_eq!(join(&[chunk(content, 0, 7, "H "), chunk(content, 4, 13, "H ")]), "H one two three");
        assert_eq!(join(&[chunk(content, 0, 7, ""), chunk(content, 8, 13, "H ")]), "one two\nH three");
        assert_eq!(join(&[]), "");
    }
}
