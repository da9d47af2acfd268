// A collection drawn on a plane: each passage a point near what is like it, groups named by their words, and the
// passages that a query finds lit up. Drawn on a canvas, once for each change.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { MapAnswer } from "../api/types";
import { number, t } from "../i18n";
import { go } from "../route";
import { Icon } from "../ui/Icon";
import { ProblemBox } from "../ui/ProblemBox";
import { Grid, moved, onto, toPlane, toScreen, whole, zoomed, type Size, type View } from "./map";
import { settled } from "./uploads";

const COLOURS = 12;
/** The pointer takes a point that is so many pixels away. */
const REACH = 10;
/** A press that moves less than this is a click. */
const STILL = 4;
const HITS = 20;

export default function MapView({ collection }: { collection: string }) {
  const [map, setMap] = useState<MapAnswer | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [lit, setLit] = useState<ReadonlySet<string> | undefined>(undefined);
  const [cluster, setCluster] = useState<number | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    setLit(undefined);
    api.map(collection).then(
      (found) => { if (!gone) { setMap(found); setProblem(undefined); } },
      (error: unknown) => { if (!gone) setProblem(asProblem(error)); },
    );
    return () => { gone = true; };
  }, [collection, settled.value]);
  if (problem !== undefined) return <div class="pad"><ProblemBox problem={problem} /></div>;
  if (map === undefined) return <div class="progress" />;
  if (map.points.length === 0) return <div class="empty"><Icon name="map" size={30} /><h2>{t("mapEmpty")}</h2></div>;
  return (
    <div class="map">
      <Query collection={collection} found={lit === undefined ? undefined : map.points.filter((p) => lit.has(p.chunk_id)).length} onFound={setLit} />
      <Plane key={collection} map={map} lit={lit} cluster={cluster} collection={collection} />
      <ol class="map-groups" aria-label={t("mapGroups")}>
        {map.clusters.map((c, i) => (
          <li key={i}>
            <button type="button" class="chip" aria-pressed={cluster === i} onClick={() => setCluster(cluster === i ? undefined : i)}>
              <i class={`dot map-${i % COLOURS}`} aria-hidden="true" />{c.terms.join(", ") || t("mapGroup", { n: i + 1 })} <span class="num">{number(c.points)}</span>
            </button>
          </li>
        ))}
      </ol>
      {map.total > map.points.length && <p class="small pad">{t("mapSample", { points: map.points.length, total: map.total })}</p>}
    </div>
  );
}

interface QueryProps {
  collection: string;
  /** Of the hits, those that are on the map. */
  found: number | undefined;
  onFound(chunks: ReadonlySet<string> | undefined): void;
}

function Query({ collection, found, onFound }: QueryProps) {
  const ask = async (text: string): Promise<void> => {
    if (text === "") return onFound(undefined);
    const answer = await api.search(collection, text, "hybrid", HITS).catch(() => undefined);
    onFound(new Set(answer?.hits.map((hit) => hit.chunk_id) ?? []));
  };
  return (
    <form class="map-query" onSubmit={(e) => {
      e.preventDefault();
      void ask((e.currentTarget.elements.namedItem("query") as HTMLInputElement).value.trim());
    }}>
      <label class="find boxed grow"><Icon name="search" size={15} /><input name="query" type="search" placeholder={t("mapQuery")} aria-label={t("mapQuery")} /></label>
      <button type="submit" class="btn">{t("search")}</button>
      <span class="small num" role="status">{found === undefined ? "" : t("mapLit", { count: found })}</span>
    </form>
  );
}

interface PlaneProps {
  map: MapAnswer;
  lit: ReadonlySet<string> | undefined;
  cluster: number | undefined;
  collection: string;
}

