// What this server can do. A route that is not there is asked for once; the page then hides what needs it.

import { signal } from "@preact/signals";
import { request } from "./client";
import { asProblem, isMissingRoute } from "./problem";

export interface Capabilities {
  /** Turns can be followed again and cancelled. */
  turns: boolean;
  chunks: boolean;
  content: boolean;
  status: boolean;
  keys: boolean;
  jobs: boolean;
  keep: boolean;
  reindex: boolean;
  map: boolean;
}

const NONE: Capabilities = {
  turns: false, chunks: false, content: false, status: false, keys: false, jobs: false,
  keep: false, reindex: false, map: false,
};
const NOBODY = "00000000-0000-7000-8000-000000000000";

const PROBES: Readonly<Record<keyof Capabilities, string>> = {
  turns: `/api/v1/turns/${NOBODY}`,
  chunks: `/api/v1/collections/default/documents/${NOBODY}/chunks`,
  content: `/api/v1/collections/default/documents/${NOBODY}/content`,
  status: "/api/v1/status",
  keys: "/api/v1/keys",
  jobs: "/api/v1/jobs",
  keep: `/api/v1/collections/default/documents/${NOBODY}/keep`,
  reindex: `/api/v1/collections/default/documents/${NOBODY}/reindex`,
  // Came with the map, and is answered without drawing one.
  map: "/api/v1/collections/default/reindex",
};

export const capabilities = signal<Capabilities>(NONE);

let asked: Promise<Capabilities> | undefined;

/** Asked once a page; again after `forgetCapabilities`, since another key may do other things. */
export function knownCapabilities(): Promise<Capabilities> {
  asked ??= probe().then((found) => (capabilities.value = found));
  return asked;
}

export function forgetCapabilities(): void {
  asked = undefined;
}

async function probe(): Promise<Capabilities> {
  const names = Object.keys(PROBES) as (keyof Capabilities)[];
  const found = await Promise.all(names.map((name) => exists(PROBES[name])));
  return Object.fromEntries(names.map((name, i) => [name, found[i]])) as unknown as Capabilities;
}

async function exists(path: string): Promise<boolean> {
  try {
    await request("GET", path);
    return true;
  } catch (error) {
    const problem = asProblem(error);
    // Routes that only take POST say so, which is an answer too.
    if (problem.status === 405) return true;
    return problem.status !== 0 && problem.status !== 403 && problem.status !== 401 && !isMissingRoute(problem);
  }
}
