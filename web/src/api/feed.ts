// One turn's frames, dense and in order, whatever happens to the connection: over the WebSocket where there is
// one, else by fetch; after a loss it goes on from the last frame it has, nothing missing and nothing twice.

import { signal } from "@preact/signals";
import type { Frame, Received } from "../frame";
import { frameOfSocket, frameOfSse } from "../frame";
import { api, request } from "./client";
import { ProblemError, asProblem, isMissingRoute, type Problem } from "./problem";
import { Socket } from "./socket";
import { SseReader } from "./sse";
import type { ChatBody } from "./types";

/** Who wants the frames. */
export interface Sink {
  frame(frame: Frame): void;
  /** The server's log ends before what was received: what lies beyond `last` is void. */
  rewind(last: number): void;
  /** The turn cannot be followed; its stored message has to be read until it is complete. */
  unfollowable(): void;
  /** The turn was refused. */
  refused(problem: Problem): void;
}

/** Turns whose connection is lost and is being made again. */
export const reconnecting = signal(0);

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8_000;

export class Feed {
  turnId: string | undefined;
  last = 0;
  ended = false;
  private lost = false;
  private clock: number | undefined;
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;

  constructor(private readonly sink: Sink) {}

  /** Frames of one connection. False: a frame is missing, so the connection has to be made again. */
  take(received: Received): boolean {
    const seq = "frame" in received ? received.frame.seq : received.skipped;
    if (seq <= this.last) return true;
    if (seq > this.last + 1) return false;
    this.last = seq;
    if (!("frame" in received)) return true;
    const frame = received.frame;
    if (frame.name === "turn_start") {
      this.turnId = frame.data.turn_id;
      following.set(this.turnId, this);
    }
    if (frame.at !== undefined) this.clock = Math.min(this.clock ?? Infinity, performance.now() - frame.at);
    const at = frame.at ?? (this.clock === undefined ? undefined : Math.max(0, performance.now() - this.clock));
    this.sink.frame(at === undefined ? frame : { ...frame, at });
    if (frame.name === "turn_end") this.finish();
    return true;
  }

  async begin(body: ChatBody): Promise<void> {
    const sent: ChatBody = { ...body, on_disconnect: "continue" };
    if (await socket.ready()) {
      const id = crypto.randomUUID();
      starting.set(id, this);
      if (socket.send({ type: "chat", request_id: id, ...sent })) return;
      starting.delete(id);
    }
    await this.post(sent);
  }

  /** Goes on with a turn that runs already. */
  async follow(turnId: string): Promise<void> {
    this.turnId = turnId;
    following.set(turnId, this);
    await this.resume();
  }

  async cancel(): Promise<void> {
    if (this.ended) return;
    if (this.turnId !== undefined) await api.cancel(this.turnId);
    else this.abort?.abort();
  }

  /** Nobody looks any more. The turn itself goes on where the server can hold it. */
  leave(): void {
    this.finish();
    this.abort?.abort();
  }

  refuse(problem: Problem): void {
    this.finish();
    this.sink.refused(problem);
  }

  /** The network is back, or the page was woken. */
  hurry(): void {
    this.wake?.();
  }

  connectionLost(): void {
    if (!this.ended && this.abort === undefined) void this.resume();
  }

  private finish(): void {
    this.ended = true;
    this.markLost(false);
    if (this.turnId !== undefined && following.get(this.turnId) === this) following.delete(this.turnId);
    this.wake?.();
  }

  private markLost(lost: boolean): void {
    if (lost === this.lost) return;
    this.lost = lost;
    reconnecting.value += lost ? 1 : -1;
  }

  private async post(body: ChatBody): Promise<void> {
    const key = crypto.randomUUID();
    try {
      const init = { headers: { "idempotency-key": key }, signal: this.fresh() };
      await this.read(await request("POST", "/api/v1/chat", body, init));
    } catch (error) {
      if (error instanceof ProblemError) return this.refuse(error.problem);
      if (this.ended) return;
      if (this.last === 0) return this.refuse(asProblem(error));
    }
    this.abort = undefined;
    if (this.ended) return;
    if (this.turnId === undefined) return this.sink.unfollowable();
    await this.resume();
  }

