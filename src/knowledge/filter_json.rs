//! A user's filter from JSON: shared by the search route and the argument of `vector_search`.
//! Invariant: what comes out names `metadata.*`, `title` and `uri` only, so that scope, version and
//! expiry stay out of a user's reach.

use super::filter::{Condition, Filter, Range};
use serde_json::{Map, Value, json};

/// Conditions in one filter.
const MOST: usize = 64;
/// Values in one `any`.
const MOST_VALUES: usize = 256;

/// Names the key or field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter: {0}")]
pub struct FilterError(String);

/// `{"must": […], "should": […], "must_not": […]}` of `{"key", "match"}`, `{"key", "any"}` and
/// `{"key", "range": {"gt", "gte", "lt", "lte"}}`; an absent list is empty.
pub fn filter_from_json(value: &Value) -> Result<Filter, FilterError> {
    let object = value.as_object().ok_or_else(|| FilterError("an object is wanted".to_owned()))?;
    let mut filter = Filter::default();
    for (name, list) in object {
        let conditions = match name.as_str() {
            "must" => &mut filter.must,
            "should" => &mut filter.should,
            "must_not" => &mut filter.must_not,
            other => return Err(FilterError(format!("no field `{other}`: it has must, should and must_not"))),
        };
        let list = list.as_array().ok_or_else(|| FilterError(format!("`{name}` must be a list")))?;
        *conditions = list.iter().map(condition).collect::<Result<_, _>>()?;
    }
    if filter.must.len() + filter.should.len() + filter.must_not.len() > MOST {
        return Err(FilterError(format!("more than {MOST} conditions")));
    }
    Ok(filter)
}

/// The JSON Schema of what [`filter_from_json`] reads.
pub fn filter_schema() -> Value {
    let key = json!({"type": "string", "pattern": "^(title|uri|metadata\\..+)$"});
    let value = json!({"type": ["string", "number", "boolean"]});
    let number = json!({"type": "number"});
    let condition = |name: &str, wanted: Value| {
        json!({
            "type": "object", "additionalProperties": false, "required": ["key", name],
            "properties": {"key": key, name: wanted}
        })
    };
    let range = json!({
        "type": "object", "additionalProperties": false,
        "properties": {"gt": number, "gte": number, "lt": number, "lte": number}
    });
    let any = json!({"type": "array", "items": value});
    let list = json!({
        "type": "array",
        "items": {"anyOf": [condition("match", value.clone()), condition("any", any), condition("range", range)]}
    });
    json!({
        "type": "object", "additionalProperties": false,
        "properties": {"must": list, "should": list, "must_not": list}
    })
}

fn condition(value: &Value) -> Result<Condition, FilterError> {
    let object = value.as_object().ok_or_else(|| FilterError(format!("a condition is an object, not {value}")))?;
    let key = match object.get("key") {
        Some(Value::String(key)) => checked(key)?,
        _ => return Err(FilterError("a condition needs a `key`, a string".to_owned())),
    };
    let mut rest = object.iter().filter(|(name, _)| *name != "key");
    let (Some((name, wanted)), None) = (rest.next(), rest.next()) else {
        return Err(FilterError(format!("the condition on `{key}` needs one of match, any and range")));
    };
    match (name.as_str(), wanted) {
        ("match", value) => Ok(Condition::Match { value: scalar(&key, value)?, key }),
        ("any", Value::Array(values)) if values.len() <= MOST_VALUES => {
            let values = values.iter().map(|value| scalar(&key, value)).collect::<Result<_, _>>()?;
            Ok(Condition::Any { key, values })
        }
        ("any", Value::Array(_)) => Err(FilterError(format!("more than {MOST_VALUES} values for `{key}`"))),
        ("range", Value::Object(bounds)) => Ok(Condition::Range { range: range(&key, bounds)?, key }),
        ("any" | "range", _) => Err(FilterError(format!("`{name}` of `{key}` is of the wrong type"))),
        (other, _) => Err(FilterError(format!("no field `{other}` in the condition on `{key}`"))),
    }
}

