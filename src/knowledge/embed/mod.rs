//! Texts to vectors. Adapters of the ports [`super::Embedder`] and [`super::Reranker`], and the cache in front of it that
//! retrieval uses. Whatever the adapter, a vector has length one and depends on its text alone.

pub mod cache;
pub mod cross_encoder;
mod estimate;
pub mod fastembed;
mod folder;
mod models;
pub mod openai;
mod pool;
pub mod prefixes;
mod runtime;

pub use models::{Embedders, Named};

#[cfg(test)]
mod tests;
