// What one looks after a collection with: its map, versions, findings that are kept, building it anew, jobs, and the
// status page. Real documents in a real server; each view is also looked at for accessibility.

import { accessible } from "../accessible.mjs";
import { spoken } from "../model.mjs";
import { startStand } from "../stand.mjs";
import { answered, ask, assert, until } from "../expect.mjs";

const scripts = new Map([["keep what you find", [
  ['Let me read it. <tool name="fetch_url"><url>{page}/eels.html</url></tool>', 300],
  spoken("Eels are kept out by a grating."),
]]]);
const pages = new Map([["/eels.html", { html: `<title>Eels</title><p>${"A grating of oak keeps the eels out of the headrace. ".repeat(20)}</p>` }]]);

const subjects = [
  ["weir", "The weir holds the river back, and its gates are opened when the water rises after rain."],
  ["wheel", "The wheel turns the stones, and its buckets are mended by the wheelwright every spring."],
  ["flour", "Flour is sieved into three grades, and the finest goes to the baker in the market town."],
];

export const stand = async () => {
  const made = await startStand({ scripts, pages });
  const documents = subjects.flatMap(([name, text]) => [1, 2, 3, 4, 5, 6].map((n) => ({ id: `${name}-${n}`, title: `${name} ${n}`, uri: `${name}/${n}.md`, text: `${text} Note ${n} about the ${name}.` })));
  await made.add("default", documents);
  return made;
};

