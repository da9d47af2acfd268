//! The streaming engine.

pub mod continuation;
pub mod event;
pub mod timeline;
