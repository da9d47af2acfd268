// Runs the end-to-end tests: each file of e2e/tests, in order, in one browser. `node e2e/run.mjs chat` runs those
// whose name contains the word, with `E2E_TEST=reload` only the tests that say so; measurements (`measure-…`) run only
// when they are named, on a machine that has nothing else to do.

import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startBrowser } from "./browser.mjs";

const folder = join(dirname(fileURLToPath(import.meta.url)), "tests");
const words = process.argv.slice(2);
const files = readdirSync(folder).filter((f) => f.endsWith(".mjs") && (words.length === 0 ? !f.startsWith("measure-") : words.some((w) => f.includes(w)))).sort();
const browser = await startBrowser();
let passed = 0;
let failed = 0;

/** A page that counts what must not happen. */
async function openPage(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]).catch(() => undefined);
  const page = await context.newPage();
  page.faults = [];
  page.requested = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => page.requested.push(request.url()));
  return page;
}

/** Runs one test; what went wrong, if anything did. */
async function attempt(file, name, run, stage) {
  const began = Date.now();
  const pages = [];
  const open = async (options) => {
    const page = await openPage(options);
    pages.push(page);
    return page;
  };
  try {
    await run({ stage, open });
    const faults = pages.flatMap((p) => p.faults);
    if (faults.length > 0) throw new Error(`the page complained: ${faults.join("; ")}`);
    console.log(`ok    ${file}: ${name} (${Date.now() - began} ms)`);
    return undefined;
  } catch (error) {
    if (process.env.E2E_SHOTS) for (const [i, p] of pages.entries()) await p.screenshot({ path: join(process.env.E2E_SHOTS, `${file}-${name.replace(/\W+/g, "-")}-${i}.png`) }).catch(() => undefined);
    return error;
  } finally {
    for (const page of pages) await page.context().close();
  }
}

for (const file of files) {
  const { stand, tests } = await import(pathToFileURL(join(folder, file)));
  const stage = await stand();
  for (const [name, run] of Object.entries(tests)) {
    if (process.env.E2E_TEST && !name.includes(process.env.E2E_TEST)) continue;
    let error = await attempt(file, name, run, stage);
    // A busy machine can be late once; what is wrong is wrong twice. It is said either way.
    if (error) {
      console.log(`again ${file}: ${name}\n      ${error.stack}`);
      error = await attempt(file, name, run, stage);
    }
    if (error) {
      failed++;
      console.log(`FAIL  ${file}: ${name}\n      ${error.stack}`);
    } else {
      passed++;
    }
  }
  await stage.close();
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
