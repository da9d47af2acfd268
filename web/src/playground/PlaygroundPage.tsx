// One query, three ways of searching side by side: who finds what, where, and why.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Hit, SearchAnswer, SearchMode } from "../api/types";
import { collections } from "../chat/choices";
import { readable } from "../chat/passage";
import { duration, fixed } from "../format";
import { number, t } from "../i18n";
import { prefs } from "../prefs";
import { pathOf } from "../route";
import { Icon } from "../ui/Icon";
import { PageHead } from "../ui/PageHead";
import { ProblemBox } from "../ui/ProblemBox";
import { marked } from "./marked";

/** The fused list stands between the two that it is made of, so that lines show where its hits come from. */
const MODES = ["dense", "hybrid", "sparse"] as const satisfies readonly SearchMode[];

interface Column {
  mode: SearchMode;
  answer?: SearchAnswer;
  problem?: Problem;
  /** As this page measured it, the way there and back included. */
  tookMs: number;
}

const query = signal("");
const limit = signal(8);
const filter = signal({ key: "", value: "" });
const columns = signal<readonly Column[]>([]);
const asked = signal("");
const busy = signal(false);
const lit = signal<string | undefined>(undefined);

let running: AbortController | undefined;

async function search(collection: string): Promise<void> {
  const text = query.peek().trim();
  if (text === "") return;
  running?.abort();
  const mine = new AbortController();
  running = mine;
  busy.value = true;
  const { key, value } = filter.peek();
  const must = key.trim() === "" || value.trim() === "" ? undefined : { must: [{ key: key.trim(), match: value.trim() }] };
  const found = await Promise.all(MODES.map(async (mode): Promise<Column> => {
    const began = performance.now();
    try {
      const answer = await api.search(collection, text, mode, limit.peek(), must, mine.signal);
      return { mode, answer, tookMs: performance.now() - began };
    } catch (error) {
      return { mode, problem: asProblem(error), tookMs: performance.now() - began };
    }
  }));
  if (running !== mine) return;
  columns.value = found;
  asked.value = text;
  busy.value = false;
}

