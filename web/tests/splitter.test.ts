import { describe, expect, test } from "vitest";
import { Splitter, type Block } from "../src/markdown/splitter";

/** The blocks of a text, given in pieces. */
function blocks(...pieces: string[]): Block[] {
  const splitter = new Splitter();
  const done: Block[] = [];
  let text = "";
  for (const piece of pieces) {
    text += piece;
    done.push(...splitter.push(text));
  }
  return [...done, ...splitter.tail(true)];
}

const sources = (text: string): string[] => blocks(text).map((b) => b.source.trim());

describe.each([
  ["paragraphs", "one\ntwo\n\nthree", ["one\ntwo", "three"]],
  ["a heading ends a paragraph", "one\n# two\nthree", ["one", "# two", "three"]],
  ["an underlined heading", "Title\n===\ntext", ["Title\n===", "text"]],
  ["a fence holds blank lines", "```js\na\n\nb\n```\nafter", ["```js\na\n\nb\n```", "after"]],
  ["a longer fence holds shorter ones", "````\n```\n````\nx", ["````\n```\n````", "x"]],
  ["a fence of tildes is not ended by back-ticks", "~~~\n```\n~~~\nx", ["~~~\n```\n~~~", "x"]],
  ["a fence ends a paragraph", "text\n```\ncode\n```", ["text", "```\ncode\n```"]],
  ["items are blocks", "- a\n- b\n\n  more of b\n- c", ["- a", "- b\n\n  more of b", "- c"]],
  ["a nested list stays in its item", "- a\n  - b\n  - c\n- d", ["- a\n  - b\n  - c", "- d"]],
  ["code in an item", "- a\n\n  ```\n  x\n\n  y\n  ```\n- b", ["- a\n\n  ```\n  x\n\n  y\n  ```", "- b"]],
  ["text after a list", "- a\n\nafter", ["- a", "after"]],
  ["a lazy line", "- a\nb\n\nc", ["- a\nb", "c"]],
  ["a rule", "a\n\n---\n\nb", ["a", "---", "b"]],
  ["a table", "| a | b |\n|---|---|\n| 1 | 2 |\n\nx", ["| a | b |\n|---|---|\n| 1 | 2 |", "x"]],
  ["a quote", "> a\n> b\n\nc", ["> a\n> b", "c"]],
  ["math", "$$\na\n\nb\n$$\nx", ["$$\na\n\nb\n$$", "x"]],
  ["math on a line", "$$a$$\nx", ["$$a$$", "x"]],
  ["Windows line ends", "a\r\n\r\nb\r\n", ["a", "b"]],
  ["a year is no list", "text\n2024. was\n\nx", ["text\n2024. was", "x"]],
])("%s", (_name, text, want) => {
  test("is cut where it should be", () => expect(sources(text)).toEqual(want));

  test("is cut there however it arrives", () => {
    const whole = blocks(text);
    for (let at = 0; at <= text.length; at++) expect(blocks(text.slice(0, at), text.slice(at))).toEqual(whole);
    expect(blocks(...text)).toEqual(whole);
  });

  test("loses nothing", () => {
    const kept = blocks(text).map((b) => b.source).join("").replace(/\s/g, "");
    expect(kept).toBe(text.replace(/\s/g, ""));
  });
});

test("ordered items are numbered through", () => {
  expect(blocks("3. a\n3. b\n3. c\n").map((b) => [b.number, b.joins])).toEqual([[3, false], [4, true], [5, true]]);
});

test("another bullet begins another list", () => {
  expect(blocks("- a\n* b\n").map((b) => b.joins)).toEqual([false, false]);
});

test("a finished block is given once, and each line looked at once", () => {
  const splitter = new Splitter();
  const given: string[] = [];
  let text = "";
  for (let i = 0; i < 2000; i++) {
    text += `Paragraph ${i} with some words.\n\n`;
    given.push(...splitter.push(text).map((b) => b.source));
  }
  expect(given).toHaveLength(2000);
  expect(new Set(given).size).toBe(2000);
});
