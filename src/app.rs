//! Builds every adapter from the configuration: the only file that names concrete ones.

mod embedding;

use crate::config::{Config, ProviderName, ToolResults, WatchedFolder};
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
use crate::llm::anthropic::{self, Anthropic, AnthropicOptions};
use crate::llm::extractive::Extractive;
use crate::llm::openai::{self, OpenAi, OpenAiOptions, probe};
use crate::llm::resilient::Resilient;
use crate::llm::transport::{Transport, TransportOptions};
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
/// A small model at temperature 0 falls into saying the same sentence for ever without it.
#[cfg(feature = "local-llm")]
const REPEAT_PENALTY: f32 = 1.1;
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
        let providers = providers(&config).await?;
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

/// Every provider that can be had, the default first: the one that is configured; else those with a
/// key; else a local server; else the built-in ones.
async fn providers(config: &Config) -> Result<Vec<Arc<dyn LlmProvider>>, BuildError> {
    let llm = &config.llm;
    let transport = Arc::new(Transport::new(TransportOptions {
        first_byte_timeout: llm.first_byte_timeout,
        idle_timeout: llm.idle_timeout,
    }));
    let wanted = |name| llm.provider == Some(name);
    let model_for = |name, default: &str| match llm.provider {
        Some(chosen) if chosen != name => default.to_owned(),
        _ => llm.model.clone().unwrap_or_else(|| default.to_owned()),
    };
    let mut found: Vec<Arc<dyn LlmProvider>> = Vec::new();
    if llm.anthropic.api_key.is_some() || wanted(ProviderName::Anthropic) {
        let options = AnthropicOptions {
            base_url: llm.anthropic.base_url.clone(),
            api_key: llm.anthropic.api_key.clone(),
            model: model_for(ProviderName::Anthropic, anthropic::DEFAULT_MODEL),
            max_tokens: llm.max_tokens,
            reasoning_effort: None,
        };
        found.push(Arc::new(Anthropic::new(options, Arc::clone(&transport))?));
    }
    let openai = |base_url: String, model: String| {
        let options = OpenAiOptions {
            base_url,
            api_key: llm.openai.api_key.clone(),
            model,
            max_tokens: Some(llm.max_tokens),
            reasoning_effort: None,
            native_tools: true,
        };
        OpenAi::new(options, Arc::clone(&transport))
    };
    let model = model_for(ProviderName::Openai, openai::DEFAULT_MODEL);
    if llm.openai.api_key.is_some() || llm.openai.base_url.is_some() || wanted(ProviderName::Openai) {
        let base_url = llm.openai.base_url.clone().unwrap_or_else(|| openai::BASE_URL.to_owned());
        found.push(Arc::new(openai(base_url, model)?));
    } else if found.is_empty()
        && llm.provider.is_none()
        && let Some(server) = probe::find_local(&transport).await
    {
        found.push(Arc::new(openai(server.base_url.to_owned(), llm.model.clone().unwrap_or(server.model))?));
    }
    let mut found: Vec<Resilient> =
        found.into_iter().chain(built_in(config)).map(|provider| Resilient::new(provider, llm.max_retries)).collect();
    if let Some(name) = llm.provider {
        let id = name.id();
        let Some(at) = found.iter().position(|p| p.id() == id) else {
            return Err(format!("llm.provider: `{id}` is not part of this build").into());
        };
        let chosen = found.remove(at);
        found.insert(0, chosen);
    }
    let fallbacks = llm.fallbacks.iter().map(|name| {
        let known = found.iter().find(|p| p.id() == name.id());
        known.ok_or_else(|| format!("llm.fallbacks: `{}` is not configured", name.id()).into())
    });
    let fallbacks: Vec<&Resilient> = fallbacks.collect::<Result<_, BuildError>>()?;
    let linked = found.iter().map(|provider| {
        let others: Vec<&Resilient> = fallbacks.iter().copied().filter(|other| other.id() != provider.id()).collect();
        Arc::new(provider.with_fallbacks(&others)) as Arc<dyn LlmProvider>
    });
    Ok(linked.collect())
}

/// What fetches pages: the tool, documents that are named by their address, and `tailrace ingest URL`.
pub fn page_fetcher(config: &Config) -> Result<FetchUrl, BuildError> {
    Ok(FetchUrl::new(FetchUrlOptions::from_config(&config.tools.fetch_url)?, fetch_url::system()))
}

fn reader(config: &Config) -> Reader {
    let section = &config.ingest.extract;
    Reader::new(ReadLimits::from_config(section), section.program.clone())
}

/// The providers that need no account, the better one first (docs/benchmarks.md has the measurement).
fn built_in(config: &Config) -> Vec<Arc<dyn LlmProvider>> {
    let mut found: Vec<Arc<dyn LlmProvider>> = vec![Arc::new(Extractive)];
    #[cfg(feature = "local-llm")]
    {
        use crate::engine::prompt_examples;
        use crate::llm::local::{DEFAULT_FILE, LocalLlm, LocalOptions};
        let local = &config.llm.local;
        let file = local.model.clone().unwrap_or_else(|| config.models.dir.join(DEFAULT_FILE));
        let provider = LocalLlm::new(LocalOptions {
            temperature: local.temperature,
            max_tokens: local.max_tokens as usize,
            all_cores: local.threads != 1,
            repeat_penalty: REPEAT_PENALTY,
            ..LocalOptions::new(file, prompt_examples::MESSAGES)
        });
        if provider.available() || config.llm.provider == Some(ProviderName::Local) {
            found.push(Arc::new(provider));
        }
    }
    found
}
