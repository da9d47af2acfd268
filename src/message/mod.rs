//! What a conversation is made of, in no provider's words. Plain data: no I/O, no wire format.

pub mod citations;
pub mod code_spans;
pub mod framing;
pub mod passages;
pub mod sources;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// JSON object of a call's arguments, keys in the order they were written.
pub type Arguments = Map<String, Value>;

/// One message of the history that a provider is asked to continue.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatMessage {
    /// Instructions of the service itself, never text that was retrieved.
    System(String),
    /// What the user wrote, or (framed as data) what retrieval added for them.
    User(String),
    Assistant(AssistantMessage),
    /// Results of the native calls of the assistant message before it, in call order.
    ToolResults(Vec<ToolResult>),
}

/// What the model said in one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssistantMessage {
    /// Visible text, inline tool blocks included as they were written.
    pub text: String,
    /// Native calls; inline calls stand in `text`.
    pub tool_calls: Vec<ToolCall>,
    /// The same message in the provider's own form (thinking signatures included). It goes back
    /// unchanged within the turn, and only to the provider named here.
    pub raw: Option<RawMessage>,
}

/// An assistant message exactly as one provider wants it back.
#[derive(Clone, Debug, PartialEq)]
pub struct RawMessage {
    pub provider: String,
    pub content: Value,
}

/// A native call as the model made it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Arguments,
}

/// What one native call brought, as the model reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub call_id: String,
    pub name: String,
    pub ok: bool,
    /// At most `engine.max_result_bytes`, framed as data.
    pub content: String,
}

/// Tokens of one LLM stream, or summed over a turn. Zero where the provider said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
    }
}
