//! The embedding models that the configuration names, and the reranking model.

use super::BuildError;
use crate::config::Config;
use crate::knowledge::embed::cross_encoder::{CrossEncoder, CrossEncoderOptions};
use crate::knowledge::embed::fastembed::{FastembedEmbedder, FastembedOptions};
use crate::knowledge::embed::openai::{self, OpenAiEmbedder, OpenAiEmbedderOptions};
use crate::knowledge::embed::prefixes::{self, AUTO};
use crate::knowledge::embed::{Embedders, Named};
use crate::knowledge::{Embedder, Reranker};
use crate::storage::{Db, collections};
use std::sync::Arc;

/// The default one and the others. None is loaded; servers are asked how long their vectors are.
pub(super) async fn embedders(config: &Config, db: &Db) -> Result<Embedders, BuildError> {
    let chosen = &config.embedding;
    let default = embedder(config, db, &chosen.model, (&chosen.query_prefix, &chosen.passage_prefix)).await?;
    let mut more = Vec::new();
    for name in chosen.more.iter().filter(|name| **name != chosen.model) {
        more.push(Named { configured: name.clone(), embedder: embedder(config, db, name, (AUTO, AUTO)).await? });
    }
    Ok(Embedders::new(default, more))
}

async fn embedder(
    config: &Config,
    db: &Db,
    name: &str,
    prefixes: (&str, &str),
) -> Result<Arc<dyn Embedder>, BuildError> {
    let Some(model) = name.strip_prefix(openai::PREFIX) else {
        let options = FastembedOptions {
            models_dir: config.models.dir.clone(),
            model: name.to_owned(),
            threads: config.embedding.threads,
            queue: config.embedding.queue,
            batch: config.embedding.batch,
        };
        return Ok(Arc::new(FastembedEmbedder::with_prefixes(options, prefixes.0, prefixes.1)?));
    };
    let server = &config.embedding.openai;
    let llm = &config.llm.openai;
    // A key goes to the address that it was given for.
    let (base_url, api_key) = match &server.base_url {
        Some(own) => (own.clone(), server.api_key.clone()),
        None => {
            let base_url = llm.base_url.clone().unwrap_or_else(|| openai::BASE_URL.to_owned());
            (base_url, server.api_key.clone().or_else(|| llm.api_key.clone()))
        }
    };
    let (query_prefix, passage_prefix) = prefixes::chosen(model, prefixes.0, prefixes.1);
    let options = OpenAiEmbedderOptions {
        base_url,
        api_key,
        model: model.to_owned(),
        dimension: (server.dimension > 0).then_some(server.dimension),
        window: server.window,
        batch: server.batch,
        parallel: server.parallel,
        timeout: server.timeout,
        max_retries: server.max_retries,
        query_prefix,
        passage_prefix,
    };
    let recorded = collections::list(db)
        .await?
        .into_iter()
        .find(|c| c.embedding_model == name || c.embedding_model.starts_with(&format!("{name}+")));
    let remembered = recorded.and_then(|c| usize::try_from(c.dimension).ok());
    Ok(Arc::new(OpenAiEmbedder::connect(options, remembered).await?))
}

/// The reranking model, where one is configured.
pub(super) fn reranker(config: &Config) -> Result<Option<Arc<dyn Reranker>>, BuildError> {
    let Some(folder) = config.retrieval.rerank_model.clone() else { return Ok(None) };
    let threads = match config.embedding.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let reranker = CrossEncoder::new(CrossEncoderOptions {
        models_dir: config.models.dir.clone(),
        folder,
        threads,
        queue: config.embedding.queue,
        window: config.retrieval.rerank_tokens,
    })?;
    Ok(Some(Arc::new(reranker)))
}
