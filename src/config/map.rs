//! `[map]`: how large the drawing of a collection may be.

use super::key::Key;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// A larger collection is drawn by a sample.
    pub max_points: u32,
    pub max_clusters: usize,
    /// Words that name a cluster.
    pub terms: usize,
}

pub(super) const KEYS: &[Key] = &[
    Key::whole("map.max_points", 100, 200_000),
    Key::whole("map.max_clusters", 1, 100),
    Key::whole("map.terms", 1, 10),
];
