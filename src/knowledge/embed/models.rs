//! The models that run here: the default one and others that collections may use. Which there are is the operator's
//! choice alone; a client names one of them or is refused.

use super::super::error::KnowledgeError;
use super::super::{Embedder, EmbeddingModel};
use std::sync::Arc;

/// At least one. Cheap to clone.
#[derive(Clone)]
pub struct Embedders {
    default: Arc<dyn Embedder>,
    more: Arc<[Named]>,
}

/// One beside the default, with the words that the configuration has for it.
#[derive(Clone)]
pub struct Named {
    pub configured: String,
    pub embedder: Arc<dyn Embedder>,
}

impl Embedders {
    pub fn new(default: Arc<dyn Embedder>, more: Vec<Named>) -> Self {
        Self { default, more: more.into() }
    }

    /// What a new collection gets that names none.
    pub fn default(&self) -> &Arc<dyn Embedder> {
        &self.default
    }

    /// The default first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Embedder>> {
        std::iter::once(&self.default).chain(self.more.iter().map(|named| &named.embedder))
    }

    /// The one that a collection was built with.
    pub fn recorded(&self, name: &str, dimension: u64) -> Option<Arc<dyn Embedder>> {
        let is_it = |model: &EmbeddingModel| model.name == name && model.dimension as u64 == dimension;
        self.all().find(|embedder| is_it(embedder.model())).cloned()
    }

    /// The one that a client asks for, by the name that collections record or as the configuration says it; `None`:
    /// the default.
    ///
    /// # Errors
    /// [`KnowledgeError::NoModel`], which lists those that there are.
    pub fn named(&self, asked: Option<&str>) -> Result<Arc<dyn Embedder>, KnowledgeError> {
        let Some(asked) = asked else { return Ok(Arc::clone(&self.default)) };
        let configured = self.more.iter().find(|named| named.configured == asked).map(|named| &named.embedder);
        let found = self.all().find(|embedder| embedder.model().name == asked).or(configured);
        found.cloned().ok_or_else(|| self.unknown(asked))
    }

    /// That there is no such model here.
    pub fn unknown(&self, asked: &str) -> KnowledgeError {
        let running = self.all().map(|embedder| embedder.model().name.as_str()).collect::<Vec<_>>().join(", ");
        KnowledgeError::NoModel { asked: asked.to_owned(), running }
    }
}

impl<E: Embedder + 'static> From<Arc<E>> for Embedders {
    fn from(embedder: Arc<E>) -> Self {
        Self::new(embedder, Vec::new())
    }
}
