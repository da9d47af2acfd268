//! What a search may be narrowed by. Users name `metadata.*`, `title` and `uri`; scope and expiry
//! are added by `retrieve` and cannot be named.

use serde_json::Value;

/// All of `must`, none of `must_not`, and one of `should` if there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub must: Vec<Condition>,
    pub should: Vec<Condition>,
    pub must_not: Vec<Condition>,
}

/// One test on a payload key; a path into objects is dotted.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Equal to a string, integer or boolean; an array matches if one of its elements does.
    Match {
        key: String,
        value: Value,
    },
    Any {
        key: String,
        values: Vec<Value>,
    },
    Range {
        key: String,
        range: Range,
    },
    /// The key is absent or null.
    Empty {
        key: String,
    },
    /// A nested filter.
    All(Filter),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    pub gt: Option<f64>,
    pub gte: Option<f64>,
    pub lt: Option<f64>,
    pub lte: Option<f64>,
}
