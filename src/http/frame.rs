//! The wire form of a [`RunnerEvent`] as an SSE frame. Pure; the only place that gives it one.
//!
//! Every frame is one event of one line of JSON, so a line break in a text cannot end it early, and frames that stand
//! one after the other can be told apart again.

use crate::engine::event::{
    Approval, Claim, Finish, Ingested, Notice, RoundStop, RunnerEvent, Span, Telemetry, ToolMode, ToolOutcome,
    ToolSettled, ToolStart, Verdict,
};
use crate::message::{Arguments, Usage};
use crate::turns::log::{Logged, Wire};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The last frame of every stream. It has no id and is not JSON.
pub const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// Sent in silence, so that no proxy takes the stream for dead.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// How the log of a turn gets its frames.
pub const WIRE: Wire = Wire { encode, split, read };

/// Frame number `seq` of a turn (dense from 1); `at_ms`: milliseconds since the turn began.
fn encode(seq: u64, at_ms: u64, event: &RunnerEvent) -> Bytes {
    let payload = Payload::of(event);
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(seq.to_string().as_bytes());
    if let Some(name) = name(event) {
        out.extend_from_slice(b"\nevent: ");
        out.extend_from_slice(name.as_bytes());
    }
    out.extend_from_slice(b"\ndata: ");
    let written = match payload.is_object() {
        true => serde_json::to_writer(&mut out, &Timed { at_ms, payload }),
        false => serde_json::to_writer(&mut out, &payload),
    };
    debug_assert!(written.is_ok(), "plain data always serializes into memory");
    out.extend_from_slice(b"\n\n");
    Bytes::from(out)
}

/// Frames that stand one after the other.
fn split(frames: &Bytes) -> Vec<Bytes> {
    let mut start = 0;
    memchr::memmem::find_iter(frames, b"\n\n")
        .map(|at| frames.slice(std::mem::replace(&mut start, at + 2)..at + 2))
        .collect()
}

/// A frame's parts: its number, its event (`None` for visible text) and its JSON.
pub fn parts(frame: &[u8]) -> Option<(u64, Option<&str>, &str)> {
    let frame = std::str::from_utf8(frame).ok()?.strip_prefix("id: ")?.strip_suffix("\n\n")?;
    let (id, rest) = frame.split_once('\n')?;
    let (event, rest) = match rest.strip_prefix("event: ") {
        Some(rest) => rest.split_once('\n').map(|(event, rest)| (Some(event), rest))?,
        None => (None, rest),
    };
    Some((id.parse().ok()?, event, rest.strip_prefix("data: ")?))
}

/// What a frame of a turn that this process has not seen says of the answer.
fn read(frame: &[u8]) -> Option<Logged> {
    let (_, event, json) = parts(frame)?;
    match event {
        None => serde_json::from_str(json).ok().map(Logged::Text),
        Some("retry") => {
            let Discard { discard_from } = serde_json::from_str(json).ok()?;
            Some(Logged::Discard(discard_from))
        }
        Some("round") => {
            let Round { round } = serde_json::from_str(json).ok()?;
            Some(Logged::Round(round))
        }
        Some("round_end") => {
            let RoundUsage { usage } = serde_json::from_str(json).ok()?;
            Some(Logged::RoundEnd(usage))
        }
        Some("thinking") => Some(Logged::Thinking(true)),
        Some("thinking_done") => Some(Logged::Thinking(false)),
        Some("sub_agent_start") => {
            let SubAgent { call_id, task, depth } = serde_json::from_str(json).ok()?;
            Some(Logged::SubAgentStart { call_id, task, depth })
        }
        Some("sub_agent_end") => {
            let SubAgent { call_id, .. } = serde_json::from_str(json).ok()?;
            Some(Logged::SubAgentEnd { call_id })
        }
        Some(_) => None,
    }
}

#[derive(Deserialize)]
struct Discard {
    discard_from: usize,
}

#[derive(Deserialize)]
struct Round {
    round: u32,
}

#[derive(Deserialize)]
struct RoundUsage {
    usage: Usage,
}

#[derive(Deserialize)]
struct SubAgent {
    call_id: String,
    task: String,
    depth: u32,
}

