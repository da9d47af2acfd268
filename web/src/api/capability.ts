// What whoever looks at this page may do. The page and the server are one program, so its routes are there; a key may
// not be allowed all of them. What needs a right that is missing is not shown.

import { signal } from "@preact/signals";
import { request } from "./client";
import { asProblem } from "./problem";

export interface Capabilities {
  /** Adding documents, deleting them, looking after jobs. */
  ingest: boolean;
  /** Collections and keys. */
  admin: boolean;
}

export const capabilities = signal<Capabilities>({ ingest: false, admin: false });

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
  const [ingest, admin] = await Promise.all([allowed("/api/v1/jobs?limit=1"), allowed("/api/v1/keys")]);
  return { ingest, admin };
}

async function allowed(path: string): Promise<boolean> {
  try {
    await request("GET", path);
    return true;
  } catch (error) {
    const { status } = asProblem(error);
    // A server that cannot answer just now has not said no.
    if (status === 0 || status >= 500) asked = undefined;
    return false;
  }
}
