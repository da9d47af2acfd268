//! Managed keys: make, list, revoke.

use super::body::{JsonBody, Path};
use super::problem::Problem;
use super::state::AppState;
use crate::keys::{Key, KeyError, NewKey, Scope};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/keys", get(list).post(create)).route("/api/v1/keys/{key}", delete(revoke))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    scopes: Vec<Scope>,
    /// Absent: all.
    collections: Option<Vec<String>>,
    /// Absent: never.
    expires_at: Option<Timestamp>,
}

/// A key without itself; also what `tailrace keys` prints.
#[derive(Serialize)]
pub struct KeyWire<'a> {
    id: Option<Uuid>,
    name: &'a str,
    scopes: &'a [Scope],
    #[serde(skip_serializing_if = "Option::is_none")]
    collections: Option<&'a [String]>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl<'a> From<&'a Key> for KeyWire<'a> {
    fn from(key: &'a Key) -> Self {
        Self {
            id: key.managed,
            name: &key.name,
            scopes: &key.scopes,
            collections: key.collections.as_deref(),
            created_at: key.created,
            expires_at: key.expires,
        }
    }
}

/// The key and, this once, its text.
pub fn made(key: &Key, text: &str) -> Value {
    let mut value = serde_json::to_value(KeyWire::from(key)).unwrap_or_default();
    value["key"] = text.into();
    value
}

async fn create(
    State(app): State<AppState>,
    JsonBody(body): JsonBody<Create>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let new = NewKey { name: body.name, scopes: body.scopes, collections: body.collections, expires: body.expires_at };
    let (key, text) = app.keys.create(new).await?;
    Ok((StatusCode::CREATED, Json(made(&key, &text))))
}

async fn list(State(app): State<AppState>) -> Json<Value> {
    let keys = app.keys.list();
    let keys: Vec<KeyWire<'_>> = keys.iter().map(|key| KeyWire::from(&**key)).collect();
    Json(json!({ "keys": keys }))
}

async fn revoke(State(app): State<AppState>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let unknown = || Problem::not_found("key", &id);
    if app.keys.revoke(id.parse().map_err(|_| unknown())?).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Field { .. } => Self::unprocessable("invalid_field", error.to_string()),
            KeyError::Random(_) => Self::internal(&error),
            KeyError::Storage(error) => error.into(),
        }
    }
}
