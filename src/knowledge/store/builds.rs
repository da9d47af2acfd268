//! The store behind names: a collection's name stands for the build of it that answers, as an alias would.
//!
//! Invariants: each build has a part of the store of its own; what is deleted from a collection is deleted from the
//! build that is made aside, too; an error names the collection, not its build.

use crate::knowledge::filter::Filter;
use crate::knowledge::{Legs, Point, StoreError, StoreQuery, VectorStore};
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use uuid::Uuid;

/// Which builds a collection has: numbers as in `collections.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub live: i64,
    /// The one that is being made.
    pub aside: Option<i64>,
}

/// A store in which collections can be built anew beside themselves.
pub struct Builds {
    inner: Arc<dyn VectorStore>,
    numbers: RwLock<HashMap<String, Numbers>>,
}

/// What a build is called in the store. No collection's own name has a capital letter.
pub fn part_name(collection: &str, generation: i64) -> String {
    if generation == 0 { collection.to_owned() } else { format!("{collection}-G{generation}") }
}

impl Builds {
    pub fn new(inner: Arc<dyn VectorStore>) -> Self {
        Self { inner, numbers: RwLock::default() }
    }

    /// What the collection's name stands for from now on.
    pub fn set(&self, collection: &str, numbers: Numbers) {
        self.numbers.write().unwrap_or_else(PoisonError::into_inner).insert(collection.to_owned(), numbers);
    }

    /// A build is not made any more.
    pub fn leave(&self, collection: &str, generation: i64) {
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = numbers.get_mut(collection)
            && numbers.aside == Some(generation)
        {
            numbers.aside = None;
        }
    }

    /// The collection is gone.
    pub fn forget(&self, collection: &str) {
        self.numbers.write().unwrap_or_else(PoisonError::into_inner).remove(collection);
    }

    /// The store itself, for parts by their own names.
    pub fn parts(&self) -> &dyn VectorStore {
        self.inner.as_ref()
    }

    fn numbers(&self, collection: &str) -> Numbers {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.get(collection).copied().unwrap_or_default()
    }

    fn live(&self, collection: &str) -> String {
        part_name(collection, self.numbers(collection).live)
    }
}

/// The error in the collection's name.
fn named<T>(collection: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
    result.map_err(|error| match error {
        StoreError::NoCollection(_) => StoreError::NoCollection(collection.to_owned()),
        StoreError::Dimension { found, wanted, .. } => {
            StoreError::Dimension { collection: collection.to_owned(), found, wanted }
        }
        other => other,
    })
}

#[async_trait]
impl VectorStore for Builds {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn create_collection(&self, collection: &str, dimension: usize) -> Result<(), StoreError> {
        named(collection, self.inner.create_collection(&self.live(collection), dimension).await)
    }

    async fn delete_collection(&self, collection: &str) -> Result<(), StoreError> {
        named(collection, self.inner.delete_collection(&self.live(collection)).await)
    }

    async fn upsert(&self, collection: &str, points: Vec<Point>) -> Result<(), StoreError> {
        named(collection, self.inner.upsert(&self.live(collection), points).await)
    }

    async fn delete(&self, collection: &str, ids: &[Uuid]) -> Result<(), StoreError> {
        let numbers = self.numbers(collection);
        if let Some(aside) = numbers.aside {
            match self.inner.delete(&part_name(collection, aside), ids).await {
                Ok(()) | Err(StoreError::NoCollection(_)) => {}
                Err(other) => return Err(other),
            }
        }
        named(collection, self.inner.delete(&part_name(collection, numbers.live), ids).await)
    }

    async fn search(&self, collection: &str, query: &StoreQuery) -> Result<Legs, StoreError> {
        named(collection, self.inner.search(&self.live(collection), query).await)
    }

    async fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError> {
        named(collection, self.inner.count(&self.live(collection), filter).await)
    }

    async fn ids(&self, collection: &str) -> Result<Vec<Uuid>, StoreError> {
        named(collection, self.inner.ids(&self.live(collection)).await)
    }

    fn needs_flush(&self) -> bool {
        self.inner.needs_flush()
    }

    async fn flush(&self, collection: &str) -> Result<(), StoreError> {
        named(collection, self.inner.flush(&self.live(collection)).await)
    }
}
