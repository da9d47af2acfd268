// The map on its canvas. What moves with the view is drawn in one pass over the points of each group; what the pointer
// is over has a canvas of its own, so that moving it draws few points and not twenty thousand.

import type { MapAnswer } from "../api/types";
import { toScreen, whole, type Size, type View } from "./map";

export const COLOURS = 12;
/** Room around a name that no other may enter. */
const NAME = { height: 17, room: 7 } as const;

/** The points of each group together, ready to be drawn. */
export type Groups = readonly { readonly xs: Float64Array; readonly ys: Float64Array; readonly points: readonly number[] }[];

export function groupsOf(map: MapAnswer): Groups {
  const points: number[][] = map.clusters.map(() => []);
  map.points.forEach((p, i) => points[p.cluster]?.push(i));
  return points.map((list) => ({
    points: list, xs: Float64Array.from(list, (i) => map.points[i]?.x ?? 0), ys: Float64Array.from(list, (i) => map.points[i]?.y ?? 0),
  }));
}

export interface Scene {
  readonly map: MapAnswer;
  readonly groups: Groups;
  readonly view: View;
  readonly size: Size;
  readonly lit: ReadonlySet<string> | undefined;
  readonly cluster: number | undefined;
}

/** Ready to draw in the page's own pixels, and empty. */
function begin(element: HTMLCanvasElement, size: Size): CanvasRenderingContext2D | undefined {
  const context = element.getContext("2d");
  if (context === null || size.width === 0) return undefined;
  const ratio = window.devicePixelRatio;
  const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
  if (element.width !== width || element.height !== height) [element.width, element.height] = [width, height];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  return context;
}

function radiusOf({ map, view, size }: Scene): number {
  return Math.min(5, Math.max(1.3, 60 / Math.sqrt(map.points.length))) * Math.min(2, Math.sqrt(view.scale / whole(size).scale));
}

export function paint(element: HTMLCanvasElement, scene: Scene): void {
  const { groups, size, lit, cluster } = scene;
  const context = begin(element, size);
  if (context === undefined) return;
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const radius = radiusOf(scene);
  dots(context, scene, radius, lit !== undefined || cluster !== undefined, groups.map((_, i) => parts(context, colour(`--map-${i % COLOURS}`))));
  if (lit !== undefined) rings(context, scene, radius, lit, colour);
  context.globalAlpha = 1;
  names(context, scene, style.fontFamily, colour);
}

/** Red, green, blue, 0 to 255. */
export type Colour = readonly [number, number, number];

export interface Stamp {
  /** From the middle to the farthest pixel. */
  readonly reach: number;
  /** Where each pixel stands from the middle, and how much of it is covered, 0 to 255: three numbers each. */
  readonly pixels: Int16Array;
}

export function stamp(radius: number): Stamp {
  const reach = Math.ceil(radius + 0.5);
  const pixels: number[] = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const cover = Math.round(255 * Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(dx, dy))));
      if (cover > 0) pixels.push(dx, dy, cover);
    }
  }
  return { reach, pixels: Int16Array.from(pixels) };
}

/** An image as words, one a pixel: alpha, blue, green, red from the top, as every machine that runs a browser has them. */
export interface Sheet {
  readonly words: Uint32Array;
  readonly width: number;
  readonly height: number;
}

/** Puts a dot into an image, over what is there. `alpha` 0 to 256. */
export function press({ words, width, height }: Sheet, x: number, y: number, { reach, pixels }: Stamp, [r, g, b]: Colour, alpha: number): void {
  const inside = x >= reach && y >= reach && x + reach < width && y + reach < height;
  const middle = y * width + x;
  for (let i = 0; i < pixels.length; i += 3) {
    const dx = pixels[i] as number;
    const dy = pixels[i + 1] as number;
    if (!inside && (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= height)) continue;
    const at = middle + dy * width + dx;
    const over = ((pixels[i + 2] as number) * alpha) >> 8;
    const before = words[at] as number;
    if (before === 0) {
      words[at] = (over << 24) | (b << 16) | (g << 8) | r;
      continue;
    }
    const under = (((before >>> 24) * (255 - over)) / 255) | 0;
    const both = over + under;
    if (both === 0) continue;
    const mix = (top: number, shift: number): number => ((top * over + ((before >>> shift) & 255) * under) / both) | 0;
    words[at] = (both << 24) | (mix(b, 16) << 16) | (mix(g, 8) << 8) | mix(r, 0);
  }
}

const images = new WeakMap<HTMLCanvasElement, ImageData>();

