// Every pair of a text colour and its ground, in both themes: at least 4.5 to 1 (WCAG AA).

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const css = readFileSync(join(import.meta.dirname, "../src/styles/tokens.css"), "utf8");

const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [name as string, [light as string, dark as string]]),
);

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (hi + 0.05) / (lo + 0.05);
}

const PAIRS: [string, string[]][] = [
  ["ink", ["bg", "panel", "raised", "accent-soft"]],
  ["ink-2", ["bg", "panel", "raised", "accent-soft", "bad-soft"]],
  ["quiet", ["bg", "panel", "raised"]],
  ["accent-ink", ["bg", "panel", "accent-soft"]],
  ["on-accent", ["accent"]],
  ["on-bar", ["accent", "fetch-bar", "search", "bad", "ink-2"]],
  ["fetch-ink", ["fetch-soft", "panel"]],
  ["search", ["search-soft", "panel"]],
  ["bad", ["bad-soft", "panel", "bg"]],
  ["ok", ["ok-soft", "panel", "bg"]],
];

test.each(PAIRS.flatMap(([text, grounds]) => grounds.map((ground) => [text, ground] as const)))("%s on %s", (text, ground) => {
  for (const theme of [0, 1]) {
    const [a, b] = [tokens.get(text)?.[theme], tokens.get(ground)?.[theme]];
    expect(a).toBeDefined();
    expect(b).toBeDefined();
    expect(contrast(a as string, b as string)).toBeGreaterThanOrEqual(4.5);
  }
});
