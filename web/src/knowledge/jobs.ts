// What the server has been given to do in a collection: the newest first, looked at again while any of it goes on.

import { signal } from "@preact/signals";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Job } from "../api/types";

export type JobFilter = "all" | "working" | "failed" | "cancelled";

export const jobs = signal<readonly Job[]>([]);
export const jobsKnown = signal(false);
export const moreJobs = signal<string | undefined>(undefined);
export const jobsProblem = signal<Problem | undefined>(undefined);

let of: string | undefined;

export function isOpen(job: Job): boolean {
  return job.status !== "indexed" && job.status !== "failed" && job.status !== "cancelled";
}

export function isOf(job: Job, filter: JobFilter): boolean {
  return filter === "all" || (filter === "working" ? isOpen(job) : job.status === filter);
}

/** From its beginning to its end, or to now. */
export function lasted(job: Job, now: number): number {
  return Math.max(0, (job.ended_at === undefined ? now : Date.parse(job.ended_at)) - Date.parse(job.created_at));
}

/** The newest page anew; older ones that were fetched stay below it. */
export async function loadJobs(collection: string): Promise<void> {
  if (of !== collection) {
    of = collection;
    jobs.value = [];
    jobsKnown.value = false;
    moreJobs.value = undefined;
  }
  try {
    const { jobs: newest, next } = await api.jobs(collection);
    if (of !== collection) return;
    const fresh = new Set(newest.map((job) => job.id));
    const older = jobs.peek().filter((job) => !fresh.has(job.id) && newest.length > 0 && job.id < (newest.at(-1)?.id ?? ""));
    if (older.length === 0) moreJobs.value = next;
    jobs.value = [...newest, ...older];
    jobsProblem.value = undefined;
  } catch (error) {
    if (of === collection) jobsProblem.value = asProblem(error);
  }
  jobsKnown.value = true;
}

export async function olderJobs(collection: string): Promise<void> {
  const after = moreJobs.peek();
  if (after === undefined) return;
  try {
    const page = await api.jobs(collection, after);
    if (of !== collection) return;
    jobs.value = [...jobs.peek(), ...page.jobs];
    moreJobs.value = page.next;
  } catch (error) {
    jobsProblem.value = asProblem(error);
  }
}

/** Does something to a job, and looks at what came of it. */
export async function act(collection: string, what: Promise<Response>): Promise<void> {
  let refused: Problem | undefined;
  await what.catch((error: unknown) => (refused = asProblem(error)));
  await loadJobs(collection);
  if (refused !== undefined) jobsProblem.value = refused;
}
