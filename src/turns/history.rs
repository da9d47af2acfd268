//! Earlier messages of a conversation as the next turn's model reads them. Pure.
//!
//! A past answer goes back without its tool blocks: their results are not repeated (what was worth
//! keeping is in the knowledge base), and a call without a result would only teach the model to write
//! calls that nobody answers. Numbers that it cited and that stand for nothing are left out too: what a model
//! reads as a source it cites again.

use crate::engine::event::Finish;
use crate::engine::is_error_text;
use crate::engine::summary::Summary;
use crate::message::citations;
use crate::message::sources::Source;
use crate::message::{AssistantMessage, ChatMessage};
use crate::storage::messages::{CallOutcome, StoredCall, StoredMessage, StoredRole};
use crate::storage::summaries::StoredSummary;
use crate::tools::seen_urls::SeenUrls;
use std::collections::BTreeSet;
use uuid::Uuid;

/// What the model reads of the past, and the stored message that each of these reaches up to.
#[derive(Debug, Default)]
pub struct Past {
    pub messages: Vec<ChatMessage>,
    pub ids: Vec<Uuid>,
}

impl Past {
    /// Oldest first; answers without any text are left out. `known`: the conversation has given this number to a
    /// source. `summary`: stands for the messages up to its own.
    pub fn new(stored: &[StoredMessage], known: impl Fn(u32) -> bool, summary: Option<StoredSummary>) -> Self {
        let mut past = Self::default();
        let covered = summary.and_then(|summary| {
            let at = stored.iter().position(|message| message.id == summary.message_id)?;
            past.push(Summary::message(&summary.text), summary.message_id);
            Some(at + 1)
        });
        for message in stored.iter().skip(covered.unwrap_or(0)) {
            match message.role {
                StoredRole::User => past.push(ChatMessage::User(message.text.clone()), message.id),
                // The model would take it for its own words.
                StoredRole::Assistant if is_error(message) => {}
                StoredRole::Assistant => {
                    let text = said(message, &known);
                    if !text.trim().is_empty() {
                        let said = AssistantMessage { text, ..AssistantMessage::default() };
                        past.push(ChatMessage::Assistant(said), message.id);
                    }
                }
            }
        }
        past
    }

    fn push(&mut self, message: ChatMessage, id: Uuid) {
        self.messages.push(message);
        self.ids.push(id);
    }
}

/// Whether the text says only why there is no answer.
fn is_error(message: &StoredMessage) -> bool {
    message.finish.as_deref() == Some(Finish::ProviderError.as_str()) && is_error_text(&message.text)
}

/// What an answer says, without its tool blocks and without numbers that stand for nothing.
pub fn said(message: &StoredMessage, known: impl Fn(u32) -> bool) -> String {
    citations::without_unknown(&without_blocks(&message.text, &message.calls), known)
}

/// Numbers that an answer cites and `known` does not know.
pub fn invented(text: &str, calls: &[StoredCall], known: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    citations::unknown(&without_blocks(text, calls), known)
}

fn without_blocks(whole: &str, calls: &[StoredCall]) -> String {
    let mut text = String::with_capacity(whole.len());
    let mut at = 0;
    for (start, end) in calls.iter().filter_map(|c| c.span) {
        let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { continue };
        if start < at {
            continue;
        }
        text.push_str(whole.get(at..start).unwrap_or_default());
        at = end;
    }
    text.push_str(whole.get(at..).unwrap_or_default());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::messages::MessageStatus;

    fn stored(n: u128, role: StoredRole, text: &str) -> StoredMessage {
        StoredMessage {
            id: Uuid::from_u128(n),
            turn_id: Uuid::nil(),
            role,
            text: text.to_owned(),
            status: MessageStatus::Done,
            finish: None,
            provider: None,
            model: None,
            usage: Default::default(),
            created: Default::default(),
            calls: vec![],
            sources: vec![],
        }
    }

    #[test]
    fn a_summary_stands_for_what_it_reaches_up_to() {
        let messages = [
            stored(1, StoredRole::User, "q1"),
            stored(2, StoredRole::Assistant, "a1"),
            stored(3, StoredRole::User, "q2"),
            stored(4, StoredRole::Assistant, " "),
            stored(5, StoredRole::User, "q3"),
        ];
        let short = |id| Some(StoredSummary { message_id: Uuid::from_u128(id), text: "short".into() });
        for (summary, ids, summarized) in [
            (None, &[1, 2, 3, 5][..], false),
            (short(2), &[2, 3, 5], true),
            (short(4), &[4, 5], true),
            // Its message is gone: it was replaced.
            (short(9), &[1, 2, 3, 5], false),
        ] {
            let past = Past::new(&messages, |_| true, summary);
            assert_eq!(past.ids, ids.iter().map(|id| Uuid::from_u128(*id)).collect::<Vec<_>>());
            assert_eq!(past.messages.len(), past.ids.len());
            let first = past.messages.first().unwrap();
            assert_eq!(matches!(first, ChatMessage::User(text) if text.contains("short")), summarized);
        }
    }

    #[test]
    fn the_text_of_an_error_is_not_the_models() {
        let failed = |text: &str, finish: &str| {
            let message = stored(1, StoredRole::Assistant, text);
            Past::new(&[StoredMessage { finish: Some(finish.to_owned()), ..message }], |_| true, None).messages.len()
        };
        for (text, finish, kept) in [
            ("⚠️ LLM error: no money", "provider_error", 0),
            ("⚠️ LLM-Fehler: kein Geld", "provider_error", 0),
            ("Half an answer", "provider_error", 1),
            ("⚠️ LLM error: is what you will see", "complete", 1),
        ] {
            assert_eq!(failed(text, finish), kept, "{text} {finish}");
        }
    }

    #[test]
    fn invented_numbers_do_not_go_back_to_the_model() {
        let messages = [stored(1, StoredRole::Assistant, "True [1]. False [7]."), stored(2, StoredRole::User, "[7]?")];
        let past = Past::new(&messages, |n| n == 1, None);
        assert!(matches!(&past.messages[0], ChatMessage::Assistant(said) if said.text == "True [1]. False."));
        assert!(matches!(&past.messages[1], ChatMessage::User(text) if text == "[7]?"));
    }
}
