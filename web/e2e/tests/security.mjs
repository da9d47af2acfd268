// Hostile texts in answers, titles, file names and tool output, in a real browser under the program's own policy:
// nothing runs, and no request leaves.

import { EXFIL, LEAKS, SCRIPTS } from "../../tests/payloads.mjs";
import { startStand } from "../stand.mjs";
import { answered, ask, assert, until } from "../expect.mjs";

const all = [...SCRIPTS, ...LEAKS];
/** Payloads in one answer: each in a block of its own, as a model might write them. */
const PER_ANSWER = 24;
const answers = [];
for (let i = 0; i < all.length; i += PER_ANSWER) answers.push(all.slice(i, i + PER_ANSWER));

const scripts = new Map([
  ...answers.map((some, i) => [`part ${i}.`, [some.flatMap((p) => [...cut(p), "\n\n"])]]),
  ["the tool says.", [['Look: <tool name="fetch_url"><url>{page}/evil.html</url></tool>'], ["Seen."]]],
  ["what is titled so.", [["It is [1], [2], [3]."]]],
]);

/** In three deltas, so that tags are open for a moment. */
function cut(text) {
  const third = Math.ceil(text.length / 3);
  return [text.slice(0, third), text.slice(third, 2 * third), text.slice(2 * third)].filter((p) => p !== "");
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const pages = new Map([["/evil.html", { html: `<title>${escaped(SCRIPTS[8])}</title>${all.map((p) => `<p>${escaped(p)}</p>`).join("")}` }]]);

export const stand = async () => {
  const made = await startStand({ scripts, pages });
  const named = [SCRIPTS[0], SCRIPTS[8], SCRIPTS[14], SCRIPTS[40], LEAKS[4], LEAKS[1]];
  await made.add("default", named.map((p, i) => ({ id: `evil-${i}`, title: `${p} titled so`, uri: `${p}.md`, text: `What is titled so. ${p}`, metadata: { author: p } })));
  return made;
};

async function guarded(open, stage) {
  const page = await open();
  await page.addInitScript(() => {
    window.hits = [];
    window.__hit = () => window.hits.push(new Error().stack);
    localStorage.setItem("tailrace.prefs", JSON.stringify({ toolMode: "inline", language: "en", sourcesOpen: true }));
  });
  return page;
}

async function holds(page, stage) {
  const hits = await page.evaluate(() => window.hits);
  assert.deepEqual(hits, []);
  const left = page.requested.filter((u) => !u.startsWith(stage.url) && !u.startsWith(stage.url.replace("http", "ws")) && !u.startsWith("blob:"));
  assert.deepEqual(left, []);
  const links = await page.evaluate(() => [...document.querySelectorAll("a[href]")].map((a) => a.protocol));
  assert.ok(links.every((p) => p === "http:" || p === "https:"), `links: ${links}`);
  const foreign = await page.evaluate(() => document.querySelectorAll("#app :is(script, iframe, object, embed, img, video, audio, form[action], style, link, base, meta)").length);
  assert.equal(foreign, 0);
  // What the policy had to stop would be in page.faults, and fail the test.
}

export const tests = {
  async "in answers"({ stage, open }) {
    const page = await guarded(open, stage);
    for (let i = 0; i < answers.length; i++) {
      await page.goto(stage.url);
      await page.waitForSelector("#question");
      await ask(page, `part ${i}.`);
      await answered(page);
      for (const link of await page.locator(".md a, .md button, .md pre").all()) await link.hover({ timeout: 2000 }).catch(() => undefined);
      await holds(page, stage);
    }
    console.log(`      ${all.length} payloads in ${answers.length} answers`);
  },

  async "in tool output, opened"({ stage, open }) {
    const page = await guarded(open, stage);
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await ask(page, "the tool says.");
    await answered(page);
    await page.locator("button.card-head").click();
    await until(async () => (await page.locator(".card-body pre").count()) > 0, "the output is shown");
    await holds(page, stage);
  },

  async "in titles, file names, metadata, passages and search"({ stage, open }) {
    const page = await guarded(open, stage);
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await ask(page, "what is titled so.");
    await answered(page);
    await page.locator(".md .cite:not(:disabled)").first().hover();
    await holds(page, stage);
    await page.goto(`${stage.url}/knowledge/default/evil-1?from=0&to=30`);
    await page.locator(".document dl").first().waitFor();
    await holds(page, stage);
    await page.goto(`${stage.url}/search`);
    await page.getByPlaceholder("What to look for").fill("titled so");
    await page.keyboard.press("Enter");
    await page.locator(".hit").first().waitFor();
    await holds(page, stage);
  },

  async "in a question, a conversation's title and a file that is uploaded"({ stage, open }) {
    const page = await guarded(open, stage);
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await ask(page, `${SCRIPTS[8]} part 0.`);
    await answered(page);
    await until(async () => (await page.locator(".entry").first().innerText()).includes("<img"), "the title is text");
    await page.goto(`${stage.url}/knowledge/default`);
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Choose files" }).click()]);
    await chooser.setFiles([{ name: `<img src=x onerror=__hit()>.md`, mimeType: "text/markdown", buffer: Buffer.from(`# ${SCRIPTS[8]}\n`) }]);
    await page.locator(".upload").first().waitFor();
    await holds(page, stage);
  },

  async "the policy itself stops what would get through"({ stage, open }) {
    const page = await guarded(open, stage);
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    const stopped = await page.evaluate(async (host) => {
      const found = [];
      try { document.body.innerHTML = "<b>x</b>"; } catch { found.push("innerHTML"); }
      try { document.write("x"); } catch { found.push("write"); }
      await fetch(`https://${host}/x`).catch(() => found.push("fetch"));
      await new Promise((done) => { const i = new Image(); i.onerror = i.onload = done; i.src = `https://${host}/x.png`; });
      const inline = document.createElement("script");
      try { inline.textContent = "__hit()"; document.body.append(inline); } catch { found.push("script"); }
      return found;
    }, EXFIL);
    assert.ok(["innerHTML", "write", "fetch", "script"].every((what) => stopped.includes(what)), stopped.join());
    assert.deepEqual(await page.evaluate(() => window.hits), []);
    page.faults = []; // the policy's own reports of what this test tried
  },
};
