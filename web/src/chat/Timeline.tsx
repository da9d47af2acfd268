// The picture of a turn: the model's stream and the tools on one axis, exact to the millisecond. Folded it is a
// line; opened, arrow keys walk from mark to mark, and a pointer finds what it is over.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Turn } from "../fold";
import { duration, fixed, seconds } from "../format";
import { number, t, tWord } from "../i18n";
import { Icon } from "../ui/Icon";
import { now } from "./now";
import { drawing, isDrawable, type Bar, type Drawing, type Mark } from "./timeline";

const LEFT = 108;
const LEFT_NARROW = 78;
const ROW = 28;
const BAR = 14;
const TOP = 22;
/** A bar that is at least so wide says its time; digits of this width fit into it. */
const SAYS = 46;
const DIGIT = 6.4;

export function Timeline({ turn }: { turn: Turn }) {
  const [open, setOpen] = useState(false);
  if (!isDrawable(turn)) return null;
  const live = turn.end === undefined;
  const picture = drawing(turn, live ? now.value : 0);
  return (
    <section class="timeline" aria-label={t("timeline")}>
      <button type="button" class="timeline-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <b>{t("timeline")}</b>
        <span class="num">
          {t("rounds", { count: picture.roundCount })} · {t("toolsRun", { count: picture.toolsRun })} · {seconds(picture.total)}
        </span>
        {picture.hiddenMs >= 1 && <span class="save num">{t("hidden", { time: seconds(picture.hiddenMs) })}</span>}
        <span class={`turn${open ? " open" : ""}`}><Icon name="chevron" size={14} /></span>
      </button>
      {open && <Picture picture={picture} live={live} />}
    </section>
  );
}

