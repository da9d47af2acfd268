//! Refusals: RFC 9457 problem documents. Each names the field or limit and what would work; causes
//! inside the service are logged once, here, and not told.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One refusal. `code` is a stable snake_case word.
#[derive(Debug, Clone)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub detail: Cow<'static, str>,
    /// Further members of the document, e.g. `turn_id`.
    extra: Option<Box<Map<String, Value>>>,
    pub retry_after_s: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(flatten)]
    extra: Option<&'a Map<String, Value>>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, detail: detail.into(), extra: None, retry_after_s: None }
    }

    /// 422: the request was read and cannot be done as it is.
    pub fn unprocessable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} `{id}`"))
    }

    /// 500. `cause` goes to the log, not to the client.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a request failed inside the service");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request failed inside the service; its log has the cause under this x-request-id",
        )
    }

    /// 503: something the service needs does not answer now.
    pub fn unavailable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { retry_after_s: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail) }
    }

    /// With a further member of the document.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }

    /// The document alone, for answers about several documents.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self.document()).unwrap_or_default()
    }

    fn document(&self) -> Document<'_> {
        Document {
            r#type: format!("urn:tailrace:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            extra: self.extra.as_deref(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.document())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
