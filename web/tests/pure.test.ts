// The small pure parts: the timeline's drawing, passages, document pieces, metrics, routes, words.

import { describe, expect, test } from "vitest";
import { bestSentence } from "../src/chat/passage";
import { covered, drawing, isDrawable, ticks } from "../src/chat/timeline";
import { EMPTY, foldAll } from "../src/fold";
import { pieces } from "../src/knowledge/pieces";
import { gauge, mean, rate, type Sample } from "../src/pages/metrics";
import { marked } from "../src/playground/marked";
import { pathOf, read, type Route } from "../src/route";
import { de } from "../src/words/de";
import { en } from "../src/words/en";
import { framesIn } from "./frames";

describe("the timeline", () => {
  const turn = foldAll(framesIn("two_rounds"));
  const picture = drawing(turn, 0);

  test("is exact", () => {
    expect(isDrawable(turn)).toBe(true);
    expect(isDrawable(EMPTY)).toBe(false);
    expect(picture.rows.map((r) => [r.name, r.kind])).toEqual([["fetch_url", "fetch"], ["vector_search", "search"]]);
    for (const row of picture.rows) {
      const result = turn.calls.get(row.id)?.result;
      expect(row.run.to - row.run.from).toBe(Math.max(1, result?.duration_ms ?? 0));
    }
    expect(picture.speech.map((s) => [s.bar.from, s.bar.to])).toEqual(turn.rounds.flatMap((r) => r.spoke.map(([a, b]) => [a, Math.max(b, a + 1)])));
    expect(picture.total).toBe(turn.end?.telemetry?.total_ms);
    expect(picture.rounds).toEqual([{ round: 1, at: turn.rounds[1]?.beganAt }]);
  });

  test("shades only where a tool was busy and the model spoke", () => {
    for (const row of picture.rows) {
      for (const bar of row.hidden) {
        expect(bar.from).toBeGreaterThanOrEqual(row.run.from);
        expect(bar.to).toBeLessThanOrEqual((row.ingest ?? row.run).to);
        expect(picture.speech.some((s) => s.bar.from <= bar.from && s.bar.to >= bar.to)).toBe(true);
      }
    }
    expect(picture.hiddenMs).toBe(turn.end?.telemetry?.overlap_ms);
  });

  test("is walked through in the order of time", () => {
    const starts = picture.marks.map((m) => m.at.from);
    expect(starts).toEqual([...starts].sort((a, b) => a - b));
    expect(picture.marks).toHaveLength(1 + picture.waits.length + picture.speech.length + picture.rows.length + picture.rows.filter((r) => r.ingest).length + 1);
  });

  test("grows while the turn runs", () => {
    const frames = framesIn("two_rounds");
    const begun = foldAll(frames.slice(0, frames.findIndex((f) => f.name === "tool_start") + 1));
    const early = drawing(begun, 500);
    const later = drawing(begun, 900);
    expect(early.rows[0]?.running).toBe(true);
    expect(later.total).toBe(Math.max(900, begun.at));
    expect((later.rows[0]?.run.to ?? 0) > (early.rows[0]?.run.to ?? 0)).toBe(true);
  });

  test("counts a stretch once", () => {
    expect(covered([{ from: 0, to: 10 }, { from: 5, to: 20 }, { from: 30, to: 31 }])).toBe(21);
  });

  test.each([900, 5100, 61_000, 7])("has round ticks for %i ms", (total) => {
    const found = ticks(total);
    expect(found.length).toBeGreaterThanOrEqual(3);
    expect(found.length).toBeLessThanOrEqual(9);
  });
});

test("the sentence that has most to do with the question", () => {
  const { before, best, after } = bestSentence("Mills are old. The wheel turns when water falls. Trout go back.", "why does the wheel turn");
  expect(best).toBe("The wheel turns when water falls.");
  expect(before + best + after).toBe("Mills are old. The wheel turns when water falls. Trout go back.");
  expect(bestSentence("Nothing.", "else").best).toBe("");
});

test("the words of a query are lit in their forms", () => {
  expect(marked("Locked rows and the rest", "the locking row").filter((p) => p.lit).map((p) => p.text)).toEqual(["Locked", "rows"]);
});

describe("a document's pieces", () => {
  const content = "Äpfel sind rund. Birnen nicht. Quitten auch nicht.";
  const chunks = [
    { text: "Äpfel sind rund. Birnen nicht.", start: 0, end: 31 },
    { text: "Birnen nicht. Quitten auch nicht.", start: 18, end: 51, page: 2 },
  ];
  test("begin where chunks begin, and are the whole text", () => {
    const cut = pieces(content, chunks);
    expect(cut.map((p) => p.chunk)).toEqual([0, 1]);
    expect(cut.map((p) => p.parts.map((x) => x.text).join("")).join("")).toBe(content);
  });
  test("light exactly the span", () => {
    const lit = pieces(content, chunks, 18, 31).flatMap((p) => p.parts.filter((x) => x.lit).map((x) => x.text)).join("");
    expect(lit).toBe("Birnen nicht.");
  });
  test("are the chunks where the text is not to be had", () => {
    expect(pieces(undefined, chunks, 18, 31).map((p) => p.parts.filter((x) => x.lit).map((x) => x.text).join(""))).toEqual(["Birnen nicht.", "Birnen nicht."]);
  });
});

test("metrics become rates and means", () => {
  const sample = (n: number): Sample => new Map([["tokens", n * 10], ["t_seconds_sum", n], ["t_seconds_count", n], ["mem", 7]]);
  const readings = [1, 3, 3].map((n, i) => ({ at: i * 2000, sample: sample(n) }));
  expect(rate(readings, "tokens").map((p) => p.value)).toEqual([10, 0]);
  expect(mean(readings, "t_seconds").map((p) => p.value)).toEqual([1]);
  expect(gauge(readings, "mem").map((p) => p.value)).toEqual([7, 7, 7]);
});

test.each<Route>([
  { page: "chat" }, { page: "chat", conversation: "0190" }, { page: "knowledge" }, { page: "knowledge", collection: "hand-book" },
  { page: "knowledge", collection: "a", document: "folder/ä ?#%.md", from: 3, to: 9 }, { page: "knowledge", collection: "a", view: "map" }, { page: "knowledge", collection: "a", document: "b", view: "jobs" }, { page: "search" }, { page: "search", query: "who & what?", collection: "laws" }, { page: "status" }, { page: "settings" },
])("an address leads back to its place: %o", (route) => {
  const url = new URL(pathOf(route), "http://x");
  expect(read(url.pathname, url.search)).toEqual(route);
});

test("both languages have the same places for values", () => {
  const places = (text: string): string[] => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();
  for (const key of Object.keys(en) as (keyof typeof en)[]) {
    expect([key, places(de[key])]).toEqual([key, places(en[key])]);
    expect([key, de[key].split("|").length]).toEqual([key, en[key].split("|").length]);
    expect(de[key]).not.toMatch(/!$/);
  }
});
