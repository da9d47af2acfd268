// The frame files: what a real server sent (scripts/record.mjs).

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { SseReader, type SseEvent } from "../src/api/sse";
import { frameOfSse, type Frame } from "../src/frame";

const folder = join(import.meta.dirname, "frames");

export const names = readdirSync(folder).filter((f) => f.endsWith(".sse")).map((f) => f.slice(0, -4));

export function bytesOf(name: string): string {
  return readFileSync(join(folder, `${name}.sse`), "utf8");
}

export function eventsOf(text: string): SseEvent[] {
  return new SseReader().feed(text);
}

export function framesIn(name: string): Frame[] {
  return eventsOf(bytesOf(name)).flatMap((event) => {
    const got = frameOfSse(event);
    return got !== undefined && "frame" in got ? [got.frame] : [];
  });
}
