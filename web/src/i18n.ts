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

export function locale(): string {
  return language.value;
}

export function number(value: number, digits = 0): string {
  return value.toLocaleString(language.value, { maximumFractionDigits: digits });
}
