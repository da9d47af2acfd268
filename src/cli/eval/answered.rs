//! Questions with answers that stand in their documents: the chunks judged by them, and the whole way from a question
//! to the passages that a model would be given.

use super::scores::mean;
use super::spans::{self, Cut};
use super::{COLLECTION, Failure, Judgements, Record};
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::retrieve::SearchRequest;
use crate::storage::chunks;
use crate::storage::documents::{self, DocumentKey};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;

/// Means over all questions.
pub struct Answered {
    cuts: Vec<Cut>,
    /// Share of the span that was found, share of what was found that is the span.
    found: Vec<(f64, f64)>,
    /// 1 where the context has an answer.
    complete: Vec<f64>,
    limit: usize,
}

/// A judged document as it was stored.
struct Document {
    content: String,
    chunks: Vec<Range<usize>>,
}

impl Answered {
    /// `None` where no question comes with answers that stand in its documents.
    pub async fn of(
        knowledge: &Knowledge,
        config: &Config,
        questions: &[Record],
        judged: &Judgements,
    ) -> Result<Option<Self>, Failure> {
        let retrieval = &config.retrieval;
        let mut all = Self { cuts: vec![], found: vec![], complete: vec![], limit: retrieval.limit };
        let mut known: HashMap<String, Document> = HashMap::new();
        for question in questions.iter().filter(|question| !question.metadata.answers.is_empty()) {
            let answers = &question.metadata.answers;
            let mut spans: Vec<(String, Range<usize>)> = Vec::new();
            for id in judged.get(&question.id).into_iter().flat_map(HashMap::keys) {
                if !known.contains_key(id) {
                    known.insert(id.clone(), Document::read(knowledge, id).await?);
                }
                let Some(document) = known.get(id) else { continue };
                let places = answers.iter().filter_map(|answer| {
                    let start = document.content.find(answer.trim())?;
                    Some(start..start + answer.trim().len())
                });
                spans.extend(places.map(|span| (id.clone(), span)));
            }
            let Some((id, span)) = spans.first() else { continue };
            if let Some(document) = known.get(id) {
                all.cuts.push(spans::cut(span, &document.chunks));
            }
            // As automatic retrieval asks before an answer.
            let request = SearchRequest {
                min_cosine: Some(retrieval.min_cosine),
                per_document: Some(retrieval.per_document),
                rerank: knowledge.retrieve.can_rerank(),
                ..SearchRequest::new(COLLECTION, &question.text, retrieval.limit)
            };
            let hits = knowledge.retrieve.search(&request).await?.hits;
            let bytes = |start: u64, end: u64| usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
            let here: Vec<Range<usize>> =
                hits.iter().filter(|hit| hit.document_id == *id).map(|hit| bytes(hit.start, hit.end)).collect();
            let all_bytes = hits.iter().map(|hit| bytes(hit.start, hit.end).len()).sum();
            all.found.push(spans::found(span, &here, all_bytes));
            let context: Vec<&str> = hits.iter().map(|hit| hit.text.as_str()).collect();
            all.complete.push(if spans::answers(&context.join("\n"), answers) { 1.0 } else { 0.0 });
        }
        Ok((!all.cuts.is_empty()).then_some(all))
    }

    pub fn lines(&self) -> Vec<String> {
        let cut = |of: fn(&Cut) -> f64| mean(&self.cuts, of);
        vec![
            format!(
                "  chunks: {:.3} of {} answers lie whole in one chunk; span recall {:.3}, precision {:.3}",
                cut(|c| c.whole),
                self.cuts.len(),
                cut(|c| c.recall),
                cut(|c| c.precision)
            ),
            format!(
                "  end to end, {} passages: {:.3} of the contexts have the answer; span recall {:.3}, precision {:.3}",
                self.limit,
                mean(&self.complete, |c| *c),
                mean(&self.found, |f| f.0),
                mean(&self.found, |f| f.1)
            ),
        ]
    }

    pub fn write(&self, report: &mut Value) {
        let cut = |of: fn(&Cut) -> f64| mean(&self.cuts, of);
        report["chunking"] = json!({
            "spans": self.cuts.len(), "whole": cut(|c| c.whole), "span_recall": cut(|c| c.recall),
            "span_precision": cut(|c| c.precision),
        });
        report["end_to_end"] = json!({
            "questions": self.complete.len(), "limit": self.limit, "context_has_answer": mean(&self.complete, |c| *c),
            "span_recall": mean(&self.found, |f| f.0), "span_precision": mean(&self.found, |f| f.1),
        });
    }
}

impl Document {
    async fn read(knowledge: &Knowledge, id: &str) -> Result<Self, Failure> {
        let key = DocumentKey { collection: COLLECTION.to_owned(), id: id.to_owned() };
        let content = documents::content(&knowledge.base.db, &key).await?.unwrap_or_default();
        let stored = chunks::of_document(&knowledge.base.db, &key, 0, u32::MAX).await?;
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let chunks = stored.iter().map(|chunk| bytes(chunk.start)..bytes(chunk.end)).collect();
        Ok(Self { content, chunks })
    }
}
