// The frames of a turn, whichever way they came: server-sent events, the WebSocket, or the stored log.
// Decoding only; what they add up to is in fold.ts.

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
}

export interface Telemetry {
  rounds: number;
  tools_run: number;
  tools_rejected: number;
  parse_errors: number;
  first_token_ms?: number | null;
  overlap_ms: number;
  tool_wall_ms: number;
  ingest_ms: number;
  total_ms: number;
}

export interface Span {
  start: number;
  end: number;
}

export interface Ingested {
  document_id: string;
  chunks: number;
  collection: string;
  scope: string;
  fresh: boolean;
}

export interface Source {
  n: number;
  document_id: string;
  chunk_id: string;
  title: string;
  uri: string;
  snippet: string;
  score: number;
  start: number;
  end: number;
  page?: number;
}

export interface TurnStart {
  turn_id: string;
  conversation_id: string;
  provider: string;
  model: string;
  tool_mode: string;
  request_id?: string;
}

export interface ToolStart {
  call_id: string;
  name: string;
  arguments: Record<string, unknown>;
  round: number;
  index: number;
  span?: Span;
  /** In so many sub-agents; its span then counts in the sub-agent's own text, which is not shown. */
  depth?: number;
}

export interface ToolResult {
  call_id: string;
  name: string;
  ok: boolean;
  output?: string;
  error?: string;
  rejected?: boolean;
  reason?: string;
  duration_ms: number;
  ingest_ms?: number;
  truncated?: boolean;
  span?: Span;
  depth?: number;
  ingested?: Ingested;
}

export interface RoundEnd {
  round: number;
  stop: string;
  usage: Usage;
  spoke: [number, number][];
}

export interface Claim {
  start: number;
  end: number;
  verdict: "supported" | "weak" | "unsupported";
  sources: number[];
}

export interface Retry {
  attempt: number;
  after_ms: number;
  error: string;
  discard_from: number;
}

export interface Notice {
  code: string;
  title: string;
  message: string;
}

export interface Failure {
  code: string;
  message: string;
  retryable: boolean;
  retry_after_ms?: number;
}

export interface Approval {
  call_id: string;
  name: string;
  arguments: Record<string, unknown>;
  why: string;
}

export interface TurnEnd {
  finish: string;
  fallback_reason?: string;
  usage: Usage;
  /** Absent in a turn that was made from a stored message. */
  telemetry?: Telemetry;
}

interface Payloads {
  text: string;
  reasoning: string;
  turn_start: TurnStart;
  round: { round: number };
  round_end: RoundEnd;
  thinking: object;
  thinking_done: object;
  tool_start: ToolStart;
  tool_result: ToolResult;
  sources: Source[];
  claim: Claim;
  sub_agent_start: { call_id: string; task: string; depth: number };
  sub_agent_end: { call_id: string; task: string; depth: number; rounds: number; tools_run: number };
  retry: Retry;
  approval: Approval;
  notice: Notice;
  error: Failure;
  turn_end: TurnEnd;
}

export type FrameName = keyof Payloads;

/** One frame. `at`: milliseconds since the turn began, the server's where it says so, else this page's estimate. */
export type Frame = {
  [N in FrameName]: { name: N; seq: number; at?: number; data: Payloads[N] };
}[FrameName];

const NAMES: ReadonlySet<string> = new Set<FrameName>([
  "text", "reasoning", "turn_start", "round", "round_end", "thinking", "thinking_done", "tool_start", "tool_result",
  "sources", "claim", "sub_agent_start", "sub_agent_end", "retry", "approval", "notice", "error", "turn_end",
]);

const TEXTS: ReadonlySet<string> = new Set(["text", "reasoning"]);

/** What the WebSocket calls its frames, and what they are called here. */
const STATES: Readonly<Record<string, FrameName>> = {
  turn_start: "turn_start", thinking: "thinking", thinking_text: "reasoning", thinking_done: "thinking_done",
  delta: "text", tool_call_start: "tool_start", tool_call_end: "tool_result", iteration: "round",
  iteration_end: "round_end", sub_agent_start: "sub_agent_start", sub_agent_end: "sub_agent_end",
  approval: "approval", notice: "notice", retrying: "retry", sources: "sources", claim: "claim", error: "error",
  final: "turn_end", aborted: "turn_end",
};

/** A frame that this page does not know still counts: its number must not look like a gap. */
export type Received = { frame: Frame } | { skipped: number };

export function frameOf(name: string, seq: number, data: unknown, at?: number): Received {
  const known = NAMES.has(name) && (TEXTS.has(name) ? typeof data === "string" : typeof data === "object" && data !== null);
  if (!known || (name === "sources" && !Array.isArray(data))) return { skipped: seq };
  const told = (data as { at_ms?: unknown }).at_ms;
  const time = typeof told === "number" ? told : at;
  const frame = { name, seq, data, ...(time === undefined ? {} : { at: time }) };
  return { frame: frame as Frame };
}

/** `undefined`: the bare end mark, or an event without a number. */
export function frameOfSse(event: { id: string; name: string; data: string }, at?: number): Received | undefined {
  const seq = Number(event.id);
  if (event.data === "[DONE]" || !Number.isSafeInteger(seq) || seq < 1) return undefined;
  let data: unknown;
  try {
    data = JSON.parse(event.data);
  } catch {
    return { skipped: seq };
  }
  return frameOf(event.name === "" ? "text" : event.name, seq, data, at);
}

export interface SocketEvent {
  type: "event";
  turn_id: string;
  seq: number;
  state: string;
  [field: string]: unknown;
}

export function frameOfSocket(event: SocketEvent, at?: number): Received {
  const name = STATES[event.state];
  if (name === undefined) return { skipped: event.seq };
  if (name === "text" || name === "reasoning") return frameOf(name, event.seq, event["text"], at);
  if (name === "sources") return frameOf(name, event.seq, event["sources"], (event["at_ms"] as number | undefined) ?? at);
  const { type: _type, seq, state: _state, turn_id, ...data } = event;
  return frameOf(name, seq, name === "turn_start" ? { turn_id, ...data } : data, at);
}
