//! The port to tools: what one declares, what it is given, what it brings.
//! To add one: a file beside these, one line in `app.rs`, one case in `tests/integration/tools.rs`.

pub mod address_guard;
pub mod fetch_url;
pub mod seen_urls;
pub mod vector_search;

pub use crate::knowledge::pending::PendingIngests;

use crate::message::Arguments;
use crate::message::sources::{Source, SourceBook};
use async_trait::async_trait;
use seen_urls::SeenUrls;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What the model is told of a tool, and what the gate checks.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_.-]{1,64}`.
    pub name: String,
    /// One or two sentences for the model.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments object.
    pub parameters: Value,
    /// A tool without side effects may start as soon as its arguments have closed.
    pub side_effects: bool,
}

#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;
    /// Runs one admitted call; `arguments` satisfy the schema. Cancelled by dropping the future.
    async fn call(&self, arguments: Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// What a call may know of the turn it runs in. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    /// The collections this turn may read; never empty.
    pub collections: Arc<[String]>,
    /// The conversation's citation numbers.
    pub sources: Arc<SourceBook>,
    /// URLs that the user, search hits or earlier results have named in this conversation.
    pub seen_urls: Arc<SeenUrls>,
    /// Ingestions of this turn that have begun, for read-your-writes.
    pub pending: PendingIngests,
    /// Cancelled with the turn; child work that outlives a dropped future must watch it.
    pub cancel: CancellationToken,
}

/// What a call brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model and the user.
    pub text: String,
    /// Passages that `text` numbers as `[n]`; they leave as a `sources` frame.
    pub sources: Vec<Source>,
    /// What of it belongs into the knowledge base; `None` for what came from there.
    pub ingest: Option<IngestText>,
}

/// Text to be kept from a tool result.
#[derive(Clone, Debug, PartialEq)]
pub struct IngestText {
    pub title: String,
    /// Where it came from; one document per conversation and URI.
    pub uri: String,
    /// Plain text or Markdown.
    pub text: String,
}

/// Why a call failed, in words the model can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// The registered tools, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolRegistry {
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self { tools: tools.into_iter().map(|t| (t.spec().name.clone(), t)).collect() }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|t| t.spec())
    }
}
