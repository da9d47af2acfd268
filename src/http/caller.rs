//! Who sends a request: the guard finds out, handlers ask.

use super::problem::Problem;
use crate::keys::Key;
use crate::turns::Owner;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The holder of a key, or anyone, where there are none. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    key: Option<Arc<Key>>,
    /// Of the key, where it is a managed one.
    id: Option<Arc<str>>,
    gone: CancellationToken,
}

impl Caller {
    pub fn of(key: Arc<Key>) -> Self {
        let id = key.managed.map(|id| id.to_string().into());
        Self { gone: key.gone.clone(), key: Some(key), id }
    }

    /// Somebody without a key, until `gone`.
    pub fn anyone(gone: CancellationToken) -> Self {
        Self { key: None, id: None, gone }
    }

    /// No key was sent.
    pub fn is_anyone(&self) -> bool {
        self.key.is_none()
    }

    /// Id of the managed key.
    pub fn key_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whose turns and conversations this one may see.
    pub fn owner(&self) -> Owner<'_> {
        self.key_id().map_or(Owner::Any, Owner::Key)
    }

    /// The only collections that this one may use; `None`: all.
    pub fn collections(&self) -> Option<&[String]> {
        self.key.as_ref().and_then(|key| key.collections.as_deref())
    }

    pub fn sees(&self, collection: &str) -> bool {
        self.collections().is_none_or(|names| names.iter().any(|name| name == collection))
    }

    /// # Errors
    /// 403 where the key is limited to other collections.
    pub fn may_use(&self, collection: &str) -> Result<(), Problem> {
        if self.sees(collection) {
            return Ok(());
        }
        let detail = format!("this key may not use the collection `{collection}`");
        Err(Problem::new(StatusCode::FORBIDDEN, "collection_not_allowed", detail))
    }

    /// Cancelled when the key is revoked or has expired, or when one is needed from now on.
    pub fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::internal(&"a route without the guard before it"))
    }
}