fn checked(key: &str) -> Result<String, FilterError> {
    let inner = key.strip_prefix("metadata.");
    let named = matches!(key, "title" | "uri")
        || inner.is_some_and(|path| !path.contains(['"', '\\']) && path.split('.').all(|part| !part.is_empty()));
    if named {
        return Ok(key.to_owned());
    }
    Err(FilterError(format!("`{key}` cannot be filtered by: keys are title, uri and metadata.*")))
}

fn scalar(key: &str, value: &Value) -> Result<Value, FilterError> {
    match value {
        Value::String(_) | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(FilterError(format!("`{key}` can be compared with a string, a number or a boolean, not {value}")))
        }
    }
}

fn range(key: &str, bounds: &Map<String, Value>) -> Result<Range, FilterError> {
    let mut range = Range::default();
    for (name, bound) in bounds {
        let slot = match name.as_str() {
            "gt" => &mut range.gt,
            "gte" => &mut range.gte,
            "lt" => &mut range.lt,
            "lte" => &mut range.lte,
            other => return Err(FilterError(format!("no bound `{other}` in the range of `{key}`"))),
        };
        *slot = Some(bound.as_f64().ok_or_else(|| FilterError(format!("`{name}` of `{key}` must be a number")))?);
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_shows_is_read() {
        let filter = filter_from_json(&json!({
            "must": [{"key": "metadata.lang", "match": "de"}, {"key": "uri", "any": ["a", "b"]}],
            "must_not": [{"key": "metadata.year", "range": {"gte": 2020, "lt": 2024.5}}],
        }));
        let range = Range { gte: Some(2020.0), lt: Some(2024.5), ..Range::default() };
        let expected = Filter {
            must: vec![
                Condition::Match { key: "metadata.lang".into(), value: json!("de") },
                Condition::Any { key: "uri".into(), values: vec![json!("a"), json!("b")] },
            ],
            should: vec![],
            must_not: vec![Condition::Range { key: "metadata.year".into(), range }],
        };
        assert_eq!(filter, Ok(expected));
        assert_eq!(filter_from_json(&json!({})), Ok(Filter::default()));
    }

    #[test]
    fn what_is_refused_is_named() {
        for (value, word) in [
            (json!([]), "object"),
            (json!({"must": {}}), "`must`"),
            (json!({"and": []}), "`and`"),
            (json!({"must": [1]}), "1"),
            (json!({"must": [{"match": "x"}]}), "`key`"),
            (json!({"must": [{"key": "scope", "match": "x"}]}), "`scope`"),
            (json!({"must": [{"key": "document_id", "match": "x"}]}), "`document_id`"),
            (json!({"should": [{"key": "metadata", "match": "x"}]}), "`metadata`"),
            (json!({"should": [{"key": "metadata.", "match": "x"}]}), "`metadata.`"),
            (json!({"should": [{"key": "metadata.a\"b", "match": "x"}]}), "metadata.a"),
            (json!({"must": [{"key": "title"}]}), "`title`"),
            (json!({"must": [{"key": "title", "match": "a", "any": []}]}), "`title`"),
            (json!({"must": [{"key": "title", "match": null}]}), "null"),
            (json!({"must": [{"key": "title", "any": "a"}]}), "`any`"),
            (json!({"must": [{"key": "title", "like": "a"}]}), "`like`"),
            (json!({"must": [{"key": "metadata.n", "range": {"above": 1}}]}), "`above`"),
            (json!({"must": [{"key": "metadata.n", "range": {"gt": "1"}}]}), "`gt`"),
            (json!({"must": vec![json!({"key": "title", "match": "a"}); MOST + 1]}), "64"),
        ] {
            let refused = filter_from_json(&value).unwrap_err().to_string();
            assert!(refused.contains(word), "{value}: {refused}");
        }
    }
}
