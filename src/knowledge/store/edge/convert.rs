//! Our points, queries and filters in the in-process engine's words.

use crate::knowledge::filter::{Filter, Range};
use crate::knowledge::store::terms::{Term, Terms};
use crate::knowledge::store::{BM25, DENSE, payload_json};
use crate::knowledge::{Point, SparseVector, StoreError, StoreQuery};
use qdrant_edge as engine;
use qdrant_edge::external::ordered_float::OrderedFloat;
use std::collections::HashMap;

/// Both vectors are always there, so that a replaced point keeps nothing of the old one.
pub(super) fn point(point: Point) -> engine::PointStructPersisted {
    let vectors = HashMap::from([
        (DENSE.to_owned(), engine::VectorPersisted::Dense(point.dense)),
        (BM25.to_owned(), engine::VectorPersisted::Sparse(sparse(point.bm25))),
    ]);
    engine::PointStructPersisted {
        id: engine::PointId::Uuid(point.id),
        vector: engine::VectorStructPersisted::Named(vectors),
        payload: Some(engine::Payload(payload_json(&point.payload))),
    }
}

fn sparse(vector: SparseVector) -> engine::SparseVector {
    engine::SparseVector { indices: vector.indices, values: vector.values }
}

/// The two legs of a query, dense first; `None` for one that has nothing to look for.
pub(super) fn legs(query: &StoreQuery) -> Result<[Option<engine::QueryRequest>; 2], StoreError> {
    let filter = filter(&query.filter)?;
    let leg = |query_of, limit| engine::QueryRequest {
        prefetches: Vec::new(),
        query: Some(query_of),
        filter: filter.clone(),
        score_threshold: None,
        limit,
        offset: 0,
        params: None,
        with_vector: engine::WithVector::Bool(false),
        with_payload: engine::WithPayloadInterface::Bool(false),
    };
    let dense = query.dense.clone().map(|v| nearest(engine::VectorInternal::Dense(v), DENSE));
    let bm25 = query.bm25.clone().filter(|v| !v.indices.is_empty());
    let bm25 = bm25.map(|v| nearest(engine::VectorInternal::Sparse(sparse(v)), BM25));
    Ok([dense, bm25].map(|of| of.filter(|_| query.limit > 0).map(|of| leg(of, query.limit))))
}

fn nearest(vector: engine::VectorInternal, name: &str) -> engine::ScoringQuery {
    engine::ScoringQuery::Vector(engine::QueryEnum::Nearest(engine::NamedQuery::new(vector, name)))
}

/// `None` if the filter asks for nothing.
pub(super) fn filter(filter: &Filter) -> Result<Option<engine::Filter>, StoreError> {
    if *filter == Filter::default() { Ok(None) } else { clauses(Terms::of(filter)?).map(Some) }
}

fn clauses(terms: Terms) -> Result<engine::Filter, StoreError> {
    let all = |terms: Vec<Term>| -> Result<Option<Vec<engine::Condition>>, StoreError> {
        let conditions: Result<Vec<_>, _> = terms.into_iter().map(condition).collect();
        Ok(Some(conditions?).filter(|conditions| !conditions.is_empty()))
    };
    let (must, should, must_not) = (all(terms.must)?, all(terms.should)?, all(terms.must_not)?);
    Ok(engine::Filter { should, min_should: None, must, must_not })
}

fn condition(term: Term) -> Result<engine::Condition, StoreError> {
    let any = |any| engine::Match::Any(engine::MatchAny { any });
    let field = match term {
        Term::Nested(terms) => return clauses(terms).map(engine::Condition::Filter),
        Term::Texts(path, texts) => {
            let texts = engine::AnyVariants::Strings(texts.into_iter().collect());
            engine::FieldCondition::new_match(key(&path)?, any(texts))
        }
        Term::Integers(path, integers) => {
            let integers = engine::AnyVariants::Integers(integers.into_iter().collect());
            engine::FieldCondition::new_match(key(&path)?, any(integers))
        }
        Term::Flag(path, flag) => {
            let value = engine::ValueVariants::Bool(flag);
            engine::FieldCondition::new_match(key(&path)?, engine::Match::Value(engine::MatchValue { value }))
        }
        Term::Range(path, Range { gt, gte, lt, lte }) => {
            let range = engine::Range { gt, gte, lt, lte };
            engine::FieldCondition::new_range(key(&path)?, range.map(OrderedFloat))
        }
        Term::Empty(path) => return Ok(engine::Condition::IsEmpty(key(&path)?.into())),
    };
    Ok(engine::Condition::Field(field))
}

pub(super) fn key(path: &str) -> Result<engine::JsonPath, StoreError> {
    path.parse().map_err(|()| StoreError::Failed(format!("`{path}` is no payload path")))
}
