// The conversation that is open: its exchanges, asking, editing, stopping. Turns that run go on when another
// conversation is opened, and are found again when one comes back.

import { batch, computed, signal } from "@preact/signals";
import { api } from "../api/client";
import { onForeignTurn, watch } from "../api/feed";
import { asProblem, type Problem } from "../api/problem";
import type { ChatBody } from "../api/types";
import { foldAll, type Turn } from "../fold";
import type { Source } from "../frame";
import { prefs } from "../prefs";
import { go, route } from "../route";
import { framesOf, framesOfLog, type StoredMessage } from "../stored";
import { allTools } from "./choices";
import { refreshConversations } from "./conversations";
import { LiveTurn } from "./live";

/** One question and its answer. */
export interface Exchange {
  key: string;
  question: string;
  /** Of the user's message, once it is known. */
  questionId?: string;
  at: string;
  live: LiveTurn;
}

export const conversation = signal<string | undefined>(undefined);
export const exchanges = signal<Exchange[]>([]);
export const loading = signal(false);
export const loadProblem = signal<Problem | undefined>(undefined);

export const current = computed(() => exchanges.value.at(-1));
export const running = computed(() => current.value !== undefined && current.value.live.running);

/** Every passage that the conversation cites, by its number. */
export const sources = computed<ReadonlyMap<number, Source>>(() => {
  const found = new Map<number, Source>();
  for (const exchange of exchanges.value) for (const s of exchange.live.turn.value.sources) found.set(s.n, s);
  return found;
});

/** How many there are: what is shown of them changes only with it. */
export const sourceCount = computed(() => sources.value.size);
export const runningConversation = computed(() => (running.value ? current.value?.live.turn.value.start?.conversation_id : undefined));

/** How many of the latest exchanges get their times back. */
const RECALLED = 30;

const kept = new Map<string, Exchange>();
let opening = 0;

export async function open(id: string | undefined): Promise<void> {
  if (id === conversation.peek() && (id === undefined ? exchanges.peek().length === 0 : loadProblem.peek() === undefined)) return;
  const mine = ++opening;
  batch(() => {
    conversation.value = id;
    exchanges.value = [];
    loadProblem.value = undefined;
    loading.value = id !== undefined;
  });
  if (id === undefined) return void watch(undefined);
  try {
    const messages = await api.messages(id);
    if (mine !== opening) return;
    const found = pair(messages, id);
    exchanges.value = found;
    void recall(found, () => mine === opening);
  } catch (error) {
    if (mine === opening) loadProblem.value = asProblem(error);
  } finally {
    if (mine === opening) loading.value = false;
  }
  void watch(id);
}

function pair(messages: StoredMessage[], id: string): Exchange[] {
  const made: Exchange[] = [];
  for (const message of messages) {
    if (message.role === "user") {
      const known = kept.get(message.turn_id);
      if (known !== undefined) {
        known.questionId = message.id;
        made.push(known);
      } else made.push({ key: message.turn_id, question: message.text, questionId: message.id, at: message.created_at, live: new LiveTurn() });
      continue;
    }
    const exchange = made.find((e) => e.key === message.turn_id || e.live.turn.peek().start?.turn_id === message.turn_id);
    if (exchange === undefined || kept.has(message.turn_id)) continue;
    if (message.status === "running") {
      kept.set(message.turn_id, exchange);
      exchange.live.onEnd = () => ended(exchange);
      exchange.live.follow(message.turn_id, id);
    } else exchange.live.turn.value = foldAll(framesOf(message, id));
  }
  return made;
}

/** Stored messages know no times: those of tools, rounds and reasoning are in the log, where the server keeps one. */
async function recall(list: readonly Exchange[], wanted: () => boolean): Promise<void> {
  for (const exchange of list.slice(-RECALLED).reverse()) {
    const turn = exchange.live.turn.peek();
    if (!wanted()) return;
    if (turn.end === undefined || turn.end.telemetry !== undefined || turn.start === undefined) continue;
    try {
      const frames = framesOfLog(await api.log(turn.start.turn_id));
      if (frames.length > 0) exchange.live.turn.value = foldAll(frames);
    } catch {
      // Then it is shown as it was stored.
    }
  }
}

