//! `vector_search`: the model asks the knowledge base. It waits, bounded, for what this turn is still
//! storing, so that a round finds what the one before it brought.

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::knowledge::filter::Filter;
use crate::knowledge::filter_json::{filter_from_json, filter_schema};
use crate::knowledge::retrieve::{Retrieve, SearchRequest};
use crate::message::Arguments;
use crate::message::passages;
use crate::message::sources::Source;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::time::Duration;

/// Most passages that one call may ask for.
const MOST: usize = 20;

pub struct VectorSearch {
    spec: ToolSpec,
    retrieve: Retrieve,
    options: VectorSearchOptions,
}

/// What the operator decides.
#[derive(Clone, Copy, Debug)]
pub struct VectorSearchOptions {
    /// Passages where the call names no number; at most 20.
    pub limit: usize,
    /// Passages of one document.
    pub per_document: usize,
    /// How long a search waits for ingestions of its turn that have begun.
    pub wait: Duration,
}

impl VectorSearch {
    pub fn new(retrieve: Retrieve, options: VectorSearchOptions) -> Self {
        let limit = options.limit.clamp(1, MOST);
        let spec = ToolSpec {
            name: "vector_search".to_owned(),
            description: "Searches the knowledge base by meaning and by words, and returns numbered passages to cite. \
                 It also finds what earlier tool calls of this conversation brought."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["query"],
                "properties": {
                    "query": {
                        "type": "string", "minLength": 1, "maxLength": 2000,
                        "description": "what to look for, in the words of the documents"
                    },
                    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": limit},
                    "filter": filter_schema(),
                },
            }),
            side_effects: false,
        };
        Self { spec, retrieve, options: VectorSearchOptions { limit, ..options } }
    }
}

#[async_trait]
impl Tool for VectorSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = arguments.get("limit").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let filter = arguments.get("filter").map_or_else(|| Ok(Filter::default()), filter_from_json);
        let fresh = context.pending.settled(self.options.wait).await;
        let request = SearchRequest {
            collections: context.collections.to_vec(),
            limit: limit.unwrap_or(self.options.limit).clamp(1, MOST),
            filter: filter.map_err(|error| ToolError(error.to_string()))?,
            conversation: Some(context.conversation_id),
            rerank: self.retrieve.can_rerank(),
            per_document: Some(self.options.per_document),
            ..SearchRequest::new("", query, 1)
        };
        let answer = self.retrieve.search(&request).await.map_err(|error| ToolError(error.to_string()))?;
        for hit in &answer.hits {
            context.seen_urls.add_text(&hit.uri);
            context.seen_urls.add_text(&hit.text);
        }
        let sources: Vec<Source> =
            answer.hits.iter().map(|hit| hit.source(context.sources.number(hit.chunk_id))).collect();
        let passages = answer.hits.iter().zip(&sources).map(|(hit, source)| hit.passage(source.n));
        let text = format!("{}\n{}", head(answer.hits.len(), fresh), passages::render(&passages.collect::<Vec<_>>()));
        Ok(ToolOutput { text: text.trim_end().to_owned(), sources, ingest: None })
    }
}

/// The first line of the result: how many, and whether something may be missing.
fn head(found: usize, fresh: bool) -> String {
    let count = match found {
        0 => "No passage of the knowledge base matches this query.".to_owned(),
        1 => "1 passage:".to_owned(),
        n => format!("{n} passages, best first:"),
    };
    if fresh {
        return count;
    }
    format!("fresh: false (results of this turn that are still being stored were not searched). {count}")
}
