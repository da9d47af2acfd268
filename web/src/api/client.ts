// The server's routes as functions. All requests go to this page's own origin.

import type { StoredMessage } from "../stored";
import { ProblemError, isMissingRoute, problemOf, asProblem } from "./problem";
import type {
  Chunk, Collection, Conversation, DocumentInfo, Job, Key, MapAnswer, Provider, Reindexing, StatusAnswer, SearchAnswer, SearchOptions, Taken, Tool,
} from "./types";

const KEY = "tailrace.key";

let key: string | null = stored();
let onRefused: () => void = () => {};

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function currentKey(): string | null {
  return key;
}

/** Kept for this tab, or on this device. */
export function useKey(value: string | null, remember: boolean): void {
  key = value;
  try {
    sessionStorage.removeItem(KEY);
    localStorage.removeItem(KEY);
    if (value !== null) (remember ? localStorage : sessionStorage).setItem(KEY, value);
  } catch {
    // Without storage it holds until the page is left.
  }
}

export function onUnauthorized(then: () => void): void {
  onRefused = then;
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return key === null ? more : { ...more, authorization: `Bearer ${key}` };
}

export async function request(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
  const json: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(path, {
    ...init, method, headers: { ...headers(json), ...(init.headers as Record<string, string> | undefined) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.ok) return response;
  const problem = problemOf(response.status, await response.json().catch(() => undefined));
  if (problem.status === 401) onRefused();
  throw new ProblemError(problem);
}

async function json<T>(method: string, path: string, body?: unknown, init?: RequestInit): Promise<T> {
  return (await request(method, path, body, init)).json() as Promise<T>;
}

const part = encodeURIComponent;
const collection = (name: string): string => `/api/v1/collections/${part(name)}`;
const document = (name: string, id: string): string => `${collection(name)}/documents/${part(id)}`;
const conversation = (id: string): string => `/api/v1/conversations/${part(id)}`;

export const api = {
  collections: async (): Promise<Collection[]> =>
    (await json<{ collections: Collection[] }>("GET", "/api/v1/collections")).collections,
  createCollection: (made: { name: string; language?: string; keep_versions?: number }): Promise<Collection> => json("POST", "/api/v1/collections", made),
  collection: (name: string): Promise<Collection> => json("GET", collection(name)),
  reindexCollection: (name: string): Promise<Reindexing> => json("POST", `${collection(name)}/reindex`),
  map: (name: string): Promise<MapAnswer> => json("GET", `${collection(name)}/map`),
  deleteCollection: (name: string): Promise<Response> => request("DELETE", collection(name)),

  documents: (name: string, after?: string, limit = 500): Promise<{ documents: DocumentInfo[]; next?: string }> =>
    json("GET", `${collection(name)}/documents?limit=${limit}${after === undefined ? "" : `&after=${part(after)}`}`),
  document: (name: string, id: string): Promise<DocumentInfo> => json("GET", document(name, id)),
  deleteDocument: (name: string, id: string): Promise<{ document_id: string; points_before: number; points_after: number }> =>
    json("DELETE", document(name, id)),
  reindex: (name: string, id: string): Promise<Response> => request("POST", `${document(name, id)}/reindex`),
  keep: (name: string, id: string, into: string): Promise<Response> =>
    request("POST", `${document(name, id)}/keep`, { collection: into }),
  chunks: async (name: string, id: string): Promise<Chunk[]> =>
    (await json<{ chunks: Chunk[] }>("GET", `${document(name, id)}/chunks`)).chunks,
  describe: (name: string, id: string, to: { title: string; metadata: Record<string, unknown> }): Promise<DocumentInfo> => json("PATCH", document(name, id), to),
  content: async (name: string, id: string, version?: number): Promise<string> => {
    const response = await request("GET", `${document(name, id)}/content${version === undefined ? "" : `?version=${version}`}`);
    if (!(response.headers.get("content-type") ?? "").includes("json")) return response.text();
    const body = (await response.json()) as { text?: string; content?: string };
    return body.text ?? body.content ?? "";
  },
  addTexts: (name: string, documents: object[], wait = false): Promise<{ documents: Taken[] }> =>
    json("POST", `${collection(name)}/documents${wait ? "?wait=true" : ""}`, { documents }),

  search: (name: string, query: string, options: SearchOptions, signal?: AbortSignal): Promise<SearchAnswer> =>
    json("POST", `${collection(name)}/search`, { query, explain: true, ...options }, signal === undefined ? {} : { signal }),

  conversations: (q: string, after?: string): Promise<{ conversations: Conversation[]; next?: string }> => {
    const params = new URLSearchParams({ limit: "50", ...(q === "" ? {} : { q }), ...(after === undefined ? {} : { after }) });
    return json("GET", `/api/v1/conversations?${params}`);
  },
  conversation: (id: string): Promise<Conversation> => json("GET", conversation(id)),
  rename: (id: string, title: string): Promise<Conversation> => json("PATCH", conversation(id), { title }),
  exported: async (id: string, format: "md" | "json"): Promise<Blob> => (await request("GET", `${conversation(id)}/export?format=${format}`)).blob(),
  forget: (id: string): Promise<Response> => request("DELETE", conversation(id)),
  messages: async (id: string): Promise<StoredMessage[]> =>
    (await json<{ messages: StoredMessage[] }>("GET", `${conversation(id)}/messages`)).messages,

  /** The turn's whole log, as it was sent. Only of turns that have ended. */
  log: async (turn: string): Promise<string> => (await request("GET", `/api/v1/turns/${part(turn)}/events`)).text(),
  cancel: (turn: string): Promise<Response> => request("POST", `/api/v1/turns/${part(turn)}/cancel`),
  approve: (turn: string, call: string, allow: boolean): Promise<Response> =>
    request("POST", `/api/v1/turns/${part(turn)}/approve`, { call_id: call, allow }),
  providers: async (): Promise<Provider[]> => (await json<{ providers: Provider[] }>("GET", "/api/v1/providers")).providers,
  tools: async (): Promise<Tool[]> => (await json<{ tools: Tool[] }>("GET", "/api/v1/tools")).tools,
  status: (): Promise<StatusAnswer> => json("GET", "/api/v1/status"),
  jobs: (name: string, after?: string): Promise<{ jobs: Job[]; next?: string }> =>
    json("GET", `/api/v1/jobs?collection=${part(name)}${after === undefined ? "" : `&after=${part(after)}`}`),
  retryJob: (id: string): Promise<Response> => request("POST", `/api/v1/jobs/${part(id)}/retry`),
  cancelJob: (id: string): Promise<Response> => request("POST", `/api/v1/jobs/${part(id)}/cancel`),
  keys: async (): Promise<Key[]> => (await json<{ keys: Key[] }>("GET", "/api/v1/keys")).keys,
  createKey: (key: { name: string; scopes: string[]; collections?: string[]; expires_at?: string }): Promise<Key & { key?: string; secret?: string }> =>
    json("POST", "/api/v1/keys", key),
  revokeKey: (id: string): Promise<Response> => request("DELETE", `/api/v1/keys/${part(id)}`),
};

/** What a route gives, or nothing where this server does not have it. */
export async function ifPresent<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (isMissingRoute(asProblem(error))) return undefined;
    throw error;
  }
}
