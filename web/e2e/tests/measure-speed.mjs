// A long answer at full speed: 200 KB at 500 deltas a second. Frames stay short, no task is long, and the question
// field answers while it streams. The limits here allow for a busy machine; docs/benchmarks.md has what was measured.

import { writeFileSync } from "node:fs";
import { CATEGORIES, at, tasksIn } from "../trace.mjs";
import { startStand } from "../stand.mjs";
import { answered, ask, assert } from "../expect.mjs";

const BYTES = 200_000;
const PER_SECOND = 500;
const DELTA = 40;

const sentence = "Water that has turned the wheel leaves the mill through the tailrace, quick and **clear**, as `code` says [1]. ";
const section = (i) =>
  `## Section ${i}\n\n${sentence.repeat(6)}\n\n- one ${sentence}\n- two ${sentence}\n- three\n\n\`\`\`rust\n${"fn turn(wheel: &Wheel) -> Power { wheel.fall() * wheel.flow() }\n".repeat(12)}\`\`\`\n\n| a | b |\n|---|--:|\n${"| cell | 1 |\n".repeat(8)}\n`;
let text = "";
for (let i = 0; text.length < BYTES; i++) text += section(i);
text = text.slice(0, BYTES);

/** Not one timer a delta: timers are coarser than two milliseconds. */
async function stream(send, gone) {
  const began = Date.now();
  for (let sent = 0; sent < text.length && !gone();) {
    const due = Math.min(text.length, Math.ceil(((Date.now() - began) / 1000) * PER_SECOND) * DELTA);
    for (; sent < due; sent += DELTA) send(text.slice(sent, sent + DELTA));
    await new Promise((r) => setTimeout(r, 4));
  }
}

export const stand = () => startStand({ scripts: new Map([["everything", [[stream]]]]) });

export const tests = {
  async "200 KB at 500 deltas a second"({ stage, open }) {
    const page = await open();
    await page.addInitScript(() => {
      localStorage.setItem("tailrace.prefs", JSON.stringify({ toolMode: "inline", language: "en" }));
      window.keys = [];
    });
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await page.evaluate(() => {
      document.querySelector("#question").addEventListener("input", (e) => {
        const at = e.timeStamp;
        requestAnimationFrame(() => setTimeout(() => window.keys.push(performance.now() - at)));
      });
    });
    await ask(page, "everything");
    await page.waitForTimeout(800);
    await page.evaluate(() => { window.keys = []; });
    const browser = page.context().browser();
    await browser.startTracing(page, { categories: CATEGORIES });
    const began = Date.now();
    for (let i = 0; i < 30; i++) {
      await page.keyboard.type("x");
      await page.waitForTimeout(250);
    }
    await answered(page, 120_000);
    const took = (Date.now() - began) / 1000;
    const trace = (await browser.stopTracing()).toString();
    // To see what a long task was made of, open the file in chrome://tracing.
    if (process.env.E2E_TRACE) writeFileSync(process.env.E2E_TRACE, trace);
    const { tasks, frames, cpu } = tasksIn(trace);
    const keys = await page.evaluate(() => window.keys);
    const sum = tasks.reduce((a, b) => a + b, 0);
    console.log(`      ${text.length} bytes in ${took.toFixed(1)} s; main thread, ${cpu ? "processor" : "wall"} time: ${frames.length} frames, p50 ${at(frames, 0.5).toFixed(1)}, p99 ${at(frames, 0.99).toFixed(1)} ms; `
      + `${tasks.length} tasks, p99 ${at(tasks, 0.99).toFixed(1)}, longest ${Math.max(0, ...tasks).toFixed(1)} ms, ${tasks.filter((t) => t > 50).length} over 50 ms, together ${(sum / 10 / took).toFixed(0)} % of one core; `
      + `key to paint (wall) p50 ${at(keys, 0.5).toFixed(0)}, p99 ${at(keys, 0.99).toFixed(0)} ms`);
    const shown = await page.locator(".md").evaluate((e) => e.textContent);
    assert.ok(shown.includes("Section 40"), "all of it is there");
    assert.ok(at(frames, 0.99) <= 16, `frames: p99 ${at(frames, 0.99)} ms`);
    assert.ok(Math.max(0, ...tasks) <= 50, `a task of ${Math.max(0, ...tasks)} ms`);
  },
};
