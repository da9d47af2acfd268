//! The language models that the configuration names, the first of them the default.

use super::BuildError;
use crate::config::{Config, ProviderName};
use crate::llm::LlmProvider;
use crate::llm::anthropic::{self, Anthropic, AnthropicOptions};
use crate::llm::extractive::Extractive;
use crate::llm::openai::{self, OpenAi, OpenAiOptions, probe};
use crate::llm::resilient::Resilient;
use crate::llm::transport::{Transport, TransportOptions};
use std::sync::Arc;

/// A small model at temperature 0 falls into saying the same sentence for ever without it.
#[cfg(feature = "local-llm")]
const REPEAT_PENALTY: f32 = 1.1;

/// Every provider that can be had, the default first: the one that is configured; else those with a
/// key; else a local server; else the built-in ones.
pub(super) async fn providers(config: &Config) -> Result<Vec<Arc<dyn LlmProvider>>, BuildError> {
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
