// What is looked for in the playground, and what three ways of searching have found.

import { signal } from "@preact/signals";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { SearchAnswer, SearchMode } from "../api/types";

/** The fused list stands between the two that it is made of, so that lines show where its hits come from. */
export const MODES = ["dense", "hybrid", "sparse"] as const satisfies readonly SearchMode[];

export interface Column {
  mode: SearchMode;
  answer?: SearchAnswer;
  problem?: Problem;
}

export interface Condition {
  readonly key: string;
  readonly not: boolean;
  readonly value: string;
}

export const query = signal("");
export const limit = signal(8);
export const conditions = signal<readonly Condition[]>([]);
export const rerank = signal(false);
/** A moment as a date field has it; empty: now. */
export const asOf = signal("");
export const columns = signal<readonly Column[]>([]);
export const asked = signal("");
export const busy = signal(false);
/** The passage that is pointed at. */
export const lit = signal<string | undefined>(undefined);

let running: AbortController | undefined;

export async function search(collection: string): Promise<void> {
  const text = query.peek().trim();
  if (text === "") return;
  running?.abort();
  const mine = new AbortController();
  running = mine;
  busy.value = true;
  const filter = filterOf(conditions.peek());
  const then = asOf.peek() === "" ? undefined : new Date(asOf.peek()).toISOString();
  const found = await Promise.all(MODES.map(async (mode): Promise<Column> => {
    try {
      return { mode, answer: await api.search(collection, text, {
        mode, limit: limit.peek(), ...(filter === undefined ? {} : { filter }), ...(rerank.peek() ? { rerank: true } : {}), ...(then === undefined ? {} : { as_of: then }),
      }, mine.signal) };
    } catch (error) {
      return { mode, problem: asProblem(error) };
    }
  }));
  if (running !== mine) return;
  columns.value = found;
  asked.value = text;
  busy.value = false;
}

/** Conditions as the server takes them; nothing where none is complete. */
export function filterOf(list: readonly Condition[]): Record<string, unknown> | undefined {
  const whole = list.filter((c) => c.key.trim() !== "" && c.value.trim() !== "");
  const of = (not: boolean): object[] => whole.filter((c) => c.not === not).map((c) => ({ key: c.key.trim(), any: meant(c.value.trim()) }));
  const [must, mustNot] = [of(false), of(true)];
  if (must.length + mustNot.length === 0) return undefined;
  return { ...(must.length > 0 ? { must } : {}), ...(mustNot.length > 0 ? { must_not: mustNot } : {}) };
}

/** A field shows text only; metadata may hold a number or yes and no. */
function meant(value: string): (string | number | boolean)[] {
  if (value === "true" || value === "false") return [value, value === "true"];
  return /^-?\d+(\.\d+)?$/.test(value) ? [value, Number(value)] : [value];
}

/** Fields that can be asked for: the two that all have, and what the passages at hand carry. */
export function filterKeys(): string[] {
  const found = new Set(["title", "uri"]);
  for (const column of columns.value) for (const hit of column.answer?.hits ?? []) for (const key of Object.keys(hit.metadata)) found.add(`metadata.${key}`);
  return [...found];
}
