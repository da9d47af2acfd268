// The map with as many points as the server sends: dragged about and zoomed, how long are the frames?

import { writeFileSync } from "node:fs";
import { startStand } from "../stand.mjs";
import { assert } from "../expect.mjs";
import { CATEGORIES, at, tasksIn } from "../trace.mjs";

const POINTS = 20_000;
const GROUPS = 12;

/** Clouds around middles, by a fixed rule. */
function drawnUp() {
  let seed = 7;
  const next = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const bell = () => (next() + next() + next() - 1.5) / 1.5;
  const clusters = Array.from({ length: GROUPS }, (_, i) => ({ terms: [`word ${i}`, `term ${i}`], x: bell() * 0.7, y: bell() * 0.7, points: 0 }));
  const documents = Array.from({ length: 2000 }, (_, i) => ({ id: `d${i}`, title: `Document ${i}`, uri: `folder/${i}.md` }));
  const points = Array.from({ length: POINTS }, (_, i) => {
    const cluster = i % GROUPS;
    const { x, y } = clusters[cluster];
    clusters[cluster].points++;
    return { chunk_id: `c${i}`, document: i % documents.length, x: Math.max(-1, Math.min(1, x + bell() * 0.35)), y: Math.max(-1, Math.min(1, y + bell() * 0.35)), cluster };
  });
  return { total: POINTS, documents, points, clusters };
}

export const stand = async () => {
  const made = await startStand({});
  await made.add("default", [{ id: "one", title: "One", uri: "one.md", text: "One document, so that there is a map to look at." }]);
  return made;
};

export const tests = {
  async "20,000 points, dragged and zoomed"({ stage, open }) {
    const page = await open({ viewport: { width: 1440, height: 900 } });
    await page.addInitScript(() => localStorage.setItem("tailrace.prefs", JSON.stringify({ language: "en" })));
    const answer = drawnUp();
    await page.route("**/api/v1/collections/default/map", (route) => route.fulfill({ json: answer }));
    await page.goto(`${stage.url}/knowledge/default?view=map`);
    await page.locator(".map-groups li").nth(GROUPS - 1).waitFor();
    await page.waitForTimeout(1000);
    const box = await page.locator(".map-plane canvas").first().boundingBox();
    const browser = page.context().browser();
    await browser.startTracing(page, { categories: CATEGORIES });
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let i = 0; i < 120; i++) await page.mouse.move(x + 200 * Math.sin(i / 9), y + 120 * Math.cos(i / 11));
    await page.mouse.up();
    for (let i = 0; i < 40; i++) await page.mouse.wheel(0, i < 20 ? -60 : 60);
    for (let i = 0; i < 60; i++) await page.mouse.move(box.x + 200 + i * 8, box.y + 150 + i * 3);
    const trace = (await browser.stopTracing()).toString();
    if (process.env.E2E_TRACE) writeFileSync(process.env.E2E_TRACE, trace);
    const { tasks, frames } = tasksIn(trace);
    console.log(`      ${POINTS} points: ${frames.length} frames, processor time p50 ${at(frames, 0.5).toFixed(1)}, p99 ${at(frames, 0.99).toFixed(1)} ms; longest task ${Math.max(0, ...tasks).toFixed(1)} ms`);
    assert.ok(frames.length > 20, "it was drawn");
    assert.ok(at(frames, 0.99) <= 16, `frames: p99 ${at(frames, 0.99)} ms`);
    assert.ok(Math.max(0, ...tasks) <= 50, `a task of ${Math.max(0, ...tasks)} ms`);
  },
};
