// A document's text cut where its chunks begin, with the passage that was asked for lit. Chunks overlap: each
// begins where it begins, and what it shares with the one before is shown there.

import { byteLength, sliceBytes } from "../bytes";
import type { Chunk } from "../api/types";

export interface Piece {
  /** Which chunk begins here, from 0. */
  readonly chunk?: number;
  readonly page?: number;
  readonly start: number;
  readonly end: number;
  readonly parts: readonly { text: string; lit: boolean }[];
}

export function pieces(content: string | undefined, chunks: readonly Chunk[] | undefined, from?: number, to?: number): Piece[] {
  const list = [...(chunks ?? [])].sort((a, b) => a.start - b.start);
  if (content === undefined) {
    return list.map((c, i) => ({
      chunk: c.ordinal ?? i, start: c.start, end: c.end, parts: lit(c.text, c.start, from, to), ...(c.page === undefined ? {} : { page: c.page }),
    }));
  }
  const length = byteLength(content);
  const made: Piece[] = [];
  const slice = slicer(content);
  const first = list[0]?.start ?? length;
  if (first > 0) made.push({ start: 0, end: first, parts: lit(slice(0, first), 0, from, to) });
  list.forEach((c, i) => {
    const end = Math.min(length, Math.max(c.start, list[i + 1]?.start ?? length));
    if (end <= c.start) return;
    made.push({
      chunk: c.ordinal ?? i, start: c.start, end: c.end, parts: lit(slice(c.start, end), c.start, from, to),
      ...(c.page === undefined ? {} : { page: c.page }),
    });
  });
  return made.filter((piece) => piece.parts.some((p) => p.text.trim() !== ""));
}

/** Slices in rising order without counting from the start each time. */
function slicer(content: string): (from: number, to: number) => string {
  let bytes = 0;
  let rest = content;
  return (from, to) => {
    if (from < bytes) {
      bytes = 0;
      rest = content;
    }
    const skipped = sliceBytes(rest, 0, from - bytes);
    rest = rest.slice(skipped.length);
    bytes = from;
    return sliceBytes(rest, 0, to - from);
  };
}

function lit(text: string, start: number, from: number | undefined, to: number | undefined): Piece["parts"] {
  const length = byteLength(text);
  const a = Math.max(0, (from ?? Infinity) - start);
  const b = Math.min(length, (to ?? from ?? -Infinity) - start);
  if (!(a < b)) return [{ text, lit: false }];
  return [
    { text: sliceBytes(text, 0, a), lit: false }, { text: sliceBytes(text, a, b), lit: true }, { text: sliceBytes(text, b, length), lit: false },
  ].filter((p) => p.text !== "");
}
