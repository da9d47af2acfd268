//! Request bodies, queries and paths, read strictly: the right media type, within the limit, no unknown field, and an
//! object where one is wanted.

use super::problem::Problem;
use axum::body::{Body, Bytes};
use axum::extract::{self, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use tower_http::timeout::TimeoutError;

/// The largest request body, put into the request's extensions by the router.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit(pub usize);

/// A JSON body. 415 without `application/json`, 413 beyond `server.max_body_bytes`, 400 where it is not
/// JSON, 422 with the field's name where a field is wrong or unknown.
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        parse(&read_json(request).await?).map(Self)
    }
}

/// The same with a hash of the body's bytes.
pub struct HashedJson<T> {
    pub value: T,
    pub hash: String,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for HashedJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let bytes = read_json(request).await?;
        Ok(Self { value: parse(&bytes)?, hash: blake3::hash(&bytes).to_hex().to_string() })
    }
}

/// A JSON body that may be left out.
pub async fn optional_json<T: DeserializeOwned + Default>(request: Request) -> Result<T, Problem> {
    let is_json = is_json(&request);
    let bytes = read(request).await?;
    match bytes.as_ref() {
        [] => Ok(T::default()),
        bytes if is_json => parse(bytes),
        _ => Err(no_json()),
    }
}

/// How long the head says that the body is.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether a client asks before it sends more than `limit` bytes. Others send them anyway: an answer that comes before
/// they have is lost with the connection that is closed on them.
pub fn asks_for_more(headers: &HeaderMap, limit: u64) -> bool {
    headers.contains_key(header::EXPECT) && declared(headers).is_some_and(|bytes| bytes > limit)
}

async fn read_json(request: Request) -> Result<Bytes, Problem> {
    if is_json(&request) { read(request).await } else { Err(no_json()) }
}

fn no_json() -> Problem {
    let detail = "send the body with `content-type: application/json`";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}

fn is_json(request: &Request) -> bool {
    let value = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The whole body within the limit.
pub async fn read(request: Request) -> Result<Bytes, Problem> {
    let limit = limit_of(request.extensions());
    if asks_for_more(request.headers(), limit as u64) {
        return Err(too_large(limit));
    }
    read_body(request.into_body(), limit).await
}

/// `server.max_body_bytes` as the router set it.
pub fn limit_of(extensions: &axum::http::Extensions) -> usize {
    extensions.get::<BodyLimit>().map_or(1 << 20, |l| l.0)
}

async fn read_body(body: Body, limit: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large(limit)),
        Err(error) => Err(stalled(&*error).unwrap_or_else(|| {
            Problem::new(StatusCode::BAD_REQUEST, "incomplete_body", format!("the body ended early: {error}"))
        })),
    }
}

/// Where an error in reading a body says that nothing of it came for too long.
pub fn stalled(error: &(dyn Error + 'static)) -> Option<Problem> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|cause| cause.is::<TimeoutError>()).then(|| {
        let detail = "nothing of the body came for longer than server.stall_timeout_ms";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
    })
}

pub fn too_large(limit: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {limit} bytes (server.max_body_bytes)"),
    )
}

/// JSON to `T`; the problem names the field.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let no_json = |error: &serde_json::Error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not JSON: {error}"))
    };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        // An enumeration that is given a number is a syntax error to the parser.
        let is_json = error.inner().is_data() || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
        if is_json { wrong_field(&error) } else { no_json(error.inner()) }
    })?;
    deserializer.end().map_err(|error| no_json(&error))?;
    Ok(value)
}

/// The same from a value.
pub fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map(|Object(value)| value).map_err(|error| wrong_field(&error))
}

fn wrong_field(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let field = if path == "." { String::new() } else { format!("field `{path}`: ") };
    Problem::unprocessable("invalid_field", format!("{field}{}", error.inner()))
}

/// What is read from an object only. Without it a list of the right values would do, too, and clients could come to
/// depend on the order of fields in the source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData)).map(Self)
    }
}

/// Parts of the path; what cannot be one (bytes that are no UTF-8) is nobody's.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0))
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "invalid_path", error.body_text()))
    }
}

/// A query string; an unknown or wrong parameter is refused with its name.
pub struct QueryOf<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|q| Self(q.0)).map_err(|e| Problem::unprocessable("invalid_parameter", e.body_text()))
    }
}

/// How many entries of a list were asked for: `usual` where nothing is said, and 422 beyond 1 to `most`.
pub fn page_limit(asked: Option<u32>, usual: u32, most: u32) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(usual);
    if !(1..=most).contains(&limit) {
        return Err(Problem::unprocessable("invalid_parameter", format!("parameter `limit`: 1 to {most}")));
    }
    Ok(limit)
}
