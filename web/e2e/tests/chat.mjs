import { readFileSync } from "node:fs";
import { accessible } from "../accessible.mjs";
import { spoken } from "../model.mjs";
import { startStand } from "../stand.mjs";
import { answerText, answered, ask, assert, until } from "../expect.mjs";

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => `n${from + i}`).join(" ");

const scripts = new Map([
  ["about eels alone", [[...spoken("I look. "), '<tool name="vector_search">{"query": "locked rows"}</tool>'], spoken("By gratings.")]],
  ["by a sub-agent", [
    [...spoken("I hand it on. "), '<tool name="sub_agent">{"task": "about eels alone"}</tool>', ...spoken("\n\nMeanwhile, a statement that meets a locked row waits [1].", 40)],
    spoken("\n\nThe moon is made of cheese."),
  ]],
  ["with a tool", [
    [...spoken("Let me look. "), '<tool name="fetch_url"><url>{page}/locks.html</url></tool>', ...spoken("\n\nWhile it loads, a row waits [1].\n\n"), 200],
    spoken("\n\nThe page says **left out**."),
  ]],
  ["natively", [spoken("Plain and simple.")]],
  ["slowly", [[...spoken(numbers(1, 60), 40)]]],
  ["across a restart", [[...spoken(numbers(1, 30), 20), 60_000, "never"]]],
  ["with reasoning", [[{ reasoning: "First I think. " }, 120, { reasoning: "Then I know." }, 80, ...spoken("Known.")]]],
  ["with a refusal", [['<tool name="nothing">x</tool>', " after"], spoken("Done.")]],
  ["with a failure", [{ status: 400, message: "the model is away" }]],
  ["first question", [spoken("First answer.")]],
  ["better question", [spoken("Better answer.")]],
  ["in markdown", [spoken("# Head\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n$x^2$ and ![p](https://leak.example/p.png)\n")]],
]);
const pages = new Map([["/locks.html", { html: `<title>Locks</title><p>${"Rows that cannot be locked are left out. ".repeat(30)}</p>`, after: 700 }]]);

export const stand = async () => {
  const made = await startStand({ scripts, pages });
  await made.add("default", [{ id: "locks", title: "The Locking Clause", uri: "locks.md", text: "A statement that meets a locked row waits for the other transaction. Ask about it with a tool or slowly." }]);
  return made;
};

const inline = (page) => page.addInitScript(() => localStorage.setItem("tailrace.prefs", JSON.stringify({ toolMode: "inline", language: "en" })));

async function fresh(open, stage, options) {
  const page = await open(options);
  await inline(page);
  await page.goto(stage.url);
  await page.waitForSelector("#question");
  return page;
}

