// Stored messages as frames, so that a turn read back goes through the same fold as a live one.

import type { Frame, Source, Telemetry, ToolResult, ToolStart, Usage } from "./frame";
import { frameOf, frameOfSse } from "./frame";
import { SseReader } from "./api/sse";

export interface StoredCall extends Partial<Omit<ToolResult, "call_id" | "name" | "span">> {
  call_id: string;
  name: string;
  arguments?: Record<string, unknown>;
  round?: number;
  index?: number;
  span?: { start: number; end: number };
}

export interface StoredFrame {
  seq?: number;
  id?: number;
  event?: string | null;
  name?: string | null;
  data?: unknown;
  at_ms?: number;
}

export interface StoredMessage {
  id: string;
  turn_id: string;
  role: "user" | "assistant";
  text: string;
  status: "running" | "done" | "interrupted";
  finish?: string;
  provider?: string;
  model?: string;
  created_at: string;
  tool_calls?: StoredCall[];
  sources?: Source[];
  usage?: Usage;
  telemetry?: Telemetry;
  frames?: StoredFrame[];
}

/** The frames of an assistant's message: the log's own where it was sent along, else made from what is stored. */
export function framesOf(message: StoredMessage, conversation: string): Frame[] {
  const logged = (message.frames ?? []).flatMap((f) => {
    const got = frameOf(f.event ?? f.name ?? "text", f.seq ?? f.id ?? 0, f.data, f.at_ms);
    return "frame" in got && got.frame.seq > 0 ? [got.frame] : [];
  });
  return logged.length > 0 ? logged : made(message, conversation);
}

/** The frames of a log that has ended; nothing of one that has not. */
export function framesOfLog(text: string): Frame[] {
  const frames = new SseReader().feed(text).flatMap((event) => {
    const got = frameOfSse(event);
    return got !== undefined && "frame" in got ? [got.frame] : [];
  });
  return frames.some((f) => f.name === "turn_end") ? frames : [];
}

function made(message: StoredMessage, conversation: string): Frame[] {
  const calls = message.tool_calls ?? [];
  const frames: Frame[] = [];
  const add = (name: Frame["name"], data: unknown): void => {
    frames.push({ name, seq: frames.length + 1, data } as Frame);
  };
  add("turn_start", {
    turn_id: message.turn_id, conversation_id: conversation, provider: message.provider ?? "", model: message.model ?? "",
    tool_mode: "",
  });
  if (message.sources !== undefined && message.sources.length > 0) add("sources", message.sources);
  if (message.text !== "") add("text", message.text);
  for (const call of calls) {
    if (call.rejected !== true) add("tool_start", started(call));
    if (call.ok !== undefined) add("tool_result", settled(call));
  }
  if (message.status !== "running") add("turn_end", ended(message));
  return frames;
}

function started(call: StoredCall): ToolStart {
  return {
    call_id: call.call_id, name: call.name, arguments: call.arguments ?? {}, round: call.round ?? 0, index: call.index ?? 0,
    ...(call.span === undefined ? {} : { span: call.span }),
  };
}

function settled(call: StoredCall): ToolResult {
  const { arguments: _arguments, round: _round, index: _index, ...result } = call;
  return { ...result, ok: call.ok ?? false, duration_ms: call.duration_ms ?? 0 };
}

function ended(message: StoredMessage): object {
  return {
    finish: message.finish ?? (message.status === "interrupted" ? "interrupted" : "complete"),
    usage: message.usage ?? { input_tokens: 0, output_tokens: 0 },
    ...(message.telemetry === undefined ? {} : { telemetry: message.telemetry }),
  };
}
