//! The knowledge base's parts in one place, shared by ingestion, retrieval and reconciliation: SQL, the
//! vector store, the embedding model, the keyword models.
//! Invariant: a collection that another embedding model built is refused here, before anything is
//! embedded or searched.

use super::attention::Attention;
use super::embed::Embedders;
use super::error::KnowledgeError;
use super::keyword::{Keywords, Language};
use super::store::builds::Builds;
use super::{Embedder, Payload, Point, Priority, Scope, VectorStore};
use crate::storage::collections::{self, Collection};
use crate::storage::documents::Description;
use crate::storage::points::StoredPoint;
use crate::storage::{Db, StorageError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The collection that is always there.
pub const DEFAULT_COLLECTION: &str = "default";
/// The language that follows the documents.
pub const AUTO: &str = "auto";

/// Texts of a turn that are read at the same time; more wait.
const TURN_READERS: usize = 4;

/// Cheap to clone.
#[derive(Clone)]
pub struct Base {
    pub db: Db,
    /// By collections' names, which stand for the builds that answer.
    pub store: Arc<dyn VectorStore>,
    /// The same, by builds.
    pub builds: Arc<Builds>,
    pub embedders: Embedders,
    /// Bulk work asks it before it computes.
    pub attention: Attention,
    keywords: Arc<Mutex<HashMap<Language, Keywords>>>,
    bulk: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Base {
    pub fn new(db: Db, store: Arc<dyn VectorStore>, embedders: impl Into<Embedders>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let builds = Arc::new(Builds::new(store));
        Self {
            db,
            store: Arc::clone(&builds) as Arc<dyn VectorStore>,
            builds,
            embedders: embedders.into(),
            attention: Attention::default(),
            keywords: Arc::default(),
            bulk: Arc::new(Semaphore::new(cores)),
            turns: Arc::new(Semaphore::new(TURN_READERS)),
        }
    }

    /// The collection, if the model that built it runs here.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::Model`].
    pub async fn collection(&self, name: &str) -> Result<Collection, KnowledgeError> {
        let found = collections::find(&self.db, name).await?.filter(|c| !c.deleting);
        let collection = found.ok_or_else(|| KnowledgeError::NoCollection(name.to_owned()))?;
        self.check_model(&collection)?;
        Ok(collection)
    }

    /// # Errors
    /// [`KnowledgeError::Model`] where the model that built the collection does not run here.
    pub fn check_model(&self, collection: &Collection) -> Result<(), KnowledgeError> {
        self.embedder_of(collection).map(|_| ())
    }

    /// The model of a collection: of its passages and of the queries that look for them.
    ///
    /// # Errors
    /// As [`Base::check_model`].
    pub fn embedder_of(&self, collection: &Collection) -> Result<Arc<dyn Embedder>, KnowledgeError> {
        if let Some(found) = self.embedders.recorded(&collection.embedding_model, collection.dimension) {
            return Ok(found);
        }
        let running: Vec<String> =
            self.embedders.all().map(|e| written(&e.model().name, e.model().dimension as u64)).collect();
        Err(KnowledgeError::Model {
            collection: collection.name.clone(),
            recorded: written(&collection.embedding_model, collection.dimension),
            running: running.join(", "),
        })
    }

    /// The keyword model of a language as a collection records it; empty: not decided yet, words as
    /// they are.
    pub fn keywords(&self, language: &str) -> Result<Keywords, KnowledgeError> {
        let language = if language.is_empty() { Language::Multilingual } else { language.parse()? };
        let mut known = self.keywords.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keywords) = known.get(&language) {
            return Ok(keywords.clone());
        }
        let keywords = Keywords::new(language)?;
        known.insert(language, keywords.clone());
        Ok(keywords)
    }

    /// Runs CPU-bound work on a blocking thread, as many at a time as there are cores; the text of a
    /// turn does not queue behind bulk work. A panic in `work` is an error of that work alone.
    pub async fn off_runtime<T, F>(&self, priority: Priority, work: F) -> Result<T, KnowledgeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let gate = match priority {
            Priority::Turn => Arc::clone(&self.turns),
            Priority::Bulk => Arc::clone(&self.bulk),
        };
        let aside = match priority {
            Priority::Turn => None,
            Priority::Bulk => self.attention.turn_aside().await,
        };
        // The gate is never closed.
        let permit = gate.acquire_owned().await.map_err(|_| KnowledgeError::Storage(StorageError::Closed))?;
        tokio::task::spawn_blocking(move || {
            let done = work();
            drop((permit, aside));
            done
        })
        .await
        .map_err(|_| KnowledgeError::Reader("the reader stopped unexpectedly".to_owned()))
    }

    /// Points made from what SQL holds. CPU-bound.
    ///
    /// # Errors
    /// [`KnowledgeError::Storage`] where a row's scope cannot be read.
    pub fn points(keywords: &Keywords, stored: Vec<StoredPoint>) -> Result<Vec<Point>, KnowledgeError> {
        stored
            .into_iter()
            .map(|point| {
                Ok(Point {
                    id: point.point_id,
                    bm25: keywords.document(&point.embed_text),
                    dense: point.embedding,
                    payload: payload(point.document_id, point.chunk_id, point.version, &point.description)?,
                })
            })
            .collect()
    }
}

/// What a document is called that has no title: the end of its URI.
pub fn last_part(uri: &str) -> &str {
    uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(uri)
}

fn written(name: &str, dimension: u64) -> String {
    format!("{name} ({dimension} numbers)")
}

/// What filters can name of a point.
pub fn payload(
    document_id: String,
    chunk_id: Uuid,
    version: i64,
    about: &Description,
) -> Result<Payload, KnowledgeError> {
    Ok(Payload {
        document_id,
        chunk_id,
        version,
        scope: read_scope(&about.scope)?,
        title: about.title.clone(),
        uri: about.uri.clone(),
        metadata: about.metadata.clone(),
        expires_at: about.expires_at,
    })
}

pub(super) fn read_scope(key: &str) -> Result<Scope, KnowledgeError> {
    if key == Scope::Collection.key() {
        return Ok(Scope::Collection);
    }
    if key == Scope::Kept.key() {
        return Ok(Scope::Kept);
    }
    let id = Uuid::try_parse(key).map_err(|_| StorageError::Corrupt(format!("column `scope`: {key}")))?;
    Ok(Scope::Conversation(id))
}
