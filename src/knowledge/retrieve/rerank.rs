//! The last word of a model that reads query and passage together.

use super::super::Reranker;
use super::super::error::KnowledgeError;
use super::choose::Chosen;
use super::{DropReason, SearchRequest};
use std::collections::HashMap;

/// Orders the hits by the reranker's scores, then applies what was asked for: a least score, hits of a document, limit.
pub(super) async fn apply(
    reranker: &dyn Reranker,
    request: &SearchRequest,
    found: &mut Chosen,
) -> Result<(), KnowledgeError> {
    let mut hits = std::mem::take(&mut found.hits);
    if hits.is_empty() {
        return Ok(());
    }
    let passages = hits.iter().map(|hit| hit.passage(0)).map(|p| format!("{}\n\n{}", p.title, p.text)).collect();
    let scores = reranker.rerank(&request.query, passages).await?;
    for (hit, score) in hits.iter_mut().zip(scores) {
        hit.score = score;
        hit.rerank = Some(score);
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut of_document: HashMap<(String, String), usize> = HashMap::new();
    for hit in hits {
        let seen = of_document.entry((hit.collection.clone(), hit.document_id.clone())).or_default();
        if request.min_rerank.is_some_and(|least| hit.score < least) {
            found.drop_hit(DropReason::BelowMinScore, hit);
        } else if found.hits.len() == request.limit {
            found.drop_hit(DropReason::BeyondLimit, hit);
        } else if request.per_document.is_some_and(|most| *seen >= most) {
            found.drop_hit(DropReason::PerDocument, hit);
        } else {
            *seen += 1;
            found.hits.push(hit);
        }
    }
    Ok(())
}
