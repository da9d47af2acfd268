// Numbers and times as people read them. Always with tabular figures in mind.

import { locale, number, numbers, t } from "./i18n";

const made = new Map<string, Intl.DateTimeFormat>();

/** Making one takes a hundred times as long as using it, and a table asks for many. */
function dates(name: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${locale()} ${name}`;
  const known = made.get(key) ?? new Intl.DateTimeFormat(locale(), options);
  made.set(key, known);
  return known;
}

/** `6 ms`, `1.84 s`, `2 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${number(Math.round(ms))} ms`;
  if (ms < 10_000) return `${fixed(ms / 1000, 2)} s`;
  if (ms < 120_000) return `${fixed(ms / 1000, 1)} s`;
  if (ms < 7_200_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(ms / 3_600_000);
  return hours < 48 ? `${hours} h ${Math.floor((ms % 3_600_000) / 60_000)} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** One digit less, for summaries: `5.1 s`. */
export function seconds(ms: number): string {
  return ms < 100 ? `${Math.round(ms)} ms` : `${fixed(ms / 1000, 1)} s`;
}

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 10 && unit > 0 ? fixed(value, 1) : number(Math.round(value))} ${units[unit]}`;
}

export function fixed(value: number, digits: number): string {
  return numbers(digits, digits).format(value);
}

export function clock(iso: string): string {
  return dates("clock", { hour: "2-digit", minute: "2-digit" }).format(new Date(iso));
}

export function day(iso: string): string {
  const date = new Date(iso);
  const now = new Date();
  const sameYear = date.getFullYear() === now.getFullYear();
  return (sameYear ? dates("day", { day: "numeric", month: "short" }) : dates("date", { day: "numeric", month: "short", year: "numeric" })).format(date);
}

export function moment(iso: string | undefined): string {
  if (iso === undefined) return "";
  const days = daysAgo(iso);
  return days === 0 ? clock(iso) : day(iso);
}

export function fullMoment(iso: string): string {
  return dates("full", { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));
}

export function daysAgo(iso: string, now = new Date()): number {
  const date = new Date(iso);
  const midnight = (d: Date): number => new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
  return Math.round((midnight(now) - midnight(date)) / 86_400_000);
}

export function dayGroup(iso: string): string {
  const days = daysAgo(iso);
  if (days <= 0) return t("today");
  if (days === 1) return t("yesterday");
  if (days < 7) return t("thisWeek");
  if (days < 14) return t("lastWeek");
  return dates("month", { month: "long", year: "numeric" }).format(new Date(iso));
}

/** The last part of a path or address, which is what people know a document by. */
export function shortUri(uri: string): string {
  try {
    const url = new URL(uri);
    return url.host + (url.pathname === "/" ? "" : url.pathname);
  } catch {
    return uri;
  }
}
