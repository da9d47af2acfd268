// The server's own totals as numbers over time. Pure.

import type { StatusAnswer } from "../api/types";

export type Sample = ReadonlyMap<string, number>;

/** The status route's totals by name, as the charts ask for them. */
export function sampleOf(status: StatusAnswer): Sample {
  const { turns, tokens, tools, queues, memory, storage } = status;
  const sum = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0);
  const calls = Object.values(tools);
  const found = new Map<string, number>([
    ["turns_running", turns.running],
    ["tailrace_turns_total", sum(Object.values(turns.ended))],
    ["tailrace_tool_calls_total", turns.tool_calls + turns.tool_calls_rejected],
    ["tailrace_tool_calls_total:rejected", turns.tool_calls_rejected],
    ["tailrace_tokens_total:input", tokens.input],
    ["tailrace_tokens_total:output", tokens.output],
    ["tailrace_tool_overlap_seconds_sum", turns.tool_seconds_hidden],
    ["tailrace_first_delta_seconds_sum", turns.first_delta_seconds.sum],
    ["tailrace_first_delta_seconds_count", turns.first_delta_seconds.count],
    ["tailrace_turn_seconds_sum", turns.seconds.sum],
    ["tailrace_turn_seconds_count", turns.seconds.count],
    ["tailrace_tool_seconds_sum", sum(calls.map((c) => c.seconds))],
    ["tailrace_tool_seconds_count", sum(calls.map((c) => c.calls))],
    ["queue", sum(Object.values(queues.documents))],
    ["database_bytes", storage.database_bytes],
  ]);
  for (const [finish, count] of Object.entries(turns.ended)) found.set(`tailrace_turns_total:${finish}`, count);
  if (memory.resident_bytes !== undefined) found.set("process_resident_memory_bytes", memory.resident_bytes);
  if (storage.vectors_bytes !== undefined) found.set("vectors_bytes", storage.vectors_bytes);
  return found;
}

export interface Point {
  readonly at: number;
  readonly value: number;
}

export interface Reading {
  readonly at: number;
  readonly sample: Sample;
}

/** How fast a counter grew between readings, a second. */
export function rate(readings: readonly Reading[], name: string): Point[] {
  return pairs(readings).map(([a, b]) => ({
    at: b.at, value: Math.max(0, (b.sample.get(name) ?? 0) - (a.sample.get(name) ?? 0)) / Math.max(0.001, (b.at - a.at) / 1000),
  }));
}

/** The mean of a histogram between readings, where something was added. */
export function mean(readings: readonly Reading[], name: string): Point[] {
  return pairs(readings).flatMap(([a, b]) => {
    const count = (b.sample.get(`${name}_count`) ?? 0) - (a.sample.get(`${name}_count`) ?? 0);
    const sum = (b.sample.get(`${name}_sum`) ?? 0) - (a.sample.get(`${name}_sum`) ?? 0);
    return count > 0 ? [{ at: b.at, value: sum / count }] : [];
  });
}

export function gauge(readings: readonly Reading[], name: string): Point[] {
  return readings.flatMap((r) => (r.sample.has(name) ? [{ at: r.at, value: r.sample.get(name) as number }] : []));
}

function pairs(readings: readonly Reading[]): [Reading, Reading][] {
  return readings.slice(1).map((r, i) => [readings[i] as Reading, r]);
}
