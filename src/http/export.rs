//! A conversation as a file to keep: Markdown for people, JSON for programs. What stands for nothing (tool blocks,
//! numbers that no source has) is left out; the log keeps the model's own words.

use super::body::{Path, QueryOf};
use super::caller::Caller;
use super::conversations::{ConversationWire, MessageWire, known_numbers, load};
use super::problem::Problem;
use super::state::AppState;
use crate::message::citations;
use crate::message::sources::Source;
use crate::storage::conversations::Conversation;
use crate::storage::messages::{self, MessageStatus, StoredMessage, StoredRole};
use crate::turns::history::said;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/conversations/{conversation}/export", get(export))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportParams {
    #[serde(default)]
    format: Format,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Md,
    Json,
}

#[derive(Serialize)]
struct Exported {
    conversation: ConversationWire,
    messages: Vec<MessageWire>,
}

async fn export(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    QueryOf(params): QueryOf<ExportParams>,
) -> Result<Response, Problem> {
    let conversation = load(&app, caller.owner(), &id).await?;
    let known = known_numbers(&app, conversation.id).await?;
    let mut stored = messages::history(&app.base.db, conversation.id).await?;
    for message in &mut stored {
        if message.status == MessageStatus::Running
            && let Some(turn) = app.turns.live().get(message.turn_id)
        {
            let progress = turn.log.fold().progress;
            (message.text, message.calls, message.sources) = (progress.text, progress.calls, progress.sources);
        }
        clean(message, &known);
    }
    let name = |ending: &str| {
        let value =
            HeaderValue::from_str(&format!("attachment; filename=\"conversation-{}.{ending}\"", conversation.id));
        [(header::CONTENT_DISPOSITION, value.unwrap_or(HeaderValue::from_static("attachment")))]
    };
    Ok(match params.format {
        Format::Md => {
            let kind: [(HeaderName, HeaderValue); 1] =
                [(header::CONTENT_TYPE, HeaderValue::from_static("text/markdown; charset=utf-8"))];
            (kind, name("md"), markdown(&conversation, &stored)).into_response()
        }
        Format::Json => {
            let name = name("json");
            let messages = stored.into_iter().map(Into::into).collect();
            (name, Json(Exported { conversation: conversation.into(), messages })).into_response()
        }
    })
}

fn clean(message: &mut StoredMessage, known: &HashSet<u32>) {
    if message.role == StoredRole::Assistant {
        message.text = said(message, |n| known.contains(&n)).trim().to_owned();
        // The blocks they name are not in the text any more.
        message.calls.iter_mut().for_each(|call| call.span = None);
    }
}

fn markdown(conversation: &Conversation, messages: &[StoredMessage]) -> String {
    let mut out = format!("# {}\n", one_line(&conversation.title));
    // What an answer cites may have been found for an earlier one.
    let all: Vec<&Source> = messages.iter().flat_map(|m| &m.sources).collect();
    for message in messages {
        let who = match message.role {
            StoredRole::User => "Question",
            StoredRole::Assistant => "Answer",
        };
        out.push_str(&format!("\n## {who}\n\n*{}*\n\n{}\n", message.created, message.text.trim_end()));
        if message.role == StoredRole::User {
            continue;
        }
        if message.status == MessageStatus::Interrupted {
            out.push_str("\n*(interrupted)*\n");
        }
        let cited: BTreeSet<u32> = citations::find(&message.text).into_iter().flat_map(|c| c.numbers).collect();
        let mut sources = cited.iter().filter_map(|n| all.iter().find(|source| source.n == *n)).peekable();
        if sources.peek().is_some() {
            out.push_str("\nSources:\n\n");
        }
        sources.for_each(|source| out.push_str(&line(source)));
    }
    out
}

fn line(source: &Source) -> String {
    let page = source.page.map_or_else(String::new, |page| format!(", page {page}"));
    let uri = one_line(&source.uri);
    let uri = if uri.is_empty() { &source.document_id } else { &uri };
    format!("- [{}] {}: {uri}{page}, bytes {} to {}\n", source.n, one_line(&source.title), source.start, source.end)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
