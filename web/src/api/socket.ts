// The one WebSocket: every turn of this page goes over it. Where it cannot be had, feed.ts uses fetch.

import type { SocketEvent } from "../frame";
import { currentKey } from "./client";
import { problemOf, type Problem } from "./problem";

type Send = Record<string, unknown>;

export interface SocketHandlers {
  event(event: SocketEvent): void;
  problem(requestId: string | undefined, problem: Problem): void;
  /** The connection is gone; what it carried has to be followed again. */
  lost(): void;
}

/** How long a silent connection may stay unasked, and how long its answer may take. */
const PING_MS = 25_000;
const PONG_MS = 8_000;
const OPEN_MS = 4_000;
/** The server's own close code: the key is not known to it. */
const UNAUTHORIZED = 4401;

export class Socket {
  private socket: WebSocket | undefined;
  private opening: Promise<boolean> | undefined;
  private heard = 0;
  private timer: ReturnType<typeof setInterval> | undefined;
  /** The server has no such route, or something between does not let it through. */
  refused = false;

  constructor(private readonly handlers: SocketHandlers) {}

  /** `false`: not to be had, use something else. */
  ready(): Promise<boolean> {
    if (this.refused) return Promise.resolve(false);
    if (this.socket?.readyState === WebSocket.OPEN) return Promise.resolve(true);
    this.opening ??= this.open().finally(() => (this.opening = undefined));
    return this.opening;
  }

  send(message: Send): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  /** Another key may be let in. */
  reset(): void {
    this.refused = false;
    if (this.socket !== undefined) this.drop(this.socket);
  }

  /** After a sleep or a network change: is anybody still there? */
  check(): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const asked = Date.now();
    this.send({ type: "ping" });
    setTimeout(() => {
      if (this.heard < asked && this.socket !== undefined) this.drop(this.socket);
    }, PONG_MS);
  }

  private open(): Promise<boolean> {
    return new Promise((resolve) => {
      const url = new URL("/api/v1/ws", location.href);
      url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
      const socket = new WebSocket(url);
      let opened = false;
      const late = setTimeout(() => socket.close(), OPEN_MS);
      socket.onopen = () => {
        clearTimeout(late);
        opened = true;
        this.socket = socket;
        this.heard = Date.now();
        const key = currentKey();
        if (key !== null) socket.send(JSON.stringify({ type: "auth", key }));
        clearInterval(this.timer);
        this.timer = setInterval(() => this.check(), PING_MS);
        resolve(true);
      };
      socket.onmessage = (message) => this.receive(String(message.data));
      socket.onclose = (closed) => {
        clearTimeout(late);
        if (closed.code === UNAUTHORIZED) this.refused = true;
        if (opened) this.drop(socket);
        else {
          // A server that answers over HTTP but not here does not have it; one that is down may come back.
          void fetch("/healthz").then((r) => (this.refused = r.ok), () => undefined).finally(() => resolve(false));
        }
      };
    });
  }

  private receive(text: string): void {
    this.heard = Date.now();
    const message = JSON.parse(text) as { type: string; request_id?: string; status?: number };
    if (message.type === "event") this.handlers.event(message as SocketEvent);
    else if (message.type === "problem") this.handlers.problem(message.request_id, problemOf(message.status ?? 0, message));
  }

  private drop(socket: WebSocket): void {
    if (this.socket !== socket) return;
    clearInterval(this.timer);
    this.socket = undefined;
    socket.onclose = null;
    socket.close();
    this.handlers.lost();
  }
}
