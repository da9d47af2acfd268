//! A filter reduced to what the engine can test, once for both stores.
//!
//! Invariant: only values that the engine really compares get through; anything else is an error, never a
//! condition that silently matches nothing.

use crate::knowledge::StoreError;
use crate::knowledge::filter::{Condition, Filter, Range};
use serde_json::Value;

/// All of `must`, none of `must_not`, one of `should` if there are any.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Terms {
    pub must: Vec<Term>,
    pub should: Vec<Term>,
    pub must_not: Vec<Term>,
}

/// One test on a path (quoted as the engine wants it).
#[derive(Debug, PartialEq)]
pub(super) enum Term {
    /// Equal to one of these; of none of none.
    Texts(String, Vec<String>),
    Integers(String, Vec<i64>),
    Flag(String, bool),
    Range(String, Range),
    /// Absent, null or an empty array.
    Empty(String),
    Nested(Terms),
}

impl Terms {
    pub fn of(filter: &Filter) -> Result<Self, StoreError> {
        let all = |conditions: &[Condition]| conditions.iter().map(term).collect::<Result<Vec<Term>, StoreError>>();
        Ok(Self { must: all(&filter.must)?, should: all(&filter.should)?, must_not: all(&filter.must_not)? })
    }
}

fn term(condition: &Condition) -> Result<Term, StoreError> {
    Ok(match condition {
        Condition::Match { key, value } => equal(key, value)?,
        Condition::Any { key, values } => any(key, values)?,
        Condition::Range { key, range } => Term::Range(path(key)?, *range),
        Condition::Empty { key } => Term::Empty(path(key)?),
        Condition::All(filter) => Term::Nested(Terms::of(filter)?),
    })
}

fn equal(key: &str, value: &Value) -> Result<Term, StoreError> {
    let path = path(key)?;
    Ok(match value {
        Value::String(text) => Term::Texts(path, vec![text.clone()]),
        Value::Bool(flag) => Term::Flag(path, *flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Term::Integers(path, vec![integer]),
            // Fractions are not matched, but a range of one number is the same.
            (None, Some(x)) => Term::Range(path, Range { gte: Some(x), lte: Some(x), ..Range::default() }),
            (None, None) => return Err(incomparable(key, value)),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(incomparable(key, value)),
    })
}

fn any(key: &str, values: &[Value]) -> Result<Term, StoreError> {
    let texts: Option<Vec<String>> = values.iter().map(|v| v.as_str().map(str::to_owned)).collect();
    if let Some(texts) = texts {
        return Ok(Term::Texts(path(key)?, texts));
    }
    let integers: Option<Vec<i64>> = values.iter().map(Value::as_i64).collect();
    if let Some(integers) = integers {
        return Ok(Term::Integers(path(key)?, integers));
    }
    let should: Result<Vec<Term>, StoreError> = values.iter().map(|value| equal(key, value)).collect();
    Ok(Term::Nested(Terms { should: should?, ..Terms::default() }))
}

fn incomparable(key: &str, value: &Value) -> StoreError {
    StoreError::Failed(format!("`{key}` cannot be compared with {value}: use a string, a number or a boolean"))
}

/// A dotted key as the engine's path: a part with other characters than letters, digits, `_` and `-` is quoted.
fn path(key: &str) -> Result<String, StoreError> {
    let refused = |why: &str| StoreError::Failed(format!("`{key}` is no payload key: it has {why}"));
    let parts: Result<Vec<String>, StoreError> = key
        .split('.')
        .map(|part| match part {
            "" => Err(refused("an empty part")),
            _ if part.contains(['"', '\\']) => Err(refused("a quote or a backslash")),
            _ if part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') => Ok(part.to_owned()),
            _ => Ok(format!("\"{part}\"")),
        })
        .collect();
    Ok(parts?.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_what_the_engine_compares() {
        let check = |condition: Condition, expected: Option<Term>| {
            assert_eq!(term(&condition).ok(), expected, "{condition:?}");
        };
        let key = || "metadata.k".to_owned();
        let equal = |value: Value| Condition::Match { key: key(), value };
        let any = |values: Vec<Value>| Condition::Any { key: key(), values };
        let half = Range { gte: Some(0.5), lte: Some(0.5), ..Range::default() };
        check(equal(json!("de")), Some(Term::Texts(key(), vec!["de".into()])));
        check(equal(json!(-3)), Some(Term::Integers(key(), vec![-3])));
        check(equal(json!(true)), Some(Term::Flag(key(), true)));
        check(equal(json!(0.5)), Some(Term::Range(key(), half)));
        check(equal(json!(null)), None);
        check(equal(json!(["de"])), None);
        check(equal(json!({ "a": 1 })), None);
        check(any(vec![]), Some(Term::Texts(key(), vec![])));
        check(any(vec![json!("a"), json!("b")]), Some(Term::Texts(key(), vec!["a".into(), "b".into()])));
        check(any(vec![json!(1), json!(2)]), Some(Term::Integers(key(), vec![1, 2])));
        let mixed =
            vec![Term::Texts(key(), vec!["a".into()]), Term::Integers(key(), vec![1]), Term::Flag(key(), false)];
        let mixed = Terms { should: mixed, ..Terms::default() };
        check(any(vec![json!("a"), json!(1), json!(false)]), Some(Term::Nested(mixed)));
        check(any(vec![json!("a"), json!(null)]), None);
        check(Condition::Empty { key: key() }, Some(Term::Empty(key())));
        check(Condition::All(Filter::default()), Some(Term::Nested(Terms::default())));
    }

    #[test]
    fn paths_quote_what_the_engine_would_misread() {
        let check = |key: &str, expected: Option<&str>| assert_eq!(path(key).ok().as_deref(), expected, "{key}");
        check("scope", Some("scope"));
        check("metadata.lang", Some("metadata.lang"));
        check("metadata.a-b.c_d", Some("metadata.a-b.c_d"));
        check("metadata.größe", Some("metadata.größe"));
        check("metadata.file type", Some("metadata.\"file type\""));
        check("metadata.a[0]", Some("metadata.\"a[0]\""));
        check("metadata.", None);
        check("metadata.a\"b", None);
        check("", None);
    }
}
