// The one fold from frames to what is shown of a turn. Pure: live, resumed and stored turns all pass through
// here, frame by frame and once each. Drawing is elsewhere and as often as it likes.

import { isQuoted, isToolBlock } from "./block";
import { byteLength, unitAt } from "./bytes";
import type {
  Approval, Claim, Failure, Frame, Notice, Retry, RoundEnd, Source, Span, ToolResult, ToolStart, TurnEnd, TurnStart,
} from "./frame";

export interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly round: number;
  readonly index: number;
  /** Nested in that many sub-agents. */
  readonly depth: number;
  /** The block as the model wrote it; empty for a native call. */
  readonly raw: string;
  readonly startedAt?: number;
  readonly settledAt?: number;
  readonly result?: ToolResult;
  readonly approval?: Approval;
  /** Of a call that gave a task to a sub-agent: what became of it, and what it called itself. */
  readonly agent?: Agent;
}

export interface Agent {
  readonly depth: number;
  readonly open: boolean;
  readonly calls: readonly string[];
  readonly rounds?: number;
  readonly toolsRun?: number;
}

/** A stretch of the transcript. `from` is a byte of the turn's visible text and never changes. */
export type Segment =
  | { readonly kind: "text"; readonly from: number; readonly bytes: number; readonly text: string }
  /** A whole tool block whose outcome has not been told yet. */
  | { readonly kind: "block"; readonly from: number; readonly bytes: number; readonly text: string }
  | { readonly kind: "call"; readonly from: number; readonly bytes: number; readonly call: string }
  | { readonly kind: "reasoning"; readonly from: number; readonly text: string; readonly since?: number; readonly until?: number; readonly open: boolean }
  | { readonly kind: "notice"; readonly from: number; readonly notice: Notice }
  | { readonly kind: "retry"; readonly from: number; readonly retry: Retry }
  | { readonly kind: "error"; readonly from: number; readonly error: Failure };

export interface Round {
  readonly round: number;
  readonly beganAt?: number;
  readonly endedAt?: number;
  readonly stop?: string;
  readonly usage?: RoundEnd["usage"];
  /** When text or reasoning arrived. While the round runs, this page's own measure. */
  readonly spoke: readonly (readonly [number, number])[];
}

export interface Turn {
  /** The last frame that was folded. */
  readonly seq: number;
  readonly start?: TurnStart;
  /** The latest time that a frame told. */
  readonly at: number;
  readonly thinking: boolean;
  /** Length of the visible text so far. */
  readonly bytes: number;
  readonly segments: readonly Segment[];
  readonly calls: ReadonlyMap<string, Call>;
  readonly rounds: readonly Round[];
  readonly sources: readonly Source[];
  readonly claims: readonly Claim[];
  readonly end?: TurnEnd;
}

export const EMPTY: Turn = {
  seq: 0, at: 0, thinking: false, bytes: 0, segments: [], calls: new Map(), rounds: [], sources: [], claims: [],
};

/** Silences shorter than this do not interrupt an interval; the server's rule, used until it tells its own. */
const JOIN_MS = 200;

export function fold(turn: Turn, frame: Frame): Turn {
  if (frame.seq <= turn.seq) return turn;
  const at = frame.at === undefined ? turn.at : Math.max(turn.at, frame.at);
  return apply({ ...turn, seq: frame.seq, at }, frame);
}

export function foldAll(frames: Iterable<Frame>, from: Turn = EMPTY): Turn {
  let turn = from;
  for (const frame of frames) turn = fold(turn, frame);
  return turn;
}

function apply(turn: Turn, frame: Frame): Turn {
  switch (frame.name) {
    case "turn_start":
      return { ...turn, start: frame.data };
    case "round":
      return { ...turn, rounds: [...turn.rounds, { round: frame.data.round, beganAt: frame.at ?? turn.at, spoke: [] }] };
    case "round_end":
      return settleBlocks(endRound(turn, frame.data, frame.at ?? turn.at));
    case "thinking":
      return { ...turn, thinking: true };
    case "thinking_done":
      return { ...turn, thinking: false };
    case "text":
      return spoke(addText(closeReasoning(turn), frame.data), frame.at);
    case "reasoning":
      return spoke(addReasoning(turn, frame.data), frame.at);
    case "tool_start":
      return startCall(closeReasoning(turn), frame.data, frame.at ?? turn.at);
    case "tool_result":
      return settleCall(turn, frame.data, frame.at ?? turn.at);
    case "sources":
      return { ...turn, sources: mergeSources(turn.sources, frame.data) };
    case "claim":
      return { ...turn, claims: [...turn.claims, frame.data] };
    case "sub_agent_start":
      return changeAgent(turn, frame.data.call_id, () => ({ depth: frame.data.depth, open: true, calls: [] }));
    case "sub_agent_end":
      return changeAgent(turn, frame.data.call_id, (agent) => ({ ...agent, open: false, rounds: frame.data.rounds, toolsRun: frame.data.tools_run }));
    case "retry":
      return push(discard(turn, frame.data.discard_from), { kind: "retry", from: frame.data.discard_from, retry: frame.data });
    case "approval":
      return awaitApproval(turn, frame.data);
    case "notice":
      return push(turn, { kind: "notice", from: turn.bytes, notice: frame.data });
    case "error":
      return push(withoutErrorText(turn, frame.data), { kind: "error", from: turn.bytes, error: frame.data });
    case "turn_end":
      return { ...settleBlocks(closeReasoning(turn)), thinking: false, end: frame.data };
  }
}

