//! How values stand in columns: ids as text, times as milliseconds, objects as JSON, counts as
//! BIGINT, vectors as little-endian f32. One pair of functions each; a value that cannot be read back
//! is [`StorageError::Corrupt`], never a default.

use super::StorageError;
use super::db::Row;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Decode, Row as _, Type};
use uuid::Uuid;

/// The column's value as the driver reads it.
pub(super) fn get<'r, T>(row: &'r Row, column: &str) -> Result<T, StorageError>
where
    T: Decode<'r, super::db::Driver> + Type<super::db::Driver>,
{
    Ok(row.try_get(column)?)
}

pub(super) fn uuid(row: &Row, column: &str) -> Result<Uuid, StorageError> {
    let text: &str = get(row, column)?;
    Uuid::try_parse(text).map_err(|_| corrupt(column, "not a UUID"))
}

/// A count or an offset, which is never negative.
pub(super) fn count(row: &Row, column: &str) -> Result<u64, StorageError> {
    let value: i64 = get(row, column)?;
    u64::try_from(value).map_err(|_| corrupt(column, "negative"))
}

pub(super) fn optional_count(row: &Row, column: &str) -> Result<Option<u64>, StorageError> {
    let value: Option<i64> = get(row, column)?;
    value.map(|v| u64::try_from(v).map_err(|_| corrupt(column, "negative"))).transpose()
}

/// A count that is small by what it counts (rounds, positions, pages).
pub(super) fn small(row: &Row, column: &str) -> Result<u32, StorageError> {
    let value: i64 = get(row, column)?;
    u32::try_from(value).map_err(|_| corrupt(column, "out of range"))
}

pub(super) fn time(row: &Row, column: &str) -> Result<Timestamp, StorageError> {
    let value: i64 = get(row, column)?;
    Timestamp::from_millisecond(value).map_err(|_| corrupt(column, "out of range"))
}

pub(super) fn json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, StorageError> {
    let text: &str = get(row, column)?;
    serde_json::from_str(text).map_err(|error| corrupt(column, &error.to_string()))
}

pub(super) fn optional_json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<Option<T>, StorageError> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| serde_json::from_str(text).map_err(|error| corrupt(column, &error.to_string()))).transpose()
}

pub(super) fn corrupt(column: &str, why: &str) -> StorageError {
    StorageError::Corrupt(format!("column `{column}`: {why}"))
}

/// The value as a BIGINT. What exceeds it is no count of anything that fits into a machine.
pub(super) fn bigint(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<String, StorageError> {
    serde_json::to_string(value).map_err(|error| StorageError::Failed(error.to_string()))
}

pub(super) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A vector as it stands in a BLOB.
pub(super) fn to_blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub(super) fn vector(row: &Row, column: &str) -> Result<Vec<f32>, StorageError> {
    let bytes: &[u8] = get(row, column)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(corrupt(column, "not a whole number of f32"));
    }
    Ok(numbers.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

pub(super) fn hash(row: &Row, column: &str) -> Result<[u8; 32], StorageError> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(|_| corrupt(column, "not 32 bytes"))
}
