//! Builds every adapter from the configuration: the only file that names concrete ones.

mod embedding;
mod providers;

use crate::config::{Config, ToolResults, WatchedFolder};
use crate::engine::budget::Limits;
use crate::engine::sub_agent::SubAgentConfig;
use crate::engine::{EngineConfig, Keeper, StreamingEngine};
use crate::keys::Keys;
use crate::knowledge::VectorStore;
use crate::knowledge::base::{AUTO, Base};
use crate::knowledge::claims::Claims;
use crate::knowledge::extract::{Limits as ReadLimits, Reader};
use crate::knowledge::ingest::{Ingest, IngestOptions};
use crate::knowledge::map::{MapOptions, Maps};
use crate::knowledge::reconcile;
use crate::knowledge::retrieve::{Retrieve, RetrieveOptions};
use crate::knowledge::store::edge::EdgeStore;
use crate::knowledge::store::qdrant::QdrantStore;
use crate::knowledge::watch::{Queue, Watch};
use crate::llm::LlmProvider;
use crate::secret::Secret;
use crate::shutdown::Shutdown;
use crate::storage::{Db, DbOptions, collections};
use crate::telemetry::{self, Metrics};
use crate::tools::fetch_url::{self, FetchUrl, FetchUrlOptions};
use crate::tools::vector_search::{VectorSearch, VectorSearchOptions};
use crate::tools::{Tool, ToolRegistry};
use crate::turns::log::Wire;
use crate::turns::{TurnOptions, Turns, recover};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why the service cannot start: a sentence for the operator.
pub type BuildError = Box<dyn std::error::Error + Send + Sync>;

/// Longest wait for one answer of a vector server.
const STORE_CALL: Duration = Duration::from_secs(30);
/// Between two looks at whether the store in process should be optimized.
const MAINTAIN: Duration = Duration::from_secs(30);

/// The knowledge base without a model that answers: what `ingest`, `search` and `eval` need.
pub struct Knowledge {
    pub base: Base,
    pub ingest: Ingest,
    pub retrieve: Retrieve,
    /// Reads documents; one for all that do.
    pub reader: Reader,
    /// The store in process, where that is the one.
    edge: Option<Arc<EdgeStore>>,
}

/// The running service.
pub struct App {
    pub config: Config,
    pub base: Base,
    pub ingest: Ingest,
    pub retrieve: Retrieve,
    /// At least one; the first is the default.
    pub providers: Vec<Arc<dyn LlmProvider>>,
    pub turns: Turns,
    pub keys: Keys,
    pub fetch: Arc<FetchUrl>,
    pub shutdown: Shutdown,
    pub metrics: Metrics,
    pub maps: Maps,
    pub started: Instant,
    edge: Option<Arc<EdgeStore>>,
}

impl Knowledge {
    /// Opens database, store and embedder, and brings them into agreement. No model is loaded.
    pub async fn open(config: &Config) -> Result<Self, BuildError> {
        let db = Db::open(&DbOptions {
            data_dir: config.storage.data_dir.clone(),
            url: config.storage.database_url.clone(),
        })
        .await?;
        let embedders = embedding::embedders(config, &db).await?;
        let (store, edge): (Arc<dyn VectorStore>, _) = match &config.qdrant.url {
            Some(url) => {
                let key = config.qdrant.api_key.as_ref().map(Secret::expose);
                (Arc::new(QdrantStore::new(url, key, STORE_CALL)?), None)
            }
            None => {
                let edge = Arc::new(EdgeStore::open(&config.storage.data_dir.join("vectors"))?);
                (Arc::clone(&edge) as Arc<dyn VectorStore>, Some(edge))
            }
        };
        let base = Base::new(db, store, embedders);
        let reader = reader(config);
        let ingest = Ingest::with_reader(
            base.clone(),
            IngestOptions {
                chunk_tokens: config.ingest.chunk_tokens,
                chunk_overlap_percent: config.ingest.chunk_overlap_percent,
                max_document_bytes: config.ingest.max_document_bytes,
                parallel: config.ingest.parallel,
                max_attempts: config.ingest.max_attempts,
                keep_jobs_days: config.ingest.keep_jobs_days,
            },
            reader.clone(),
        );
        let retrieve = Retrieve::new(
            base.clone(),
            RetrieveOptions {
                prefetch: config.retrieval.prefetch,
                query_cache: config.embedding.query_cache,
                rerank: config.retrieval.rerank_candidates,
            },
            embedding::reranker(config)?,
        );
        ingest.ensure_default().await?;
        let reconciled = reconcile::start(&base, &ingest).await?;
        if reconciled.replayed + reconciled.dropped + reconciled.interrupted > 0 {
            tracing::info!(
                documents.interrupted = reconciled.interrupted,
                points.replayed = reconciled.replayed,
                points.dropped = reconciled.dropped,
                "the index was brought up to date"
            );
        }
        Ok(Self { base, ingest, retrieve, reader, edge })
    }

