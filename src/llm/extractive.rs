//! The provider that needs no model: it looks things up and quotes what it finds. Deterministic.
//!
//! It speaks the inline dialect through the same messages as a real model, so the whole path is real without
//! one: stream, tool, ingestion, continuation. It fetches a URL that the question names, searches, and answers
//! with the best sentences of the passages, cited. What it quotes is data: nothing in it becomes a call.

mod quote;
mod turn;

use super::{Done, EventStream, LlmError, LlmErrorKind, LlmProvider, Stop, StreamEvent};
use crate::message::framing::defuse;
use crate::message::{ChatMessage, Usage};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use quote::Quote;
use serde_json::json;
use std::sync::Arc;
use turn::Turn;

const NAME: &str = "extractive";
const SEARCH: &str = "vector_search";
const FETCH: &str = "fetch_url";
/// Longest search query, in characters: what a question asks stands at its beginning or is too long anyway.
const QUERY_CHARS: usize = 400;
/// Words in one delta.
const WORDS: usize = 3;

/// The provider `extractive`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

#[async_trait]
impl LlmProvider for Extractive {
    fn id(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        NAME
    }

    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        if model == NAME {
            return Ok(Arc::new(*self));
        }
        Err(LlmError::new(LlmErrorKind::BadRequest, format!("provider `{NAME}` has the model `{NAME}` only")))
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        let turn = Turn::read(messages);
        let mut text = reply(&turn);
        if turn.has_spoken() {
            // Clients show the rounds of a turn as one text.
            text.insert_str(0, "\n\n");
        }
        let events: Vec<StreamEvent> = deltas(&text)
            .map(|delta| StreamEvent::Delta(delta.to_owned()))
            .chain([StreamEvent::Done(Done { usage: Usage::default(), stop: Stop::End, message: None, refused: None })])
            .collect();
        // Others get their turn between two deltas: a client sees a stream, and may leave.
        let paced = stream::iter(events).then(|event| async {
            tokio::task::yield_now().await;
            event
        });
        Ok(paced.boxed())
    }
}

/// What it says next in this turn. Pure.
fn reply(turn: &Turn) -> String {
    let may_call = |tool: &str| turn.may_call && turn.offers(tool) && !turn.called(tool);
    if let Some(url) = turn.url().filter(|_| may_call(FETCH)) {
        return format!("I will read that page first.\n{}\nThen I will answer from it.", call(FETCH, "url", url));
    }
    if may_call(SEARCH) && (turn.passages.is_empty() || turn.called(FETCH)) {
        let query: String = turn.question.chars().take(QUERY_CHARS).collect();
        return format!(
            "Let me search for that.\n{}\nWhat it finds decides the answer.",
            call(SEARCH, "query", &query)
        );
    }
    answer(turn)
}

/// A call as the grammar wants it. No text can end the block early: `<` and `>` are escaped in the JSON.
fn call(tool: &str, argument: &str, value: &str) -> String {
    let body = json!({ argument: value }).to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    format!("<tool name=\"{tool}\">{body}</tool>")
}

/// The best sentences, cited, and what went wrong.
fn answer(turn: &Turn) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for failure in &turn.failures {
        paragraphs.push(format!("{} failed: {}", failure.tool, one_line(&failure.why)));
    }
    let quotes = quote::best(&turn.question, &turn.passages);
    if !quotes.is_empty() {
        paragraphs.push(quotes.iter().map(cited).collect::<Vec<_>>().join(" "));
    } else if let Some(page) = turn.fetched.as_deref() {
        let quotes = quote::best(
            &turn.question,
            &[crate::message::passages::Passage { n: 0, title: String::new(), text: page.to_owned() }],
        );
        let said: Vec<&str> = quotes.iter().map(|q| q.text.as_str()).collect();
        paragraphs.push(match said.as_slice() {
            [] => "I read the page, but found nothing in it that answers the question.".to_owned(),
            said => format!("The page says: {}", said.join(" ")),
        });
    } else if !turn.failures.iter().any(|f| f.tool == SEARCH) {
        paragraphs.push("I found nothing about that in the knowledge base.".to_owned());
    }
    defuse(&paragraphs.join("\n\n"))
}

/// The quote with its number before the full stop.
fn cited(quote: &Quote) -> String {
    let text = quote.text.trim_end_matches(['.', '!', '?']);
    let (text, end) = quote.text.split_at(text.len());
    format!("{text} [{}]{end}", quote.n)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` in pieces of a few words, nothing lost.
fn deltas(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.match_indices(' ').nth(WORDS - 1).map_or(rest.len(), |(at, space)| at + space.len());
        let (delta, after) = rest.split_at(end);
        rest = after;
        Some(delta)
    })
}

#[cfg(test)]
mod tests;
