// The server's own counters (Prometheus text) as numbers over time. Pure.

export type Sample = ReadonlyMap<string, number>;

/** Names without their labels; values of the same name added up. `quantile` lines are left out. */
export function parseMetrics(text: string): Sample {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(\{[^}]*\})?\s+(\S+)/.exec(line);
    if (match === null || (match[2] ?? "").includes("quantile=") || (match[2] ?? "").includes("le=")) continue;
    const value = Number(match[3]);
    if (!Number.isFinite(value)) continue;
    const labels = /(?:direction|finish|outcome)="([^"]+)"/.exec(match[2] ?? "")?.[1];
    for (const name of labels === undefined ? [match[1] as string] : [match[1] as string, `${match[1]}:${labels}`]) {
      found.set(name, (found.get(name) ?? 0) + value);
    }
  }
  return found;
}

export interface Point {
  readonly at: number;
  readonly value: number;
}

export interface Reading {
  readonly at: number;
  readonly sample: Sample;
}

/** How fast a counter grew between readings, a second. */
export function rate(readings: readonly Reading[], name: string): Point[] {
  return pairs(readings).map(([a, b]) => ({
    at: b.at, value: Math.max(0, (b.sample.get(name) ?? 0) - (a.sample.get(name) ?? 0)) / Math.max(0.001, (b.at - a.at) / 1000),
  }));
}

/** The mean of a histogram between readings, where something was added. */
export function mean(readings: readonly Reading[], name: string): Point[] {
  return pairs(readings).flatMap(([a, b]) => {
    const count = (b.sample.get(`${name}_count`) ?? 0) - (a.sample.get(`${name}_count`) ?? 0);
    const sum = (b.sample.get(`${name}_sum`) ?? 0) - (a.sample.get(`${name}_sum`) ?? 0);
    return count > 0 ? [{ at: b.at, value: sum / count }] : [];
  });
}

export function gauge(readings: readonly Reading[], name: string): Point[] {
  return readings.flatMap((r) => (r.sample.has(name) ? [{ at: r.at, value: r.sample.get(name) as number }] : []));
}

function pairs(readings: readonly Reading[]): [Reading, Reading][] {
  return readings.slice(1).map((r, i) => [readings[i] as Reading, r]);
}