  private async resume(): Promise<void> {
    for (let wait = FIRST_WAIT_MS; !this.ended; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
      const before = this.last;
      try {
        if (await socket.ready()) {
          if (socket.send({ type: "subscribe", turn_id: this.turnId, after: this.last })) return this.markLost(false);
        } else {
          const init = { headers: { "last-event-id": String(this.last) }, signal: this.fresh() };
          const response = await request("GET", `/api/v1/turns/${this.turnId}/events`, undefined, init);
          this.markLost(false);
          await this.read(response);
        }
      } catch (error) {
        if (error instanceof ProblemError && !this.recovered(error.problem)) return;
      }
      this.abort = undefined;
      if (this.ended) return;
      if (this.last > before) wait = FIRST_WAIT_MS / 2;
      this.markLost(true);
      await this.pause(wait);
    }
  }

  /** What the server says about going on. False: this turn cannot be followed here. */
  recovered(problem: Problem): boolean {
    if (problem.status === 410 && typeof problem["last"] === "number") {
      this.last = problem["last"];
      this.sink.rewind(this.last);
      return true;
    }
    if (problem.status >= 500 && !isMissingRoute(problem)) return true;
    this.finish();
    this.sink.unfollowable();
    return false;
  }

  private fresh(): AbortSignal {
    this.abort = new AbortController();
    return this.abort.signal;
  }

  private async read(response: Response): Promise<void> {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const events = new SseReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const event of events.feed(decoder.decode(value, { stream: true }))) {
        const received = frameOfSse(event);
        if (received !== undefined && !this.take(received)) return void reader.cancel();
      }
    }
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

const starting = new Map<string, Feed>();
const following = new Map<string, Feed>();
let onForeign: (turnId: string, received: Received) => void = () => {};

const socket = new Socket({
  event(event) {
    const received = frameOfSocket(event);
    const asked = typeof event["request_id"] === "string" ? event["request_id"] : undefined;
    const feed = (asked === undefined ? undefined : starting.get(asked)) ?? following.get(event.turn_id);
    if (asked !== undefined) starting.delete(asked);
    if (feed === undefined) return onForeign(event.turn_id, received);
    if (!feed.take(received)) socket.send({ type: "subscribe", turn_id: event.turn_id, after: feed.last });
  },
  problem(requestId, problem) {
    const feed = requestId === undefined ? undefined : starting.get(requestId);
    if (requestId !== undefined) starting.delete(requestId);
    if (feed !== undefined) return feed.refuse(problem);
    // A key that nobody asked for: a server without keys wonders about it, and goes on.
    if (problem.code === "invalid_message") return;
    const turn = problem["turn_id"];
    const followed = typeof turn === "string" ? following.get(turn) : following.size === 1 ? [...following.values()][0] : undefined;
    if (followed?.recovered(problem) === true) followed.connectionLost();
  },
  lost() {
    // A turn that was asked for and not begun: whether it runs is in the stored conversation.
    for (const feed of starting.values()) feed.refuse({ status: 0, code: "offline", detail: "" });
    starting.clear();
    for (const feed of following.values()) feed.connectionLost();
    if (watched !== undefined) void watch(watched);
  },
});

/** With another key, everything is asked again. */
export function resetConnection(): void {
  socket.reset();
}

let watched: string | undefined;

const WATCH_AGAIN_MS = 5_000;

/** Also turns that other pages start in this conversation. Only over the WebSocket; asked for again after a loss. */
export async function watch(conversation: string | undefined): Promise<void> {
  watched = conversation;
  if (conversation === undefined) return;
  const open = await socket.ready();
  if (watched !== conversation) return;
  if (open) socket.send({ type: "subscribe", conversation_id: conversation });
  else if (!socket.refused) {
    setTimeout(() => {
      if (watched === conversation) void watch(conversation);
    }, WATCH_AGAIN_MS);
  }
}

export function onForeignTurn(then: (turnId: string, received: Received) => void): void {
  onForeign = then;
}

function hurryAll(): void {
  socket.check();
  for (const feed of following.values()) feed.hurry();
}

if (typeof window !== "undefined") {
  window.addEventListener("online", hurryAll);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") hurryAll();
  });
}

