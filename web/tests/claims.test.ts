import { dom } from "./dom";
import { expect, test } from "vitest";
import { claimRanges } from "../src/chat/claims";
import { byteLength } from "../src/bytes";
import { foldAll } from "../src/fold";
import type { Frame } from "../src/frame";
import { Renderer } from "../src/markdown/renderer";
import { box } from "./dom";

test("a claim is found on the page, whatever Markdown stands in it", () => {
  Object.assign(globalThis, { NodeFilter: (dom.window as unknown as { NodeFilter: unknown }).NodeFilter });
  const text = "Grüße. **Any** number of `workers` can [1] take jobs.\n\nNone of [this](https://e.example/) is known.\n";
  const claim = (sentence: string, verdict: string): object => {
    const start = byteLength(text.slice(0, text.indexOf(sentence)));
    return { start, end: start + byteLength(sentence), verdict, sources: [] };
  };
  const turn = foldAll([
    { name: "text", seq: 1, data: text },
    { name: "claim", seq: 2, data: claim("Grüße.", "supported") },
    { name: "claim", seq: 3, data: claim("**Any** number of `workers` can [1] take jobs.", "weak") },
    { name: "claim", seq: 4, data: claim("None of [this](https://e.example/) is known.", "unsupported") },
  ] as Frame[]);
  const root = box();
  new Renderer(root).update(text, true);
  const found = claimRanges(turn, root);
  expect(found.map((f) => f.verdict)).toEqual(["weak", "unsupported"]);
  expect(found[0]?.range.toString().replace(/\s+/g, " ")).toMatch(/^Any number of workers can .* ?take jobs$/);
  expect(found[1]?.range.toString()).toMatch(/^None of this.* is known$/);
});
