//! Protobuf messages in the engine's words and back, for what the test server knows. Written apart from the
//! store's own conversion, so that neither hides a mistake of the other.

use qdrant_client::Payload;
use qdrant_client::qdrant as wire;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{query, vector, vector_input, vectors};
use qdrant_edge as engine;
use qdrant_edge::external::ordered_float::OrderedFloat;
use std::collections::HashMap;
use tonic::Status;

fn unknown(what: impl std::fmt::Debug) -> Status {
    Status::unimplemented(format!("{what:?}"))
}

pub fn id(id: Option<wire::PointId>) -> Result<engine::PointId, Status> {
    match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Uuid(id)) => {
            let parsed = id.parse().map_err(|_| Status::invalid_argument(format!("Unable to parse UUID: {id}")))?;
            Ok(engine::PointId::Uuid(parsed))
        }
        other => Err(unknown(other)),
    }
}

pub fn wire_id(id: engine::PointId) -> wire::PointId {
    wire::PointId {
        point_id_options: Some(match id {
            engine::PointId::Uuid(id) => PointIdOptions::Uuid(id.to_string()),
            engine::PointId::NumId(n) => PointIdOptions::Num(n),
        }),
    }
}

pub fn path(key: &str) -> Result<engine::JsonPath, Status> {
    key.parse().map_err(|()| Status::invalid_argument(format!("Unable to parse JSON path: {key}")))
}

pub fn point(point: wire::PointStruct) -> Result<engine::PointStructPersisted, Status> {
    let Some(vectors::VectorsOptions::Vectors(named)) = point.vectors.and_then(|v| v.vectors_options) else {
        return Err(Status::unimplemented("unnamed vectors"));
    };
    let vector = |vector: wire::Vector| match vector.vector {
        Some(vector::Vector::Dense(dense)) => Ok(engine::VectorPersisted::Dense(dense.data)),
        Some(vector::Vector::Sparse(v)) => sparse(v).map(engine::VectorPersisted::Sparse),
        other => Err(unknown(other)),
    };
    let vectors: Result<HashMap<_, _>, Status> =
        named.vectors.into_iter().map(|(name, v)| Ok((name, vector(v)?))).collect();
    let payload: serde_json::Map<String, serde_json::Value> = Payload::from(point.payload).into();
    Ok(engine::PointStructPersisted {
        id: id(point.id)?,
        vector: engine::VectorStructPersisted::Named(vectors?),
        payload: Some(engine::Payload(payload)),
    })
}

fn sparse(vector: wire::SparseVector) -> Result<engine::SparseVector, Status> {
    engine::SparseVector::new(vector.indices, vector.values).map_err(|e| Status::invalid_argument(e.to_string()))
}

pub fn filter(filter: wire::Filter) -> Result<engine::Filter, Status> {
    let all = |conditions: Vec<wire::Condition>| -> Result<Option<Vec<engine::Condition>>, Status> {
        let conditions: Result<Vec<_>, Status> = conditions.into_iter().map(condition).collect();
        Ok(Some(conditions?).filter(|conditions| !conditions.is_empty()))
    };
    let (should, must, must_not) = (all(filter.should)?, all(filter.must)?, all(filter.must_not)?);
    Ok(engine::Filter { should, must, must_not, min_should: None })
}

fn condition(condition: wire::Condition) -> Result<engine::Condition, Status> {
    Ok(match condition.condition_one_of {
        Some(ConditionOneOf::Filter(nested)) => engine::Condition::Filter(filter(nested)?),
        Some(ConditionOneOf::IsEmpty(empty)) => engine::Condition::IsEmpty(path(&empty.key)?.into()),
        Some(ConditionOneOf::Field(field)) => {
            let key = path(&field.key)?;
            engine::Condition::Field(match (field.r#match.and_then(|m| m.match_value), field.range) {
                (Some(value), None) => engine::FieldCondition::new_match(key, matches(value)?),
                (None, Some(wire::Range { lt, gt, gte, lte })) => {
                    let range = engine::Range { lt, gt, gte, lte };
                    engine::FieldCondition::new_range(key, range.map(OrderedFloat))
                }
                other => return Err(unknown(other)),
            })
        }
        other => return Err(unknown(other)),
    })
}

