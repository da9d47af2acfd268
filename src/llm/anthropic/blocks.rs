//! The content blocks of one Anthropic message as they grow: what of them goes out as events, when a
//! tool call is complete, and the message as it has to go back.
//!
//! A call is complete when its block has stopped and its arguments parse. Empty arguments, and
//! blocks that never stop, wait for the stop reason: an answer cut by its length looks the same.

use crate::llm::decode::{MAX_CALLS, MAX_KEPT_BYTES, MAX_LABEL, refuse, too_long, why_refused};
use crate::llm::loose::{Halves, take_text, text};
use crate::llm::{LlmError, Stop, StreamEvent};
use serde_json::{Map, Value, json};

#[derive(Debug)]
struct Block {
    /// The wire's index; `None` for a block that the wire did not announce.
    index: Option<i64>,
    stopped: bool,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    Tool(Tool),
    /// A tool that the provider runs, its result, a redacted thought, or a kind we do not know: kept
    /// as it started, with the input that came later.
    Other {
        start: Value,
        input: String,
    },
}

#[derive(Debug)]
struct Tool {
    label: i64,
    id: String,
    name: String,
    /// What the start event held; fragments win over it.
    input: Value,
    arguments: String,
    halves: Halves,
    completed: bool,
}

#[derive(Debug, Default)]
pub struct Blocks {
    blocks: Vec<Block>,
    text: Halves,
    thinking: Halves,
    /// Makes ids where the server gave none.
    nonce: String,
    kept: usize,
}

impl Blocks {
    pub fn new(nonce: String) -> Self {
        Self { nonce, ..Self::default() }
    }

