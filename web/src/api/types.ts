// The wire types of the routes, as API.md has them; what a server of the day may leave out is optional.

export interface Collection {
  name: string;
  embedding_model: string;
  dimension: number;
  language: string;
  keyword_language?: string;
  documents: number;
  chunks: number;
  keep_versions?: number;
  created_at?: string;
  /** It is being built anew. */
  reindex?: Reindexing;
}

export interface Reindexing {
  embedding_model: string;
  dimension: number;
  done: number;
  total: number;
  error?: string;
}

/** A collection on a plane; `document` and `cluster` are places in the lists beside. */
export interface MapAnswer {
  total: number;
  documents: { id: string; title: string; uri: string }[];
  points: { chunk_id: string; document: number; x: number; y: number; cluster: number }[];
  clusters: { terms: string[]; x: number; y: number; points: number }[];
}

/** Totals are since the process began. */
export interface StatusAnswer {
  version: string;
  uptime_ms: number;
  turns: {
    running: number;
    ended: Record<string, number>;
    seconds: { count: number; sum: number };
    first_delta_seconds: { count: number; sum: number };
    tool_calls: number;
    tool_calls_rejected: number;
    tool_seconds_hidden: number;
  };
  tokens: { input: number; output: number };
  tools: Record<string, { calls: number; seconds: number }>;
  queues: { documents: Record<string, number>; reindexing: number; tasks: number };
  memory: { resident_bytes?: number };
  storage: { vector_store: string; database_bytes: number; vectors_bytes?: number };
  embedding_models: { name: string; dimension: number }[];
}

export interface Version {
  version: number;
  hash: string;
  bytes: number;
  chunks: number;
  created_at: string;
  /** Absent for the live one. */
  superseded_at?: string;
}

export type DocumentStatus = "queued" | "extracting" | "chunking" | "embedding" | "indexed" | "failed";

export interface DocumentInfo {
  id: string;
  title: string;
  uri: string;
  status: DocumentStatus;
  stage?: string;
  /** Of the work that goes on: chunks that are stored, of all. */
  done?: number;
  total?: number;
  /** Of a document that is not indexed: what works on it, or did last. */
  job_id?: string;
  error?: { code?: string; message?: string } | string;
  version?: number;
  hash?: string;
  bytes?: number;
  mime?: string;
  chunks?: number;
  notes?: string[];
  metadata?: Record<string, unknown>;
  created_at?: string;
  updated_at?: string;
  /** Only of a document by itself: the newest first; and conversations that cite it. */
  versions?: Version[];
  cited_in?: { id: string; title: string }[];
}

export interface Chunk {
  id?: string;
  chunk_id?: string;
  ordinal?: number;
  text: string;
  start: number;
  end: number;
  page?: number;
  heading_path?: string[];
}

export interface Taken {
  id: string;
  job_id?: string;
  status: DocumentStatus;
  unchanged: boolean;
  chunks?: number;
  notes?: string[];
  error?: { detail?: string; code?: string };
}

export type SearchMode = "hybrid" | "dense" | "sparse";

export interface Hit {
  document_id: string;
  chunk_id: string;
  title: string;
  uri: string;
  text: string;
  score: number;
  start: number;
  end: number;
  page?: number;
  metadata: Record<string, unknown>;
  /** First and last, from 1; of source code only. */
  lines?: [number, number];
  explain?: Explain;
}

export interface SearchAnswer {
  hits: Hit[];
  took_ms: number;
  watermark: number;
  dropped?: Dropped[];
}

/** Where a leg saw a passage, from 1, and what it gave it. */
export interface Place {
  rank: number;
  score: number;
}

export interface Explain {
  dense?: Place;
  bm25?: Place;
  fused: number;
  rerank?: number;
  cosine?: number;
  heading_path: string[];
  ordinal: number;
}

/** What a leg named and the answer left out; of what may not be shown there are no ids. */
export interface Dropped {
  reason: string;
  document_id?: string;
  chunk_id?: string;
  fused: number;
  dense?: Place;
  bm25?: Place;
}

export interface SearchOptions {
  mode: SearchMode;
  limit: number;
  filter?: unknown;
  rerank?: boolean;
  as_of?: string;
}

export interface Conversation {
  id: string;
  title: string;
  created_at: string;
  updated_at: string;
  messages: number;
}

export interface Provider {
  id: string;
  model: string;
  native_tools?: boolean;
}

export interface Tool {
  name: string;
  description: string;
}

export interface Key {
  /** None: the key that the operator configured, which is not managed here. */
  id: string | null;
  name: string;
  scopes: string[];
  collections?: string[];
  expires_at?: string | null;
  created_at?: string;
  last_used_at?: string | null;
}

export interface Job {
  id: string;
  /** `ingest` of a document, `reindex` of a collection. */
  kind: string;
  collection: string;
  document_id: string | null;
  uri: string;
  status: DocumentStatus | "cancelled";
  stage: string;
  done: number;
  total: number;
  attempts: number;
  error?: { code: string; message: string };
  created_at: string;
  updated_at: string;
  ended_at?: string;
}

export interface ChatBody {
  message: string;
  conversation_id?: string;
  replace_message_id?: string;
  collection?: string | string[];
  provider?: string;
  model?: string;
  tool_mode?: string;
  tools?: string[];
  retrieval?: string;
  reasoning_effort?: string;
  limits?: Partial<Record<"max_continuations" | "max_tools_per_round" | "max_tools_total" | "tool_timeout_ms", number>>;
  on_disconnect?: "continue" | "cancel";
}
