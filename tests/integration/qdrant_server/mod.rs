//! A small Qdrant server for tests: the real protocol (the server traits of the client's generated code) over
//! the real engine (in process), on a port of its own. It has the calls that the store makes and refuses the rest.
//!
//! It is stricter than a server in one way: requests of 256 points or 8 MiB are errors.

mod convert;

use qdrant_client::qdrant as wire;
use qdrant_client::qdrant::collections_server::{Collections, CollectionsServer};
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::points_server::{Points, PointsServer};
use qdrant_client::qdrant::qdrant_server::{Qdrant, QdrantServer};
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_edge as engine;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Response, Status};

const MAX_POINTS: usize = 255;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A running server; dropping it ends it.
pub struct TestServer {
    pub address: SocketAddr,
    /// Of the collections; removed at the end.
    folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: JoinSet<()>,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), None).await
    }

    /// Asks every caller for `api_key` if there is one.
    pub async fn listen(address: SocketAddr, api_key: Option<&'static str>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let state = Arc::new(State { root: folder.path().to_owned(), ..State::default() });
        let check = move |request: Request<()>| match (api_key, request.metadata().get("api-key")) {
            (Some(key), given) if given.is_none_or(|given| given != key) => {
                Err(Status::unauthenticated("Invalid API key or JWT"))
            }
            _ => Ok(request),
        };
        let points = PointsServer::from_arc(state.clone()).max_decoding_message_size(MAX_BYTES);
        let serving = tonic::transport::Server::builder()
            .add_service(InterceptedService::new(points, check))
            .add_service(InterceptedService::new(CollectionsServer::from_arc(state.clone()), check))
            .add_service(InterceptedService::new(QdrantServer::from_arc(state), check));
        let (stop, stopped) = oneshot::channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let stopped = async { drop(stopped.await) };
            serving.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped).await.unwrap();
        });
        Self { address, folder, stop: Some(stop), task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it once the calls under way have been answered; connections are closed.
    pub async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        while self.task.join_next().await.is_some() {}
        drop(self.folder);
    }
}

#[derive(Default)]
struct State {
    root: PathBuf,
    made: AtomicUsize,
    collections: Mutex<HashMap<String, Arc<engine::EdgeShard>>>,
}

impl State {
    fn shard(&self, name: &str) -> Result<Arc<engine::EdgeShard>, Status> {
        let there = self.collections.lock().unwrap().get(name).cloned();
        there.ok_or_else(|| Status::not_found(format!("Not found: Collection `{name}` doesn't exist!")))
    }

    async fn update(&self, name: &str, wait: Option<bool>, change: engine::UpdateOperation) -> Changed {
        if wait != Some(true) {
            return Err(Status::invalid_argument("a write that does not wait may not be found by the next search"));
        }
        let shard = self.shard(name)?;
        blocking(move || shard.update(change).map_err(failed)).await?;
        let result = wire::UpdateResult { operation_id: None, status: wire::UpdateStatus::Completed.into() };
        Ok(Response::new(wire::PointsOperationResponse { result: Some(result), time: 0.0, usage: None }))
    }
}

type Changed = Result<Response<wire::PointsOperationResponse>, Status>;

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Status> + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn failed(error: engine::OperationError) -> Status {
    match error {
        engine::OperationError::WrongVectorDimension { .. } | engine::OperationError::ValidationError { .. } => {
            Status::invalid_argument(error.to_string())
        }
        other => Status::internal(other.to_string()),
    }
}

/// The calls of a trait that no test needs, as `async_trait` writes them.
macro_rules! unimplemented_calls {
    ($($name:ident($request:ident) -> $response:ident;)*) => {$(
        fn $name<'life0, 'async_trait>(
            &'life0 self,
            _: Request<wire::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<wire::$response>, Status>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async { Err(Status::unimplemented(stringify!($name))) })
        }
    )*};
}

