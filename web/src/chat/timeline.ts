// A turn as a drawing: what happened when, on one axis. Pure; Timeline.tsx only paints it.

import type { Call, Turn } from "../fold";

export type ToolKind = "search" | "fetch" | "agent" | "other";

export interface Bar {
  readonly from: number;
  readonly to: number;
}

export interface ToolRow {
  readonly id: string;
  readonly name: string;
  readonly kind: ToolKind;
  readonly depth: number;
  readonly run: Bar;
  /** Storing what it brought, after it has run. */
  readonly ingest?: Bar;
  readonly running: boolean;
  readonly failed: boolean;
  /** Where the model spoke while the tool was busy: time that nobody waited for. */
  readonly hidden: readonly Bar[];
}

export type Mark =
  /** Before the model was asked: the question is taken, and passages are looked for. */
  | { readonly kind: "prepare"; readonly at: Bar }
  /** Asked, and silent so far. */
  | { readonly kind: "wait"; readonly round: number; readonly at: Bar }
  | { readonly kind: "spoke"; readonly round: number; readonly at: Bar }
  | { readonly kind: "tool"; readonly row: ToolRow; readonly at: Bar }
  | { readonly kind: "ingest"; readonly row: ToolRow; readonly at: Bar }
  | { readonly kind: "round"; readonly round: number; readonly at: Bar }
  | { readonly kind: "refused"; readonly name: string; readonly reason: string; readonly at: Bar };

export interface Drawing {
  readonly total: number;
  readonly prepare: Bar | undefined;
  readonly waits: readonly { readonly round: number; readonly bar: Bar }[];
  readonly speech: readonly { readonly round: number; readonly bar: Bar }[];
  readonly rows: readonly ToolRow[];
  readonly rounds: readonly { readonly round: number; readonly at: number }[];
  readonly refused: readonly { readonly name: string; readonly reason: string; readonly at: number }[];
  readonly ticks: readonly number[];
  readonly hiddenMs: number;
  /** How long it would have been with each tool after the other, and none beside the answer. */
  readonly oneByOneMs: number;
  readonly toolsRun: number;
  readonly roundCount: number;
  /** In the order of time, for walking through. */
  readonly marks: readonly Mark[];
}

export function kindOf(tool: string): ToolKind {
  if (/agent/.test(tool)) return "agent";
  if (/search|find|query/.test(tool)) return "search";
  return /fetch|url|http|web|browse|download/.test(tool) ? "fetch" : "other";
}

/** Whether there is anything to draw: times are not kept in every stored turn. */
export function isDrawable(turn: Turn): boolean {
  return turn.rounds.some((r) => r.beganAt !== undefined) && [...turn.calls.values()].some((c) => c.startedAt !== undefined || c.result?.rejected === true) && turn.at > 0;
}

/** `now`: how far a running turn has come. */
export function drawing(turn: Turn, now: number): Drawing {
  const total = Math.max(1, turn.end === undefined ? Math.max(turn.at, now) : (turn.end.telemetry?.total_ms ?? turn.at));
  const speech = turn.rounds.flatMap((r) => r.spoke.map(([from, to]) => ({ round: r.round, bar: { from, to: Math.max(to, from + 1) } })));
  const first = turn.rounds[0]?.beganAt;
  const prepare = first === undefined || first < 1 ? undefined : { from: 0, to: first };
  const waits = turn.rounds.flatMap((r) => {
    const to = r.spoke[0]?.[0] ?? r.endedAt ?? total;
    return r.beganAt === undefined || to <= r.beganAt ? [] : [{ round: r.round, bar: { from: r.beganAt, to } }];
  });
  const spoken = speech.map((s) => s.bar);
  const rows = [...turn.calls.values()].flatMap((call) => row(call, spoken, total));
  const rounds = turn.rounds.flatMap((r) => (r.round > 0 && r.beganAt !== undefined ? [{ round: r.round, at: r.beganAt }] : []));
  const refused = [...turn.calls.values()].flatMap((c) =>
    c.result?.rejected === true && c.settledAt !== undefined ? [{ name: c.name, reason: c.result.reason ?? "", at: c.settledAt }] : [],
  );
  const hiddenMs = turn.end?.telemetry?.overlap_ms ?? covered(rows.flatMap((r) => r.hidden));
  return {
    total, prepare, waits, speech, rows, rounds, refused, ticks: ticks(total), hiddenMs, oneByOneMs: total + hiddenMs,
    toolsRun: rows.length,
    roundCount: Math.max(turn.rounds.length, turn.end?.telemetry?.rounds ?? 0),
    marks: marksOf(prepare, waits, speech, rows, rounds, refused),
  };
}

function row(call: Call, spoken: readonly Bar[], total: number): ToolRow[] {
  if (call.startedAt === undefined) return [];
  const result = call.result;
  const ingestMs = result?.ingest_ms ?? 0;
  const from = call.startedAt;
  const settled = call.settledAt ?? total;
  const ran = result === undefined ? settled : Math.min(from + result.duration_ms, Math.max(settled, from));
  const run = { from, to: Math.max(ran, from + 1) };
  const ingest = ingestMs > 0 ? { from: run.to, to: Math.max(run.to + 1, Math.min(run.to + ingestMs, settled)) } : undefined;
  const busy = { from, to: ingest?.to ?? run.to };
  return [{
    id: call.id, name: call.name, kind: kindOf(call.name), depth: call.depth, run, running: result === undefined,
    failed: result?.ok === false, hidden: spoken.flatMap((s) => cut(s, busy)), ...(ingest === undefined ? {} : { ingest }),
  }];
}

function cut(a: Bar, b: Bar): Bar[] {
  const from = Math.max(a.from, b.from);
  const to = Math.min(a.to, b.to);
  return to > from ? [{ from, to }] : [];
}

/** Length of the union. */
export function covered(bars: readonly Bar[]): number {
  let sum = 0;
  let end = -Infinity;
  for (const bar of [...bars].sort((a, b) => a.from - b.from)) {
    if (bar.to <= end) continue;
    sum += bar.to - Math.max(bar.from, end);
    end = bar.to;
  }
  return sum;
}

/** Four to eight round numbers. */
export function ticks(total: number): number[] {
  const rough = total / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? rough;
  const found: number[] = [];
  for (let at = 0; at <= total; at += step) found.push(at);
  return found;
}

function marksOf(prepare: Bar | undefined, waits: Drawing["waits"], speech: Drawing["speech"], rows: readonly ToolRow[], rounds: Drawing["rounds"], refused: Drawing["refused"]): Mark[] {
  const marks: Mark[] = [
    ...(prepare === undefined ? [] : [{ kind: "prepare", at: prepare } as const]),
    ...waits.map((w): Mark => ({ kind: "wait", round: w.round, at: w.bar })),
    ...speech.map((s): Mark => ({ kind: "spoke", round: s.round, at: s.bar })),
    ...rows.flatMap((r): Mark[] => [
      { kind: "tool", row: r, at: r.run },
      ...(r.ingest === undefined ? [] : [{ kind: "ingest", row: r, at: r.ingest } as const]),
    ]),
    ...rounds.map((r): Mark => ({ kind: "round", round: r.round, at: { from: r.at, to: r.at } })),
    ...refused.map((r): Mark => ({ kind: "refused", name: r.name, reason: r.reason, at: { from: r.at, to: r.at } })),
  ];
  return marks.sort((a, b) => a.at.from - b.at.from || a.at.to - b.at.to);
}
