// Usable by keyboard, screen reader, phone; in the dark; in German; with a key.

import { accessible } from "../accessible.mjs";
import { spoken } from "../model.mjs";
import { startStand } from "../stand.mjs";
import { answerText, answered, ask, assert, until } from "../expect.mjs";

const scripts = new Map([["mills", [
  ["Let me search. ", '<tool name="vector_search">{"query": "mills"}</tool>', 60],
  spoken("\n\n## Mills\n\nThere are *three* [1]:\n\n1. one\n2. two\n\n```js\nlet x = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSee [a page](https://example.org/)."),
]]]);

export const stand = async () => {
  const made = await startStand({ scripts });
  await made.add("default", [{ id: "m", title: "Mills", uri: "m.md", text: "There are three mills on the stream, and mills need water." }]);
  return made;
};

const withPrefs = (page, prefs) => page.addInitScript((p) => localStorage.getItem("tailrace.prefs") ?? localStorage.setItem("tailrace.prefs", JSON.stringify(p)), { toolMode: "inline", language: "en", ...prefs });

const PAGES = ["/", "/knowledge", "/knowledge/default/m", "/knowledge/default?view=map", "/knowledge/default?view=jobs", "/search", "/status", "/settings"];

export const tests = {
  async "no serious violation of accessibility, light and dark, wide and narrow"({ stage, open }) {
    for (const [colorScheme, viewport] of [["light", { width: 1280, height: 860 }], ["dark", { width: 1280, height: 860 }], ["light", { width: 390, height: 844 }]]) {
      const page = await open({ colorScheme, viewport });
      await withPrefs(page, { sourcesOpen: viewport.width > 900 });
      for (const path of PAGES) {
        await page.goto(stage.url + path);
        await page.waitForTimeout(500);
        await accessible(page, `${path} ${colorScheme} ${viewport.width}`);
      }
      await page.goto(stage.url);
      await page.waitForSelector("#question");
      await page.fill("#question", "mills");
      await page.locator("form.composer button[type=submit]").click();
      await answered(page);
      await page.locator(".timeline-head").click();
      await page.locator("button.card-head").click();
      await page.waitForTimeout(600);
      await accessible(page, `an answer ${colorScheme} ${viewport.width}`);
    }
  },

  async "by keyboard alone: ask, open a card, reach a source, start anew"({ stage, open }) {
    const page = await open();
    await withPrefs(page, {});
    await page.goto(stage.url);
    await page.waitForSelector("#question");
    await page.keyboard.press("Control+k");
    await until(() => page.evaluate(() => document.activeElement?.id === "question"), "the question has the focus");
    await page.keyboard.type("mills");
    await page.keyboard.press("Enter");
    await answered(page);
    const reach = async (selector) => {
      for (let i = 0; i < 60; i++) {
        await page.keyboard.press("Shift+Tab");
        if (await page.evaluate((s) => document.activeElement?.matches(s) === true, selector)) return;
      }
      throw new Error(`Tab never reaches ${selector}`);
    };
    await reach(".timeline-head");
    await page.keyboard.press("Enter");
    await page.locator(".picture").waitFor();
    await reach(".md .cite");
    await page.locator(".cite-preview").waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".source.on").waitFor();
    await reach("button.card-head");
    await page.keyboard.press("Space");
    await page.locator(".card-body").waitFor();
    await page.keyboard.press("Control+k");
    await until(async () => (await page.locator(".exchange").count()) === 0, "a new conversation");
    await page.goto(`${stage.url}/knowledge/default`);
    await page.locator(".doc-row").first().waitFor();
    await page.locator(".doc-table").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".document").waitFor();
    await page.keyboard.press("Escape");
    await until(async () => (await page.locator(".document").count()) === 0, "the document is closed");
  },

  async "on a phone: nothing is wider than the screen, menus and sources open"({ stage, open }) {
    const page = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await withPrefs(page, {});
    const fits = async (where) => {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${where} is ${wide} wide`);
    };
    for (const path of PAGES) {
      await page.goto(stage.url + path);
      await page.waitForTimeout(300);
      await fits(path);
    }
    await page.goto(stage.url);
    await page.fill("#question", "mills");
    await page.locator("form.composer button[type=submit]").tap();
    await answered(page);
    await fits("an answer");
    await page.locator(".md .cite").first().tap();
    await page.locator(".source.on").waitFor();
    await page.locator(".sources").getByRole("button", { name: "Close the sources" }).tap();
    await page.getByRole("button", { name: "Open the menu" }).tap();
    await page.locator(".sidebar.open .entry").first().waitFor();
  },

  async "dark is dark, from the first paint, and a choice is kept"({ stage, open }) {
    const page = await open({ colorScheme: "light" });
    await withPrefs(page, {});
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.goto(`${stage.url}/settings`);
    assert.equal(await ground(), "rgb(247, 248, 247)");
    await page.getByText("Dark", { exact: true }).click();
    await until(async () => (await ground()) === "rgb(15, 21, 20)", "a dark ground");
    await page.reload({ waitUntil: "commit" });
    await page.waitForSelector("body", { state: "attached" });
    assert.equal(await ground(), "rgb(15, 21, 20)");
  },

  async "in German"({ stage, open }) {
    const page = await open();
    await withPrefs(page, { language: "de" });
    await page.goto(`${stage.url}/settings`);
    await page.getByRole("heading", { name: "Einstellungen" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
  },

  async "the first paint comes quickly"({ stage, open }) {
    const page = await open();
    await withPrefs(page, {});
    await page.goto(stage.url);
    await page.goto(`${stage.url}/settings`);
    const paint = await page.evaluate(() => new Promise((done) => {
      new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true });
    }));
    console.log(`      first paint after ${Math.round(paint)} ms`);
    assert.ok(paint < 1500, `first paint after ${paint} ms`);
  },
};