#[tonic::async_trait]
impl Points for State {
    async fn upsert(&self, request: Request<wire::UpsertPoints>) -> Changed {
        let wire::UpsertPoints { collection_name, wait, points, .. } = request.into_inner();
        if points.len() > MAX_POINTS {
            return Err(Status::invalid_argument(format!("{} points in one request", points.len())));
        }
        let points = points.into_iter().map(convert::point).collect::<Result<Vec<_>, Status>>()?;
        let insert = engine::PointInsertOperations::PointsList(points);
        let change = engine::UpdateOperation::PointOperation(engine::PointOperations::UpsertPoints(insert));
        self.update(&collection_name, wait, change).await
    }

    async fn delete(&self, request: Request<wire::DeletePoints>) -> Changed {
        let wire::DeletePoints { collection_name, wait, points, .. } = request.into_inner();
        let Some(PointsSelectorOneOf::Points(list)) = points.and_then(|p| p.points_selector_one_of) else {
            return Err(Status::unimplemented("delete by filter"));
        };
        let ids = list.ids.into_iter().map(|id| convert::id(Some(id))).collect::<Result<Vec<_>, Status>>()?;
        let change = engine::UpdateOperation::PointOperation(engine::PointOperations::DeletePoints { ids });
        self.update(&collection_name, wait, change).await
    }

    async fn create_field_index(&self, request: Request<wire::CreateFieldIndexCollection>) -> Changed {
        let wire::CreateFieldIndexCollection { collection_name, wait, field_name, field_type, .. } =
            request.into_inner();
        let kind = match field_type.and_then(|kind| wire::FieldType::try_from(kind).ok()) {
            Some(wire::FieldType::Keyword) => engine::PayloadSchemaType::Keyword,
            Some(wire::FieldType::Integer) => engine::PayloadSchemaType::Integer,
            other => return Err(Status::unimplemented(format!("index of {other:?}"))),
        };
        let create = engine::FieldIndexOperations::CreateIndex(engine::CreateIndex {
            field_name: convert::path(&field_name)?,
            field_schema: Some(engine::PayloadFieldSchema::FieldType(kind)),
        });
        self.update(&collection_name, wait, engine::UpdateOperation::FieldIndexOperation(create)).await
    }

    async fn query(&self, request: Request<wire::QueryPoints>) -> Result<Response<wire::QueryResponse>, Status> {
        let request = request.into_inner();
        let shard = self.shard(&request.collection_name)?;
        let query = convert::query(request)?;
        let found = blocking(move || shard.query(query).map_err(failed)).await?;
        let result = found.into_iter().map(convert::scored).collect();
        Ok(Response::new(wire::QueryResponse { result, time: 0.0, usage: None }))
    }

    async fn count(&self, request: Request<wire::CountPoints>) -> Result<Response<wire::CountResponse>, Status> {
        let wire::CountPoints { collection_name, filter, exact, .. } = request.into_inner();
        let shard = self.shard(&collection_name)?;
        let filter = filter.map(convert::filter).transpose()?;
        let count = engine::CountRequest { filter, exact: exact.unwrap_or(true) };
        let count = blocking(move || shard.count(count).map_err(failed)).await?;
        let result = Some(wire::CountResult { count: count as u64 });
        Ok(Response::new(wire::CountResponse { result, time: 0.0, usage: None }))
    }

    async fn scroll(&self, request: Request<wire::ScrollPoints>) -> Result<Response<wire::ScrollResponse>, Status> {
        let wire::ScrollPoints { collection_name, filter, offset, limit, .. } = request.into_inner();
        let shard = self.shard(&collection_name)?;
        let scroll = engine::ScrollRequest {
            offset: offset.map(|id| convert::id(Some(id))).transpose()?,
            limit: limit.map(|limit| limit as usize),
            filter: filter.map(convert::filter).transpose()?,
            with_payload: Some(engine::WithPayloadInterface::Bool(false)),
            with_vector: engine::WithVector::Bool(false),
            order_by: None,
        };
        let (page, next) = blocking(move || shard.scroll(scroll).map_err(failed)).await?;
        let point = |id| wire::RetrievedPoint { id: Some(convert::wire_id(id)), ..wire::RetrievedPoint::default() };
        Ok(Response::new(wire::ScrollResponse {
            next_page_offset: next.map(convert::wire_id),
            result: page.into_iter().map(|record| point(record.id)).collect(),
            ..wire::ScrollResponse::default()
        }))
    }