export function PlaygroundPage() {
  const [name, setName] = useState(prefs.value.collection[0] ?? "default");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${t("playground")} · Tailrace`;
    field.current?.focus();
  }, []);
  return (
    <main class="playground" tabIndex={-1}>
      <PageHead title={t("playground")} />
      <form class="play-form" onSubmit={(e) => { e.preventDefault(); void search(name); }}>
        <label class="find boxed grow">
          <Icon name="search" size={16} />
          <input ref={field} type="search" value={query.value} placeholder={t("playQuery")} aria-label={t("playQuery")} onInput={(e) => (query.value = e.currentTarget.value)} />
        </label>
        <select aria-label={t("collection")} value={name} onChange={(e) => setName(e.currentTarget.value)}>
          {collections.value.map((c) => <option key={c.name}>{c.name}</option>)}
        </select>
        <select aria-label={t("howMany")} value={limit.value} onChange={(e) => (limit.value = Number(e.currentTarget.value))}>
          {[5, 8, 20, 50].map((n) => <option key={n} value={n}>{t("nHits", { count: n })}</option>)}
        </select>
        <input class="filter-key" list="filter-keys" value={filter.value.key} placeholder={t("filterKey")} aria-label={t("filterKey")}
          onInput={(e) => (filter.value = { ...filter.value, key: e.currentTarget.value })} />
        <datalist id="filter-keys"><option value="title" /><option value="uri" /><option value="metadata.lang" /></datalist>
        <input class="filter-value" value={filter.value.value} placeholder={t("filterValue")} aria-label={t("filterValue")}
          onInput={(e) => (filter.value = { ...filter.value, value: e.currentTarget.value })} />
        <button type="submit" class="btn primary" disabled={query.value.trim() === ""}>{t("search")}</button>
      </form>
      {busy.value && <div class="progress" />}
      {columns.value.length === 0 ? (
        <div class="empty"><Icon name="compare" size={30} /><h2>{t("playEmpty")}</h2><p>{t("playEmptyText")}</p></div>
      ) : <Columns collection={name} />}
    </main>
  );
}

function Columns({ collection }: { collection: string }) {
  const box = useRef<HTMLDivElement>(null);
  const list = columns.value;
  return (
    <div class="play-scroll">
      <div class="play-columns" ref={box} onPointerLeave={() => (lit.value = undefined)}>
        <Joins box={box} />
        {list.map((column) => (
          <section key={column.mode} class="play-column" aria-label={t(`search_${column.mode}`)}>
            <header>
              <h2>{t(`search_${column.mode}`)}</h2>
              <p class="small">{t(`search_${column.mode}_text`)}</p>
              {column.answer !== undefined && (
                <p class="small num">{t("nHits", { count: column.answer.hits.length })} · {duration(column.answer.took_ms)}{steps(column.answer)}</p>
              )}
            </header>
            {column.problem !== undefined && <ProblemBox problem={column.problem} />}
            {column.answer?.hits.length === 0 && <p class="empty-note">{t("noHits")}</p>}
            <ol>{column.answer?.hits.map((hit, i) => <HitView key={hit.chunk_id} hit={hit} rank={i + 1} mode={column.mode} collection={collection} />)}</ol>
            <Dropped answer={column.answer} />
          </section>
        ))}
      </div>
    </div>
  );
}

function steps(answer: SearchAnswer): string {
  const all = Object.entries(answer.steps ?? {});
  return all.length === 0 ? "" : ` (${all.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ")})`;
}

function Dropped({ answer }: { answer: SearchAnswer | undefined }) {
  const dropped = answer?.dropped ?? [];
  if (dropped.length === 0) return null;
  return (
    <details class="dropped">
      <summary>{t("nDropped", { count: dropped.length })}</summary>
      <ul>{dropped.map((d, i) => <li key={i}>{d.title ?? d.chunk_id}: {d.reason}</li>)}</ul>
    </details>
  );
}

function HitView({ hit, rank, mode, collection }: { hit: Hit; rank: number; mode: SearchMode; collection: string }) {
  const [open, setOpen] = useState(false);
  const here = lit.value === hit.chunk_id;
  const best = Math.max(...(columns.value.find((c) => c.mode === mode)?.answer?.hits.map((h) => h.score) ?? [1]), 1e-9);
  const others = columns.value.flatMap((c) => {
    const at = c.mode === mode ? -1 : (c.answer?.hits.findIndex((h) => h.chunk_id === hit.chunk_id) ?? -1);
    return at < 0 ? [] : [`${t(`search_${c.mode}`)} ${number(at + 1)}`];
  });
  return (
    <li class={`hit${here ? " lit" : ""}`} data-chunk={hit.chunk_id} onPointerEnter={() => (lit.value = hit.chunk_id)} onFocusIn={() => (lit.value = hit.chunk_id)}>
      <div class="hit-head">
        <span class="rank num">{number(rank)}</span>
        <a href={pathOf({ page: "knowledge", collection, document: hit.document_id, from: hit.start, to: hit.end })}>{hit.title === "" ? hit.uri : hit.title}</a>
        <span class="num small end">{fixed(hit.score, hit.score < 0.1 ? 4 : 3)}</span>
      </div>
      <span class="score wide"><i style={{ width: `${Math.max(0, (hit.score / best) * 100)}%` }} /></span>
      <p class={`passage${open ? "" : " clamp"}`}>{marked(readable(hit.text), asked.value).map((p, i) => (p.lit ? <mark key={i}>{p.text}</mark> : p.text))}</p>
      <p class="small num hit-foot">
        <span>{hit.uri}{hit.page !== undefined && ` · ${t("page", { n: hit.page })}`}</span>
        <button type="button" class="textlink" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? t("less") : t("more")}</button>
      </p>
      {open && (
        <dl class="explain">
          {Object.entries(hit.explain ?? {}).map(([key, value]) => (
            <div key={key}><dt>{key.replaceAll("_", " ")}</dt><dd class="num">{told(value)}</dd></div>
          ))}
          <div><dt>{t("alsoFound")}</dt><dd>{others.length === 0 ? t("onlyHere") : others.join(", ")}</dd></div>
        </dl>
      )}
    </li>
  );
}

function told(value: unknown): string {
  if (typeof value === "number") return fixed(value, Number.isInteger(value) ? 0 : 4);
  if (Array.isArray(value)) return value.join(" › ");
  return value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);
}

interface Join {
  id: string;
  path: string;
}

/** Lines between the columns, from a passage to itself. */
function Joins({ box }: { box: { current: HTMLDivElement | null } }) {
  const [joins, setJoins] = useState<Join[]>([]);
  const list = columns.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const draw = (): void => setJoins(linesIn(element));
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(element);
    return () => watch.disconnect();
  }, [list]);
  return (
    <svg class="joins" aria-hidden="true">
      {joins.map((j, i) => <path key={i} d={j.path} class={lit.value === j.id ? "lit" : ""} />)}
    </svg>
  );
}

function linesIn(box: HTMLElement): Join[] {
  const origin = box.getBoundingClientRect();
  const found = [...box.querySelectorAll<HTMLElement>(".play-column")];
  const joins: Join[] = [];
  for (let i = 0; i + 1 < found.length; i++) {
    for (const left of found[i]?.querySelectorAll<HTMLElement>(".hit") ?? []) {
      const id = left.dataset["chunk"] ?? "";
      const right = found[i + 1]?.querySelector<HTMLElement>(`[data-chunk="${CSS.escape(id)}"]`);
      if (right == null) continue;
      const a = left.getBoundingClientRect();
      const b = right.getBoundingClientRect();
      if (b.left <= a.right) continue; // one below the other: nothing to join
      const [x1, y1, x2, y2] = [a.right - origin.left, a.top - origin.top + 20, b.left - origin.left, b.top - origin.top + 20];
      const bend = (x2 - x1) / 2;
      joins.push({ id, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
    }
  }
  return joins;
}