function Plane({ map, lit, cluster, collection }: PlaneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const grid = useRef<Grid>(new Grid(map));
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const [view, setView] = useState<View | undefined>(undefined);
  const [over, setOver] = useState<number | undefined>(undefined);
  const held = useRef<{ x: number; y: number; far: number } | undefined>(undefined);
  useEffect(() => { grid.current = new Grid(map); }, [map]);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const watch = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setView(cluster === undefined ? undefined : onto(map, cluster, size)), [cluster, map, size.width, size.height]);
  const seen = view ?? whole(size);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => { if (canvas.current !== null) draw(canvas.current, map, seen, size, lit, cluster, over); });
    return () => cancelAnimationFrame(frame);
  });
  const place = (event: { clientX: number; clientY: number }): [number, number] => {
    const rect = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  const under = (event: PointerEvent): number | undefined => {
    const [x, y] = toPlane(seen, size, ...place(event));
    return grid.current.nearest(x, y, REACH / seen.scale);
  };
  const move = (event: PointerEvent): void => {
    const hold = held.current;
    if (hold === undefined) return setOver(under(event));
    setView(moved(seen, event.clientX - hold.x, event.clientY - hold.y));
    held.current = { x: event.clientX, y: event.clientY, far: hold.far + Math.abs(event.clientX - hold.x) + Math.abs(event.clientY - hold.y) };
  };
  const release = (event: PointerEvent): void => {
    const still = (held.current?.far ?? STILL) < STILL;
    held.current = undefined;
    const hit = still ? under(event) : undefined;
    const document = hit === undefined ? undefined : map.documents[map.points[hit]?.document ?? -1];
    if (document !== undefined) go({ page: "knowledge", collection, document: document.id, view: "map" });
  };
  const step = (event: KeyboardEvent): void => {
    const by = 40;
    const next: Record<string, () => View> = {
      ArrowLeft: () => moved(seen, by, 0), ArrowRight: () => moved(seen, -by, 0), ArrowUp: () => moved(seen, 0, by), ArrowDown: () => moved(seen, 0, -by),
      "+": () => zoomed(seen, size, size.width / 2, size.height / 2, 1.4), "-": () => zoomed(seen, size, size.width / 2, size.height / 2, 1 / 1.4),
      "0": () => whole(size),
    };
    const change = next[event.key];
    if (change === undefined) return;
    event.preventDefault();
    setView(change());
  };
  const point = over === undefined ? undefined : map.points[over];
  const told = point === undefined ? undefined : map.documents[point.document];
  const [x, y] = point === undefined ? [0, 0] : toScreen(seen, size, point.x, point.y);
  return (
    <div class="map-plane">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={t("mapSaid", { points: map.points.length, groups: map.clusters.length })}
        onPointerDown={(e) => { held.current = { x: e.clientX, y: e.clientY, far: 0 }; e.currentTarget.setPointerCapture(e.pointerId); }}
        onPointerMove={move} onPointerUp={release} onPointerLeave={() => setOver(undefined)} onKeyDown={step}
        onWheel={(e) => { e.preventDefault(); setView(zoomed(seen, size, ...place(e), Math.exp(-e.deltaY / 400))); }} />
      {told !== undefined && (
        <div class="map-tip" style={{ left: `${Math.min(x + 12, size.width - 230)}px`, top: `${Math.min(y + 12, size.height - 60)}px` }}>
          <b>{told.title}</b><span class="small">{told.uri}</span>
        </div>
      )}
      {view !== undefined && <button type="button" class="btn small map-back" onClick={() => setView(undefined)}>{t("mapWhole")}</button>}
    </div>
  );
}

function draw(
  element: HTMLCanvasElement, map: MapAnswer, view: View, size: Size, lit: ReadonlySet<string> | undefined, cluster: number | undefined, over: number | undefined,
): void {
  const ratio = window.devicePixelRatio;
  const context = element.getContext("2d");
  if (context === null || size.width === 0) return;
  element.width = Math.round(size.width * ratio);
  element.height = Math.round(size.height * ratio);
  context.scale(ratio, ratio);
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const radius = Math.min(5, Math.max(1.3, 60 / Math.sqrt(map.points.length))) * Math.min(2, Math.sqrt(view.scale / whole(size).scale));
  const document = over === undefined ? undefined : map.points[over]?.document;
  const paint = (cluster: number, wanted: (chunk: string, n: number) => boolean, alpha: number, grown: number): void => {
    context.globalAlpha = alpha;
    context.fillStyle = colour(`--map-${cluster % COLOURS}`);
    context.beginPath();
    map.points.forEach((p) => {
      if (p.cluster !== cluster || !wanted(p.chunk_id, p.document)) return;
      const [x, y] = toScreen(view, size, p.x, p.y);
      if (x < -9 || y < -9 || x > size.width + 9 || y > size.height + 9) return;
      context.moveTo(x + radius * grown, y);
      context.arc(x, y, radius * grown, 0, 2 * Math.PI);
    });
    context.fill();
  };
  const dim = lit !== undefined || cluster !== undefined;
  map.clusters.forEach((_, i) => paint(i, () => true, dim && i !== cluster ? 0.18 : 0.75, 1));
  if (lit !== undefined) map.clusters.forEach((_, i) => paint(i, (chunk) => lit.has(chunk), 1, 1.6));
  if (document !== undefined) map.clusters.forEach((_, i) => paint(i, (_chunk, n) => n === document, 1, 1.5));
  context.globalAlpha = 1;
  context.font = `600 12px ${style.fontFamily}`;
  context.textAlign = "center";
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = colour("--bg");
  context.fillStyle = colour("--ink");
  const taken: [number, number, number][] = [];
  map.clusters.forEach((c, i) => {
    const name = c.terms.slice(0, 2).join(" · ");
    const [x, y] = toScreen(view, size, c.x, c.y);
    const half = context.measureText(name).width / 2 + 6;
    const free = taken.every(([tx, ty, th]) => Math.abs(tx - x) > th + half || Math.abs(ty - y) > 16);
    if (name === "" || !free || (cluster !== undefined && cluster !== i)) return;
    taken.push([x, y, half]);
    context.strokeText(name, x, y);
    context.fillText(name, x, y);
  });
}
