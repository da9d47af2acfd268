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

  async "keys are made, shown once, limited, and revoked"({ stage, open }) {
    const page = await open();
    await page.addInitScript((key) => {
      sessionStorage.setItem("tailrace.key", key);
      localStorage.setItem("tailrace.prefs", JSON.stringify({ language: "en" }));
    }, KEY);
    await page.goto(`${stage.url}/settings`);
    const form = page.locator(".key-form");
    await form.getByLabel("Name").fill("reader");
    await form.getByLabel("chat").uncheck();
    await form.getByRole("button", { name: "Make a key" }).click();
    const secret = await page.locator(".secret code").innerText();
    const ask = (path) => fetch(stage.api + path, { headers: { authorization: `Bearer ${secret}` } }).then((r) => r.status);
    assert.equal(await ask("/api/v1/collections"), 200);
    assert.equal(await ask("/api/v1/conversations"), 403);
    await page.locator("tr", { hasText: "reader" }).getByRole("button", { name: "Revoke" }).click();
    await page.locator("dialog .bad").click();
    await until(async () => (await page.locator("tr", { hasText: "reader" }).count()) === 0, "the key is gone");
    assert.equal(await ask("/api/v1/collections"), 401);
  },
};