fn matches(value: MatchValue) -> Result<engine::Match, Status> {
    let any = |any| engine::Match::Any(engine::MatchAny { any });
    Ok(match value {
        MatchValue::Keywords(list) => any(engine::AnyVariants::Strings(list.strings.into_iter().collect())),
        MatchValue::Integers(list) => any(engine::AnyVariants::Integers(list.integers.into_iter().collect())),
        MatchValue::Boolean(flag) => {
            engine::Match::Value(engine::MatchValue { value: engine::ValueVariants::Bool(flag) })
        }
        other => return Err(unknown(other)),
    })
}

pub fn query(request: wire::QueryPoints) -> Result<engine::QueryRequest, Status> {
    let prefetches: Result<Vec<_>, Status> = request.prefetch.into_iter().map(prefetch).collect();
    Ok(engine::QueryRequest {
        prefetches: prefetches?,
        query: request.query.map(|query| scoring(query, request.using)).transpose()?,
        filter: request.filter.map(filter).transpose()?,
        score_threshold: None,
        limit: request.limit.unwrap_or(10) as usize,
        offset: request.offset.unwrap_or(0) as usize,
        params: None,
        with_vector: engine::WithVector::Bool(false),
        with_payload: engine::WithPayloadInterface::Bool(false),
    })
}

fn prefetch(leg: wire::PrefetchQuery) -> Result<engine::Prefetch, Status> {
    Ok(engine::Prefetch {
        prefetches: Vec::new(),
        query: leg.query.map(|query| scoring(query, leg.using)).transpose()?,
        limit: leg.limit.unwrap_or(10) as usize,
        params: None,
        filter: leg.filter.map(filter).transpose()?,
        score_threshold: None,
    })
}

fn scoring(query: wire::Query, using: Option<String>) -> Result<engine::ScoringQuery, Status> {
    let nearest = |vector| {
        let query = engine::NamedQuery { query: vector, using };
        Ok(engine::ScoringQuery::Vector(engine::QueryEnum::Nearest(query)))
    };
    match query.variant {
        Some(query::Variant::Nearest(input)) => match input.variant {
            Some(vector_input::Variant::Dense(v)) => nearest(engine::VectorInternal::Dense(v.data)),
            Some(vector_input::Variant::Sparse(v)) => nearest(engine::VectorInternal::Sparse(sparse(v)?)),
            other => Err(unknown(other)),
        },
        Some(query::Variant::Fusion(fusion)) if fusion == i32::from(wire::Fusion::Rrf) => {
            Ok(engine::ScoringQuery::Fusion(engine::Fusion::Rrf { k: 2, weights: None }))
        }
        other => Err(unknown(other)),
    }
}

pub fn scored(point: engine::ScoredPoint) -> wire::ScoredPoint {
    wire::ScoredPoint { id: Some(wire_id(point.id)), score: point.score, ..wire::ScoredPoint::default() }
}

pub fn config(dense: wire::VectorParamsMap, sparse: wire::SparseVectorConfig) -> engine::EdgeConfig {
    let mut config = engine::EdgeConfig::builder()
        .wal_options(engine::WalOptions { segment_capacity: 1 << 20, ..engine::WalOptions::default() });
    for (name, params) in dense.map {
        assert_eq!(params.distance, i32::from(wire::Distance::Cosine));
        let params = engine::EdgeVectorParams::builder(params.size as usize, engine::Distance::Cosine).build();
        config = config.vector(name, params);
    }
    for (name, params) in sparse.map {
        let mut made = engine::EdgeSparseVectorParams::builder();
        if params.modifier == Some(wire::Modifier::Idf.into()) {
            made = made.modifier(engine::Modifier::Idf);
        }
        config = config.sparse_vector(name, made.build());
    }
    config.build()
}

pub fn info(shard: &engine::EdgeShard) -> wire::CollectionInfo {
    let config = shard.config();
    let dense = config.vectors.iter().map(|(name, params)| {
        (name.clone(), wire::VectorParams { size: params.size as u64, ..wire::VectorParams::default() })
    });
    let map = wire::VectorParamsMap { map: dense.collect() };
    let params = wire::CollectionParams {
        vectors_config: Some(wire::VectorsConfig { config: Some(wire::vectors_config::Config::ParamsMap(map)) }),
        ..wire::CollectionParams::default()
    };
    let schema = shard.info().payload_schema.into_keys();
    wire::CollectionInfo {
        config: Some(wire::CollectionConfig { params: Some(params), ..wire::CollectionConfig::default() }),
        payload_schema: schema.map(|key| (key.to_string(), wire::PayloadSchemaInfo::default())).collect(),
        ..wire::CollectionInfo::default()
    }
}