function push(turn: Turn, segment: Segment): Turn {
  return { ...turn, segments: [...turn.segments, segment] };
}

function replace(turn: Turn, index: number, ...by: Segment[]): Turn {
  return { ...turn, segments: turn.segments.toSpliced(index, 1, ...by) };
}

function addText(turn: Turn, text: string): Turn {
  if (text === "") return turn;
  const bytes = byteLength(text);
  const from = turn.bytes;
  const last = turn.segments.at(-1);
  const longer = { ...turn, bytes: from + bytes };
  // The server sends a tool block as one delta: it must not flash up as text before its call is told.
  if (isToolBlock(text) && !(last?.kind === "text" && isQuoted(last.text))) return push(longer, { kind: "block", from, bytes, text });
  if (last?.kind !== "text") return push(longer, { kind: "text", from, bytes, text });
  return replace(longer, longer.segments.length - 1, { ...last, text: last.text + text, bytes: last.bytes + bytes });
}

/** Blocks that nothing was made of are text after all, and join what stands around them. */
function settleBlocks(turn: Turn): Turn {
  if (!turn.segments.some((s) => s.kind === "block")) return turn;
  const segments: Segment[] = [];
  for (const segment of turn.segments) {
    const last = segments.at(-1);
    const text = segment.kind === "block" ? ({ ...segment, kind: "text" } as const) : segment;
    if (text.kind === "text" && last?.kind === "text") {
      segments[segments.length - 1] = { ...last, text: last.text + text.text, bytes: last.bytes + text.bytes };
    } else segments.push(text);
  }
  return { ...turn, segments };
}

function addReasoning(turn: Turn, text: string): Turn {
  const last = turn.segments.at(-1);
  if (last?.kind === "reasoning" && last.open) {
    return replace(turn, turn.segments.length - 1, { ...last, text: last.text + text, until: turn.at });
  }
  return push(turn, { kind: "reasoning", from: turn.bytes, text, since: turn.at, until: turn.at, open: true });
}

function closeReasoning(turn: Turn): Turn {
  const last = turn.segments.at(-1);
  if (last?.kind !== "reasoning" || !last.open) return turn;
  return replace(turn, turn.segments.length - 1, { ...last, open: false });
}

function spoke(turn: Turn, at: number | undefined): Turn {
  const round = turn.rounds.at(-1);
  if (at === undefined || round === undefined || round.endedAt !== undefined) return turn;
  const last = round.spoke.at(-1);
  const now = turn.at;
  const next: Round["spoke"] =
    last !== undefined && now - last[1] < JOIN_MS ? [...round.spoke.slice(0, -1), [last[0], now]] : [...round.spoke, [now, now]];
  return { ...turn, rounds: [...turn.rounds.slice(0, -1), { ...round, spoke: next }] };
}

function endRound(turn: Turn, end: RoundEnd, at: number): Turn {
  const rounds = turn.rounds.map((r) =>
    r.round === end.round ? { ...r, endedAt: at, stop: end.stop, usage: end.usage, spoke: end.spoke ?? r.spoke } : r,
  );
  return { ...closeReasoning(turn), rounds, thinking: false };
}

/** `at`: as the server tells it. Texts carry only this page's estimate, so the latest time is not always the right one. */
function startCall(turn: Turn, start: ToolStart, at: number): Turn {
  const known = turn.calls.get(start.call_id);
  const placed = known === undefined ? seat(turn, start) : { turn, raw: known.raw };
  const call: Call = {
    id: start.call_id, name: start.name, arguments: start.arguments, round: start.round, index: start.index,
    depth: start.depth ?? 0, raw: placed.raw, startedAt: at,
  };
  return withCall(placed.turn, call);
}

function settleCall(turn: Turn, result: ToolResult, at: number): Turn {
  const known = turn.calls.get(result.call_id);
  if (known !== undefined) return withCall(turn, { ...known, settledAt: at, result });
  const placed = seat(closeReasoning(turn), result);
  const call: Call = {
    id: result.call_id, name: result.name, arguments: {}, round: turn.rounds.at(-1)?.round ?? 0, index: 0, depth: result.depth ?? 0,
    raw: placed.raw, settledAt: at, result,
  };
  return withCall(placed.turn, call);
}

