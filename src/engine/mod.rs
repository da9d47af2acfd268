//! The streaming engine.

pub mod arguments;
pub mod budget;
pub mod call_assembler;
pub mod continuation;
pub mod event;
pub mod timeline;
pub mod xml_block;
pub mod xml_parser;
