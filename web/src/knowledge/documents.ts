// The documents of the collection that is looked at: all of them, page by page, sorted and filtered here.

import { computed, signal } from "@preact/signals";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { DocumentInfo } from "../api/types";

export type SortKey = "title" | "mime" | "chunks" | "bytes" | "status" | "updated_at";
export type StatusFilter = "all" | "indexed" | "working" | "failed";

export const documents = signal<readonly DocumentInfo[]>([]);
export const known = signal(false);
export const complete = signal(false);
export const problem = signal<Problem | undefined>(undefined);
export const sort = signal<{ key: SortKey; down: boolean }>({ key: "updated_at", down: true });
export const words = signal("");
export const status = signal<StatusFilter>("all");

let asked = 0;
let of: string | undefined;

/** Everything again; rows that are shown stay until they are replaced. */
export async function loadDocuments(collection: string): Promise<void> {
  const mine = ++asked;
  if (of !== collection) {
    of = collection;
    documents.value = [];
    known.value = false;
  }
  problem.value = undefined;
  complete.value = false;
  const found: DocumentInfo[] = [];
  try {
    for (let after: string | undefined, first = true; first || after !== undefined; first = false) {
      const page = await api.documents(collection, after);
      if (mine !== asked) return;
      found.push(...page.documents);
      after = page.next;
      if (found.length > documents.peek().length || after === undefined) documents.value = [...found];
      known.value = true;
    }
    complete.value = true;
  } catch (error) {
    if (mine === asked) problem.value = asProblem(error);
  }
}

export function isWorking(document: DocumentInfo): boolean {
  return document.status !== "indexed" && document.status !== "failed";
}

export const counts = computed(() => {
  const found = { all: 0, indexed: 0, working: 0, failed: 0 };
  for (const d of documents.value) {
    found.all++;
    found[d.status === "indexed" || d.status === "failed" ? d.status : "working"]++;
  }
  return found;
});

export const rows = computed(() => {
  const needle = words.value.trim().toLowerCase();
  const wanted = status.value;
  const found = documents.value.filter((d) => {
    if (wanted === "working" ? !isWorking(d) : wanted !== "all" && d.status !== wanted) return false;
    return needle === "" || d.title.toLowerCase().includes(needle) || d.uri.toLowerCase().includes(needle);
  });
  const { key, down } = sort.value;
  const sign = down ? -1 : 1;
  return found.sort((a, b) => sign * compare(a[key], b[key]));
});

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function compare(a: string | number | undefined, b: string | number | undefined): number {
  if (typeof a === "number" || typeof b === "number") return Number(a ?? -1) - Number(b ?? -1);
  return collator.compare(a ?? "", b ?? "");
}

export function sortBy(key: SortKey): void {
  const now = sort.peek();
  sort.value = { key, down: now.key === key ? !now.down : key !== "title" && key !== "mime" && key !== "status" };
}
