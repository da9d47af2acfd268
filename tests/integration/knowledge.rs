//! Documents in, passages out, on real parts: what lives, what goes, what a crash leaves.

mod claims;
mod crash;
mod explain;
mod failures;
mod large;
mod lifecycle;
mod reads;
mod reindex;
mod results;
mod search;
mod versions;
mod world;
