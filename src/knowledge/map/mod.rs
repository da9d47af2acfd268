//! A collection drawn on a plane: each chunk a point, near what is like it, in groups that are named by their words.
//!
//! Invariants: a map is made once for each state of its collection, off the runtime, and no larger than configured;
//! conversations' findings are not on it.

mod clusters;
mod plane;
mod terms;

use super::Priority;
use super::base::Base;
use super::error::KnowledgeError;
use crate::storage::StorageError;
use crate::storage::mapped::{self, MappedChunk, State};
use moka::future::Cache;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Maps that are remembered, and for how long after they were last looked at.
const REMEMBERED: u64 = 8;
const IDLE: Duration = Duration::from_secs(900);

/// How large maps may be.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Points at most; a larger collection is drawn by a sample.
    pub max_points: u32,
    pub max_clusters: usize,
    /// Words that name a cluster.
    pub terms: usize,
}

/// Makes maps. Cheap to clone; clones share the memory.
#[derive(Clone)]
pub struct Maps {
    base: Base,
    options: MapOptions,
    made: Cache<(String, State), Arc<Map>>,
}

/// A collection on the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Chunks that the collection has; more than there are points where this is a sample.
    pub total: u64,
    pub documents: Vec<MapDocument>,
    pub points: Vec<MapPoint>,
    /// The largest first.
    pub clusters: Vec<Cluster>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDocument {
    pub id: String,
    pub title: String,
    pub uri: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MapPoint {
    pub chunk_id: Uuid,
    /// Place in `documents`.
    pub document: usize,
    /// From -1 to 1.
    pub x: f32,
    pub y: f32,
    /// Place in `clusters`.
    pub cluster: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The most telling first.
    pub terms: Vec<String>,
    /// The middle of its points.
    pub x: f32,
    pub y: f32,
    pub points: u64,
}

impl Maps {
    pub fn new(base: Base, options: MapOptions) -> Self {
        Self { base, options, made: Cache::builder().max_capacity(REMEMBERED).time_to_idle(IDLE).build() }
    }

    /// The map of the collection as it is now. Who asks for the same one at the same time waits for one making.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCollection`], [`KnowledgeError::Model`]; what the database says.
    pub async fn of(&self, collection: &str) -> Result<Arc<Map>, KnowledgeError> {
        self.base.collection(collection).await?;
        let state = mapped::state(&self.base.db, collection).await?;
        let key = (collection.to_owned(), state);
        if let Some(made) = self.made.get(&key).await {
            return Ok(made);
        }
        let options = self.options;
        let make = async {
            let chunks = mapped::sample(&self.base.db, collection, options.max_points).await?;
            let map = self.base.off_runtime(Priority::Bulk, move || draw(chunks, state.chunks, options)).await?;
            Ok::<_, KnowledgeError>(Arc::new(map))
        };
        self.made.try_get_with(key, make).await.map_err(|shared| {
            // Whoever waited for another's making hears the same in words.
            let in_words = |shared: Arc<KnowledgeError>| StorageError::Failed(shared.to_string()).into();
            Arc::try_unwrap(shared).unwrap_or_else(in_words)
        })
    }
}

/// CPU-bound.
fn draw(chunks: Vec<MappedChunk>, total: u64, options: MapOptions) -> Map {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut documents: Vec<MapDocument> = Vec::new();
    let (mut vectors, mut texts, mut of_document) = (Vec::new(), Vec::new(), Vec::new());
    for chunk in chunks {
        let place = *places.entry(chunk.document_id.clone()).or_insert_with(|| {
            documents.push(MapDocument { id: chunk.document_id, title: chunk.title, uri: chunk.uri });
            documents.len() - 1
        });
        of_document.push((chunk.chunk_id, place));
        vectors.push(chunk.embedding);
        texts.push(chunk.text);
    }
    let groups = clusters::group(&vectors, options.max_clusters);
    let places = plane::project(&vectors);
    drop(vectors);
    let names = terms::name(&texts, &groups, options.terms);
    let points: Vec<MapPoint> = of_document
        .into_iter()
        .zip(places)
        .zip(&groups)
        .map(|(((chunk_id, document), [x, y]), cluster)| MapPoint { chunk_id, document, x, y, cluster: *cluster })
        .collect();
    let clusters = names
        .into_iter()
        .enumerate()
        .map(|(n, terms)| {
            let inside: Vec<&MapPoint> = points.iter().filter(|point| point.cluster == n).collect();
            let count = inside.len().max(1) as f32;
            let (x, y) = inside.iter().fold((0.0, 0.0), |(x, y), point| (x + point.x, y + point.y));
            Cluster { terms, x: x / count, y: y / count, points: inside.len() as u64 }
        })
        .collect();
    Map { total, documents, points, clusters }
}
