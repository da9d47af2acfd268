//! The streaming engine.

pub mod continuation;
pub mod event;
pub mod timeline;
pub mod xml_block;
pub mod xml_parser;
