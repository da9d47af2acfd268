// A turn that is being received: frames are folded as they come, drawn once an animation frame.

import { signal, type Signal } from "@preact/signals";
import { Feed } from "../api/feed";
import { api } from "../api/client";
import type { Problem } from "../api/problem";
import type { ChatBody } from "../api/types";
import { EMPTY, fold, foldAll, type Turn } from "../fold";
import type { Frame } from "../frame";
import { framesOf } from "../stored";

/** While nobody sees the page there are no animation frames. */
const HIDDEN_MS = 250;
const POLL_MS = 700;
/** Letters that are drawn at once: what a frame has time for on a slow machine. If more wait, a part of them. */
const LETTERS = 500;
const PART = 64;

export class LiveTurn {
  readonly turn: Signal<Turn>;
  readonly problem = signal<Problem | undefined>(undefined);
  readonly stopping = signal(false);
  onStart: (turn: Turn) => void = () => {};
  onEnd: () => void = () => {};
  private readonly feed: Feed;
  private frames: Frame[] = [];
  private waiting: Frame[] = [];
  private scheduled = false;
  private told = false;
  private conversation: string | undefined;

  constructor(turn: Turn = EMPTY) {
    this.turn = signal(turn);
    this.feed = new Feed({
      frame: (frame) => this.receive(frame),
      rewind: (last) => this.rewind(last),
      unfollowable: () => void this.poll(),
      refused: (problem) => {
        this.problem.value = problem;
        this.finished();
      },
    });
  }

  get running(): boolean {
    return this.turn.value.end === undefined && this.problem.value === undefined;
  }

  begin(body: ChatBody): void {
    this.conversation = body.conversation_id;
    void this.feed.begin(body);
  }

  follow(turnId: string, conversation: string): void {
    this.conversation = conversation;
    void this.feed.follow(turnId);
  }

  async stop(): Promise<void> {
    this.stopping.value = true;
    try {
      await this.feed.cancel();
    } catch {
      this.stopping.value = false;
    }
  }

  private receive(frame: Frame): void {
    this.frames.push(frame);
    this.waiting.push(frame);
    if (frame.name === "turn_start") {
      this.conversation = frame.data.conversation_id;
      this.draw();
      this.onStart(this.turn.value);
    } else this.schedule();
  }

  private finished(): void {
    if (this.told) return;
    this.told = true;
    this.onEnd();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    const draw = (): void => {
      this.scheduled = false;
      this.draw();
    };
    if (document.visibilityState === "hidden") setTimeout(draw, HIDDEN_MS);
    else requestAnimationFrame(draw);
  }

  private draw(): void {
    const now = this.waiting.splice(0, this.share());
    let turn = this.turn.peek();
    for (const frame of now) turn = fold(turn, frame);
    this.turn.value = turn;
    if (this.waiting.length > 0) this.schedule();
    else if (turn.end !== undefined) this.finished();
  }

  /** How many of the waiting frames are drawn now. */
  private share(): number {
    const letters = this.waiting.map((f) => (f.name === "text" || f.name === "reasoning" ? f.data.length : 0));
    const most = Math.max(LETTERS, letters.reduce((a, b) => a + b, 0) / PART);
    let sum = 0;
    const over = letters.findIndex((length) => (sum += length) > most);
    return over < 0 ? letters.length : Math.max(1, over);
  }

  private rewind(last: number): void {
    this.waiting = [];
    this.frames = this.frames.filter((f) => f.seq <= last);
    this.turn.value = foldAll(this.frames);
  }

  /** A server without a log to follow: its stored message is read until it is complete. */
  private async poll(): Promise<void> {
    const turnId = this.feed.turnId ?? this.turn.peek().start?.turn_id;
    while (this.running && this.conversation !== undefined && turnId !== undefined) {
      try {
        const messages = await api.messages(this.conversation);
        const message = messages.find((m) => m.turn_id === turnId && m.role === "assistant");
        if (message !== undefined) this.turn.value = foldAll(framesOf(message, this.conversation));
        if (message === undefined) break;
      } catch {
        // Not there now; the next look may find it.
      }
      if (this.running) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    this.finished();
  }
}
