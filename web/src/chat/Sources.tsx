// The passages that an answer refers to: a panel beside it (a sheet on phones) and a preview at the number.

import { signal, useComputed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Source } from "../frame";
import { fixed, shortUri } from "../format";
import { t } from "../i18n";
import { prefs, setPrefs } from "../prefs";
import { pathOf } from "../route";
import { Icon } from "../ui/Icon";
import { collections } from "./choices";
import { Keep } from "./Keep";
import { bestSentence, readable } from "./passage";
import { exchanges, sources } from "./thread";

/** The number whose passage is looked at, and where it was asked for. */
export const shown = signal<number | undefined>(undefined);

export function openSources(n?: number): void {
  setPrefs({ sourcesOpen: true });
  shown.value = n;
}

/** Documents that a tool of this conversation brought, and where they are. */
function brought(): ReadonlyMap<string, { collection: string; scope: string }> {
  const found = new Map<string, { collection: string; scope: string }>();
  for (const exchange of exchanges.value) {
    for (const call of exchange.live.turn.value.calls.values()) {
      const stored = call.result?.ingested;
      if (stored !== undefined) found.set(stored.document_id, stored);
    }
  }
  return found;
}

export function SourcesPanel() {
  const list = [...sources.value.values()].sort((a, b) => a.n - b.n);
  const fetched = useComputed(brought).value;
  const panel = useRef<HTMLElement>(null);
  const n = shown.value;
  useEffect(() => {
    if (n === undefined) return;
    const item = panel.current?.querySelector<HTMLElement>(`[data-source="${n}"]`);
    item?.scrollIntoView({ block: "nearest" });
    item?.focus({ preventScroll: true });
  }, [n]);
  return (
    <aside class="sources" ref={panel} aria-label={t("sources")} style={{ "--sources-width": `${prefs.value.sourcesWidth}px` }}>
      <Resizer />
      <header class="panel-head">
        <h2>{t("sources")}</h2>
        <span class="chip num">{list.length}</span>
        <button type="button" class="quiet icon-only end" aria-label={t("closeSources")} title={t("closeSources")} onClick={() => setPrefs({ sourcesOpen: false })}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">
        {list.length === 0 && <p class="empty-note">{t("noSources")}</p>}
        {list.map((source) => (
          <SourceItem key={source.n} source={source} on={source.n === n} from={fetched.get(source.document_id)} />
        ))}
      </div>
    </aside>
  );
}

function SourceItem({ source, on, from }: { source: Source; on: boolean; from: { collection: string; scope: string } | undefined }) {
  const question = exchanges.value.findLast((e) => e.live.turn.value.sources.some((s) => s.n === source.n))?.question ?? "";
  const { before, best, after } = bestSentence(readable(source.snippet), question);
  const share = Math.max(0, Math.min(1, source.score));
  return (
    <article class={`source${on ? " on" : ""}`} data-source={source.n} tabIndex={-1} onClick={() => (shown.value = source.n)}>
      <div class="source-title">
        <span class="cite still">{source.n}</span>
        <h3>{source.title}</h3>
        {from !== undefined && <span class="tag">{t("fetchedNow")}</span>}
      </div>
      <p class="source-where">
        {shortUri(source.uri)}
        {source.page !== undefined && ` · ${t("page", { n: source.page })}`}
        {from?.scope === "conversation" && ` · ${t("scopeConversation")}`}
      </p>
      <p class="passage">{before}<mark>{best}</mark>{after}</p>
      {from?.scope === "conversation" && <p class="source-keep small"><Keep document={source.document_id} collection={from.collection} /></p>}
      <div class="source-foot">
        <span class="score" title={t("similarity", { value: fixed(source.score, 2) })}><i style={{ width: `${share * 100}%` }} /></span>
        <span class="num small">{fixed(source.score, 2)}</span>
        <OpenDocument source={source} hint={from?.collection} />
      </div>
    </article>
  );
}

const located = new Map<string, Promise<string | undefined>>();

/** A source does not say its collection: those of the question are asked first. */
function locate(document: string, hint: string | undefined): Promise<string | undefined> {
  const known = located.get(document);
  if (known !== undefined) return known;
  const names = [...new Set([...(hint === undefined ? [] : [hint]), ...prefs.peek().collection, ...collections.peek().map((c) => c.name)])];
  const found = (async () => {
    for (const name of names) {
      const there = await api.document(name, document).then(() => true, () => false);
      if (there) return name;
    }
    return undefined;
  })();
  located.set(document, found);
  return found;
}

function OpenDocument({ source, hint }: { source: Source; hint: string | undefined }) {
  const [collection, setCollection] = useState<string | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    void locate(source.document_id, hint).then((name) => {
      if (!gone) setCollection(name);
    });
    return () => {
      gone = true;
    };
  }, [source.document_id, hint]);
  if (collection === undefined) return null;
  const path = pathOf({ page: "knowledge", collection, document: source.document_id, from: source.start, to: source.end });
  return <a class="textlink end" href={path}>{t("openAtPassage")}</a>;
}

/** The border of the panel can be dragged, and moved with the arrow keys. */
function Resizer() {
  const set = (width: number): void => setPrefs({ sourcesWidth: Math.round(Math.min(640, Math.max(280, width))) });
  const drag = (down: PointerEvent): void => {
    const from = prefs.peek().sourcesWidth;
    const move = (event: PointerEvent): void => set(from + down.clientX - event.clientX);
    const up = (): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    down.preventDefault();
  };
  const key = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
    if (step !== undefined) set(prefs.peek().sourcesWidth + step);
  };
  return (
    <div class="resizer" role="separator" aria-orientation="vertical" tabIndex={0} aria-label={t("resizeSources")} aria-valuemin={280}
      aria-valuemax={640} aria-valuenow={prefs.value.sourcesWidth} onPointerDown={drag} onKeyDown={key} />
  );
}

interface Preview {
  source: Source;
  left: number;
  top: number;
  above: boolean;
}

const preview = signal<Preview | undefined>(undefined);

/** What a citation in the text does: shows on hover and focus, opens the panel on click. */
export function onCite(event: Event): void {
  const cite = (event.target as Element | null)?.closest?.(".md .cite");
  if (cite === null || cite === undefined) {
    if (event.type !== "focusin" && event.type !== "click") preview.value = undefined;
    return;
  }
  const source = sources.peek().get(Number((cite as HTMLElement).dataset["n"]));
  if (source === undefined) return;
  if (event.type === "click") {
    preview.value = undefined;
    openSources(source.n);
    return;
  }
  if (event.type === "pointerout" || event.type === "focusout") {
    preview.value = undefined;
    return;
  }
  const box = cite.getBoundingClientRect();
  const above = box.top > innerHeight / 2;
  preview.value = {
    source, above, left: Math.max(8, Math.min(box.left - 20, innerWidth - 336)), top: above ? box.top - 8 : box.bottom + 8,
  };
}

export function CitePreview() {
  const p = preview.value;
  if (p === undefined) return null;
  return (
    <div class={`cite-preview${p.above ? " above" : ""}`} role="tooltip" style={{ left: `${p.left}px`, top: `${p.top}px` }}>
      <b>{p.source.title}</b>
      <span class="source-where">{shortUri(p.source.uri)}{p.source.page !== undefined && ` · ${t("page", { n: p.source.page })}`}</span>
      <p>{readable(p.source.snippet)}</p>
    </div>
  );
}
