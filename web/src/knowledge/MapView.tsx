// A collection drawn on a plane: each passage a point near what is like it, groups named by their words, and the
// passages that a query finds lit up. Drawn on a canvas, once for each change.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Hit, MapAnswer } from "../api/types";
import { number, t } from "../i18n";
import { go, pathOf } from "../route";
import { Icon } from "../ui/Icon";
import { ProblemBox } from "../ui/ProblemBox";
import { prefs } from "../prefs";
import { Grid, moved, onto, toPlane, toScreen, whole, zoomed, type Size, type View } from "./map";
import { COLOURS, groupsOf, paint, paintOver, type Scene } from "./paint";
import { settled } from "./uploads";

/** The pointer takes a point that is so many pixels away. */
const REACH = 10;
/** A press that moves less than this is a click. */
const STILL = 4;
const HITS = 20;
const STEP = 1.4;

export default function MapView({ collection }: { collection: string }) {
  const [map, setMap] = useState<MapAnswer | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [hits, setHits] = useState<readonly Hit[] | undefined>(undefined);
  const lit = useMemo(() => (hits === undefined ? undefined : new Set(hits.map((hit) => hit.chunk_id))), [hits]);
  const [cluster, setCluster] = useState<number | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    setHits(undefined);
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
      <Query collection={collection} found={lit === undefined ? undefined : map.points.filter((p) => lit.has(p.chunk_id)).length} onFound={setHits} />
      {hits !== undefined && hits.length > 0 && <Found hits={hits} collection={collection} />}
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
  onFound(hits: readonly Hit[] | undefined): void;
}

function Query({ collection, found, onFound }: QueryProps) {
  const ask = async (text: string): Promise<void> => {
    if (text === "") return onFound(undefined);
    const answer = await api.search(collection, text, { mode: "hybrid", limit: HITS }).catch(() => undefined);
    onFound(answer?.hits ?? []);
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

/** What is lit, as a list: for those who do not see the points, and as the way to the passages. */
function Found({ hits, collection }: { hits: readonly Hit[]; collection: string }) {
  return (
    <ol class="map-found" aria-label={t("mapFound")}>
      {hits.map((hit) => (
        <li key={hit.chunk_id}><a class="chip" href={pathOf({ page: "knowledge", collection, document: hit.document_id, from: hit.start, to: hit.end, view: "map" })}>{hit.title === "" ? hit.uri : hit.title}</a></li>
      ))}
    </ol>
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
  const above = useRef<HTMLCanvasElement>(null);
  const grid = useMemo(() => new Grid(map), [map]);
  const groups = useMemo(() => groupsOf(map), [map]);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const [view, setView] = useState<View | undefined>(undefined);
  const [over, setOver] = useState<number | undefined>(undefined);
  const dark = useDark();
  const fingers = useRef(new Map<number, { x: number; y: number }>());
  const far = useRef(0);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const watch = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setView(cluster === undefined ? undefined : onto(map, cluster, size)), [cluster, map, size.width, size.height]);
  const seen = view ?? whole(size);
  const scene: Scene = { map, groups, view: seen, size, lit, cluster };
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => { if (canvas.current !== null) paint(canvas.current, scene); });
    return () => cancelAnimationFrame(frame);
  }, [map, seen.x, seen.y, seen.scale, size, lit, cluster, dark]);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => { if (above.current !== null) paintOver(above.current, scene, over); });
    return () => cancelAnimationFrame(frame);
  }, [map, seen.x, seen.y, seen.scale, size, over, dark]);
  const place = (event: { clientX: number; clientY: number }): [number, number] => {
    const rect = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  const under = (event: PointerEvent): number | undefined => {
    const [x, y] = toPlane(seen, size, ...place(event));
    return grid.nearest(x, y, REACH / seen.scale);
  };
  const press = (event: PointerEvent): void => {
    const [x, y] = place(event);
    if (fingers.current.size === 0) far.current = 0;
    fingers.current.set(event.pointerId, { x, y });
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
  };
  /** One finger moves the plane, two draw it apart. */
  const move = (event: PointerEvent): void => {
    const from = fingers.current.get(event.pointerId);
    if (from === undefined) return setOver(under(event));
    const [x, y] = place(event);
    const other = [...fingers.current].find(([id]) => id !== event.pointerId)?.[1];
    fingers.current.set(event.pointerId, { x, y });
    far.current += Math.abs(x - from.x) + Math.abs(y - from.y);
    setView((now) => {
      const at = now ?? whole(size);
      if (other === undefined) return moved(at, x - from.x, y - from.y);
      const apart = Math.hypot(x - other.x, y - other.y) / Math.max(1, Math.hypot(from.x - other.x, from.y - other.y));
      return moved(zoomed(at, size, other.x, other.y, apart), (x - from.x) / 2, (y - from.y) / 2);
    });
  };
  const release = (event: PointerEvent): void => {
    const pressed = fingers.current.delete(event.pointerId);
    const hit = pressed && far.current < STILL && event.type === "pointerup" ? under(event) : undefined;
    const document = hit === undefined ? undefined : map.documents[map.points[hit]?.document ?? -1];
    if (document !== undefined) go({ page: "knowledge", collection, document: document.id, view: "map" });
  };
  const nearer = (by: number): void => setView(zoomed(seen, size, size.width / 2, size.height / 2, by));
  const step = (event: KeyboardEvent): void => {
    const by = 40;
    const change: Record<string, () => void> = {
      ArrowLeft: () => setView(moved(seen, by, 0)), ArrowRight: () => setView(moved(seen, -by, 0)),
      ArrowUp: () => setView(moved(seen, 0, by)), ArrowDown: () => setView(moved(seen, 0, -by)),
      "+": () => nearer(STEP), "-": () => nearer(1 / STEP), "0": () => setView(undefined),
    };
    const wanted = change[event.key];
    if (wanted === undefined) return;
    event.preventDefault();
    wanted();
  };
  const point = over === undefined ? undefined : map.points[over];
  const told = point === undefined ? undefined : map.documents[point.document];
  const [x, y] = point === undefined ? [0, 0] : toScreen(seen, size, point.x, point.y);
  return (
    <div class="map-plane">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={t("mapSaid", { points: map.points.length, groups: map.clusters.length })}
        onPointerDown={press} onPointerMove={move} onPointerUp={release} onPointerCancel={release} onPointerLeave={() => setOver(undefined)} onKeyDown={step}
        onWheel={(e) => { e.preventDefault(); setView(zoomed(seen, size, ...place(e), Math.exp(-e.deltaY / 400))); }} />
      <canvas ref={above} class="map-above" aria-hidden="true" />
      {told !== undefined && (
        <div class="map-tip" style={{ left: `${Math.min(x + 12, size.width - 230)}px`, top: `${Math.min(y + 12, size.height - 60)}px` }}>
          <b>{told.title}</b><span class="small">{told.uri}</span>
        </div>
      )}
      <div class="map-zoom">
        {view !== undefined && <button type="button" class="btn small" onClick={() => setView(undefined)}>{t("mapWhole")}</button>}
        <button type="button" class="btn small" aria-label={t("mapFarther")} title={t("mapFarther")} onClick={() => nearer(1 / STEP)}><Icon name="minus" size={15} /></button>
        <button type="button" class="btn small" aria-label={t("mapNearer")} title={t("mapNearer")} onClick={() => nearer(STEP)}><Icon name="plus" size={15} /></button>
      </div>
    </div>
  );
}

/** The canvas takes its colours from the page's theme, and is drawn again when that changes. */
function useDark(): string {
  const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = (): void => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return `${prefs.value.theme} ${dark}`;
}