    unimplemented_calls! {
        get(GetPoints) -> GetResponse;
        update_vectors(UpdatePointVectors) -> PointsOperationResponse;
        delete_vectors(DeletePointVectors) -> PointsOperationResponse;
        set_payload(SetPayloadPoints) -> PointsOperationResponse;
        overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
        delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
        clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
        delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
        create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
        delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
        search(SearchPoints) -> SearchResponse;
        search_batch(SearchBatchPoints) -> SearchBatchResponse;
        search_groups(SearchPointGroups) -> SearchGroupsResponse;
        recommend(RecommendPoints) -> RecommendResponse;
        recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
        recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
        discover(DiscoverPoints) -> DiscoverResponse;
        discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
        update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
        query_batch(QueryBatchPoints) -> QueryBatchResponse;
        query_groups(QueryPointGroups) -> QueryGroupsResponse;
        facet(FacetCounts) -> FacetResponse;
        search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
        search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
    }
}

#[tonic::async_trait]
impl Collections for State {
    async fn get(
        &self,
        request: Request<wire::GetCollectionInfoRequest>,
    ) -> Result<Response<wire::GetCollectionInfoResponse>, Status> {
        let shard = self.shard(&request.into_inner().collection_name)?;
        let info = blocking(move || Ok(convert::info(&shard))).await?;
        Ok(Response::new(wire::GetCollectionInfoResponse { result: Some(info), time: 0.0 }))
    }

    async fn create(
        &self,
        request: Request<wire::CreateCollection>,
    ) -> Result<Response<wire::CollectionOperationResponse>, Status> {
        let wire::CreateCollection { collection_name, vectors_config, sparse_vectors_config, .. } =
            request.into_inner();
        let Some(Config::ParamsMap(dense)) = vectors_config.and_then(|v| v.config) else {
            return Err(Status::unimplemented("unnamed vectors"));
        };
        let config = convert::config(dense, sparse_vectors_config.unwrap_or_default());
        let folder = self.root.join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        let shard = blocking(move || {
            std::fs::create_dir(&folder).unwrap();
            engine::EdgeShard::new(&folder, config).map_err(failed)
        });
        let shard = Arc::new(shard.await?);
        let mut collections = self.collections.lock().unwrap();
        if collections.contains_key(&collection_name) {
            return Err(Status::already_exists(format!("Collection `{collection_name}` already exists!")));
        }
        collections.insert(collection_name, shard);
        Ok(Response::new(wire::CollectionOperationResponse { result: true, time: 0.0 }))
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteCollection>,
    ) -> Result<Response<wire::CollectionOperationResponse>, Status> {
        let gone = self.collections.lock().unwrap().remove(&request.into_inner().collection_name);
        Ok(Response::new(wire::CollectionOperationResponse { result: gone.is_some(), time: 0.0 }))
    }

    unimplemented_calls! {
        list(ListCollectionsRequest) -> ListCollectionsResponse;
        update(UpdateCollection) -> CollectionOperationResponse;
        update_aliases(ChangeAliases) -> CollectionOperationResponse;
        list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
        list_aliases(ListAliasesRequest) -> ListAliasesResponse;
        collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
        collection_exists(CollectionExistsRequest) -> CollectionExistsResponse;
        update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
        create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
        delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
        list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
    }
}

#[tonic::async_trait]
impl Qdrant for State {
    async fn health_check(
        &self,
        _: Request<wire::HealthCheckRequest>,
    ) -> Result<Response<wire::HealthCheckReply>, Status> {
        let reply = wire::HealthCheckReply { title: "test server".into(), version: "1.17.0".into(), commit: None };
        Ok(Response::new(reply))
    }
}
