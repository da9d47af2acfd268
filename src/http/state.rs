//! What handlers share, and how failures below become problems.

use super::problem::Problem;
use crate::app::App;
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::extract::ExtractError;
use crate::knowledge::{EmbedError, StoreError};
use crate::llm::{LlmError, LlmErrorKind, LlmProvider, ReasoningEffort};
use crate::storage::StorageError;
use crate::storage::collections::Collection;
use axum::http::StatusCode;
use std::ops::Deref;
use std::sync::Arc;

/// The running service. Cheap to clone.
#[derive(Clone)]
pub struct AppState(pub Arc<App>);

impl Deref for AppState {
    type Target = App;

    fn deref(&self) -> &App {
        &self.0
    }
}

impl AppState {
    /// 404 unless there is such a collection, 409 where another embedding model built it.
    pub async fn collection(&self, name: &str) -> Result<Collection, Problem> {
        Ok(self.base.collection(name).await?)
    }

    /// The provider a request names, or the default one.
    pub fn provider(
        &self,
        id: Option<&str>,
        model: Option<&str>,
        effort: Option<ReasoningEffort>,
    ) -> Result<Arc<dyn LlmProvider>, Problem> {
        let chosen = match id {
            None => self.providers.first(),
            Some(id) => self.providers.iter().find(|p| p.id() == id),
        };
        let Some(chosen) = chosen else {
            let known: Vec<&str> = self.providers.iter().map(|p| p.id()).collect();
            let detail = format!(
                "field `provider`: `{}` is not configured; there are: {}",
                id.unwrap_or_default(),
                known.join(", ")
            );
            return Err(Problem::unprocessable("unknown_provider", detail));
        };
        let mut chosen = Arc::clone(chosen);
        if let Some(model) = model.filter(|m| *m != chosen.model()) {
            chosen = chosen.with_model(model)?;
        }
        match effort {
            None => Ok(chosen),
            Some(effort) => Ok(chosen.with_reasoning_effort(effort).unwrap_or(chosen)),
        }
    }
}

impl From<LlmError> for Problem {
    fn from(error: LlmError) -> Self {
        match error.kind {
            LlmErrorKind::BadRequest => {
                Self::unprocessable("unknown_model", format!("field `model`: {}", error.message))
            }
            _ => Self::new(StatusCode::BAD_GATEWAY, error.kind.code(), error.message),
        }
    }
}

impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NotFound { what, id } => Self::not_found(what, &id),
            StorageError::Conflict(why) => Self::new(StatusCode::CONFLICT, "conflict", why),
            StorageError::Closed => Self::unavailable("stopping", "the server is stopping"),
            StorageError::Busy => Self::unavailable("database_busy", error.to_string()),
            other => Self::internal(&other),
        }
    }
}

impl From<KnowledgeError> for Problem {
    fn from(error: KnowledgeError) -> Self {
        let status = match &error {
            KnowledgeError::NoCollection(_) | KnowledgeError::NoDocument(_) | KnowledgeError::NoConversation(_) => {
                StatusCode::NOT_FOUND
            }
            KnowledgeError::Model { .. }
            | KnowledgeError::OtherModel { .. }
            | KnowledgeError::NotIndexed(_)
            | KnowledgeError::NotAFinding(_)
            | KnowledgeError::Busy(_)
            | KnowledgeError::Overtaken
            | KnowledgeError::Cancelled
            | KnowledgeError::DefaultStays => StatusCode::CONFLICT,
            KnowledgeError::Stopping => return Self::unavailable(error.code(), error.to_string()),
            KnowledgeError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            KnowledgeError::Extract(refused) => extract_status(refused),
            KnowledgeError::NoReranker
            | KnowledgeError::BadName(_)
            | KnowledgeError::BadId
            | KnowledgeError::NoModel { .. }
            | KnowledgeError::Language(_)
            | KnowledgeError::Chunk(_)
            | KnowledgeError::Filter(_)
            | KnowledgeError::BadSearch(_)
            | KnowledgeError::Reader(_) => StatusCode::UNPROCESSABLE_ENTITY,
            KnowledgeError::Embed(EmbedError::ModelMissing(_) | EmbedError::Unavailable(_))
            | KnowledgeError::Store(StoreError::Unreachable(_)) => {
                return Self::unavailable(error.code(), error.to_string());
            }
            KnowledgeError::Storage(StorageError::Busy) => {
                return Self::unavailable("database_busy", error.to_string());
            }
            KnowledgeError::Embed(_) | KnowledgeError::Store(_) | KnowledgeError::Storage(_) => {
                return Self::internal(&error);
            }
        };
        Self::new(status, error.code(), error.to_string())
    }
}

fn extract_status(refused: &ExtractError) -> StatusCode {
    StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY)
}
