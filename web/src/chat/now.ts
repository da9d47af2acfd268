// How far the running turn has come, ten times a second, for what counts while it runs.

import { signal } from "@preact/signals";

export const now = signal(0);

let began = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** `at`: milliseconds since the turn began, as of now. */
export function runClock(at: number): void {
  began = performance.now() - at;
  now.value = at;
  timer ??= setInterval(() => (now.value = performance.now() - began), 100);
}

export function stopClock(): void {
  clearInterval(timer);
  timer = undefined;
}