/// The SSE event name; `None` for visible text.
fn name(event: &RunnerEvent) -> Option<&'static str> {
    Some(match event {
        RunnerEvent::Delta(_) => return None,
        RunnerEvent::TurnStart { .. } => "turn_start",
        RunnerEvent::Round { .. } => "round",
        RunnerEvent::RoundEnd { .. } => "round_end",
        RunnerEvent::Thinking => "thinking",
        RunnerEvent::ThinkingDone => "thinking_done",
        RunnerEvent::Reasoning(_) => "reasoning",
        RunnerEvent::ToolStart(_) => "tool_start",
        RunnerEvent::ToolResult(_) => "tool_result",
        RunnerEvent::Approval(_) => "approval",
        RunnerEvent::SubAgentStart { .. } => "sub_agent_start",
        RunnerEvent::SubAgentEnd { .. } => "sub_agent_end",
        RunnerEvent::Sources(_) => "sources",
        RunnerEvent::Claim(_) => "claim",
        RunnerEvent::Retry { .. } => "retry",
        RunnerEvent::Notice(_) => "notice",
        RunnerEvent::Error { .. } => "error",
        RunnerEvent::TurnEnd { .. } => "turn_end",
    })
}

#[derive(Serialize)]
struct Timed<'a> {
    at_ms: u64,
    #[serde(flatten)]
    payload: Payload<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Payload<'a> {
    Text(&'a str),
    Sources(&'a [crate::message::sources::Source]),
    Claim { start: u64, end: u64, verdict: &'static str, sources: &'a [u32] },
    Empty {},
    TurnStart { turn_id: Uuid, conversation_id: Uuid, provider: &'a str, model: &'a str, tool_mode: &'static str },
    Round { round: u32 },
    RoundEnd { round: u32, stop: &'static str, usage: Usage, spoke: &'a [(u64, u64)] },
    ToolStart(ToolStartWire<'a>),
    ToolResult(ToolResultWire<'a>),
    Approval(ApprovalWire<'a>),
    SubAgentStart { call_id: &'a str, task: &'a str, depth: u32 },
    SubAgentEnd { call_id: &'a str, task: &'a str, depth: u32, rounds: u32, tools_run: u32 },
    Retry { attempt: u32, after_ms: u64, error: &'a str, discard_from: u64 },
    Notice(NoticeWire<'a>),
    Error(ErrorWire<'a>),
    TurnEnd(TurnEndWire),
}

impl<'a> Payload<'a> {
    fn of(event: &'a RunnerEvent) -> Self {
        match event {
            RunnerEvent::Delta(text) | RunnerEvent::Reasoning(text) => Self::Text(text),
            RunnerEvent::Sources(sources) => Self::Sources(sources),
            RunnerEvent::Claim(Claim { span, verdict, sources }) => {
                Self::Claim { start: span.start, end: span.end, verdict: Verdict::as_str(*verdict), sources }
            }
            RunnerEvent::Thinking | RunnerEvent::ThinkingDone => Self::Empty {},
            RunnerEvent::TurnStart { turn_id, conversation_id, provider, model, tool_mode } => Self::TurnStart {
                turn_id: *turn_id,
                conversation_id: *conversation_id,
                provider,
                model,
                tool_mode: ToolMode::as_str(*tool_mode),
            },
            RunnerEvent::Round { round } => Self::Round { round: *round },
            RunnerEvent::RoundEnd { round, stop, usage, spoke } => {
                Self::RoundEnd { round: *round, stop: RoundStop::as_str(*stop), usage: *usage, spoke }
            }
            RunnerEvent::ToolStart(start) => Self::ToolStart(start.into()),
            RunnerEvent::ToolResult(settled) => Self::ToolResult(settled.into()),
            RunnerEvent::Retry { attempt, after_ms, error, discard_from } => {
                Self::Retry { attempt: *attempt, after_ms: *after_ms, error, discard_from: *discard_from }
            }
            RunnerEvent::Approval(approval) => Self::Approval(approval.into()),
            RunnerEvent::SubAgentStart { call_id, task, depth } => Self::SubAgentStart { call_id, task, depth: *depth },
            RunnerEvent::SubAgentEnd { call_id, task, depth, rounds, tools_run } => {
                Self::SubAgentEnd { call_id, task, depth: *depth, rounds: *rounds, tools_run: *tools_run }
            }
            RunnerEvent::Notice(notice) => Self::Notice(notice.into()),
            RunnerEvent::Error { code, message, retryable, retry_after_ms } => {
                Self::Error(ErrorWire { code, message, retryable: *retryable, retry_after_ms: *retry_after_ms })
            }
            RunnerEvent::TurnEnd { finish, fallback_reason, usage, telemetry } => Self::TurnEnd(TurnEndWire {
                finish: Finish::as_str(*finish),
                fallback_reason: *fallback_reason,
                usage: *usage,
                telemetry: *telemetry,
            }),
        }
    }

    fn is_object(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Sources(_))
    }
}

#[derive(Serialize)]
struct SpanWire {
    start: u64,
    end: u64,
}

impl From<Span> for SpanWire {
    fn from(span: Span) -> Self {
        Self { start: span.start, end: span.end }
    }
}

#[derive(Serialize)]
struct ToolStartWire<'a> {
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Arguments,
    round: u32,
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<SpanWire>,
    #[serde(skip_serializing_if = "is_zero")]
    depth: u32,
}

/// A call of the turn itself needs no depth.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(depth: &u32) -> bool {
    *depth == 0
}

#[derive(Serialize)]
struct ApprovalWire<'a> {
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Arguments,
    why: &'a str,
}

impl<'a> From<&'a Approval> for ApprovalWire<'a> {
    fn from(a: &'a Approval) -> Self {
        Self { call_id: &a.call_id, name: &a.name, arguments: &a.arguments, why: &a.why }
    }
}

impl<'a> From<&'a ToolStart> for ToolStartWire<'a> {
    fn from(s: &'a ToolStart) -> Self {
        Self {
            call_id: &s.call_id,
            name: &s.name,
            arguments: &s.arguments,
            round: s.round,
            index: s.index,
            span: s.span.map(Into::into),
            depth: s.depth,
        }
    }
}

#[derive(Serialize)]
struct ToolResultWire<'a> {
    call_id: &'a str,
    name: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest_ms: Option<u64>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<SpanWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingested: Option<IngestedWire<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    depth: u32,
}

impl<'a> From<&'a ToolSettled> for ToolResultWire<'a> {
    fn from(s: &'a ToolSettled) -> Self {
        let (output, error, reason) = match &s.outcome {
            ToolOutcome::Ok { output } => (Some(output.as_str()), None, None),
            ToolOutcome::Failed { error } => (None, Some(error.as_str()), None),
            ToolOutcome::Rejected { reason, error } => (None, Some(error.as_str()), Some(reason.as_str())),
        };
        Self {
            call_id: &s.call_id,
            name: &s.name,
            ok: output.is_some(),
            output,
            error,
            rejected: reason.is_some().then_some(true),
            reason,
            duration_ms: s.duration_ms,
            ingest_ms: s.ingest_ms,
            truncated: s.truncated,
            span: s.span.map(Into::into),
            ingested: s.ingested.as_ref().map(Into::into),
            depth: s.depth,
        }
    }
}

#[derive(Serialize)]
struct IngestedWire<'a> {
    document_id: &'a str,
    chunks: u64,
    collection: &'a str,
    scope: &'static str,
    fresh: bool,
}

impl<'a> From<&'a Ingested> for IngestedWire<'a> {
    fn from(i: &'a Ingested) -> Self {
        Self {
            document_id: &i.document_id,
            chunks: i.chunks,
            collection: &i.collection,
            scope: i.scope,
            fresh: i.fresh,
        }
    }
}

#[derive(Serialize)]
struct NoticeWire<'a> {
    code: &'static str,
    title: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Notice> for NoticeWire<'a> {
    fn from(n: &'a Notice) -> Self {
        Self { code: n.code, title: &n.title, message: &n.message }
    }
}

#[derive(Serialize)]
struct ErrorWire<'a> {
    code: &'a str,
    message: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Serialize)]
struct TurnEndWire {
    finish: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_reason: Option<&'static str>,
    usage: Usage,
    telemetry: Telemetry,
}

#[cfg(test)]
mod tests;
