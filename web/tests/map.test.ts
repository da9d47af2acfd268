// The map's arithmetic: places go to the screen and back, the pointer finds the nearest point, views hold what they say.

import { describe, expect, test } from "vitest";
import type { MapAnswer, StatusAnswer } from "../src/api/types";
import { CLOSEST, Grid, moved, onto, toPlane, toScreen, whole, zoomed } from "../src/knowledge/map";
import { press, stamp, type Sheet } from "../src/knowledge/paint";
import { sampleOf } from "../src/pages/metrics";
import { pathOf, read } from "../src/route";

const size = { width: 800, height: 600 };

/** Points that are spread by a fixed rule over the whole plane. */
function spread(count: number): MapAnswer {
  const at = (n: number): number => ((n * 0.6180339887) % 1) * 2 - 1;
  const points = Array.from({ length: count }, (_, n) => ({ chunk_id: `${n}`, document: 0, x: at(n), y: at(n * 7 + 3), cluster: n % 3 }));
  return { total: count, documents: [{ id: "d", title: "D", uri: "d" }], points, clusters: [] };
}

describe("places", () => {
  test.each([whole(size), zoomed(whole(size), size, 100, 200, 3), moved(whole(size), 40, -7)])("go there and back %#", (view) => {
    for (const [x, y] of [[0, 0], [-1, 1], [0.3, -0.7]] as const) {
      const [px, py] = toScreen(view, size, x, y);
      const [bx, by] = toPlane(view, size, px, py);
      expect(bx).toBeCloseTo(x);
      expect(by).toBeCloseTo(y);
    }
  });

  test("all of it is on the screen at first", () => {
    for (const [x, y] of [[-1, -1], [1, 1]] as const) {
      const [px, py] = toScreen(whole(size), size, x, y);
      expect(px).toBeGreaterThan(0);
      expect(px).toBeLessThan(size.width);
      expect(py).toBeGreaterThan(0);
      expect(py).toBeLessThan(size.height);
    }
  });

  test("what is under the pointer stays there", () => {
    const view = whole(size);
    const before = toPlane(view, size, 123, 456);
    const after = toPlane(zoomed(view, size, 123, 456, 2.5), size, 123, 456);
    expect(after[0]).toBeCloseTo(before[0]);
    expect(after[1]).toBeCloseTo(before[1]);
    let near = view;
    for (let n = 0; n < 50; n++) near = zoomed(near, size, 10, 10, 2);
    expect(near.scale).toBeCloseTo(view.scale * CLOSEST);
  });
});

test("the grid finds the same point as looking at all of them", () => {
  const map = spread(3000);
  const grid = new Grid(map);
  for (let n = 0; n < 200; n++) {
    const [x, y] = [((n * 0.37) % 1) * 2.2 - 1.1, ((n * 0.73) % 1) * 2.2 - 1.1];
    const distances = map.points.map((p) => (p.x - x) ** 2 + (p.y - y) ** 2);
    const least = Math.min(...distances);
    const found = grid.nearest(x, y, 0.05);
    if (least <= 0.05 ** 2) expect(distances[found as number]).toBe(least);
    else expect(found).toBeUndefined();
  }
});

test("a group fills the screen", () => {
  const map = spread(300);
  const near = map.points.map((p) => ({ ...p, x: p.cluster === 1 ? 0.5 + p.x / 20 : p.x, y: p.cluster === 1 ? 0.5 + p.y / 20 : p.y }));
  const view = onto({ ...map, points: near }, 1, size);
  expect(view.x).toBeCloseTo(0.5, 1);
  expect(view.y).toBeCloseTo(0.5, 1);
  expect(view.scale).toBeGreaterThan(whole(size).scale * 5);
  expect(onto(map, 9, size)).toEqual(whole(size));
});

test("the map has an address of its own", () => {
  for (const path of ["/knowledge/default?view=map", "/knowledge/default/doc?view=map", "/knowledge/default/doc?from=1&to=2", "/knowledge/default"]) {
    const [name, search] = path.split("?");
    expect(pathOf(read(name as string, search === undefined ? "" : `?${search}`))).toBe(path);
  }
});

test("the status route gives the numbers that charts are made of", () => {
  const status: StatusAnswer = {
    version: "0", uptime_ms: 1,
    turns: {
      running: 2, ended: { complete: 3, timeout: 1 }, seconds: { count: 4, sum: 8 }, first_delta_seconds: { count: 4, sum: 1 },
      tool_calls: 5, tool_calls_rejected: 1, tool_seconds_hidden: 0.5,
    },
    tokens: { input: 10, output: 20 }, tools: { a: { calls: 2, seconds: 3 }, b: { calls: 1, seconds: 1 } },
    queues: { documents: { queued: 4, embedding: 1 }, reindexing: 0, tasks: 1 }, memory: {}, embedding_models: [], storage: { vector_store: "qdrant", database_bytes: 9 },
  };
  const sample = sampleOf(status);
  expect([...["turns_running", "tailrace_turns_total", "tailrace_turns_total:complete", "tailrace_tool_seconds_count", "tailrace_tool_seconds_sum", "queue"]].map((name) => sample.get(name)))
    .toEqual([2, 4, 3, 3, 4, 5]);
  expect(sample.has("process_resident_memory_bytes")).toBe(false);
});

describe("dots", () => {
  const sheet = (): Sheet => ({ words: new Uint32Array(20 * 10), width: 20, height: 10 });
  const pixel = ({ words }: Sheet, x: number, y: number): number[] => [...new Uint8Array(words.buffer).slice((y * 20 + x) * 4, (y * 20 + x) * 4 + 4)];

  test.each([1.3, 2.6, 5])("a stamp covers about its circle: %d", (radius) => {
    const area = stamp(radius).pixels.filter((_, i) => i % 3 === 2).reduce((sum, c) => sum + c, 0) / 255;
    expect(Math.abs(area / (Math.PI * radius ** 2) - 1)).toBeLessThan(0.12);
  });
  test("stand where they are pressed, over each other, and stay inside", () => {
    const data = sheet();
    press(data, 6, 4, stamp(2), [200, 100, 50], 256);
    expect(pixel(data, 6, 4)).toEqual([200, 100, 50, 255]);
    expect(pixel(data, 12, 4)).toEqual([0, 0, 0, 0]);
    press(data, 6, 4, stamp(2), [0, 0, 0], 128);
    const half = pixel(data, 6, 4);
    expect(half.map((v, i) => Math.abs(v - ([100, 50, 25, 255][i] as number)) <= 2)).toEqual([true, true, true, true]);
    const edges = sheet();
    for (const [x, y] of [[-1, 4], [20, 4], [6, -1], [6, 10], [19, 9]] as const) press(edges, x, y, stamp(3), [255, 0, 0], 256);
    // What hangs over one side does not come back in at the other.
    expect(pixel(edges, 10, 4)[3]).toBe(0);
    expect(pixel(edges, 17, 2)[3]).toBe(0);
  });
});
