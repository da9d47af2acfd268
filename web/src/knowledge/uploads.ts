// Files on their way into a collection: one after another, each with its progress, its speed, its reason if it
// fails. The list stays until it is read.

import { signal } from "@preact/signals";
import { api, headers } from "../api/client";
import { asProblem, problemOf } from "../api/problem";
import type { DocumentInfo, DocumentStatus, Taken } from "../api/types";
import { t } from "../i18n";
import { loadChoices } from "../chat/choices";

export type UploadState = "waiting" | "sending" | DocumentStatus | "unchanged" | "refused" | "cancelled";

export interface Upload {
  readonly key: number;
  readonly collection: string;
  readonly name: string;
  readonly size: number;
  readonly state: UploadState;
  /** Sent so far, 0 to 1. */
  readonly share: number;
  readonly speed: number;
  readonly reason?: string;
  readonly document?: string;
  readonly job?: string;
  readonly chunks?: number;
  /** While it is embedded: chunks that are stored, of all. */
  readonly done?: number;
  readonly total?: number;
}

interface Source {
  file?: File;
  url?: string;
  request?: XMLHttpRequest;
}

export const uploads = signal<readonly Upload[]>([]);
/** Counts up when a document's state has changed, for tables that show it. */
export const settled = signal(0);

/** Files that are sent at the same time. */
const AT_ONCE = 2;
const POLL_MS = 500;
const FINAL: ReadonlySet<UploadState> = new Set(["indexed", "unchanged", "failed", "refused", "cancelled"]);

const sourcesOf = new Map<number, Source>();
let next = 1;
let polling = false;

export function isFinal(upload: Upload): boolean {
  return FINAL.has(upload.state);
}

/** Files of a folder keep their path in it as their name. */
export function takeFiles(collection: string, files: readonly File[]): void {
  const made = files.map((file): Upload => {
    const key = next++;
    sourcesOf.set(key, { file });
    const path = (file as File & { path?: string }).webkitRelativePath || pathsOf.get(file) || file.name;
    return { key, collection, name: path, size: file.size, state: "waiting", share: 0, speed: 0 };
  });
  uploads.value = [...uploads.peek(), ...made];
  pump();
}

export function takeUrl(collection: string, url: string): void {
  const key = next++;
  sourcesOf.set(key, { url });
  uploads.value = [...uploads.peek(), { key, collection, name: url, size: 0, state: "waiting", share: 0, speed: 0 }];
  pump();
}

export function again(key: number): void {
  change(key, { state: "waiting", share: 0, speed: 0 });
  pump();
}

export function againAll(): void {
  for (const upload of uploads.peek()) if (isBad(upload)) change(upload.key, { state: "waiting", share: 0, speed: 0 });
  pump();
}

export function isBad(upload: Upload): boolean {
  return upload.state === "failed" || upload.state === "refused";
}

export function cancelAll(): void {
  for (const upload of uploads.peek()) cancel(upload.key);
}

export function cancel(key: number): void {
  const upload = find(key);
  if (upload === undefined || isFinal(upload)) return;
  sourcesOf.get(key)?.request?.abort();
  if (upload.job !== undefined) void api.cancelJob(upload.job).catch(() => undefined);
  change(key, { state: "cancelled" });
  pump();
}

export function clearRead(): void {
  for (const upload of uploads.peek()) if (isFinal(upload)) sourcesOf.delete(upload.key);
  uploads.value = uploads.peek().filter((u) => !isFinal(u));
}

function find(key: number): Upload | undefined {
  return uploads.peek().find((u) => u.key === key);
}

function change(key: number, by: Partial<Upload>): void {
  uploads.value = uploads.peek().map((u) => {
    if (u.key !== key) return u;
    const { reason: _old, ...rest } = u;
    return { ...rest, ...by };
  });
}

function pump(): void {
  const list = uploads.peek();
  let sending = list.filter((u) => u.state === "sending").length;
  for (const upload of list) {
    if (sending >= AT_ONCE) return;
    if (upload.state !== "waiting") continue;
    sending++;
    change(upload.key, { state: "sending" });
    void send(upload).finally(pump);
  }
}

async function send(upload: Upload): Promise<void> {
  const source = sourcesOf.get(upload.key);
  try {
    const taken = source?.url !== undefined
      ? (await api.addTexts(upload.collection, [{ url: source.url, uri: source.url }])).documents[0]
      : source?.file === undefined ? undefined : await post(upload, source.file, source);
    if (find(upload.key)?.state === "cancelled") return;
    if (taken === undefined) return change(upload.key, { state: "refused" });
    if (taken.error !== undefined) return change(upload.key, { state: "refused", reason: taken.error.detail ?? taken.error.code ?? "" });
    change(upload.key, {
      state: taken.unchanged ? "unchanged" : taken.status, share: 1, document: taken.id,
      ...(taken.job_id === undefined ? {} : { job: taken.job_id }),
    });
    if (taken.unchanged || taken.status === "indexed") announce();
    else void poll();
  } catch (error) {
    if (find(upload.key)?.state !== "cancelled") change(upload.key, { state: "refused", reason: asProblem(error).detail || t("offlineTitle") });
  }
}

/** XMLHttpRequest, because fetch does not tell how much has been sent. */
function post(upload: Upload, file: File, source: Source): Promise<Taken | undefined> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    source.request = request;
    const began = performance.now();
    request.open("POST", `/api/v1/collections/${encodeURIComponent(upload.collection)}/documents`);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      const took = Math.max(1, performance.now() - began) / 1000;
      change(upload.key, { share: event.loaded / Math.max(1, event.total), speed: event.loaded / took });
    };
    request.onload = () => {
      // What stands between page and server may answer in its own words.
      let body: unknown;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        body = undefined;
      }
      if (request.status < 300) resolve((body as { documents: Taken[] } | undefined)?.documents[0]);
      else reject(new Error(problemOf(request.status, body).detail));
    };
    request.onerror = () => reject(new Error(""));
    request.onabort = () => resolve(undefined);
    const form = new FormData();
    form.append("file", file, upload.name);
    request.send(form);
  });
}

/** The server works on after it has accepted: what became of it is looked up until it is known. */
async function poll(): Promise<void> {
  if (polling) return;
  polling = true;
  for (;;) {
    const open = uploads.peek().filter((u) => u.document !== undefined && !isFinal(u));
    if (open.length === 0) break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    await Promise.all(open.map(look));
  }
  polling = false;
}

async function look(upload: Upload): Promise<void> {
  try {
    const found = await api.document(upload.collection, upload.document as string);
    const reason = reasonOf(found);
    change(upload.key, { state: found.status, chunks: found.chunks ?? 0, done: found.done ?? 0, total: found.total ?? 0, ...(reason === "" ? {} : { reason }) });
    if (found.status === "indexed" || found.status === "failed") announce();
  } catch {
    // Looked up again.
  }
}

function announce(): void {
  settled.value++;
  void loadChoices();
}

export function reasonOf(document: DocumentInfo): string {
  const error = document.error;
  return error === undefined ? "" : typeof error === "string" ? error : (error.message ?? error.code ?? "");
}

const pathsOf = new WeakMap<File, string>();

/** All files of a drop, folders included. */
export async function droppedFiles(transfer: DataTransfer): Promise<File[]> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry?.() ?? []);
  if (entries.length === 0) return [...transfer.files];
  const found: File[] = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: File[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    pathsOf.set(file, entry.fullPath.replace(/^\//, ""));
    if (!file.name.startsWith(".")) found.push(file);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const child of some) await walk(child, found);
  }
}
