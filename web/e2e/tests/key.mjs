// A server with a key: the page asks for it, refuses a wrong one, and then works.

import { spoken } from "../model.mjs";
import { startStand } from "../stand.mjs";
import { answered, ask, assert, until } from "../expect.mjs";

const KEY = "a-long-admin-key-for-tests";

export const stand = () => startStand({ scripts: new Map([["hello", [spoken("Hello to you.")]]]), env: { TAILRACE_ADMIN_KEY: KEY } });

export const tests = {
  async "the page asks for the key and then works"({ stage, open }) {
    const page = await open();
    await page.addInitScript(() => localStorage.setItem("tailrace.prefs", JSON.stringify({ language: "en" })));
    await page.goto(stage.url);
    await page.locator(".gate").waitFor();
    await page.getByLabel("Key", { exact: true }).fill("wrong");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator(".gate").innerText()).includes("not known"), "a wrong key is refused");
    await page.getByLabel("Key", { exact: true }).fill(KEY);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#question");
    await ask(page, "hello");
    await answered(page);
    assert.equal(await page.evaluate(() => localStorage.getItem("tailrace.key")), null);
    await page.reload();
    await page.waitForSelector(".exchange");
  },
};
