// What each way of searching has found, side by side: ranks and scores per leg, and what was left out and why.

import { useRef, useState } from "preact/hooks";
import type { Dropped, Explain, Hit, Place, SearchAnswer, SearchMode } from "../api/types";
import { readable } from "../chat/passage";
import { duration, fixed } from "../format";
import { number, t, tWord } from "../i18n";
import { pathOf } from "../route";
import { ProblemBox } from "../ui/ProblemBox";
import { Joins } from "./Joins";
import { marked } from "./marked";
import { asked, columns, lit } from "./state";

export function Columns({ collection }: { collection: string }) {
  const box = useRef<HTMLDivElement>(null);
  return (
    <div class="play-scroll" tabIndex={-1}>
      <div class="play-columns" ref={box} onPointerLeave={() => (lit.value = undefined)}>
        <Joins box={box} />
        {columns.value.map((column) => (
          <section key={column.mode} class="play-column" aria-label={t(`search_${column.mode}`)}>
            <header>
              <h2>{t(`search_${column.mode}`)}</h2>
              <p class="small">{t(`search_${column.mode}_text`)}</p>
              {column.answer !== undefined && <p class="small num">{t("nHits", { count: column.answer.hits.length })} · {duration(column.answer.took_ms)}</p>}
            </header>
            {column.problem !== undefined && <ProblemBox problem={column.problem} />}
            {column.answer?.hits.length === 0 && <p class="empty-note">{t("noHits")}</p>}
            <ol>{column.answer?.hits.map((hit, i) => <HitView key={hit.chunk_id} hit={hit} rank={i + 1} mode={column.mode} collection={collection} />)}</ol>
            {column.answer !== undefined && <LeftOut answer={column.answer} collection={collection} />}
          </section>
        ))}
      </div>
    </div>
  );
}

/** Each leg's word on a passage: its rank there, and its score. */
function Legs({ of }: { of: { dense?: Place; bm25?: Place } }) {
  const legs = ([["search_dense", of.dense], ["search_sparse", of.bm25]] as const).flatMap(([word, place]) => (place === undefined ? [] : [{ word, place }]));
  return (
    <span class="legs num">
      {legs.map(({ word, place }) => <span key={word} class="leg">{t(word)} <b>{number(place.rank)}</b> {fixed(place.score, 3)}</span>)}
    </span>
  );
}

function HitView({ hit, rank, mode, collection }: { hit: Hit; rank: number; mode: SearchMode; collection: string }) {
  const [open, setOpen] = useState(false);
  const best = Math.max(...(columns.value.find((c) => c.mode === mode)?.answer?.hits.map((h) => h.score) ?? [1]), 1e-9);
  return (
    <li class={`hit${lit.value === hit.chunk_id ? " lit" : ""}`} data-chunk={hit.chunk_id} onPointerEnter={() => (lit.value = hit.chunk_id)} onFocusIn={() => (lit.value = hit.chunk_id)}>
      <div class="hit-head">
        <span class="rank num">{number(rank)}</span>
        <a href={pathOf({ page: "knowledge", collection, document: hit.document_id, from: hit.start, to: hit.end })}>{hit.title === "" ? hit.uri : hit.title}</a>
        <span class="num small end">{fixed(hit.score, 3)}</span>
      </div>
      <span class="score wide"><i style={{ width: `${Math.max(0, (hit.score / best) * 100)}%` }} /></span>
      <p class={`passage${open ? "" : " clamp"}`}>{marked(readable(hit.text), asked.value).map((p, i) => (p.lit ? <mark key={i}>{p.text}</mark> : p.text))}</p>
      <p class="small num hit-foot">
        {hit.explain === undefined ? <span /> : <Legs of={hit.explain} />}
        <button type="button" class="textlink" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? t("less") : t("more")}</button>
      </p>
      {open && (
        <dl class="explain">
          {facts(hit, mode).map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}
        </dl>
      )}
    </li>
  );
}

function facts(hit: Hit, mode: SearchMode): [string, string][] {
  const others = columns.value.flatMap((c) => {
    const at = c.mode === mode ? -1 : (c.answer?.hits.findIndex((h) => h.chunk_id === hit.chunk_id) ?? -1);
    return at < 0 ? [] : [`${t(`search_${c.mode}`)} ${number(at + 1)}`];
  });
  const why: Partial<Explain> = hit.explain ?? {};
  const score = (value: number | null | undefined): string => (value == null ? "" : fixed(value, 4));
  const all: [string, string][] = [
    [t("explainWhere"), hit.uri + (hit.page === undefined ? "" : ` · ${t("page", { n: hit.page })}`) + (hit.lines === undefined ? "" : ` · ${t("lines", { from: hit.lines[0], to: hit.lines[1] })}`)],
    [t("explainHeadings"), (why.heading_path ?? []).join(" › ")],
    [t("explainChunk"), why.ordinal === undefined ? "" : number(why.ordinal + 1)],
    [t("explainCosine"), score(why.cosine)],
    [t("explainFused"), score(why.fused)],
    [t("explainRerank"), score(why.rerank)],
    [t("alsoFound"), others.length === 0 ? t("onlyHere") : others.join(", ")],
  ];
  return all.filter(([, value]) => value !== "");
}

/** What a leg named and the answer has not, grouped by the reason. */
function LeftOut({ answer, collection }: { answer: SearchAnswer; collection: string }) {
  const dropped = answer.dropped ?? [];
  if (dropped.length === 0) return null;
  const groups = new Map<string, Dropped[]>();
  for (const d of dropped) groups.set(d.reason, [...(groups.get(d.reason) ?? []), d]);
  return (
    <details class="dropped">
      <summary class="num">{t("nDropped", { count: dropped.length })}</summary>
      {[...groups].map(([reason, list]) => (
        <div key={reason}>
          <p>{tWord("dropped", reason)} <span class="num small">{number(list.length)}</span></p>
          <ul>{list.map((d, i) => <LeftOutRow key={i} dropped={d} collection={collection} />)}</ul>
        </div>
      ))}
    </details>
  );
}

function LeftOutRow({ dropped, collection }: { dropped: Dropped; collection: string }) {
  const id = dropped.document_id;
  const title = columns.value.flatMap((c) => c.answer?.hits ?? []).find((h) => h.document_id === id)?.title ?? id;
  return (
    <li onPointerEnter={() => (lit.value = dropped.chunk_id)}>
      {id === undefined ? <span>{t("droppedUnseen")}</span> : <a href={pathOf({ page: "knowledge", collection, document: id })}>{title}</a>}
      <Legs of={dropped} />
    </li>
  );
}