function awaitApproval(turn: Turn, approval: Approval): Turn {
  const known = turn.calls.get(approval.call_id);
  if (known !== undefined) return withCall(turn, { ...known, approval });
  const placed = place(closeReasoning(turn), approval.call_id, undefined);
  const call: Call = {
    id: approval.call_id, name: approval.name, arguments: approval.arguments, round: turn.rounds.at(-1)?.round ?? 0,
    index: 0, depth: 0, raw: "", approval,
  };
  return withCall(placed.turn, call);
}

function withCall(turn: Turn, call: Call): Turn {
  return { ...turn, calls: new Map(turn.calls).set(call.id, call) };
}

/** A sub-agent's call stands with its sub-agent; the span that it tells is not one of this text. */
function seat(turn: Turn, call: { call_id: string; span?: Span; depth?: number }): { turn: Turn; raw: string } {
  const depth = call.depth ?? 0;
  if (depth === 0) return place(turn, call.call_id, call.span);
  const parent = [...turn.calls.values()].findLast((c) => c.agent?.open === true && c.agent.depth === depth);
  if (parent === undefined) return place(turn, call.call_id, undefined);
  return { turn: changeAgent(turn, parent.id, (agent) => ({ ...agent, calls: [...agent.calls, call.call_id] })), raw: "" };
}

function changeAgent(turn: Turn, id: string, change: (agent: Agent) => Agent): Turn {
  const call = turn.calls.get(id);
  return call === undefined ? turn : withCall(turn, { ...call, agent: change(call.agent ?? { depth: 1, open: true, calls: [] }) });
}

/** Puts the call where its block stands, or at the end of what has been said. */
function place(turn: Turn, call: string, span: Span | undefined): { turn: Turn; raw: string } {
  const index = span === undefined ? -1 : turn.segments.findIndex((s) => holds(s, span));
  const segment = turn.segments[index];
  if (span === undefined || segment === undefined || !("text" in segment) || !("bytes" in segment)) {
    return { turn: push(turn, { kind: "call", from: turn.bytes, bytes: 0, call }), raw: "" };
  }
  const a = unitAt(segment.text, span.start - segment.from);
  const b = unitAt(segment.text, span.end - segment.from);
  const parts: Segment[] = [];
  if (a > 0) parts.push({ kind: "text", from: segment.from, bytes: span.start - segment.from, text: segment.text.slice(0, a) });
  parts.push({ kind: "call", from: span.start, bytes: span.end - span.start, call });
  if (b < segment.text.length) {
    parts.push({ kind: "text", from: span.end, bytes: segment.from + segment.bytes - span.end, text: segment.text.slice(b) });
  }
  return { turn: replace(turn, index, ...parts), raw: segment.text.slice(a, b) };
}

function holds(segment: Segment, span: Span): boolean {
  return (
    (segment.kind === "text" || segment.kind === "block") && span.end > span.start &&
    span.start >= segment.from && span.end <= segment.from + segment.bytes
  );
}

/** A conversation keeps a passage's number: the same number again brings the same passage up to date. */
function mergeSources(known: readonly Source[], more: readonly Source[]): readonly Source[] {
  const by = new Map(known.map((s) => [s.n, s]));
  for (const source of more) by.set(source.n, source);
  return [...by.values()].sort((a, b) => a.n - b.n);
}

/** What stands at or after byte `from` is void. */
function discard(turn: Turn, from: number): Turn {
  const segments: Segment[] = [];
  for (const segment of turn.segments) {
    if (segment.from >= from && ["text", "block", "reasoning"].includes(segment.kind)) continue;
    if ((segment.kind === "text" || segment.kind === "block") && segment.from + segment.bytes > from) {
      const text = segment.text.slice(0, unitAt(segment.text, from - segment.from));
      segments.push({ kind: "text", from: segment.from, bytes: from - segment.from, text });
    } else segments.push(segment);
  }
  return { ...turn, segments, bytes: Math.min(turn.bytes, from) };
}

const ERROR_TEXT = /^⚠️ LLM(?: error|-Fehler): /;

/** A failure before any text is also sent as text, for clients that read nothing else; it is shown once. */
function withoutErrorText(turn: Turn, _error: Failure): Turn {
  return { ...turn, segments: turn.segments.filter((s) => !(s.kind === "text" && s.from === 0 && ERROR_TEXT.test(s.text))) };
}

/** The answer without its tool blocks, as it is copied and exported. */
export function answerText(turn: Turn): string {
  const parts = turn.segments.flatMap((s) => (s.kind === "text" ? [s.text.trim()] : []));
  return parts.filter((p) => p !== "").join("\n\n");
}

/** The visible text as the server counts it: tool blocks included. */
export function rawText(turn: Turn): string {
  let text = "";
  for (const s of turn.segments) {
    if (s.kind === "text" || s.kind === "block") text += s.text;
    else if (s.kind === "call") text += turn.calls.get(s.call)?.raw ?? "";
  }
  return text;
}
