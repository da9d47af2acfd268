import "./dom";
import { expect, test } from "vitest";
import { Renderer } from "../src/markdown/renderer";
import { box } from "./dom";

function rendered(text: string, pieces = [text]): string {
  const root = box();
  const renderer = new Renderer(root);
  let now = "";
  for (const piece of pieces) {
    now += piece;
    renderer.update(now, false);
  }
  renderer.update(text, true);
  return root.innerHTML;
}

test.each([
  ["emphasis", "**a** _b_ ~~c~~", "<p><strong>a</strong> <em>b</em> <s>c</s></p>"],
  ["a citation", "see [1][2].", '<button type="button" class="cite" data-n="1">1</button><button type="button" class="cite" data-n="2">2</button>'],
  ["no citation in code", "`a[1]`", "<code>a[1]</code>"],
  ["a citation is not hijacked by a definition", "see [1]\n\n[1]: https://evil.example/", 'class="cite" data-n="1"'],
  ["a link says its host", "[text](https://example.org/a)", '>text</a><span class="host">example.org</span>'],
  ["a bare link is itself", "https://example.org/a", ">https://example.org/a</a></p>"],
  ["an image is a link", "![pixel](https://example.org/p.png)", '<a class="image" href="https://example.org/p.png"'],
  ["tags are text", "<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"],
  ["a block that was not run is code", 'a <tool name="x">y</tool> b', '<code class="unrun">&lt;tool name="x"&gt;y&lt;/tool&gt;</code>'],
  ["an unfinished block is code", 'a <tool name="x">y', '<code class="unrun">&lt;tool name="x"&gt;y</code>'],
  ["a table with alignment", "|a|b|\n|--|--:|\n|1|2|", '<td class="align-right">2</td>'],
  ["money is not math", "costs $5 and $6", "costs $5 and $6"],
  ["math waits for its drawing", "so $a_b$ is", '<code class="math">a_b</code>'],
  ["items join one list", "1. a\n2. b\n3. c", "<ol><li>a</li><li>b</li><li>c</li></ol>"],
  ["a list goes on with its number", "text\n\n5. a\n6. b", '<ol start="5"><li>a</li><li>b</li></ol>'],
])("%s", (_name, text, want) => {
  const plain = (html: string): string => html.replace(/>\n+</g, "><");
  expect(plain(rendered(text))).toContain(want);
  for (let at = 0; at <= text.length; at++) expect(plain(rendered(text, [text.slice(0, at), text.slice(at)]))).toContain(want);
});

test("finished blocks keep their nodes", () => {
  const root = box();
  const renderer = new Renderer(root);
  renderer.update("first\n\nsec", false);
  const first = root.querySelector("p");
  renderer.update("first\n\nsecond and more\n\nthird", false);
  renderer.update("first\n\nsecond and more\n\nthird", true);
  expect(root.querySelector("p")).toBe(first);
  expect(root.querySelectorAll("p")).toHaveLength(3);
});

test("what is finished at once is what would have been finished one by one, in closed stretches", () => {
  const part = (n: number): string => `## Part ${n}\n\ntext **${n}**\n\n- a\n- b\n\n\`\`\`\ncode\n\`\`\`\n\n`;
  const text = Array.from({ length: 20 }, (_, n) => part(n)).join("");
  const atOnce = rendered(text);
  const pieces = text.match(/[\s\S]{1,41}/g) ?? [];
  expect(rendered(text, pieces)).toBe(atOnce);
  const root = box();
  root.innerHTML = atOnce;
  expect(root.querySelectorAll(".stretch.closed").length).toBeGreaterThan(0);
  expect(root.querySelectorAll(".stretch > h2")).toHaveLength(20);
});

test("an open code block only grows, and ends as it would have been written at once", () => {
  const lines = Array.from({ length: 300 }, (_, i) => `line ${i}`).join("\n");
  const text = `\`\`\`txt\n${lines}\n\`\`\`\n`;
  const root = box();
  const renderer = new Renderer(root);
  let pre: Element | null = null;
  for (let at = 10; at < text.length - 5; at += 97) {
    renderer.update(text.slice(0, at), false);
    pre ??= root.querySelector("pre");
    expect(root.querySelector("pre")).toBe(pre);
    expect(root.querySelector("pre")?.textContent).toBe(text.slice(7, Math.max(7, at)));
  }
  renderer.update(text, true);
  expect(root.querySelector("pre code")?.textContent).toBe(`${lines}\n`);
});

test("what is put off is shown without another word", () => {
  const root = box();
  const renderer = new Renderer(root);
  // Many finished blocks fill their frame, so the open one waits.
  const text = `${"A **paragraph** with `code` and [1].\n\n".repeat(400)}the end`;
  let again = renderer.update(text, false);
  for (let frames = 0; again; frames++) {
    expect(frames).toBeLessThan(1000);
    again = renderer.update(text, false);
  }
  expect(root.textContent?.trim().endsWith("the end")).toBe(true);
  expect(renderer.update(text, false)).toBe(false);
});

test("text that is taken back is taken back", () => {
  const root = box();
  const renderer = new Renderer(root);
  renderer.update("one\n\ntwo", false);
  renderer.update("one", false);
  expect(root.textContent?.trim()).toBe("one");
});
