// A small line over time, with its present value. Hover and arrow keys tell single readings.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { Point } from "./metrics";

const HEIGHT = 72;

interface Props {
  label: string;
  points: readonly Point[];
  tell(value: number): string;
  /** Time that the whole width stands for, and its end. */
  spanMs: number;
  until: number;
}

export function Chart({ label, points, tell, spanMs, until: end }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(300);
  const [at, setAt] = useState<number | undefined>(undefined);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const last = points.at(-1);
  const top = Math.max(...points.map((p) => p.value), 0);
  const x = (time: number): number => width - 5 - ((end - time) / spanMs) * (width - 10);
  const y = (value: number): number => HEIGHT - 5 - (top === 0 ? 0 : (value / top) * (HEIGHT - 14));
  const line = points.map((p, i) => `${i === 0 ? "M" : "L"}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`).join("");
  const told = at === undefined ? last : points[Math.min(at, points.length - 1)];
  const ago = told === undefined ? 0 : Math.round((end - told.at) / 1000);
  const pick = (event: PointerEvent): void => {
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    const time = end - ((rect.right - event.clientX) / rect.width) * spanMs;
    let best = 0;
    points.forEach((p, i) => {
      if (Math.abs(p.at - time) < Math.abs((points[best]?.at ?? 0) - time)) best = i;
    });
    setAt(best);
  };
  const key = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (to !== undefined) setAt(Math.max(0, Math.min(points.length - 1, (at ?? points.length - 1) + to)));
  };
  return (
    <figure class="chart">
      <figcaption><span>{label}</span><b class="num">{told === undefined ? "–" : tell(told.value)}</b></figcaption>
      <div ref={box} role="slider" tabIndex={0} aria-label={label} aria-valuemin={0} aria-valuemax={Math.max(0, points.length - 1)} aria-valuenow={at ?? Math.max(0, points.length - 1)}
        aria-valuetext={told === undefined ? t("noReadings") : `${tell(told.value)}, ${t("secondsAgo", { count: ago })}`} onKeyDown={key} onBlur={() => setAt(undefined)}>
        <svg width={width} height={HEIGHT} aria-hidden="true" onPointerMove={pick} onPointerLeave={() => setAt(undefined)}>
          <path class="grid" d={`M0 ${HEIGHT - 4.5}H${width}`} />
          {points.length > 1 && <path class="area" d={`${line}L${x(last?.at ?? end)} ${HEIGHT - 5}L${x(points[0]?.at ?? 0)} ${HEIGHT - 5}Z`} />}
          {points.length > 1 && <path class="line" d={line} />}
          {told !== undefined && <circle cx={x(told.at)} cy={y(told.value)} r="3" />}
        </svg>
      </div>
      <p class="small num">{points.length === 0 ? t("noReadings") : at === undefined ? t("peak", { value: tell(top) }) : t("secondsAgo", { count: ago })}</p>
    </figure>
  );
}
