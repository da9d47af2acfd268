//! Earlier messages of a conversation as the next turn's model reads them. Pure.
//!
//! A past answer goes back without its tool blocks: their results are not repeated (what was worth
//! keeping is in the knowledge base), and a call without a result would only teach the model to write
//! calls that nobody answers.

use crate::message::sources::Source;
use crate::message::{AssistantMessage, ChatMessage};
use crate::storage::messages::{CallOutcome, StoredMessage, StoredRole};
use crate::tools::seen_urls::SeenUrls;

/// Oldest first; answers without any text are left out.
pub fn as_messages(stored: &[StoredMessage]) -> Vec<ChatMessage> {
    stored
        .iter()
        .filter_map(|message| match message.role {
            StoredRole::User => Some(ChatMessage::User(message.text.clone())),
            StoredRole::Assistant => {
                let text = without_blocks(message);
                (!text.trim().is_empty())
                    .then(|| ChatMessage::Assistant(AssistantMessage { text, ..AssistantMessage::default() }))
            }
        })
        .collect()
}

fn without_blocks(message: &StoredMessage) -> String {
    let mut text = String::with_capacity(message.text.len());
    let mut at = 0;
    for (start, end) in message.calls.iter().filter_map(|c| c.span) {
        let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { continue };
        if start < at {
            continue;
        }
        text.push_str(message.text.get(at..start).unwrap_or_default());
        at = end;
    }
    text.push_str(message.text.get(at..).unwrap_or_default());
    text
}

/// Notes every URL that the user wrote, or that search hits and tool results brought.
pub fn note_urls(stored: &[StoredMessage], seen: &SeenUrls) {
    for message in stored {
        if message.role == StoredRole::User {
            seen.add_text(&message.text);
        }
        for Source { uri, .. } in &message.sources {
            seen.add_text(uri);
        }
        for call in &message.calls {
            if let CallOutcome::Ok { output } = &call.outcome {
                seen.add_text(output);
            }
        }
    }
}
