import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible } from "../accessible.mjs";
import { spoken } from "../model.mjs";
import { startStand } from "../stand.mjs";
import { answered, ask, assert, until } from "../expect.mjs";

const scripts = new Map([["sluice", [spoken("The sluice is opened at six [1].")]], ["level of the tailrace", [spoken("Because water backs up [1].")]]]);

const pages = new Map([["/barges.html", { html: `<title>Barges</title><p>${"A barge carries forty sacks of flour to the town. ".repeat(8)}</p>` }]]);

export const stand = () => startStand({ scripts, pages });

const english = (page) => page.addInitScript(() => localStorage.getItem("tailrace.prefs") ?? localStorage.setItem("tailrace.prefs", JSON.stringify({ language: "en" })));

export const tests = {
  async "first run: three steps, the samples, and an answer with its source"({ stage, open }) {
    const page = await open();
    await english(page);
    await page.goto(stage.url);
    await page.locator(".steps li").nth(2).waitFor();
    await page.getByRole("button", { name: "Add three samples" }).click();
    await until(async () => (await page.inputValue("#question")) !== "", "a first question is offered", 30_000);
    await page.locator("#question").press("Enter");
    await answered(page);
    await page.locator(".md .cite:not(:disabled)").first().click();
    assert.match(await page.locator(".source.on").innerText(), /tailrace/i);
  },

  async "an upload becomes an answer with a citation to its passage"({ stage, open }) {
    const file = join(stage.data, "mill.md");
    writeFileSync(file, "# The mill\n\nThe sluice of Grinder's Ford is opened at six in the morning by the oldest apprentice.\n");
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/knowledge/default`);
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Choose files" }).click()]);
    await chooser.setFiles(file);
    await until(async () => (await page.locator(".upload.indexed").count()) === 1, "the upload is searchable", 30_000);
    await until(async () => (await page.locator(".doc-row", { hasText: "mill.md" }).count()) === 1, "a row in the table");
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await ask(page, "When is the sluice of Grinder's Ford opened?");
    await answered(page);
    await page.locator(".md .cite:not(:disabled)").first().click();
    const source = page.locator(".source.on");
    assert.match(await source.innerText(), /six in the morning/);
    await source.locator("a.textlink").click();
    await page.locator(".document").waitFor();
    assert.match(page.url(), /from=\d+&to=\d+/);
    if ((await page.locator(".doc-text").count()) > 0) assert.match(await page.locator(".highlighted").first().innerText(), /Grinder's Ford/);
  },

  async "refused files say why, and can be tried again"({ stage, open }) {
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/knowledge/default`);
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Choose files" }).click()]);
    await chooser.setFiles([{ name: "noise.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2, 255, 254, 0, 0, 9]) }]);
    const row = page.locator(".upload.refused, .upload.failed");
    await row.waitFor();
    assert.ok((await row.locator(".upload-reason").innerText()).length > 10);
    await row.getByRole("button").click();
    await row.waitFor();
  },

  async "files are dropped anywhere, and a file on its way can be let go"({ stage, open }) {
    const page = await open();
    await english(page);
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    const drop = (name, text) => page.evaluate(([name, text]) => {
      const carried = new DataTransfer();
      carried.items.add(new File([text], name, { type: "text/markdown" }));
      for (const type of ["dragenter", "dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: carried }));
    }, [name, text]);
    await drop("dropped.md", "# Dropped\n\nA barge carries forty sacks.\n");
    await page.locator(".upload.indexed", { hasText: "dropped.md" }).waitFor({ timeout: 30_000 });
    // One that is held up on its way.
    let let_go;
    await page.route("**/documents", (route) => new Promise((done) => (let_go = () => { void route.abort(); done(); })));
    await drop("held.md", "held");
    const row = page.locator(".upload", { hasText: "held.md" });
    await page.locator(".upload.sending", { hasText: "held.md" }).waitFor();
    await row.getByRole("button", { name: "Cancel held.md" }).click();
    await page.locator(".upload.cancelled", { hasText: "held.md" }).waitFor();
    let_go?.();
    await page.unroute("**/documents");
    await row.getByRole("button", { name: "Try held.md again" }).click();
    await page.locator(".upload.indexed", { hasText: "held.md" }).waitFor({ timeout: 30_000 });
  },

  async "a web address is added and read"({ stage, open }) {
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/knowledge/default`);
    await page.getByLabel("Add a web address").fill("not an address");
    await page.keyboard.press("Enter");
    await page.getByText("An address begins with http").waitFor();
    await page.getByLabel("Add a web address").fill(`${stage.page}/barges.html`);
    await page.keyboard.press("Enter");
    await page.locator(".upload.indexed", { hasText: "barges.html" }).waitFor({ timeout: 30_000 });
    await until(async () => (await page.locator(".doc-row", { hasText: "Barges" }).count()) === 1, "a row in the table");
  },

  async "deleting gives its proof, and the document is found no more"({ stage, open }) {
    await stage.add("default", [{ id: "gone", title: "Soon gone", uri: "gone.md", text: "Zanzibar marmalade is made from bitter oranges." }]);
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/knowledge/default/gone`);
    await page.locator(".document").getByRole("button", { name: "What to do with this document" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.locator("dialog .bad").click();
    await page.locator(".proof").waitFor();
    assert.match(await page.locator(".proof").innerText(), /Soon gone is deleted: 1 points? before, 0 now/);
    const found = await (await fetch(`${stage.api}/api/v1/collections/default/search`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ query: "Zanzibar marmalade", mode: "sparse" }),
    })).json();
    assert.equal(found.hits.length, 0);
  },

  async "collections are made and deleted"({ stage, open }) {
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/knowledge`);
    await page.getByRole("button", { name: "New collection" }).click();
    await page.keyboard.type("hand book");
    await page.keyboard.press("Enter");
    await until(() => page.url().endsWith("/knowledge/hand-book"), "the new collection");
    await page.locator(".empty").waitFor();
    await page.getByRole("button", { name: "What to do with this collection" }).click();
    await page.getByRole("menuitem", { name: "Delete this collection" }).click();
    await page.locator("dialog .bad").click();
    await until(() => page.url().endsWith("/knowledge/default"), "back at default");
  },

  async "the playground shows three ways side by side and joins what is the same"({ stage, open }) {
    await stage.add("default", [0, 1, 2, 3, 4].map((i) => ({ id: `m${i}`, title: `Mill ${i}`, uri: `m${i}.md`, text: `Water wheel number ${i} turns in the stream behind the mill.` })));
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/search`);
    await page.getByPlaceholder("What to look for").fill("water wheel");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator(".play-column .hit").count()) > 6, "hits in three columns");
    assert.deepEqual(await page.locator(".play-column h2").allInnerTexts(), ["Meaning", "Hybrid", "Keywords"]);
    await until(async () => (await page.locator(".joins path").count()) > 3, "joins");
    await page.locator(".hit .textlink").first().click();
    const why = await page.locator(".explain").first().innerText();
    assert.match(why, /cosine\s+0\.\d{4}/i);
    assert.ok(!/[{}"]/.test(why), `words, not JSON: ${why}`);
    assert.match(await page.locator(".play-column").nth(1).locator(".legs").first().innerText(), /Meaning \d+ \d\.\d+[\s\S]*Keywords \d+ \d+\.\d+/);
    // The address is the search.
    assert.match(page.url(), /\/search\?q=water\+wheel&in=default/);
    await page.reload();
    await until(async () => (await page.locator(".play-column .hit").count()) > 6, "the same search after a reload");
    await page.getByLabel("How many hits").selectOption("5");
    await page.getByRole("button", { name: "Filters" }).click();
    await page.getByRole("button", { name: "Condition", exact: true }).click();
    await page.getByLabel("Field").fill("title");
    await page.getByLabel("Value").fill("Mill 3");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator(".play-column").first().locator(".hit").count()) === 1, "one hit after the filter");
    await page.getByLabel("How it is compared").selectOption("not");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await until(async () => (await page.locator(".play-column").first().locator(".hit").count()) > 1, "all but one");
    assert.ok(!(await page.locator(".play-columns").innerText()).includes("Mill 3"));
    await page.getByRole("button", { name: "Remove this condition" }).click();
  },

  async "the playground says what was left out, and why"({ stage, open }) {
    await stage.add("default", Array.from({ length: 9 }, (_, i) => ({ id: `lock${i}`, title: `Lock ${i}`, uri: `locks/${i}.md`, text: `The lock chamber number ${i} is filled through a culvert.` })));
    const page = await open();
    await english(page);
    await page.goto(`${stage.url}/search?q=lock+chamber+culvert`);
    await page.locator(".play-column .hit").first().waitFor();
    await page.getByLabel("How many hits").selectOption("5");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    const left = page.locator(".play-column").nth(1).locator(".dropped");
    await until(async () => (await page.locator(".play-column").nth(1).locator(".hit").count()) === 5, "five hits");
    await left.locator("summary").click();
    const said = await left.innerText();
    assert.match(said, /Behind the last hit/);
    assert.match(said, /Meaning \d+ \d\.\d+/);
    await accessible(page, "the playground with what was left out");
  },

  async "ten thousand rows stay quick"({ stage, open }) {
    const page = await open();
    await english(page);
    const documents = Array.from({ length: 10_000 }, (_, i) => ({ id: `d${i}`, title: `Document ${i}`, uri: `folder/${i}.md`, status: i % 50 === 0 ? "failed" : "indexed", error: i % 50 === 0 ? { code: "x", message: "not text" } : undefined, chunks: i % 40, bytes: i * 37, mime: "text/markdown", updated_at: new Date(1.7e12 + i * 1e5).toISOString() }));
    await page.route("**/api/v1/collections/default/documents?*", (route) => {
      const after = new URL(route.request().url()).searchParams.get("after");
      const at = after === null ? 0 : Number(after);
      const part = documents.slice(at, at + 500);
      return route.fulfill({ json: { documents: part, ...(at + 500 < documents.length ? { next: String(at + 500) } : {}) } });
    });
    await page.goto(`${stage.url}/knowledge/default`);
    await until(async () => (await page.locator(".filters .chip").first().innerText()).includes("10,000"), "all rows are known");
    assert.ok((await page.locator(".doc-row").count()) < 60, "only what is seen is in the page");
    // What others do on this machine is in both: frames that scroll, and frames in which nothing happens.
    const [ms, still] = await page.evaluate(async () => {
      const box = document.querySelector(".doc-table");
      const measured = async (move) => {
        const times = [];
        for (let i = 0; i < 60; i++) {
          const began = performance.now();
          move(i);
          await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
          times.push(performance.now() - began);
        }
        return times.sort((a, b) => a - b)[54];
      };
      return [await measured((i) => (box.scrollTop = i * 6000)), await measured(() => undefined)];
    });
    console.log(`      scrolling: 90 % of the frames within ${Math.round(ms)} ms, without within ${Math.round(still)} ms`);
    assert.ok(ms < Math.max(300, 5 * still), `scrolling: 90 % of the frames within ${ms} ms, without within ${still} ms`);
    await page.getByRole("columnheader", { name: "Size" }).getByRole("button").click();
    assert.match(await page.locator(".doc-row").first().innerText(), /\d/);
    await page.locator(".filters .chip", { hasText: "Failed" }).click();
    await until(async () => (await page.locator(".filters .chip", { hasText: "Failed" }).getAttribute("aria-pressed")) === "true", "filtered");
    assert.match(await page.locator(".doc-row").first().innerText(), /not text/);
  },
};
