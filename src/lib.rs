//! Tailrace: a knowledge-base chat service whose tools start while the answer streams.
//!
//! The modules in reading order; imports point downwards only (ARCHITECTURE.md has the whole table).

/// Builds every adapter from the configuration: the only file that names concrete ones.
pub mod app;
/// Commands.
pub mod cli;
/// Every setting, its default and why; where each value came from.
pub mod config;
/// The streaming engine: the loop over rounds, the inline grammar, the gate.
pub mod engine;
/// Routes and wire forms.
pub mod http;
/// Who may call: the operator's key and those that were given out.
pub mod keys;
/// Documents to chunks to vectors to hits.
pub mod knowledge;
/// The port to language models and the four providers.
pub mod llm;
/// What a conversation is made of: messages, citations, framing of foreign text.
pub mod message;
/// Keys and passwords: values that cannot be printed.
pub mod secret;
/// Who may still run when the process is asked to stop.
pub mod shutdown;
/// SQL: one file per table family.
pub mod storage;
/// Logs and metrics.
pub mod telemetry;
/// The port to tools, and the built-in ones.
pub mod tools;
/// A turn's life outside the engine: its event log, its task, its recovery.
pub mod turns;