    /// Makes what was ingested durable in the store too, and lets go of it.
    pub async fn close(self) {
        close(&self.ingest, self.edge.as_deref()).await;
        self.base.db.close().await;
    }
}

async fn close(ingest: &Ingest, edge: Option<&EdgeStore>) {
    if let Err(error) = ingest.upkeep().await {
        tracing::warn!(%error, "the index is not flushed: the next start replays it");
    }
    if let Some(edge) = edge
        && let Err(error) = edge.close().await
    {
        tracing::warn!(%error, "the vector store did not close cleanly");
    }
}

impl App {
    /// Everything of the service but its listener and its background tasks.
    pub async fn build(config: Config, wire: Wire, shutdown: Shutdown) -> Result<Self, BuildError> {
        let knowledge = Knowledge::open(&config).await?;
        let cut = recover::end_cut_turns(&knowledge.base.db, wire).await?;
        if cut > 0 {
            tracing::info!(turns = cut, "answers that the last stop had cut are marked as interrupted");
        }
        let providers = providers::providers(&config).await?;
        let fetch = Arc::new(page_fetcher(&config)?.with_reader(knowledge.reader));
        let search = VectorSearch::new(
            knowledge.retrieve.clone(),
            VectorSearchOptions {
                limit: config.retrieval.limit,
                per_document: config.retrieval.per_document,
                wait: config.ingest.wait,
            },
        );
        let tools = ToolRegistry::new([Arc::clone(&fetch) as Arc<dyn Tool>, Arc::new(search)]);
        let keeper = (config.ingest.tool_results != ToolResults::Off).then(|| Keeper {
            ingest: knowledge.ingest.clone(),
            policy: config.ingest.tool_results,
            keep_days: config.ingest.keep_days,
            wait: config.ingest.wait,
            tasks: shutdown.tracker(),
        });
        let engine = StreamingEngine::new(engine_config(&config), tools, keeper)?;
        let claims = config.turns.claims.then(|| Claims::new(knowledge.base.clone()));
        let turns = Turns::new(
            knowledge.base.db.clone(),
            engine,
            (knowledge.retrieve.clone(), claims),
            shutdown.clone(),
            wire,
            TurnOptions {
                timeout: config.turns.timeout,
                retrieval_limit: config.retrieval.limit,
                per_document: config.retrieval.per_document,
                min_cosine: config.retrieval.min_cosine,
                claims_wait: config.turns.claims_wait,
                max_claims: config.turns.max_claims,
                max_log_bytes: config.turns.max_log_bytes,
            },
        );
        let keys = Keys::load(knowledge.base.db.clone(), config.server.admin_key.clone()).await?;
        let maps = Maps::new(
            knowledge.base.clone(),
            MapOptions {
                max_points: config.map.max_points,
                max_clusters: config.map.max_clusters,
                terms: config.map.terms,
            },
        );
        Ok(Self {
            maps,
            started: Instant::now(),
            base: knowledge.base,
            ingest: knowledge.ingest,
            retrieve: knowledge.retrieve,
            edge: knowledge.edge,
            providers,
            turns,
            keys,
            fetch,
            shutdown,
            metrics: telemetry::metrics_handle(),
            config,
        })
    }

