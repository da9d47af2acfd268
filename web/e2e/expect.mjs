// What a test may ask of a page, with a reason when it fails.

import { strict as assert } from "node:assert";

export { assert };

/** Polls until `look` gives something truthy. */
export async function until(look, what, ms = 30_000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      last = await look();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited for: ${what} (last: ${last})`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

export async function ask(page, question) {
  await page.fill("#question", question);
  await page.keyboard.press("Enter");
}

export async function answered(page, ms = 30_000) {
  await page.locator(".exchange").last().locator(".answer-acts").waitFor({ timeout: ms });
}

export function answerText(page) {
  return page.locator(".exchange").last().locator(".answer").innerText();
}
