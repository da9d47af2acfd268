// A collection's map without its canvas: where points are on the screen, and which is under the pointer. Pure.

import type { MapAnswer } from "../api/types";

/** The part of the plane that is looked at: its middle, and pixels for one unit of the plane. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

const MARGIN = 28;
export const CLOSEST = 40;

/** All of the map, with room around it. */
export function whole(size: Size): View {
  return { x: 0, y: 0, scale: Math.max(20, Math.min(size.width, size.height) / 2 - MARGIN) };
}

export function toScreen(view: View, size: Size, x: number, y: number): [number, number] {
  return [size.width / 2 + (x - view.x) * view.scale, size.height / 2 - (y - view.y) * view.scale];
}

export function toPlane(view: View, size: Size, px: number, py: number): [number, number] {
  return [view.x + (px - size.width / 2) / view.scale, view.y - (py - size.height / 2) / view.scale];
}

/** Nearer or farther, with what is under the pointer staying there. */
export function zoomed(view: View, size: Size, px: number, py: number, factor: number): View {
  const least = whole(size).scale / 2;
  const scale = Math.min(Math.max(view.scale * factor, least), whole(size).scale * CLOSEST);
  const [x, y] = toPlane(view, size, px, py);
  return { x: x - (px - size.width / 2) / scale, y: y + (py - size.height / 2) / scale, scale };
}

export function moved(view: View, dx: number, dy: number): View {
  return { ...view, x: view.x - dx / view.scale, y: view.y + dy / view.scale };
}

/** One group, filling most of the screen. */
export function onto(map: MapAnswer, cluster: number, size: Size): View {
  const points = map.points.filter((p) => p.cluster === cluster);
  if (points.length === 0) return whole(size);
  const xs = points.map((p) => p.x).sort((a, b) => a - b);
  const ys = points.map((p) => p.y).sort((a, b) => a - b);
  // Strays do not count: the middle nine tenths do.
  const at = (list: number[], part: number): number => list[Math.min(list.length - 1, Math.floor(list.length * part))] as number;
  const [left, right, low, high] = [at(xs, 0.05), at(xs, 0.95), at(ys, 0.05), at(ys, 0.95)];
  const span = Math.max(right - left, high - low, 0.05);
  const scale = Math.min((Math.min(size.width, size.height) - 2 * MARGIN) / span, whole(size).scale * CLOSEST);
  return { x: (left + right) / 2, y: (low + high) / 2, scale };
}

/** Points by squares of the plane, so that the pointer asks few of them. */
export class Grid {
  private readonly squares = new Map<number, number[]>();

  constructor(private readonly map: MapAnswer) {
    map.points.forEach((p, i) => {
      const key = square(p.x, p.y);
      const list = this.squares.get(key);
      if (list === undefined) this.squares.set(key, [i]);
      else list.push(i);
    });
  }

  /** The nearest point within `reach` of a place, all in the plane's units. */
  nearest(x: number, y: number, reach: number): number | undefined {
    let best: number | undefined;
    let least = reach * reach;
    for (let row = line(y - reach); row <= line(y + reach); row++) {
      for (let column = line(x - reach); column <= line(x + reach); column++) {
        for (const i of this.squares.get(row * SIDE + column) ?? []) {
          const p = this.map.points[i] as MapAnswer["points"][number];
          const distance = (p.x - x) ** 2 + (p.y - y) ** 2;
          if (distance <= least) [best, least] = [i, distance];
        }
      }
    }
    return best;
  }
}

const SIDE = 128;

/** -1 to 1 in squares, with some room outside. */
function line(x: number): number {
  return Math.min(Math.max(Math.floor(((x + 1.05) / 2.1) * SIDE), 0), SIDE - 1);
}

function square(x: number, y: number): number {
  return line(y) * SIDE + line(x);
}
