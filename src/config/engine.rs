//! `[engine]`, `[turns]`: the limits of a turn. A request may lower some of them, never raise them.

use super::key::Key;
use super::millis;
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Rounds after the first.
    pub max_continuations: u32,
    pub max_tools_per_round: u32,
    pub max_tools_total: u32,
    /// For one tool's execution; storing its result is not counted.
    #[serde(rename = "tool_timeout_ms", deserialize_with = "millis")]
    pub tool_timeout: Duration,
    pub max_block_bytes: usize,
    /// How much of one result the model reads.
    pub max_result_bytes: usize,
    /// `false`: tools start when the stream has ended.
    pub overlap: bool,
    /// How long the user may take to allow a call with side effects.
    #[serde(rename = "approval_timeout_ms", deserialize_with = "millis")]
    pub approval_timeout: Duration,
    pub sub_agent: SubAgent,
}

/// Turns inside turns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubAgent {
    /// 0: the tool `sub_agent` does not exist.
    pub max_depth: u32,
    pub max_continuations: u32,
    pub max_tools_per_round: u32,
    pub max_tools_total: u32,
    /// For a whole nested turn.
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// For a whole turn.
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Duration,
    /// Hold sentences against their sources.
    pub claims: bool,
    /// For the last judgements, at the end of an answer.
    #[serde(rename = "claims_wait_ms", deserialize_with = "millis")]
    pub claims_wait: Duration,
    /// Sentences of an answer that are judged.
    pub max_claims: usize,
    /// Bytes of all frames of a turn.
    pub max_log_bytes: usize,
}

pub(super) const KEYS: &[Key] = &[
    Key::whole("engine.max_continuations", 0, 32),
    Key::whole("engine.max_tools_per_round", 0, 64),
    Key::whole("engine.max_tools_total", 0, 256),
    Key::whole("engine.tool_timeout_ms", 1, 3_600_000),
    Key::whole("engine.max_block_bytes", 256, 16 << 20),
    Key::whole("engine.max_result_bytes", 256, 4 << 20),
    Key::flag("engine.overlap"),
    Key::whole("engine.approval_timeout_ms", 1, 3_600_000),
    Key::whole("engine.sub_agent.max_depth", 0, 3),
    Key::whole("engine.sub_agent.max_continuations", 0, 32),
    Key::whole("engine.sub_agent.max_tools_per_round", 0, 64),
    Key::whole("engine.sub_agent.max_tools_total", 0, 256),
    Key::whole("engine.sub_agent.timeout_ms", 100, 3_600_000),
    Key::whole("turns.timeout_ms", 100, 86_400_000),
    Key::flag("turns.claims"),
    Key::whole("turns.claims_wait_ms", 0, 60_000),
    Key::whole("turns.max_claims", 1, 100_000),
    Key::whole("turns.max_log_bytes", 64 << 10, 512 << 20),
];
