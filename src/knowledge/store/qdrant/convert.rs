//! Our points, queries and filters in the server's protobuf messages, and its hits in ours.

use crate::knowledge::filter::{Filter, Range};
use crate::knowledge::store::terms::{Term, Terms};
use crate::knowledge::store::{BM25, DENSE, payload_json};
use crate::knowledge::{Point, SparseVector, StoreError, StoreQuery};
use qdrant_client::Payload;
use qdrant_client::qdrant as wire;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{query, vector, vector_input, vectors};
use std::collections::HashMap;
use uuid::Uuid;

pub(super) fn id(id: Uuid) -> wire::PointId {
    wire::PointId { point_id_options: Some(PointIdOptions::Uuid(id.to_string())) }
}

/// All our ids are UUIDs; anything else is no point of ours.
pub(super) fn uuid(id: Option<wire::PointId>) -> Option<Uuid> {
    match id?.point_id_options? {
        PointIdOptions::Uuid(id) => id.parse().ok(),
        PointIdOptions::Num(_) => None,
    }
}

pub(super) fn point(point: Point) -> wire::PointStruct {
    let dense = vector::Vector::Dense(wire::DenseVector { data: point.dense });
    let bm25 = vector::Vector::Sparse(sparse(point.bm25));
    let named = |(name, vector): (&str, vector::Vector)| {
        (name.to_owned(), wire::Vector { vector: Some(vector), ..wire::Vector::default() })
    };
    let vectors = HashMap::from([(DENSE, dense), (BM25, bm25)].map(named));
    wire::PointStruct {
        id: Some(id(point.id)),
        payload: Payload::from(payload_json(&point.payload)).into(),
        vectors: Some(wire::Vectors {
            vectors_options: Some(vectors::VectorsOptions::Vectors(wire::NamedVectors { vectors })),
        }),
    }
}

fn sparse(vector: SparseVector) -> wire::SparseVector {
    wire::SparseVector { values: vector.values, indices: vector.indices }
}

/// The two legs of a query, dense first; `None` for one that has nothing to look for.
pub(super) fn legs(collection: &str, query: &StoreQuery) -> Result<[Option<wire::QueryPoints>; 2], StoreError> {
    let filter = filter(&query.filter)?;
    let dense = query.dense.clone().map(|data| (vector_input::Variant::Dense(wire::DenseVector { data }), DENSE));
    let bm25 = query.bm25.clone().filter(|v| !v.indices.is_empty());
    let bm25 = bm25.map(|v| (vector_input::Variant::Sparse(sparse(v)), BM25));
    let leg = |(vector, using): (vector_input::Variant, &str)| wire::QueryPoints {
        collection_name: collection.to_owned(),
        query: Some(nearest(vector)),
        using: Some(using.to_owned()),
        filter: filter.clone(),
        limit: Some(query.limit as u64),
        ..wire::QueryPoints::default()
    };
    Ok([dense, bm25].map(|of| of.filter(|_| query.limit > 0).map(leg)))
}

fn nearest(vector: vector_input::Variant) -> wire::Query {
    wire::Query { variant: Some(query::Variant::Nearest(wire::VectorInput { variant: Some(vector) })) }
}

/// `None` if the filter asks for nothing.
pub(super) fn filter(filter: &Filter) -> Result<Option<wire::Filter>, StoreError> {
    if *filter == Filter::default() { Ok(None) } else { Terms::of(filter).map(|terms| Some(clauses(terms))) }
}

fn clauses(terms: Terms) -> wire::Filter {
    let all = |terms: Vec<Term>| terms.into_iter().map(condition).collect();
    wire::Filter { should: all(terms.should), must: all(terms.must), must_not: all(terms.must_not), min_should: None }
}

fn condition(term: Term) -> wire::Condition {
    let matches = |key, value| {
        let value = Some(wire::Match { match_value: Some(value) });
        ConditionOneOf::Field(wire::FieldCondition { key, r#match: value, ..wire::FieldCondition::default() })
    };
    let condition = match term {
        Term::Nested(terms) => ConditionOneOf::Filter(clauses(terms)),
        Term::Texts(path, strings) => matches(path, MatchValue::Keywords(wire::RepeatedStrings { strings })),
        Term::Integers(path, integers) => matches(path, MatchValue::Integers(wire::RepeatedIntegers { integers })),
        Term::Flag(path, flag) => matches(path, MatchValue::Boolean(flag)),
        Term::Range(key, Range { gt, gte, lt, lte }) => {
            let range = Some(wire::Range { lt, gt, gte, lte });
            ConditionOneOf::Field(wire::FieldCondition { key, range, ..wire::FieldCondition::default() })
        }
        Term::Empty(key) => ConditionOneOf::IsEmpty(wire::IsEmptyCondition { key }),
    };
    wire::Condition { condition_one_of: Some(condition) }
}