    /// Starts what runs beside requests: the ingestion queue, watched folders, flushing, optimizing, metrics.
    pub fn start_background(&self) {
        let stop = self.shutdown.token();
        drop(self.shutdown.spawn(self.ingest.clone().run_queue(stop.clone())));
        drop(self.shutdown.spawn(self.ingest.clone().run_upkeep(stop.clone())));
        drop(self.shutdown.spawn(self.ingest.clone().run_reindexing(stop.clone())));
        if !self.config.ingest.audit.is_zero() {
            drop(self.shutdown.spawn(self.ingest.clone().run_audit(self.config.ingest.audit, stop.clone())));
        }
        for WatchedFolder { folder, collection } in self.config.ingest.watch.clone() {
            let (ingest, stop) = (self.ingest.clone(), stop.clone());
            let most = self.config.ingest.max_document_bytes as u64;
            drop(self.shutdown.spawn(async move {
                if let Err(error) = ingest.create_collection(&collection, AUTO).await {
                    tracing::error!(%error, collection, "ingest.watch: the collection cannot follow its folder");
                    return;
                }
                Watch::new(folder, most, Queue { ingest, collection }).run(stop).await;
            }));
        }
        drop(self.shutdown.spawn(self.keys.clone().run_expiry(stop.clone())));
        drop(self.shutdown.spawn(self.metrics.clone().upkeep(stop.clone())));
        if let Some(edge) = self.edge.clone() {
            drop(self.shutdown.spawn(async move {
                while stop.run_until_cancelled(tokio::time::sleep(MAINTAIN)).await.is_some() {
                    if let Err(error) = edge.maintain().await {
                        tracing::warn!(%error, "the vector store could not be optimized");
                    }
                }
            }));
        }
    }

    /// Whether the database and the vector store answer; else why not.
    pub async fn check(&self) -> Result<(), String> {
        collections::watermark(&self.base.db).await.map_err(|e| e.to_string())?;
        let default = crate::knowledge::base::DEFAULT_COLLECTION;
        self.base.store.count(default, &Default::default()).await.map(drop).map_err(|e| e.to_string())
    }

    /// After the last task has ended.
    pub async fn close(&self) {
        self.turns.close().await;
        close(&self.ingest, self.edge.as_deref()).await;
        self.base.db.close().await;
    }
}

fn engine_config(config: &Config) -> EngineConfig {
    EngineConfig {
        limits: Limits {
            max_continuations: config.engine.max_continuations,
            max_tools_per_round: config.engine.max_tools_per_round,
            max_tools_total: config.engine.max_tools_total,
        },
        tool_timeout: config.engine.tool_timeout,
        max_block_bytes: config.engine.max_block_bytes,
        max_result_bytes: config.engine.max_result_bytes,
        overlap: config.engine.overlap,
        retry_after_text: config.llm.retry_after_text,
        prompt_tokens: prompt_tokens(config),
        approval_timeout: config.engine.approval_timeout,
        sub_agent: SubAgentConfig {
            max_depth: config.engine.sub_agent.max_depth,
            limits: Limits {
                max_continuations: config.engine.sub_agent.max_continuations,
                max_tools_per_round: config.engine.sub_agent.max_tools_per_round,
                max_tools_total: config.engine.sub_agent.max_tools_total,
            },
            timeout: config.engine.sub_agent.timeout,
        },
        locale: config.messages.locale,
    }
}

/// What of the model's window is left for the request. The answer never gets more than half of it.
fn prompt_tokens(config: &Config) -> Option<u64> {
    let all = u64::from(config.llm.context_tokens);
    (all > 0).then(|| all - u64::from(config.llm.max_tokens).min(all / 2))
}

/// What fetches pages: the tool, documents that are named by their address, and `tailrace ingest URL`.
pub fn page_fetcher(config: &Config) -> Result<FetchUrl, BuildError> {
    Ok(FetchUrl::new(FetchUrlOptions::from_config(&config.tools.fetch_url)?, fetch_url::system()))
}

fn reader(config: &Config) -> Reader {
    let section = &config.ingest.extract;
    Reader::new(ReadLimits::from_config(section), section.program.clone())
}