/** Twenty thousand dots as shapes take a browser without a graphics card a tenth of a second; as pixels a few milliseconds. */
function dots(context: CanvasRenderingContext2D, { groups, view, size, cluster }: Scene, radius: number, dim: boolean, colours: readonly Colour[]): void {
  const { canvas } = context;
  const { width, height } = canvas;
  const ratio = width / size.width;
  let image = images.get(canvas);
  if (image === undefined || image.width !== width || image.height !== height) images.set(canvas, (image = context.createImageData(width, height)));
  const sheet: Sheet = { words: new Uint32Array(image.data.buffer), width, height };
  sheet.words.fill(0);
  const dot = stamp(radius * ratio);
  const [left, top] = toScreen(view, size, 0, 0);
  const scale = view.scale * ratio;
  groups.forEach(({ xs, ys }, i) => {
    const alpha = dim && i !== cluster ? 52 : 205;
    const colour = colours[i] ?? [0, 0, 0];
    for (let n = 0; n < xs.length; n++) {
      const x = Math.round(left * ratio + (xs[n] as number) * scale);
      const y = Math.round(top * ratio - (ys[n] as number) * scale);
      if (x < -dot.reach || y < -dot.reach || x > width + dot.reach || y > height + dot.reach) continue;
      press(sheet, x, y, dot, colour, alpha);
    }
  });
  context.putImageData(image, 0, 0);
}

/** A colour of the page as its three parts; the canvas itself is who reads colours. */
function parts(context: CanvasRenderingContext2D, colour: string): Colour {
  context.fillStyle = colour;
  const hex = /^#([0-9a-f]{6})$/.exec(String(context.fillStyle))?.[1] ?? "808080";
  const part = (at: number): number => Number.parseInt(hex.slice(at, at + 2), 16);
  return [part(0), part(2), part(4)];
}

/** What a query found: in full colour, with a ring around it. */
function rings(context: CanvasRenderingContext2D, { map, view, size }: Scene, radius: number, lit: ReadonlySet<string>, colour: (name: string) => string): void {
  context.globalAlpha = 1;
  context.lineWidth = 1.75;
  context.strokeStyle = colour("--ink");
  const r = Math.max(radius, 3);
  for (const p of map.points) {
    if (!lit.has(p.chunk_id)) continue;
    const [x, y] = toScreen(view, size, p.x, p.y);
    context.fillStyle = colour(`--map-${p.cluster % COLOURS}`);
    context.beginPath();
    context.arc(x, y, r, 0, 2 * Math.PI);
    context.fill();
    context.beginPath();
    context.arc(x, y, r + 3.5, 0, 2 * Math.PI);
    context.stroke();
  }
}

function names(context: CanvasRenderingContext2D, { map, view, size, cluster }: Scene, font: string, colour: (name: string) => string): void {
  context.font = `600 12px ${font}`;
  context.textAlign = "center";
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = colour("--bg");
  context.fillStyle = colour("--ink");
  const taken: [number, number, number][] = [];
  map.clusters.forEach((c, i) => {
    const name = c.terms.slice(0, 2).join(" · ");
    const [x, y] = toScreen(view, size, c.x, c.y);
    const half = context.measureText(name).width / 2 + NAME.room;
    const free = taken.every(([tx, ty, th]) => Math.abs(tx - x) > th + half || Math.abs(ty - y) > NAME.height);
    if (name === "" || !free || (cluster !== undefined && cluster !== i)) return;
    taken.push([x, y, half]);
    context.strokeText(name, x, y + 4);
    context.fillText(name, x, y + 4);
  });
}

const marked = new WeakSet<HTMLCanvasElement>();

/** The document that the pointer is over: its passages, wherever they are. */
export function paintOver(element: HTMLCanvasElement, scene: Scene, over: number | undefined): void {
  const { map, view, size } = scene;
  const document = over === undefined ? undefined : map.points[over]?.document;
  // An empty canvas that stays empty is not touched: the browser would copy all of it.
  if (document === undefined && !marked.has(element)) return;
  const context = begin(element, size);
  marked.delete(element);
  if (context === undefined || document === undefined) return;
  marked.add(element);
  const style = getComputedStyle(element);
  const radius = Math.max(radiusOf(scene), 3) * 1.5;
  context.lineWidth = 2;
  context.strokeStyle = style.getPropertyValue("--bg").trim();
  for (const p of map.points) {
    if (p.document !== document) continue;
    const [x, y] = toScreen(view, size, p.x, p.y);
    context.fillStyle = style.getPropertyValue(`--map-${p.cluster % COLOURS}`).trim();
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
}
