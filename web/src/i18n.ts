// The words of the page. English is built in, German is loaded when it is asked for.

import { signal } from "@preact/signals";
import { en, type Words } from "./words/en";

type Key = keyof Words;
type Values = Record<string, string | number>;

const words = signal<Words>(en);
const language = signal("en");

export async function useLanguage(name: "en" | "de"): Promise<void> {
  words.value = name === "de" ? (await import("./words/de")).de : en;
  language.value = name;
}

/** `{name}` is replaced by a value. `a|b`: the first for a `count` of one, the second else. */
export function t(key: Key, values: Values = {}): string {
  const found = words.value[key];
  const [one, many] = found.split("|");
  const text = many === undefined || values["count"] === 1 ? (one as string) : many;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? number(value) : value;
  });
}

/** Words that come from the server, such as a status or a reason, where the page has its own for them. */
export function tWord(prefix: string, word: string): string {
  const key = `${prefix}_${word}`;
  return key in words.value ? t(key as Key) : word.replaceAll("_", " ");
}

/** The reader's own kind of the language, where the browser speaks it: dates are not the same in all of English. */
export function locale(): string {
  const own = typeof navigator === "undefined" ? "" : navigator.language;
  return own.split("-")[0] === language.value ? own : language.value;
}

const made = new Map<string, Intl.NumberFormat>();

/** A formatter with so many digits. Making one takes a hundred times as long as using it. */
export function numbers(least: number, most: number): Intl.NumberFormat {
  const key = `${locale()} ${least} ${most}`;
  const known = made.get(key) ?? new Intl.NumberFormat(locale(), { minimumFractionDigits: least, maximumFractionDigits: most });
  made.set(key, known);
  return known;
}

export function number(value: number, digits = 0): string {
  return numbers(0, digits).format(value);
}
