// What a question can be asked with: collections, providers, tools. Read once, again when something changed.

import { signal } from "@preact/signals";
import { api, ifPresent } from "../api/client";
import type { Collection, Provider, Tool } from "../api/types";
import { prefs, setPrefs } from "../prefs";

export const collections = signal<Collection[]>([]);
export const providers = signal<Provider[]>([]);
export const allTools = signal<Tool[]>([]);
export const choicesKnown = signal(false);

export async function loadChoices(): Promise<void> {
  const [c, p, tools] = await Promise.allSettled([api.collections(), ifPresent(api.providers), ifPresent(api.tools)]);
  if (c.status === "fulfilled") {
    collections.value = c.value;
    // A collection that was deleted must not make every question fail.
    const there = prefs.peek().collection.filter((name) => c.value.some((x) => x.name === name));
    if (there.length !== prefs.peek().collection.length) setPrefs({ collection: there.length > 0 ? there : ["default"] });
  }
  if (p.status === "fulfilled") providers.value = p.value ?? [];
  if (tools.status === "fulfilled") allTools.value = tools.value ?? [];
  choicesKnown.value = c.status === "fulfilled";
}