    pub fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block.content, Content::Tool(_)))
    }

    /// `content_block_start`, or an entry of a whole message's `content`.
    pub fn start(
        &mut self,
        index: Option<i64>,
        mut start: Value,
        marked: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let kind = take_text(&mut start, "type");
        let content = match kind.as_str() {
            "text" => Content::Text(self.say(take_text(&mut start, "text"), marked, out)),
            "thinking" => Content::Thinking {
                thinking: self.think(take_text(&mut start, "thinking"), marked, out),
                signature: take_text(&mut start, "signature"),
            },
            "tool_use" => {
                let label = self.label(index);
                let id = text(&start, "id").map(str::trim).filter(|id| !id.is_empty());
                let id = id.map_or_else(|| format!("toolu_{}{label}", self.nonce), str::to_owned);
                let name = take_text(&mut start, "name");
                out.push(StreamEvent::ToolCallStart { id: id.clone(), name: name.clone(), index: label });
                let input = start.get_mut("input").map(Value::take).unwrap_or_default();
                let (arguments, halves) = Default::default();
                Content::Tool(Tool { label, id, name, input, arguments, halves, completed: false })
            }
            _ => {
                if let Some(fields) = start.as_object_mut() {
                    fields.insert("type".into(), kind.into());
                }
                Content::Other { start, input: String::new() }
            }
        };
        self.keep(content_len(&content))?;
        self.push(Block { index, stopped: false, content })
    }

    /// `content_block_delta`.
    pub fn delta(
        &mut self,
        index: Option<i64>,
        mut delta: Value,
        marked: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let at = self.find(index);
        match text(&delta, "type").unwrap_or_default() {
            "text_delta" => {
                let piece = self.say(take_text(&mut delta, "text"), marked, out);
                self.keep(piece.len())?;
                match at.and_then(|at| self.blocks.get_mut(at)).map(|block| &mut block.content) {
                    Some(Content::Text(text)) => text.push_str(&piece),
                    _ => self.stray_text(piece)?,
                }
            }
            "thinking_delta" => {
                let piece = self.think(take_text(&mut delta, "thinking"), marked, out);
                self.keep(piece.len())?;
                if let Some(Content::Thinking { thinking, .. }) = self.content(at) {
                    thinking.push_str(&piece);
                }
            }
            "signature_delta" => {
                let piece = take_text(&mut delta, "signature");
                self.keep(piece.len())?;
                if let Some(Content::Thinking { signature, .. }) = self.content(at) {
                    signature.push_str(&piece);
                }
            }
            "input_json_delta" => {
                let piece = match delta.get_mut("partial_json").map(Value::take) {
                    Some(Value::String(text)) => text,
                    Some(value @ Value::Object(_)) => value.to_string(),
                    _ => String::new(),
                };
                self.keep(piece.len())?;
                match self.content(at) {
                    Some(Content::Tool(tool)) => tool.push(piece, marked, out),
                    Some(Content::Other { input, .. }) => input.push_str(&piece),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `content_block_stop`.
    pub fn stop(&mut self, index: Option<i64>, out: &mut Vec<StreamEvent>) {
        let Some(block) = self.find(index).and_then(|at| self.blocks.get_mut(at)) else { return };
        block.stopped = true;
        if let Content::Tool(tool) = &mut block.content {
            tool.close(out);
            // Empty arguments, and broken ones, are judged when the stop reason is known.
            if !tool.arguments.trim().is_empty() && why_refused(&tool.arguments, Stop::Tools).is_none() {
                tool.complete(out);
            }
        }
    }

    /// The message is whole: calls that are still open complete or are refused. Which are refused, and why.
    pub fn settle(&mut self, stop: Stop, out: &mut Vec<StreamEvent>) -> Option<String> {
        let mut refused = Vec::new();
        for block in &mut self.blocks {
            let Content::Tool(tool) = &mut block.content else { continue };
            tool.close(out);
            match why_refused(&tool.arguments, stop) {
                None => tool.complete(out),
                Some(why) => refused.push(format!("of {} (call {}) {why}", tool.name, tool.label)),
            }
        }
        refuse(&refused)
    }

    /// Halves of characters that stayed alone.
    pub fn flush(&mut self, out: &mut Vec<StreamEvent>) {
        out.extend(self.thinking.flush().map(|c| StreamEvent::ReasoningDelta(c.into())));
        out.extend(self.text.flush().map(|c| StreamEvent::Delta(c.into())));
    }

    /// The blocks as they go back to the provider, in order; empty ones are left out because it
    /// refuses them.
    pub fn into_message(self) -> Vec<Value> {
        self.blocks.into_iter().filter_map(|block| block.content.into_value()).collect()
    }

    fn say(&mut self, piece: String, marked: bool, out: &mut Vec<StreamEvent>) -> String {
        let piece = self.text.join(piece, marked);
        if !piece.is_empty() {
            out.push(StreamEvent::Delta(piece.clone()));
        }
        piece
    }

    fn think(&mut self, piece: String, marked: bool, out: &mut Vec<StreamEvent>) -> String {
        let piece = self.thinking.join(piece, marked);
        if !piece.is_empty() {
            out.push(StreamEvent::ReasoningDelta(piece.clone()));
        }
        piece
    }

    /// The block that an event with this index means: the newest of that index, since some servers
    /// give all blocks the same; without one the newest that is open.
    fn find(&self, index: Option<i64>) -> Option<usize> {
        self.blocks.iter().rposition(|block| match index {
            Some(_) => block.index == index,
            None => !block.stopped,
        })
    }

    fn content(&mut self, at: Option<usize>) -> Option<&mut Content> {
        at.and_then(|at| self.blocks.get_mut(at)).map(|block| &mut block.content)
    }

    /// Text that no text block announced, some of it on a tool's block.
    fn stray_text(&mut self, piece: String) -> Result<(), LlmError> {
        match self.blocks.last_mut() {
            Some(Block { index: None, content: Content::Text(text), .. }) => text.push_str(&piece),
            _ => self.push(Block { index: None, stopped: true, content: Content::Text(piece) })?,
        }
        Ok(())
    }

    fn label(&self, index: Option<i64>) -> i64 {
        let labels = || {
            self.blocks.iter().filter_map(|block| match &block.content {
                Content::Tool(tool) => Some(tool.label),
                _ => None,
            })
        };
        index
            .filter(|index| (0..=MAX_LABEL).contains(index) && labels().all(|label| label != *index))
            .unwrap_or_else(|| labels().max().map_or(0, |label| label + 1))
    }

    fn push(&mut self, block: Block) -> Result<(), LlmError> {
        if self.blocks.len() >= MAX_CALLS {
            return Err(too_long());
        }
        self.blocks.push(block);
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.kept += bytes;
        if self.kept > MAX_KEPT_BYTES { Err(too_long()) } else { Ok(()) }
    }
}

fn content_len(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::Thinking { thinking, signature } => thinking.len() + signature.len(),
        // An event is bounded, and so is the number of blocks; this is the exact part that matters.
        Content::Tool(tool) => tool.id.len() + tool.name.len() + json_len(&tool.input),
        Content::Other { start, .. } => json_len(start),
    }
}

fn json_len(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        value => value.to_string().len(),
    }
}

impl Content {
    fn into_value(self) -> Option<Value> {
        match self {
            Self::Text(text) if text.trim().is_empty() => None,
            Self::Text(text) => Some(json!({"type": "text", "text": text})),
            // A thought without a signature would be refused.
            Self::Thinking { signature, .. } if signature.is_empty() => None,
            Self::Thinking { thinking, signature } => {
                Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
            }
            Self::Tool(Tool { id, name, arguments, .. }) => {
                // The provider takes objects only; what was sent instead stands in the call's result.
                let input: Map<String, Value> = serde_json::from_str(&arguments).unwrap_or_default();
                Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
            }
            Self::Other { mut start, input } => {
                if let (Some(fields), Ok(input)) = (start.as_object_mut(), serde_json::from_str::<Value>(&input)) {
                    fields.insert("input".into(), input);
                }
                Some(start)
            }
        }
    }
}

impl Tool {
    fn push(&mut self, piece: String, marked: bool, out: &mut Vec<StreamEvent>) {
        let delta = self.halves.join(piece, marked);
        if !delta.is_empty() {
            self.arguments.push_str(&delta);
            out.push(StreamEvent::ToolCallArgumentsDelta { index: self.label, delta });
        }
    }

    /// No fragment follows: a half character stays alone, and without any fragment the start event
    /// may have held the whole input.
    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        if let Some(rest) = self.halves.flush() {
            self.push(rest.into(), false, out);
        }
        let whole = self.input.as_object().is_some_and(|input| !input.is_empty());
        if self.arguments.is_empty() && whole {
            let input = self.input.take().to_string();
            self.push(input, false, out);
        }
    }

    fn complete(&mut self, out: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.completed, true) {
            out.push(StreamEvent::ToolCallComplete { index: self.label });
        }
    }
}
