//! How much of the model's window a request takes, learned from what providers say they have read. Pure.

use super::continuation::RoundRecord;
use super::event::ToolOutcome;
use super::transcript::{Leg, Transcript};
use crate::message::{AssistantMessage, ChatMessage, Usage};
use crate::tools::ToolSpec;

/// Tokens for each byte before anything is known: a little more than English has, so that guesses err on the safe
/// side.
const FIRST_GUESS: f64 = 0.3;
/// What a provider can truly mean; it may count what is not in the messages, or not count what it remembers.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.1..=1.0;
/// A result is not replaced by a note that is hardly shorter, and not cut below this, in bytes.
const SHORT_RESULT: usize = 300;

/// Tokens for each byte of a request to one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRate(f64);

impl Default for TokenRate {
    fn default() -> Self {
        Self(FIRST_GUESS)
    }
}

impl TokenRate {
    /// What a request of `bytes` turned out to be.
    pub fn learn(&mut self, bytes: usize, usage: Usage) {
        // Some count what came from their cache among the input, some beside it.
        let beside = if usage.cache_read_tokens > usage.input_tokens { usage.cache_read_tokens } else { 0 };
        let tokens = usage.input_tokens + beside;
        if tokens > 0 && bytes > 0 {
            self.0 = (tokens as f64 / bytes as f64).clamp(*PLAUSIBLE.start(), *PLAUSIBLE.end());
        }
    }

    pub fn tokens(self, bytes: usize) -> u64 {
        (bytes as f64 * self.0).ceil() as u64
    }

    pub fn bytes(self, tokens: u64) -> usize {
        (tokens as f64 / self.0) as usize
    }
}

/// Bytes of a request's text, near enough.
pub fn size(messages: &[ChatMessage], tools: &[ToolSpec]) -> usize {
    let of_tool = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
    messages.iter().map(message_size).sum::<usize>() + tools.iter().map(of_tool).sum::<usize>()
}

pub fn message_size(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::System(text) | ChatMessage::User(text) => text.len(),
        ChatMessage::Assistant(AssistantMessage { text, tool_calls, raw }) => match raw {
            Some(raw) => raw.content.to_string().len(),
            None => {
                let calls = tool_calls.iter();
                let of_call = |(name, value): (&String, &serde_json::Value)| name.len() + value.to_string().len();
                text.len() + calls.map(|c| c.name.len() + c.arguments.iter().map(of_call).sum::<usize>()).sum::<usize>()
            }
        },
        ChatMessage::ToolResults(results) => results.iter().map(|result| result.content.len()).sum(),
    }
}

/// Makes room for `excess` bytes: results of tools become one-line notes, oldest first, the last round's not. How many
/// bytes that gave.
pub fn drop_results(transcript: &mut Transcript, excess: usize) -> usize {
    let mut freed = 0;
    let last = transcript.legs.iter().rposition(|leg| matches!(leg, Leg::Results(_)));
    for (at, leg) in transcript.legs.iter_mut().enumerate() {
        let Leg::Results(record) = leg else { continue };
        if Some(at) == last {
            break;
        }
        for call in &mut record.calls {
            let ToolOutcome::Ok { output } = &mut call.outcome else { continue };
            if freed >= excess {
                return freed;
            }
            if output.len() > SHORT_RESULT {
                let note = format!("(left out to make room: it was {} bytes long)", output.len());
                freed += output.len() - note.len();
                *output = note;
                call.full_bytes = None;
            }
        }
    }
    freed
}

/// The last resort: cuts the last round's results, the longest first, by `excess` bytes in all. How many that gave.
pub fn cut_last_results(transcript: &mut Transcript, excess: usize) -> usize {
    let mut freed = 0;
    let Some(Leg::Results(RoundRecord { calls, .. })) = transcript.legs.last_mut() else { return 0 };
    let mut outputs: Vec<_> = calls
        .iter_mut()
        .filter_map(|call| match &mut call.outcome {
            ToolOutcome::Ok { output } => Some((output, &mut call.full_bytes)),
            ToolOutcome::Failed { .. } | ToolOutcome::Rejected { .. } => None,
        })
        .collect();
    outputs.sort_by_key(|(output, _)| std::cmp::Reverse(output.len()));
    for (output, full_bytes) in outputs {
        let was = output.len();
        // A cut may give a little more than it had to: characters are not cut.
        let wanted = excess.saturating_sub(freed);
        let keep = was.saturating_sub(wanted).max(SHORT_RESULT);
        if wanted == 0 || keep >= was {
            break;
        }
        output.truncate(output.floor_char_boundary(keep));
        full_bytes.get_or_insert(was as u64);
        freed += was - output.len();
    }
    freed
}

/// How many of the oldest messages have to go to make room for `excess` bytes and a summary of `summary` bytes: whole
/// turns, so that what is left begins with a user's message.
pub fn oldest(history: &[ChatMessage], excess: usize, summary: usize) -> usize {
    let (mut freed, mut at) = (0, 0);
    while at < history.len() && freed < excess + summary {
        freed += message_size(&history[at]);
        at += 1;
        while at < history.len() && !matches!(history[at], ChatMessage::User(_)) {
            freed += message_size(&history[at]);
            at += 1;
        }
    }
    at
}

#[cfg(test)]
mod tests;
