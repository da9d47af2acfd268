// Draws every page into docs/screenshots: wide and narrow, light and dark. `node e2e/screenshots.mjs chat` draws
// those whose name contains the word. Look at them afterwards; that is what they are for.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startBrowser } from "./browser.mjs";
import { answered, ask, until } from "./expect.mjs";
import { QUESTION, earlier, held, library, pages, scripts, weirRules } from "./scene.mjs";
import { root, startStand } from "./stand.mjs";

const folder = join(root, "docs/screenshots");
mkdirSync(folder, { recursive: true });
const words = process.argv.slice(2);
const wanted = (name) => words.length === 0 || words.some((w) => name.includes(w));

const SIZES = {
  desktop: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};

const rounds = scripts.get(QUESTION);
const browser = await startBrowser();
const empty = await startStand({ provider: "local" });
const stand = await startStand({ scripts, pages, settings: ["tools.fetch_url.cache_ttl_ms=0"] });
await stand.add("default", library());
await fetch(`${stand.api}/api/v1/collections`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name: "mill-laws", keep_versions: 5 }) });
for (const text of weirRules) await stand.add("mill-laws", [{ id: "weir", title: "Rules of the weir", uri: "weir.md", mime: "text/markdown", text, metadata: { village: "Aller" } }]);
// One that cannot be read, for the jobs to say why.
const broken = new FormData();
broken.append("file", new Blob(["%PDF-1.7 and nothing more"], { type: "application/pdf" }), "scans/1871-survey.pdf");
await fetch(`${stand.api}/api/v1/collections/default/documents`, { method: "POST", body: broken });
for (const question of earlier) {
  await (await fetch(`${stand.api}/api/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ message: question }) })).text();
}

const keep = new Set();
const list = async () => (await (await fetch(`${stand.api}/api/v1/conversations?limit=200`)).json()).conversations.map((c) => c.id);
for (const id of await list()) keep.add(id);

/** What a scene has asked must not fill the list of the next. */
async function tidy() {
  for (const id of await list()) if (!keep.has(id)) await fetch(`${stand.api}/api/v1/conversations/${id}`, { method: "DELETE" });
}

let conversation;

function hold(on) {
  stand.model.scripts.set(QUESTION, on ? held : rounds);
  pages.get("/current/sql-select.html").after = on ? 25_000 : 900;
}

const scenes = {
  async first(page) {
    await page.goto(empty.url);
    await page.locator(".steps").waitFor();
  },
  async chat(page, size) {
    if (conversation === undefined) {
      await page.goto(stand.url);
      await page.waitForSelector("#question");
      await ask(page, QUESTION);
      await answered(page, 60_000);
      conversation = page.url();
      keep.add(conversation.split("/").at(-1));
    } else {
      await page.goto(conversation);
      await answered(page);
    }
    await page.waitForTimeout(700);
    if ((await page.locator(".timeline-head").count()) > 0) await page.locator(".timeline-head").click();
    await page.waitForTimeout(300);
    await page.locator(".thread").evaluate((e, narrow) => (e.scrollTop = narrow ? e.scrollHeight : 0), size === "phone");
    await page.waitForTimeout(300);
  },
  async streaming(page) {
    hold(true);
    await page.goto(stand.url);
    await page.waitForSelector("#question");
    await page.fill("#question", QUESTION);
    await page.locator("form.composer button[type=submit]").click();
    // While the page is fetched, the answer goes on.
    await page.locator(".card.fetch.running").waitFor({ timeout: 20_000 });
    await page.locator(".timeline-head").click();
    await until(async () => /of a crowd/.test(await page.locator(".answer").innerText()), "text beside the running tool", 20_000);
  },
  async timeline(page) {
    await page.goto(conversation);
    await answered(page);
    await page.waitForTimeout(700);
    if ((await page.locator(".timeline-head").count()) === 0) return;
    await page.locator(".timeline-head").click();
    await page.locator(".picture [role=slider]").focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
    await page.waitForTimeout(200);
  },
  async knowledge(page) {
    await page.goto(`${stand.url}/knowledge/default`);
    await page.locator(".doc-row").first().waitFor();
    await page.waitForTimeout(500);
  },
  async document(page) {
    const text = library()[0].text;
    const from = text.indexOf("Rows are locked as they are returned");
    await page.goto(`${stand.url}/knowledge/default/sql-select.md?from=${from}&to=${text.indexOf("Where that matters")}`);
    await page.locator(".document dl").first().waitFor();
    await page.waitForTimeout(700);
  },
  async map(page) {
    await page.goto(`${stand.url}/knowledge/default?view=map`);
    await page.locator(".map-groups li").first().waitFor();
    await page.getByLabel("Light up what a query finds").fill("who waits for a locked row");
    await page.keyboard.press("Enter");
    await until(async () => /lit/.test(await page.locator(".map-query [role=status]").innerText()), "hits are lit");
    await page.waitForTimeout(400);
  },
  async jobs(page) {
    await page.goto(`${stand.url}/knowledge/default?view=jobs`);
    await page.locator(".job").first().waitFor();
    await page.waitForTimeout(300);
  },
  async versions(page) {
    await page.goto(`${stand.url}/knowledge/mill-laws/weir`);
    await page.locator(".versions button").first().waitFor();
    await page.waitForTimeout(400);
  },
  async search(page) {
    await page.goto(`${stand.url}/search`);
    await page.getByRole("searchbox", { name: "What to look for" }).fill("who waits for a locked row");
    await page.keyboard.press("Enter");
    await page.locator(".hit").first().waitFor();
    await page.waitForTimeout(300);
    const hit = page.locator(".play-column").nth(1).locator(".hit").first();
    await hit.hover();
    await page.waitForTimeout(300);
  },
  async status(page) {
    await page.goto(`${stand.url}/status`);
    await page.waitForTimeout(2500);
    for (const question of earlier) await fetch(`${stand.api}/api/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ message: question }) }).then((r) => r.text());
    await page.waitForTimeout(7000);
  },
  async settings(page) {
    await page.goto(`${stand.url}/settings`);
    await page.locator(".option").first().waitFor();
    await page.waitForTimeout(300);
  },
};

for (const [size, options] of Object.entries(SIZES)) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ ...options, colorScheme, reducedMotion: "reduce", locale: "en-GB" });
    await context.addInitScript((open) => localStorage.setItem("tailrace.prefs", JSON.stringify({ toolMode: "inline", language: "en", sourcesOpen: open })), size === "desktop");
    for (const [name, scene] of Object.entries(scenes)) {
      if (!wanted(name) && !(name === "chat" && conversation === undefined && wanted("timeline"))) continue;
      const page = await context.newPage();
      await scene(page, size);
      await page.screenshot({ path: join(folder, `${name}-${size}-${colorScheme}.png`) });
      await page.close();
      hold(false);
      await tidy();
      console.log(`${name}-${size}-${colorScheme}`);
    }
    await context.close();
  }
}
// A third of the size where pngquant is there (apt install pngquant).
spawnSync("sh", ["-c", "command -v pngquant >/dev/null && pngquant --force --ext .png --skip-if-larger --quality 85-99 *.png"], { cwd: folder });
await browser.close();
await stand.close();
await empty.close();
