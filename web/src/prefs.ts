// What this browser remembers: looks, language, and how questions are asked. Never anything secret.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Language = "en" | "de";

export interface Prefs {
  theme: Theme;
  language: Language;
  collection: string[];
  provider?: string;
  model?: string;
  toolMode: "auto" | "inline" | "native" | "off";
  retrieval: "auto" | "tool" | "required" | "off";
  effort?: "low" | "medium" | "high";
  toolsOff: string[];
  limits: Partial<Record<"max_continuations" | "max_tools_per_round" | "max_tools_total" | "tool_timeout_ms", number>>;
  sourcesWidth: number;
  sourcesOpen: boolean;
  firstRunDone: boolean;
}

const KEY = "tailrace.prefs";

const DEFAULTS: Prefs = {
  theme: "system",
  language: browserLanguage(),
  collection: ["default"],
  toolMode: "auto",
  retrieval: "auto",
  toolsOff: [],
  limits: {},
  sourcesWidth: 360,
  sourcesOpen: false,
  firstRunDone: false,
};

export const prefs = signal<Prefs>(load());

export function setPrefs(change: Partial<Prefs>): void {
  prefs.value = { ...prefs.value, ...change };
}

function load(): Prefs {
  return { ...DEFAULTS, ...readJson<Partial<Prefs>>(KEY) };
}

function browserLanguage(): Language {
  return typeof navigator !== "undefined" && navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
}

export function readJson<T>(key: string): T | undefined {
  try {
    const text = localStorage.getItem(key);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

export function writeJson(key: string, value: unknown): void {
  try {
    if (value === undefined) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Full or forbidden: it is only a convenience.
  }
}

/** Keeps the document and the storage as the preferences say. */
export function applyPrefs(): void {
  effect(() => {
    const { theme, language } = prefs.value;
    const root = document.documentElement;
    if (theme === "system") delete root.dataset["theme"];
    else root.dataset["theme"] = theme;
    root.lang = language;
    writeJson(KEY, prefs.value);
  });
}
