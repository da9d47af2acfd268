//! (filled by the next commits)

pub mod inspect_inline;
pub mod inspect_sse;