function Picture({ picture, live }: { picture: Drawing; live: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(700);
  const [at, setAt] = useState<number | undefined>(undefined);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    setWidth(element.clientWidth);
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const left = width < 480 ? LEFT_NARROW : LEFT;
  const right = width - 10;
  const x = (ms: number): number => left + (ms / picture.total) * (right - left);
  const rowY = (i: number): number => TOP + i * ROW;
  const lines = 1 + picture.rows.length;
  const bottom = TOP + lines * ROW;
  const height = bottom + 22;
  const mark = at === undefined ? undefined : picture.marks[Math.min(at, picture.marks.length - 1)];

  const onKeyDown = (event: KeyboardEvent): void => {
    const last = picture.marks.length - 1;
    const to = {
      ArrowRight: Math.min(last, (at ?? -1) + 1), ArrowLeft: Math.max(0, (at ?? last + 1) - 1), Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setAt(to);
  };
  const onPointer = (event: PointerEvent): void => {
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    const ms = ((event.clientX - rect.left - left) / (right - left)) * picture.total;
    const row = Math.floor((event.clientY - rect.top - TOP) / ROW);
    setAt(nearest(picture, ms, row, (6 / (right - left)) * picture.total));
  };

  return (
    <div class="picture">
      <div ref={box} role="slider" tabIndex={0} aria-label={t("timelineWalk")} aria-valuemin={1} aria-valuemax={Math.max(1, picture.marks.length)}
        aria-valuenow={(at ?? 0) + 1} aria-valuetext={mark === undefined ? t("timelineStart") : describe(mark)} onKeyDown={onKeyDown}
        onBlur={() => setAt(undefined)}>
        <svg width={width} height={height} aria-hidden="true" onPointerMove={onPointer} onPointerLeave={() => setAt(undefined)}>
          {picture.ticks.map((ms) => (
            <g key={ms}>
              <path class="grid" d={`M${crisp(x(ms))} ${TOP - 4}V${bottom}`} />
              <text class="axis num" x={x(ms)} y={height - 5} text-anchor={ms === 0 ? "start" : x(ms) > right - 16 ? "end" : "middle"}>
                {tick(ms, picture.total)}
              </text>
            </g>
          ))}
          {picture.rows.flatMap((row, i) => row.hidden.map((bar, k) => (
            <rect key={`${row.id}${k}`} class="hidden" x={x(bar.from)} width={wide(x, bar)} y={rowY(0) + 7} height={rowY(i + 1) - rowY(0) + BAR} />
          )))}
          {picture.rounds.map((round) => (
            <g key={round.round}>
              <path class="border" d={`M${crisp(x(round.at))} ${TOP - 16}V${bottom}`} />
              <text class="axis" x={right - x(round.at) < 56 ? x(round.at) - 5 : x(round.at) + 5} y={TOP - 8} text-anchor={right - x(round.at) < 56 ? "end" : "start"}>
                {t("roundN", { n: number(round.round) })}
              </text>
            </g>
          ))}
          <text class="name" x="0" y={rowY(0) + 18}>{t("answer")}</text>
          {picture.prepare !== undefined && <rect class="silence prepare" x={x(0)} width={wide(x, picture.prepare)} y={rowY(0) + 12} height="4" rx="2" />}
          {picture.waits.map((w) => (
            <rect key={w.round} class="silence" x={x(w.bar.from)} width={wide(x, w.bar)} y={rowY(0) + 12} height="4" rx="2" />
          ))}
          {picture.speech.map((s, i) => (
            <g key={i}>
              <rect class="bar speech" x={x(s.bar.from)} width={wide(x, s.bar)} y={rowY(0) + 7} height={BAR} rx={radius(x, s.bar)} />
              <Says bar={s.bar} x={x} y={rowY(0)} />
            </g>
          ))}
          {picture.rows.map((row, i) => (
            <g key={row.id} class={`tool ${row.kind}${row.failed ? " failed" : ""}`}>
              <text class="name" x={row.depth * 8} y={rowY(i + 1) + 18}>{short(row.name, left)}</text>
              <path class="drop" d={`M${crisp(x(row.run.from))} ${rowY(0) + 7 + BAR}V${rowY(i + 1) + 7}`} />
              <rect class="bar" x={x(row.run.from)} width={wide(x, row.run)} y={rowY(i + 1) + 7} height={BAR} rx={radius(x, row.run)} />
              <Says bar={row.run} x={x} y={rowY(i + 1)} />
              {row.ingest !== undefined && (
                <rect class="bar ingest" x={x(row.ingest.from)} width={wide(x, row.ingest)} y={rowY(i + 1) + 7} height={BAR} rx={radius(x, row.ingest)} />
              )}
            </g>
          ))}
          {picture.refused.map((r, i) => (
            <path key={i} class="refusedmark" d={cross(x(r.at), rowY(0) + 14)} />
          ))}
          {live && <path class="edge" d={`M${crisp(x(picture.total))} ${TOP - 4}V${bottom}`} />}
          {mark !== undefined && <rect class="current" {...around(mark, picture, x, rowY)} rx="6" />}
        </svg>
      </div>
      <p class="telling num" aria-live="off">{mark === undefined ? legend(picture) : describe(mark)}</p>
    </div>
  );
}

/** Its time, in a bar that has room for it. */
function Says({ bar, x, y }: { bar: Bar; x(ms: number): number; y: number }) {
  const text = duration(bar.to - bar.from);
  const width = wide(x, bar);
  if (width < Math.max(SAYS, text.length * DIGIT + 10)) return null;
  return <text class="says num" x={x(bar.from) + 7} y={y + 18}>{text}</text>;
}

function crisp(x: number): number {
  return Math.round(x) + 0.5;
}

function wide(x: (ms: number) => number, bar: Bar): number {
  return Math.max(3, x(bar.to) - x(bar.from));
}

function radius(x: (ms: number) => number, bar: Bar): number {
  return Math.min(4, wide(x, bar) / 2);
}

function tick(ms: number, total: number): string {
  if (total < 1000) return `${number(ms)}${ms === 0 ? " ms" : ""}`;
  const digits = total < 3000 && ms % 1000 !== 0 ? 1 : 0;
  return ms === 0 ? "0 s" : fixed(ms / 1000, total < 600 ? 2 : digits);
}

function short(name: string, left: number): string {
  const most = Math.floor((left - 8) / 6.6);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function cross(x: number, y: number): string {
  return `M${x - 4} ${y - 4}l8 8M${x + 4} ${y - 4}l-8 8`;
}

function nearest(picture: Drawing, ms: number, row: number, slack: number): number | undefined {
  let best: number | undefined;
  let distance = Infinity;
  picture.marks.forEach((mark, i) => {
    const line = lineOf(mark, picture);
    const off = ms < mark.at.from ? mark.at.from - ms : ms > mark.at.to ? ms - mark.at.to : 0;
    if (line !== row || off > slack || off > distance) return;
    best = i;
    distance = off;
  });
  return best;
}

function lineOf(mark: Mark, picture: Drawing): number {
  if (mark.kind === "tool" || mark.kind === "ingest") return picture.rows.findIndex((r) => r.id === mark.row.id) + 1;
  return mark.kind === "round" ? picture.rows.length : 0;
}

function around(mark: Mark, picture: Drawing, x: (ms: number) => number, rowY: (i: number) => number): Record<string, number> {
  const line = lineOf(mark, picture);
  const width = mark.at.to > mark.at.from ? wide(x, mark.at) : 8;
  const from = mark.at.to > mark.at.from ? x(mark.at.from) : x(mark.at.from) - 4;
  if (mark.kind === "round") return { x: from - 2, width: width + 4, y: rowY(0), height: (picture.rows.length + 1) * ROW - 2 };
  return { x: from - 3, width: width + 6, y: rowY(line) + 4, height: BAR + 6 };
}

function describe(mark: Mark): string {
  const span = `${fixed(mark.at.from / 1000, 3)} s – ${fixed(mark.at.to / 1000, 3)} s (${duration(mark.at.to - mark.at.from)})`;
  const at = `${fixed(mark.at.from / 1000, 3)} s`;
  switch (mark.kind) {
    case "prepare":
      return `${t("preparing")}: ${span}`;
    case "wait":
      return `${t("waitingRound", { n: number(mark.round) })}: ${span}`;
    case "spoke":
      return `${t("answerSpoke", { n: number(mark.round) })}: ${span}`;
    case "tool":
      return `${mark.row.name}${mark.row.failed ? `, ${t("tool_failed")}` : mark.row.running ? `, ${t("tool_running")}` : ""}: ${span}`;
    case "ingest":
      return `${t("storing", { name: mark.row.name })}: ${span}`;
    case "round":
      return `${t("roundBegins", { n: number(mark.round) })}: ${at}`;
    case "refused":
      return `${mark.name}, ${t("tool_refused")}${mark.reason === "" ? "" : ` (${tWord("reason", mark.reason)})`}: ${at}`;
  }
}

function legend(picture: Drawing): string {
  return picture.hiddenMs >= 1 ? t("timelineLegend", { time: duration(picture.hiddenMs), total: duration(picture.total), slow: duration(picture.oneByOneMs) }) : t("timelineLegendPlain");
}
