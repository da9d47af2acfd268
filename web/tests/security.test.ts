import "./dom";
import { expect, test } from "vitest";
import { Renderer } from "../src/markdown/renderer";
import { mathml } from "../src/markdown/math";
import { sanitize, sanitizeAll, sanitizeMath } from "../src/markdown/sanitize";
import { box } from "./dom";
import { LEAKS, SCRIPTS } from "./payloads.mjs";

const ELEMENTS = new Set(
  "A BLOCKQUOTE BR BUTTON CODE DEL DIV EM H1 H2 H3 H4 H5 H6 HR LI OL P PRE S SPAN STRONG SUB SUP TABLE TBODY TD TH THEAD TR UL".split(" "),
);
const ATTRIBUTES = new Set("class data-lang data-n href rel referrerpolicy start tabindex target type".split(" "));

/** What must hold of anything that is put in the page. */
function isHarmless(root: ParentNode): string {
  for (const element of root.querySelectorAll("*")) {
    if (!ELEMENTS.has(element.nodeName)) return `element ${element.nodeName}`;
    for (const { name, value } of element.attributes) {
      if (!ATTRIBUTES.has(name)) return `attribute ${name}`;
      if (name !== "href") continue;
      const url = new URL(value, "http://127.0.0.1/");
      if (url.protocol !== "http:" && url.protocol !== "https:") return `address ${value}`;
      if (element.nodeName !== "A" || element.getAttribute("rel") !== "noopener noreferrer nofollow") return "a link without rel";
    }
  }
  return "";
}

const all = [...SCRIPTS, ...LEAKS];

test("there are enough of them, and no two the same", () => {
  expect(SCRIPTS.length).toBeGreaterThanOrEqual(200);
  expect(LEAKS.length).toBeGreaterThanOrEqual(60);
  expect(new Set(all).size).toBe(all.length);
});

/** Every prefix is what a reader sees while the answer streams; every split leads to the same end. */
test.each(all.map((payload) => [payload]))("%s", (payload) => {
  const whole = box();
  new Renderer(whole).update(payload, true);
  expect(isHarmless(whole)).toBe("");
  for (let at = 0; at <= payload.length; at++) {
    const root = box();
    const renderer = new Renderer(root);
    renderer.update(payload.slice(0, at), false);
    expect(isHarmless(root)).toBe("");
    renderer.update(payload, true);
    expect(root.innerHTML).toBe(whole.innerHTML);
  }
});

test("the last gate holds alone, whatever the parser gave it", () => {
  for (const payload of all) {
    const root = box();
    root.append(sanitize(payload));
    expect(isHarmless(root)).toBe("");
  }
});

test("several at once are as harmless as each alone, also where one breaks out of its box", () => {
  for (const payload of [...all, "</div></div><script>__hit()</script>", "<div><table><tr><td>"]) {
    const alone = sanitizeAll([payload])[0] as DocumentFragment;
    const root = box();
    root.append(...sanitizeAll(["<p>before</p>", payload, "<p>after</p>"]));
    expect(isHarmless(root)).toBe("");
    const one = box();
    one.append(alone);
    expect(isHarmless(one)).toBe("");
    expect(root.firstElementChild?.outerHTML).toBe("<p>before</p>");
  }
});

test("formulas hold only what draws formulas", () => {
  for (const payload of all) {
    const root = box();
    root.append(sanitizeMath(payload));
    const tex = mathml(payload, true);
    if (tex !== undefined) root.append(tex);
    for (const element of root.querySelectorAll("*")) {
      expect(element.localName).toMatch(/^m/);
      for (const { name } of element.attributes) expect(name).not.toMatch(/^on|href|src|style|id$/);
    }
  }
});
