//! The one integration test binary: one module a subject. Tests speak to real parts over the wire, on
//! free ports, without sleeping.

#![cfg(test)]

mod llm_wire;
mod store_contract;
mod tidy;
mod upstream;
