// A window for tests of what ends up in the page. jsdom has no layout, and needs none here.

import { JSDOM } from "jsdom";
import { makePurifier } from "../src/markdown/sanitize";

export const dom = new JSDOM("<!doctype html><body></body>", { url: "http://127.0.0.1/" });
const window = dom.window;

for (const name of ["window", "document", "Node", "Element", "HTMLElement", "DocumentFragment"] as const) {
  Object.defineProperty(globalThis, name, { value: (window as unknown as Record<string, unknown>)[name], configurable: true });
}
makePurifier(window as unknown as Window);

export function box(): HTMLElement {
  return window.document.createElement("div") as unknown as HTMLElement;
}
