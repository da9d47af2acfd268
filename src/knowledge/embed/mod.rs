//! Texts to vectors. Adapters of the port [`super::Embedder`], and the cache in front of it that
//! retrieval uses. Whatever the adapter, a vector has length one and depends on its text alone.

pub mod cache;
mod estimate;
pub mod fastembed;
mod folder;
mod models;
pub mod openai;
mod pool;
pub mod prefixes;

pub use models::{Embedders, Named};

#[cfg(test)]
mod tests;
