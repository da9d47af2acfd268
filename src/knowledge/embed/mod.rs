//! Texts to vectors. Adapters of the port [`super::Embedder`], and the cache in front of it that
//! retrieval uses. Whatever the adapter, a vector has length one and depends on its text alone.

pub mod cache;
pub mod fastembed;
mod folder;
mod pool;

#[cfg(test)]
mod tests;
