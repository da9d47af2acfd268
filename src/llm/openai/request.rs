//! A conversation as the body of an OpenAI-compatible chat completion request. Pure.

use super::OpenAiOptions;
use crate::llm::ReasoningEffort;
use crate::llm::history::{History, Said, Turn};
use crate::message::ChatMessage;
use crate::tools::ToolSpec;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
struct Request<'m> {
    model: &'m str,
    messages: Vec<Message<'m>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    /// Compatible servers know this name only,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    /// and the vendor's newer models this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'m> {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        /// `null` beside calls: some servers drop the calls of a message with a text, even an empty one.
        content: Option<&'m str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'m>>,
    },
    Tool {
        tool_call_id: String,
        content: &'m str,
    },
}

#[derive(Debug, Serialize)]
struct Call<'m> {
    id: String,
    r#type: &'static str,
    function: CallFunction<'m>,
}

#[derive(Debug, Serialize)]
struct CallFunction<'m> {
    name: &'m str,
    /// JSON in a string.
    arguments: String,
}

#[derive(Debug, Serialize)]
struct Tool<'m> {
    r#type: &'static str,
    function: ToolFunction<'m>,
}

#[derive(Debug, Serialize)]
struct ToolFunction<'m> {
    name: &'m str,
    description: &'m str,
    parameters: &'m Value,
}

/// The JSON of the request.
pub fn body(options: &OpenAiOptions, vendor: bool, messages: &[ChatMessage], tools: &[ToolSpec]) -> Vec<u8> {
    let history = History::read(messages, |said| said.tool_calls.iter().map(|call| call.id.as_str()).collect());
    let mut rendered = Vec::new();
    if !history.system.is_empty() {
        rendered.push(Message::System { content: history.system });
    }
    for turn in history.turns {
        match turn {
            Turn::User(content) => rendered.push(Message::User { content }),
            Turn::Assistant(said) => rendered.extend(assistant(said)),
            Turn::Results(outcomes) => rendered.extend(
                outcomes
                    .into_iter()
                    .map(|outcome| Message::Tool { tool_call_id: outcome.id, content: outcome.content }),
            ),
        }
    }
    let request = Request {
        model: &options.model,
        messages: rendered,
        tools: tools
            .iter()
            .map(|spec| Tool {
                r#type: "function",
                function: ToolFunction {
                    name: &spec.name,
                    description: &spec.description,
                    parameters: &spec.parameters,
                },
            })
            .collect(),
        reasoning_effort: options.reasoning_effort.map(ReasoningEffort::as_str),
        max_tokens: options.max_tokens.filter(|_| !vendor),
        max_completion_tokens: options.max_tokens.filter(|_| vendor),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    // Strings, numbers and string keys only: this cannot fail.
    serde_json::to_vec(&request).unwrap_or_default()
}

/// `None` for a message that holds nothing this wire can say.
fn assistant(Said { message, ids }: Said<'_>) -> Option<Message<'_>> {
    let tool_calls: Vec<Call<'_>> = ids
        .into_iter()
        .zip(&message.tool_calls)
        .map(|(id, call)| Call {
            id,
            r#type: "function",
            function: CallFunction { name: &call.name, arguments: Value::Object(call.arguments.clone()).to_string() },
        })
        .collect();
    let content = (!message.text.is_empty()).then_some(message.text.as_str());
    (content.is_some() || !tool_calls.is_empty()).then_some(Message::Assistant { content, tool_calls })
}

#[cfg(test)]
mod tests;
