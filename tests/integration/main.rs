//! The one integration test binary: one module a subject. Tests speak to real parts over the wire, on
//! free ports, without sleeping.

#![cfg(test)]

mod embed_openai;
mod engine;
mod fetch_url;
mod knowledge;
mod llm_wire;
mod qdrant_server;
mod service;
mod store_contract;
mod store_edge;
mod store_qdrant;
mod tidy;
mod upstream;