export const tests = {
  async "a tool runs while the answer goes on, and its card takes its block's place"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "with a tool: locked row");
    await page.locator(".card.fetch.running").waitFor();
    await until(async () => (await answerText(page)).includes("While it loads"), "text after the running card");
    await answered(page);
    const card = page.locator(".card.fetch");
    assert.match(await card.innerText(), /fetch_url[\s\S]*chunk/);
    assert.ok(!(await answerText(page)).includes("<tool"), "no raw block");
    await card.locator("button.card-head").click();
    assert.match(await card.innerText(), /left out/);
    const head = page.locator(".timeline-head");
    assert.match(await head.innerText(), /2 rounds · 1 tool ·/);
    await head.click();
    await page.locator(".picture [role=slider]").focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
    assert.match(await page.locator(".picture [role=slider]").getAttribute("aria-valuetext"), /\d\.\d{3} s/);
  },

  async "a citation leads to its source"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "with a tool: locked row");
    await answered(page);
    const cite = page.locator(".md .cite").first();
    await cite.hover();
    await page.locator(".cite-preview").waitFor();
    await cite.click();
    await page.locator('.source.on[data-source="1"]').waitFor();
    assert.match(await page.locator(".source.on").innerText(), /The Locking Clause/);
  },

  async "a reload in mid-answer loses nothing and doubles nothing"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "slowly");
    await until(async () => (await answerText(page)).includes("n12"), "twelve words");
    assert.match(page.url(), /\/c\//);
    await page.reload();
    await answered(page);
    assert.equal((await answerText(page)).trim(), numbers(1, 60));
  },

  async "the network goes away in mid-answer and comes back"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "slowly");
    await until(async () => (await answerText(page)).includes("n8"), "eight words");
    await page.context().setOffline(true);
    await page.waitForTimeout(400);
    await page.context().setOffline(false);
    await answered(page);
    assert.equal((await answerText(page)).trim(), numbers(1, 60));
  },

  async "two tabs see one turn"({ stage, open }) {
    const first = await fresh(open, stage);
    await ask(first, "slowly");
    await until(async () => (await answerText(first)).includes("n6"), "six words");
    const second = await open();
    await second.goto(first.url());
    await until(async () => (await answerText(second)).includes("n10"), "the other tab follows");
    await Promise.all([answered(first), answered(second)]);
    assert.equal((await answerText(first)).trim(), numbers(1, 60));
    assert.equal((await answerText(second)).trim(), numbers(1, 60));
  },

  async "Stop stops the model, and what came stays"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "slowly");
    await until(async () => (await answerText(page)).includes("n5"), "five words");
    await page.locator(".stop").click();
    await answered(page);
    const text = await answerText(page);
    assert.match(text, /Stopped\./);
    assert.ok(!text.includes("n60"));
    await page.reload();
    await until(async () => (await answerText(page)).includes("n5"), "the partial answer is stored");
  },

  async "edit and resend replaces what followed"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "first question");
    await answered(page);
    await ask(page, "natively");
    await until(async () => (await page.locator(".answer-acts").count()) === 2, "two answers");
    await page.locator(".exchange").first().hover();
    await page.locator(".exchange").first().getByRole("button", { name: "Edit the question" }).click();
    await page.locator(".edit textarea").fill("better question");
    await page.keyboard.press("Enter");
    await until(async () => (await answerText(page)).includes("Better answer"), "the new answer");
    assert.equal(await page.locator(".exchange").count(), 1);
    await page.reload();
    await until(async () => (await answerText(page)).includes("Better answer"), "it is stored so");
    assert.equal(await page.locator(".exchange").count(), 1);
  },

  async "reasoning is folded, refusals and failures say why"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "with reasoning");
    await answered(page);
    const line = page.locator(".reasoning button");
    assert.match(await line.innerText(), /Reasoned for/);
    await line.click();
    assert.match(await page.locator(".reasoning-text").innerText(), /First I think\. Then I know\./);
    await ask(page, "with a refusal");
    await until(async () => (await page.locator(".card.refused").count()) === 1, "a refused card");
    assert.match(await page.locator(".card.refused").innerText(), /no tool of this name/);
    await until(async () => (await page.locator(".answer-acts").count()) === 2, "its end");
    await ask(page, "with a failure");
    await page.locator(".problem").waitFor();
    assert.match(await page.locator(".problem").innerText(), /the model is away/);
    assert.ok(!(await answerText(page)).includes("⚠️"));
  },

  async "a sub-agent's calls stand inside its card, and doubtful sentences are listed"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "by a sub-agent: locked row");
    await answered(page);
    const card = page.locator(".card.agent");
    assert.match(await card.locator(".nested .card.search").innerText(), /vector_search[\s\S]*locked rows/);
    assert.match(await card.innerText(), /\d rounds · \d tools?$/);
    assert.match(await answerText(page), /Meanwhile, a statement that meets a locked row waits/);
    await page.locator(".claim-line").click();
    assert.match(await page.locator(".claim-list").innerText(), /The moon is made of cheese\.\s+No source says this/);
    await accessible(page, "claims and a sub-agent");
    await page.reload();
    await answered(page);
    await until(async () => (await page.locator(".card.agent .nested .card").count()) >= 1, "the same after a reload");
  },

  async "a link leads to one answer of many"({ stage, open }) {
    const page = await fresh(open, stage);
    for (let i = 1; i <= 3; i++) {
      await ask(page, i === 1 ? "in markdown" : "natively");
      await until(async () => (await page.locator(".answer-acts").count()) === i, `answer ${i}`);
    }
    await page.locator(".exchange").nth(1).getByRole("button", { name: "Copy a link to this answer" }).click();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(link, /\/c\/[0-9a-f-]{36}#[0-9a-f-]{36}$/);
    const other = await fresh(open, stage, { viewport: { width: 1280, height: 420 } });
    await other.goto(link);
    await until(async () => (await other.locator(".exchange").count()) === 3, "the conversation");
    await until(() => other.locator(".exchange").nth(1).evaluate((e) => Math.abs(e.getBoundingClientRect().top - document.querySelector(".thread").getBoundingClientRect().top) < 60 || document.querySelector(".thread").scrollHeight - document.querySelector(".thread").scrollTop - document.querySelector(".thread").clientHeight < 4), "the second answer is in view");
  },

  async "Markdown becomes a page, and no image is fetched"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "in markdown");
    await answered(page);
    for (const there of [".md h1", ".md ul li", ".md .codeblock pre", ".md table td.align-right", ".md a.image"]) await page.locator(there).first().waitFor();
    await page.locator(".md .hljs-keyword").first().waitFor();
    await page.locator(".md math").waitFor();
    assert.deepEqual(page.requested.filter((u) => !u.startsWith(stage.url) && !u.startsWith("blob:")), []);
  },

  async "conversations are found, renamed, exported and deleted; drafts are kept"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "first question");
    await answered(page);
    await page.fill("#question", "a draft");
    await page.goto(`${stage.url}/settings`);
    await page.goBack();
    await until(async () => (await page.inputValue("#question")) === "a draft", "the draft");
    const entry = page.locator(".entry.on");
    await entry.hover();
    await entry.getByRole("button").click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await page.keyboard.type("Renamed talk");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator(".topbar .title").innerText()) === "Renamed talk", "the new title");
    await page.locator(".find input").fill("renamed");
    await until(async () => (await page.locator(".entry").count()) === 1, "one is found");
    await page.locator(".topbar").getByRole("button", { name: /conversation/ }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "Export as Markdown" }).click()]);
    assert.equal(download.suggestedFilename(), "renamed-talk.md");
    const written = readFileSync(await download.path(), "utf8");
    assert.match(written, /# Renamed talk[\s\S]*first question[\s\S]*First answer\./);
    await page.locator(".topbar").getByRole("button", { name: /conversation/ }).click();
    const [second] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "Export as JSON" }).click()]);
    assert.equal(JSON.parse(readFileSync(await second.path(), "utf8")).messages.length, 2);
    await page.locator(".topbar").getByRole("button", { name: /conversation/ }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.locator("dialog .bad").click();
    await until(async () => new URL(page.url()).pathname === "/", "an empty conversation");
  },

  async "a killed server is come back to, and says what happened"({ stage, open }) {
    const page = await fresh(open, stage);
    await ask(page, "across a restart");
    await until(async () => (await answerText(page)).includes("n30"), "thirty words");
    await page.waitForTimeout(600); // so that they are stored
    await stage.kill();
    await until(async () => (await page.locator(".connection.lost").count()) === 1, "reconnecting is said");
    await stage.restart();
    await answered(page, 30_000);
    const text = await answerText(page);
    assert.match(text, /Interrupted/);
    assert.equal(text.match(/n17\b/g)?.length, 1);
    assert.ok(text.includes("n30"));
  },
};
