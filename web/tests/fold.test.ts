import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { byteLength, sliceBytes } from "../src/bytes";
import { EMPTY, answerText, fold, foldAll, rawText, type Turn } from "../src/fold";
import { frameOfSocket, type Frame, type SocketEvent } from "../src/frame";
import { SseReader } from "../src/api/sse";
import { framesOf } from "../src/stored";
import { bytesOf, eventsOf, framesIn, names } from "./frames";

/** What a turn says, without how it is kept. */
function plain(turn: Turn): unknown {
  return JSON.parse(JSON.stringify({ ...turn, calls: [...turn.calls] }));
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

/** The visible text: what was said, without what a retry has voided. */
function visible(frames: readonly Frame[]): string {
  let text = "";
  for (const frame of frames) {
    if (frame.name === "text") text += frame.data;
    else if (frame.name === "retry") text = sliceBytes(text, 0, frame.data.discard_from);
  }
  return text;
}

const STATES: Record<string, string> = {
  text: "delta", reasoning: "thinking_text", tool_start: "tool_call_start", tool_result: "tool_call_end", round: "iteration",
  round_end: "iteration_end", retry: "retrying", turn_end: "final",
};

/** The same frame as the WebSocket would bring it. */
function overSocket(frame: Frame): SocketEvent {
  const body = typeof frame.data === "string" ? { text: frame.data } : Array.isArray(frame.data) ? { sources: frame.data } : frame.data;
  return { type: "event", turn_id: "t", seq: frame.seq, state: STATES[frame.name] ?? frame.name, ...body };
}

describe.each(names)("the recorded turn %s", (name) => {
  const frames = framesIn(name);
  const turn = foldAll(frames);

  test("is dense and ends once", () => {
    expect(frames.map((f) => f.seq)).toEqual(frames.map((_, i) => i + 1));
    expect(frames.filter((f) => f.name === "turn_end")).toHaveLength(1);
    expect(turn.end).toBeDefined();
    expect(eventsOf(bytesOf(name)).at(-1)?.data).toBe("[DONE]");
  });

  test("keeps every byte of the visible text", () => {
    const text = visible(frames);
    expect(turn.bytes).toBe(byteLength(text));
    if (turn.end?.finish !== "provider_error") expect(rawText(turn)).toBe(text);
  });

  test("cuts each block where its span says, and shows none of it", () => {
    const text = visible(frames);
    for (const frame of frames) {
      if ((frame.name !== "tool_start" && frame.name !== "tool_result") || frame.data.span === undefined) continue;
      if ((frame.data.depth ?? 0) > 0) continue; // counts in a sub-agent's text
      const { start, end } = frame.data.span;
      expect(turn.calls.get(frame.data.call_id)?.raw).toBe(sliceBytes(text, start, end));
      expect(sliceBytes(text, start, end)).toMatch(/^<tool[\s\S]*(?:<\/tool\s*>|\/>)$/);
    }
    const calls = turn.segments.filter((s) => s.kind === "call");
    expect(calls).toHaveLength([...turn.calls.values()].filter((c) => c.depth === 0).length);
    expect(turn.segments.some((s) => s.kind === "block")).toBe(false);
  });

  test("is the same however the stream is cut", () => {
    const bytes = bytesOf(name);
    const whole = eventsOf(bytes);
    for (let size = 1; size < 40; size++) {
      const reader = new SseReader();
      const events = [];
      for (let at = 0; at < bytes.length; at += size) events.push(...reader.feed(bytes.slice(at, at + size)));
      expect(events).toEqual(whole);
    }
    expect(eventsOf(bytes.replaceAll("\n", "\r\n"))).toEqual(whole);
  });

  test("is the same over the WebSocket", () => {
    let over = EMPTY;
    for (const frame of frames) {
      const got = frameOfSocket(overSocket(frame));
      if ("frame" in got) over = fold(over, got.frame);
    }
    const strip = (t: Turn): unknown => ({
      segments: t.segments, calls: [...t.calls.keys()], sources: t.sources, rounds: t.rounds, bytes: t.bytes, finish: t.end?.finish,
    });
    expect(strip(over)).toEqual(strip(turn));
  });

  test("is the same after a loss at any frame, with frames sent again", () => {
    for (let cut = 0; cut <= frames.length; cut++) {
      const resumed = foldAll(frames.slice(Math.max(0, cut - 3)), foldAll(frames.slice(0, cut)));
      expect(plain(resumed)).toEqual(plain(turn));
    }
  });

  test("does not change what it was given", () => {
    let state = freeze(EMPTY);
    for (const frame of frames) state = freeze(fold(state, freeze(frame)));
    expect(plain(state)).toEqual(plain(turn));
  });
});

/** Both files are written by the server's own test (src/http/ws/frame_files.rs), with every event there is. */
test("the server's two forms of one turn fold to the same", () => {
  const lines = readFileSync(join(import.meta.dirname, "frames/contract.jsonl"), "utf8").trim().split("\n");
  const received = lines.map((line) => frameOfSocket(JSON.parse(line) as SocketEvent));
  expect(received.every((r) => "frame" in r)).toBe(true);
  const over = foldAll(received.flatMap((r) => ("frame" in r ? [r.frame] : [])));
  const turn = foldAll(framesIn("contract"));
  expect(plain(over)).toEqual(plain(turn));
  expect(turn.segments.map((s) => s.kind)).toEqual(["retry", "reasoning", "text", "call", "text", "call", "notice", "text", "error"]);
  expect(turn.calls.get("call-1")?.result).toMatchObject({ ok: true, truncated: true, ingested: { chunks: 12, fresh: true } });
  expect(turn.calls.get("call-2")?.result).toMatchObject({ rejected: true, reason: "duplicate" });
  expect(turn.sources[0]).toMatchObject({ n: 1, page: 7 });
});

test("calls of two rounds stand where they were made", () => {
  const turn = foldAll(framesIn("two_rounds"));
  expect(turn.segments.map((s) => s.kind)).toEqual(["text", "call", "text", "call", "text"]);
  expect([...turn.calls.values()].map((c) => c.name)).toEqual(["fetch_url", "vector_search"]);
  expect(turn.rounds).toHaveLength(2);
  expect(turn.end?.telemetry?.overlap_ms).toBeGreaterThan(0);
  expect(answerText(turn)).not.toContain("<tool");
});

test("refused calls say why", () => {
  const turn = foldAll(framesIn("refused"));
  expect([...turn.calls.values()].map((c) => c.result?.reason)).toEqual([undefined, "duplicate", "unknown_tool"]);
});

test("blocks in code, and unfinished ones, stay text", () => {
  const frames = framesIn("quoted");
  let state = EMPTY;
  for (const frame of frames) {
    state = fold(state, frame);
    expect(state.segments.every((s) => s.kind === "text")).toBe(true);
  }
  expect(answerText(state)).toContain('<tool name="fetch_url"> never closed at all');
});

test("a sealed block is never text, not even for a moment", () => {
  for (const name of ["two_rounds", "refused", "tool_failed"]) {
    let state = EMPTY;
    for (const frame of framesIn(name)) {
      state = fold(state, frame);
      for (const s of state.segments) if (s.kind === "text") expect(s.text).not.toContain("<tool");
    }
  }
});

test("a failure before any text is shown once", () => {
  const turn = foldAll(framesIn("failed"));
  expect(turn.segments.map((s) => s.kind)).toEqual(["error"]);
});

test("reasoning is apart and has its time", () => {
  const turn = foldAll(framesIn("reasoning"));
  const first = turn.segments[0];
  expect(first?.kind === "reasoning" && first.text).toBe("The user asks for rows.");
  expect(answerText(turn)).toBe("Twelve.");
});

test("a retry voids what came after its byte", () => {
  const frames = [
    { name: "text", seq: 1, data: "Grüße,a" }, { name: "text", seq: 2, data: "bc" },
    { name: "retry", seq: 3, data: { attempt: 1, after_ms: 500, error: "overloaded", discard_from: 8 } },
    { name: "text", seq: 4, data: " again" },
  ] as Frame[];
  const turn = foldAll(frames);
  expect(rawText(turn)).toBe("Grüße, again");
  expect(turn.bytes).toBe(byteLength(rawText(turn)));
});

test("a sub-agent's calls stand with it, and cut nothing out of the answer", () => {
  const turn = foldAll(framesIn("sub_agent"));
  const [agent, inner, refused] = [...turn.calls.values()];
  expect([agent?.name, inner?.name, refused?.name]).toEqual(["sub_agent", "vector_search", "nothing"]);
  expect([agent?.depth, inner?.depth, refused?.depth]).toEqual([0, 1, 0]);
  expect(agent?.agent).toEqual({ depth: 1, open: false, calls: [inner?.id], rounds: 2, toolsRun: 1 });
  // The span of the inner call counts in a text that nobody sees.
  expect(turn.segments.map((s) => (s.kind === "call" ? s.call : s.kind))).toEqual(["text", agent?.id, "text", refused?.id, "text"]);
  expect(answerText(turn)).toContain("Meanwhile, the mill stands [1].");
});

test("an estimate of this page does not move what the server has timed", () => {
  const frames = [
    { name: "round", seq: 1, at: 10, data: { round: 0 } },
    { name: "text", seq: 2, at: 5000, data: "late" },
    { name: "tool_start", seq: 3, at: 120, data: { call_id: "c", name: "fetch_url", arguments: {}, round: 0, index: 0 } },
    { name: "tool_result", seq: 4, at: 300, data: { call_id: "c", name: "fetch_url", ok: true, duration_ms: 180 } },
    { name: "round", seq: 5, at: 320, data: { round: 1 } },
  ] as Frame[];
  const turn = foldAll(frames);
  expect([turn.calls.get("c")?.startedAt, turn.calls.get("c")?.settledAt, turn.rounds[1]?.beganAt]).toEqual([120, 300, 320]);
});

test("a stored message folds to what its frames folded to", () => {
  const live = foldAll(framesIn("two_rounds"));
  const stored = framesOf({
    id: "m", turn_id: live.start?.turn_id ?? "", role: "assistant", text: rawText(live), status: "done", finish: "complete",
    created_at: "2026-01-01T00:00:00Z", sources: [...live.sources],
    tool_calls: [...live.calls.values()].map((c) => ({ ...c.result, call_id: c.id, name: c.name, arguments: c.arguments, round: c.round, index: c.index })) as never,
  }, "c");
  const turn = foldAll(stored);
  expect(turn.segments).toEqual(live.segments);
  expect(answerText(turn)).toBe(answerText(live));
});

test("offsets count bytes, strings count units", () => {
  const text = "aß€😀z";
  expect(byteLength(text)).toBe(Buffer.byteLength(text));
  expect(sliceBytes(text, 1, 3)).toBe("ß");
  expect(sliceBytes(text, 6, 10)).toBe("😀");
  expect(byteLength("\ud800x")).toBe(4);
});