/** Asks, in the open conversation or a new one. `instead`: an earlier exchange whose question this replaces. */
export async function ask(question: string, instead?: Exchange): Promise<void> {
  const id = conversation.peek();
  let replaced: string | undefined;
  if (instead !== undefined && id !== undefined) {
    replaced = instead.questionId ?? (await questionId(id, instead));
    if (replaced === undefined && instead.live.problem.peek() === undefined) return;
  }
  const live = new LiveTurn();
  const exchange: Exchange = { key: `asked-${Date.now()}`, question, at: new Date().toISOString(), live };
  const before = exchanges.peek();
  const cut = instead === undefined ? before.length : before.indexOf(instead);
  exchanges.value = [...before.slice(0, cut), exchange];
  const mine = opening;
  live.onStart = (turn) => {
    const start = turn.start;
    if (start === undefined) return;
    kept.set(start.turn_id, exchange);
    void refreshConversations();
    if (mine !== opening || conversation.peek() !== undefined) return;
    conversation.value = start.conversation_id;
    // Only if the reader still looks at it: the address must not change under another page.
    if (route.peek().page === "chat") go({ page: "chat", conversation: start.conversation_id }, true);
    void watch(start.conversation_id);
  };
  live.onEnd = () => ended(exchange);
  live.begin(body(question, id, replaced));
}

async function questionId(id: string, exchange: Exchange): Promise<string | undefined> {
  const turnId = exchange.live.turn.peek().start?.turn_id;
  const messages = await api.messages(id);
  return messages.find((m) => m.role === "user" && m.turn_id === turnId)?.id;
}

function body(message: string, id: string | undefined, replaced: string | undefined): ChatBody {
  const p = prefs.peek();
  const on = allTools.peek().map((tool) => tool.name).filter((name) => !p.toolsOff.includes(name));
  return {
    message,
    ...(id === undefined ? {} : { conversation_id: id }),
    ...(replaced === undefined ? {} : { replace_message_id: replaced }),
    collection: p.collection,
    ...(p.provider === undefined ? {} : { provider: p.provider }),
    ...(p.model === undefined ? {} : { model: p.model }),
    tool_mode: p.toolMode,
    ...(p.toolsOff.length === 0 || allTools.peek().length === 0 ? {} : { tools: on }),
    retrieval: p.retrieval,
    ...(p.effort === undefined ? {} : { reasoning_effort: p.effort }),
    ...(Object.keys(p.limits).length === 0 ? {} : { limits: p.limits }),
  };
}

function ended(exchange: Exchange): void {
  const turnId = exchange.live.turn.peek().start?.turn_id;
  if (turnId !== undefined) kept.delete(turnId);
  void refreshConversations();
}

export function retry(exchange: Exchange): void {
  void ask(exchange.question, exchange);
}

export function stop(): void {
  void current.peek()?.live.stop();
}

/** The turn of an exchange, for those who only read it. */
export function turnOf(exchange: Exchange): Turn {
  return exchange.live.turn.value;
}

let reload: ReturnType<typeof setTimeout> | undefined;

onForeignTurn((_turnId, received) => {
  if (!("frame" in received) || received.frame.name !== "turn_start") return;
  const id = received.frame.data.conversation_id;
  if (id !== conversation.peek()) return;
  clearTimeout(reload);
  // Another page asked here: its question is in the stored conversation.
  reload = setTimeout(() => {
    void api.messages(id).then((messages) => {
      if (id === conversation.peek()) exchanges.value = merge(pair(messages, id));
    });
  }, 50);
});

/** What is shown already stays the same object, so that nothing jumps. */
function merge(fresh: Exchange[]): Exchange[] {
  const turnId = (e: Exchange): string => e.live.turn.peek().start?.turn_id ?? e.key;
  const shown = new Map(exchanges.peek().map((e) => [turnId(e), e]));
  return fresh.map((e) => shown.get(turnId(e)) ?? e);
}
