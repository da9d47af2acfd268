// What axe-core has to say about a page: nothing that matters.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { assert } from "./expect.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** No violation of any weight that matters. */
export async function accessible(page, where) {
  // Trusted Types would stop an injected script; the tool's own evaluation is no part of the page.
  await page.evaluate(axe).catch(() => page.addScriptTag({ content: axe }));
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(bad.map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`), []);
}
