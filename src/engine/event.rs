//! All that leaves the engine. `http/frame.rs` gives these their wire form; nothing else does.

use crate::llm::Stop;
use crate::message::sources::Source;
use crate::message::{Arguments, Usage};
use serde::Serialize;
use uuid::Uuid;

/// One event of a turn, in the order it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum RunnerEvent {
    TurnStart {
        turn_id: Uuid,
        conversation_id: Uuid,
        provider: String,
        model: String,
        tool_mode: ToolMode,
    },
    /// 0 for the first LLM stream, then one per continuation.
    Round {
        round: u32,
    },
    RoundEnd {
        round: u32,
        stop: RoundStop,
        usage: Usage,
        spoke: Vec<(u64, u64)>,
    },
    /// The model has been asked and has not spoken.
    Thinking,
    ThinkingDone,
    Reasoning(String),
    /// Visible text; a tool block is one delta of its own, before its [`RunnerEvent::ToolStart`].
    Delta(String),
    ToolStart(ToolStart),
    ToolResult(ToolSettled),
    Approval(Approval),
    /// The call `call_id` of `sub_agent` runs a turn of its own, `depth` levels below this one.
    SubAgentStart {
        call_id: String,
        task: String,
        depth: u32,
    },
    SubAgentEnd {
        call_id: String,
        task: String,
        depth: u32,
        rounds: u32,
        tools_run: u32,
    },
    Sources(Vec<Source>),
    /// How a finished sentence stands against the sources.
    Claim(Claim),
    /// The provider is asked again; text at and after byte `discard_from` of the turn is void.
    Retry {
        attempt: u32,
        after_ms: u64,
        error: String,
        discard_from: u64,
    },
    Notice(Notice),
    Error {
        code: &'static str,
        message: String,
        retryable: bool,
        retry_after_ms: Option<u64>,
    },
    TurnEnd {
        finish: Finish,
        fallback_reason: Option<&'static str>,
        usage: Usage,
        telemetry: Telemetry,
    },
}

/// A judged sentence of the visible text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub span: Span,
    pub verdict: Verdict,
    /// Numbers of the sources that support it, or come nearest.
    pub sources: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Supported,
    Weak,
    Unsupported,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Weak => "weak",
            Self::Unsupported => "unsupported",
        }
    }
}

/// How the model calls tools in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolMode {
    Inline,
    Native,
    Off,
}

impl ToolMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Native => "native",
            Self::Off => "off",
        }
    }
}

/// Why a round ended: the model's own stop, or the stream was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundStop {
    Model(Stop),
    Cut,
}

impl RoundStop {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model(stop) => stop.as_str(),
            Self::Cut => "cut",
        }
    }
}

/// Bytes in the turn's visible text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolStart {
    pub call_id: String,
    pub name: String,
    pub arguments: Arguments,
    pub round: u32,
    /// Position among the sealed calls of its round, from 0.
    pub index: u32,
    /// Inline calls: where the block stands.
    pub span: Option<Span>,
    /// 0, or how deep below the turn the sub-agent is that called.
    pub depth: u32,
}

/// The one outcome of a sealed call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSettled {
    pub call_id: String,
    pub name: String,
    /// As they were sent; empty where that is not a JSON object. A refused call has no [`ToolStart`] to say them.
    pub arguments: Arguments,
    pub outcome: ToolOutcome,
    pub duration_ms: u64,
    pub ingest_ms: Option<u64>,
    pub truncated: bool,
    pub span: Option<Span>,
    pub ingested: Option<Ingested>,
    /// As in [`ToolStart`].
    pub depth: u32,
}

/// A call that waits for the user's word.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    pub call_id: String,
    pub name: String,
    pub arguments: Arguments,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    Ok { output: String },
    Failed { error: String },
    Rejected { reason: Rejection, error: String },
}

/// What became of a result in the knowledge base.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingested {
    pub document_id: String,
    pub chunks: u64,
    pub collection: String,
    /// `conversation` or `collection`.
    pub scope: &'static str,
    /// Whether the next round's search is sure to see it.
    pub fresh: bool,
}

/// Why the gate said no. A refused call does not count towards the caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    Duplicate,
    UnknownTool,
    NotAllowed,
    BadArguments,
    CapRound,
    CapTotal,
    MaxContinuations,
    /// The user said no, or nothing in time.
    NotApproved,
}

impl Rejection {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::UnknownTool => "unknown_tool",
            Self::NotAllowed => "not_allowed",
            Self::BadArguments => "bad_arguments",
            Self::CapRound => "cap_round",
            Self::CapTotal => "cap_total",
            Self::MaxContinuations => "max_continuations",
            Self::NotApproved => "not_approved",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub code: &'static str,
    pub title: String,
    pub message: String,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Complete,
    MaxContinuations,
    Cancelled,
    ProviderError,
    /// The whole turn took too long.
    Timeout,
    Interrupted,
}

impl Finish {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::MaxContinuations => "max_continuations",
            Self::Cancelled => "cancelled",
            Self::ProviderError => "provider_error",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Counts and times of a turn; times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Telemetry {
    pub rounds: u32,
    pub tools_run: u32,
    pub tools_rejected: u32,
    pub parse_errors: u32,
    pub first_token_ms: Option<u64>,
    /// Tool time hidden behind the LLM stream.
    pub overlap_ms: u64,
    /// Time during which at least one tool ran.
    pub tool_wall_ms: u64,
    pub ingest_ms: u64,
    pub total_ms: u64,
}
