// A finding of a conversation becomes part of the collection with a click: at its tool's card, and among the sources.

import { signal } from "@preact/signals";
import { api } from "../api/client";
import { capabilities } from "../api/capability";
import { asProblem } from "../api/problem";
import { t } from "../i18n";
import { prefs } from "../prefs";
import { loadChoices } from "./choices";

type State = { readonly kind: "busy" | "kept"; readonly into: string } | { readonly kind: "refused"; readonly why: string };

/** By document, so that both places say the same. */
const states = signal<ReadonlyMap<string, State>>(new Map());

function set(document: string, state: State): void {
  states.value = new Map(states.peek()).set(document, state);
}

async function keep(collection: string, document: string, into: string): Promise<void> {
  set(document, { kind: "busy", into });
  try {
    await api.keep(collection, document, into);
    set(document, { kind: "kept", into });
    void loadChoices();
  } catch (error) {
    set(document, { kind: "refused", why: asProblem(error).detail || t("offlineTitle") });
  }
}

export function Keep({ document, collection }: { document: string; collection: string }) {
  const state = states.value.get(document);
  if (!capabilities.value.ingest) return <span class="end">{t("scopeConversation")}</span>;
  if (state?.kind === "kept") return <span class="end ok">{t("keptIn", { name: state.into })}</span>;
  if (state?.kind === "refused") return <span class="end bad" role="alert">{state.why}</span>;
  const into = prefs.value.collection[0] ?? "default";
  return (
    <button type="button" class="textlink end" disabled={state !== undefined} onClick={() => void keep(collection, document, into)}>
      {t("keepIn", { name: into })}
    </button>
  );
}