const send = async (stage, method, path, body) => {
  const answer = await fetch(stage.api + path, { method, headers: { "content-type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
};
const english = (page) => page.addInitScript(() => localStorage.setItem("tailrace.prefs", JSON.stringify({ language: "en", toolMode: "inline" })));

async function at(open, stage, path, options) {
  const page = await open(options);
  await english(page);
  await page.goto(stage.url + path);
  return page;
}

/** How many pixels of the canvas are not its ground. */
const drawn = (page) => page.locator(".map-plane canvas").first().evaluate((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i] > 0) count++;
  return count;
});

export const tests = {
  async "the map shows every passage, lights what a query finds, and opens a document"({ stage, open }) {
    const page = await at(open, stage, "/knowledge/default");
    await page.getByRole("link", { name: "Map" }).click();
    assert.match(page.url(), /view=map/);
    await until(async () => (await page.locator(".map-groups li").count()) >= 3, "groups");
    const label = await page.locator(".map-plane canvas").first().getAttribute("aria-label");
    assert.match(label, /^18 passages/);
    const words = (await page.locator(".map-groups").innerText()).toLowerCase();
    assert.ok(["gates", "buckets", "grades"].every((w) => words.includes(w)), words);
    assert.ok(await until(() => drawn(page), "points are drawn") > 100);
    await page.getByLabel("Light up what a query finds").fill("who mends the buckets of the wheel");
    await page.keyboard.press("Enter");
    await until(async () => /^[1-9]\d* passages? lit$/.test(await page.locator(".map-query [role=status]").innerText()), "hits are lit");
    assert.match(await page.locator(".map-found li").first().innerText(), /wheel \d/);
    await accessible(page, "the map");

    // Closer with the keyboard, and back.
    await page.locator(".map-plane canvas").first().focus();
    const before = await drawn(page);
    for (let i = 0; i < 4; i++) await page.keyboard.press("+");
    await until(async () => (await drawn(page)) !== before, "it is drawn nearer");
    await page.getByRole("button", { name: "Whole map" }).click();
    await page.locator(".map-groups button").first().click();
    await until(async () => (await page.locator('.map-groups button[aria-pressed="true"]').count()) === 1, "one group");
    await page.locator(".map-groups button").first().click();

    // Somewhere there is a point; a click on it opens its document beside the map.
    const spot = await page.locator(".map-plane canvas").first().evaluate((canvas) => {
      const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      // The middle of a dot: opaque all around.
      for (let i = 3 + width * 16; i < data.length - width * 16; i += 4) if ([0, 8, -8, width * 8, -width * 8].every((d) => data[i + d] > 200)) return [((i - 3) / 4) % width, Math.floor((i - 3) / 4 / width)];
      return undefined;
    });
    assert.ok(spot, "a dot");
    await page.locator(".map-plane canvas").first().click({ position: { x: spot[0], y: spot[1] } });
    await page.locator(".document dl").first().waitFor();
    assert.match(page.url(), /view=map/);
    await page.locator(".document").getByRole("button", { name: "Close" }).click();
    await page.locator(".map-plane").waitFor();
  },

  async "versions are kept and can be read"({ stage, open }) {
    await send(stage, "POST", "/api/v1/collections", { name: "laws", keep_versions: 5 }).catch(() => undefined);
    for (const hour of ["six", "seven", "eight"]) await stage.add("laws", [{ id: "weir", title: "Weir rules", uri: "weir.md", text: `The weir is opened at ${hour} in the morning.` }]);
    const page = await at(open, stage, "/knowledge/laws/weir");
    const versions = page.locator(".versions button");
    await until(async () => (await versions.count()) === 3, "three versions");
    const text = page.locator(".doc-text");
    assert.match(await text.innerText(), /opened at eight/);
    await accessible(page, "versions");
    await versions.nth(2).click();
    await until(async () => (await text.innerText()).includes("opened at six"), "the first version's text");
    assert.equal(await versions.nth(2).getAttribute("aria-pressed"), "true");
    await versions.nth(0).click();
    await until(async () => (await text.innerText()).includes("opened at eight"), "the live one's text");
  },

  async "title and metadata are changed, and search filters by them"({ stage, open }) {
    await stage.add("default", [{ id: "toll", title: "Toll", uri: "toll.md", text: "The toll at the bridge is two pence for a cart.", metadata: { lang: "en", draft: "yes" } }]);
    const page = await at(open, stage, "/knowledge/default/toll");
    await page.getByRole("button", { name: "Edit title and metadata" }).click();
    const form = page.locator(".describe");
    await form.getByLabel("Title").fill("Bridge toll");
    await form.getByRole("button", { name: "Remove: draft" }).click();
    await form.getByRole("button", { name: "Field", exact: true }).click();
    await form.getByLabel("Field").last().fill("pence");
    await form.getByLabel("Value").last().fill("2");
    await accessible(page, "editing metadata");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator(".document h2").innerText()) === "Bridge toll", "the new title");
    const found = await send(stage, "POST", "/api/v1/collections/default/search", { query: "toll", filter: { must: [{ key: "metadata.pence", range: { gte: 2 } }] } });
    assert.deepEqual(found.hits.map((h) => h.document_id), ["toll"]);
    assert.equal(found.hits[0].metadata.draft, undefined);
    assert.equal(found.hits[0].metadata.lang, "en");
  },

  async "what a conversation found is kept with a click, and found by others"({ stage, open }) {
    const page = await at(open, stage, "/");
    await page.waitForSelector("#question");
    await ask(page, "keep what you find: {page}".replace("{page}", `${stage.page}/eels.html`));
    await answered(page);
    const keep = page.locator(".card.fetch").getByRole("button", { name: "Keep in default" });
    await keep.waitFor();
    await accessible(page, "a card with Keep");
    await keep.click();
    await until(async () => (await page.locator(".card.fetch").innerText()).includes("Kept in default"), "it is kept");
    const found = await send(stage, "POST", "/api/v1/collections/default/search", { query: "grating of oak eels" });
    assert.match(found.hits[0].text, /grating of oak/);
  },

  async "a collection is built anew while it answers, and says when it is done"({ stage, open }) {
    const page = await at(open, stage, "/knowledge/default");
    await page.locator(".doc-row").first().waitFor();
    await page.getByRole("button", { name: "What to do with this collection" }).click();
    await page.getByRole("menuitem", { name: "Build the collection again" }).click();
    await page.getByRole("button", { name: "Build the collection again" }).click();
    await page.goto(`${stage.url}/knowledge/default?view=jobs`);
    const job = page.locator(".job", { hasText: "Build the collection again" }).first();
    await until(async () => /searchable|done/.test(await job.innerText()), "the new build answers", 60_000);
    const found = await send(stage, "POST", "/api/v1/collections/default/search", { query: "who mends the buckets" });
    assert.match(found.hits[0].text, /wheelwright/);
  },

  async "jobs: what failed says why and is tried again, what waits is cancelled"({ stage, open }) {
    const name = `work-${Date.now()}`;
    await send(stage, "POST", "/api/v1/collections", { name });
    const form = (file, text) => {
      const body = new FormData();
      body.append("file", new Blob([text], { type: "text/plain" }), file);
      return fetch(`${stage.api}/api/v1/collections/${name}/documents`, { method: "POST", body });
    };
    await form("broken.pdf", "%PDF-1.7 and then nothing of the kind");
    const page = await at(open, stage, `/knowledge/${name}?view=jobs`);
    const broken = page.locator(".job.failed", { hasText: "broken.pdf" });
    await broken.waitFor();
    assert.ok((await broken.locator(".job-why").innerText()).length > 10, "it says why");
    await accessible(page, "jobs");
    await broken.getByRole("button", { name: "Try again: broken.pdf" }).click();
    await until(async () => {
      const { jobs } = await send(stage, "GET", `/api/v1/jobs?collection=${name}`);
      return jobs.some((j) => j.uri === "broken.pdf" && j.attempts > 1 && j.status === "failed");
    }, "it was tried again");
    // Enough that the last of them waits long enough to be let go.
    const long = "The miller writes down what each cart brings, and what it takes away again. ".repeat(4000);
    for (const n of [1, 2, 3, 4]) await form(`book-${n}.txt`, `${n} ${long}`);
    await page.getByRole("button", { name: /^In work/ }).click();
    const last = page.locator(".job.working", { hasText: "book-4.txt" });
    await last.getByRole("button", { name: "Cancel: book-4.txt" }).click();
    await page.getByRole("button", { name: /^Cancelled/ }).click();
    await page.locator(".job.still", { hasText: "book-4.txt" }).waitFor();
    const { jobs } = await send(stage, "GET", `/api/v1/jobs?collection=${name}`);
    for (const job of jobs) if (/queued|extracting|chunking|embedding/.test(job.status)) await fetch(`${stage.api}/api/v1/jobs/${job.id}/cancel`, { method: "POST" });
    // The document of the one that failed offers the same.
    await page.goto(`${stage.url}/knowledge/${name}`);
    await page.locator(".doc-row", { hasText: "broken.pdf" }).click();
    await page.locator(".document").getByRole("button", { name: "Try again" }).waitFor();
  },

  async "the status page draws what happens while it is looked at"({ stage, open }) {
    const page = await at(open, stage, "/status");
    await page.getByText("Ready", { exact: true }).waitFor();
    const turns = page.locator(".tile").first().locator("b");
    const before = Number(await turns.innerText());
    await page.waitForTimeout(2500); // so that there is a reading before
    await (await fetch(`${stage.api}/api/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ message: "keep what you find, once more" }) })).text();
    await until(async () => Number(await turns.innerText()) > before, "the turn is counted");
    const chart = page.locator(".chart", { hasText: "Turns a minute" });
    await until(async () => ((await chart.locator(".line").getAttribute("d")) ?? "").split("L").length >= 2, "a line");
    assert.match(await chart.innerText(), /highest [1-9]/);
    const memory = page.locator(".chart", { hasText: "Memory" });
    assert.match(await memory.locator("[role=slider]").getAttribute("aria-valuetext"), /[1-9]\d* MB/);
    await memory.locator("[role=slider]").focus();
    await page.keyboard.press("ArrowLeft");
    assert.match(await memory.innerText(), /\d s ago/);
    await accessible(page, "the status page");
  },
};
