// One query, three ways of searching side by side: who finds what, where, and why.

import { useEffect, useRef, useState } from "preact/hooks";
import { collections } from "../chat/choices";
import { t } from "../i18n";
import { prefs } from "../prefs";
import { go, route } from "../route";
import { Icon } from "../ui/Icon";
import { PageHead } from "../ui/PageHead";
import { Columns } from "./Columns";
import { asOf, busy, columns, conditions, filterKeys, limit, query, rerank, search, type Condition } from "./state";

export function PlaygroundPage() {
  const at = route.value;
  const wanted = at.page === "search" ? at : { page: "search" as const };
  const name = wanted.collection ?? prefs.value.collection[0] ?? "default";
  const [more, setMore] = useState(conditions.peek().length > 0 || asOf.peek() !== "" || rerank.peek());
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${t("playground")} · Tailrace`;
    field.current?.focus();
  }, []);
  // The address says what was looked for, so that it can be passed on, and Back leads to it.
  useEffect(() => {
    if (wanted.query === undefined) return;
    query.value = wanted.query;
    void search(name);
  }, [wanted.query, name]);
  const ask = (): void => {
    const text = query.value.trim();
    if (text === "") return;
    if (wanted.query === text) void search(name);
    else go({ page: "search", query: text, collection: name });
  };
  const keeps = (collections.value.find((c) => c.name === name)?.keep_versions ?? 1) > 1;
  return (
    <main class="playground" tabIndex={-1}>
      <PageHead title={t("playground")} />
      <form class="play-form" onSubmit={(e) => { e.preventDefault(); ask(); }}>
        <div class="play-line">
          <label class="find boxed grow">
            <Icon name="search" size={16} />
            <input ref={field} type="search" value={query.value} placeholder={t("playQuery")} aria-label={t("playQuery")} onInput={(e) => (query.value = e.currentTarget.value)} />
          </label>
          <select aria-label={t("collection")} value={name} onChange={(e) => go({ page: "search", ...(wanted.query === undefined ? {} : { query: wanted.query }), collection: e.currentTarget.value })}>
            {collections.value.map((c) => <option key={c.name}>{c.name}</option>)}
          </select>
          <select aria-label={t("howMany")} value={limit.value} onChange={(e) => (limit.value = Number(e.currentTarget.value))}>
            {[5, 8, 20, 50].map((n) => <option key={n} value={n}>{t("nHits", { count: n })}</option>)}
          </select>
          <button type="button" class="btn" aria-expanded={more} onClick={() => setMore(!more)}><Icon name="sliders" size={15} />{t("filters")}</button>
          <button type="submit" class="btn primary" disabled={query.value.trim() === ""}>{t("search")}</button>
        </div>
        {more && (
          <div class="play-more">
            {conditions.value.map((c, i) => <ConditionRow key={i} condition={c} at={i} />)}
            <button type="button" class="btn small" onClick={() => (conditions.value = [...conditions.value, { key: "", not: false, value: "" }])}><Icon name="plus" size={14} />{t("addCondition")}</button>
            <label class="check small"><input type="checkbox" checked={rerank.value} onChange={(e) => (rerank.value = e.currentTarget.checked)} />{t("rerank")}</label>
            {keeps && <label class="check small">{t("asOf")}<input type="datetime-local" value={asOf.value} onChange={(e) => (asOf.value = e.currentTarget.value)} /></label>}
            <datalist id="filter-keys">{filterKeys().map((key) => <option key={key} value={key} />)}</datalist>
          </div>
        )}
      </form>
      {busy.value && <div class="progress" />}
      {columns.value.length === 0 ? (
        <div class="empty"><Icon name="compare" size={30} /><h2>{t("playEmpty")}</h2><p>{t("playEmptyText")}</p></div>
      ) : <Columns collection={name} />}
    </main>
  );
}

function ConditionRow({ condition, at }: { condition: Condition; at: number }) {
  const change = (by: Partial<Condition>): void => void (conditions.value = conditions.value.map((c, i) => (i === at ? { ...c, ...by } : c)));
  return (
    <span class="condition">
      <input class="filter-key" list="filter-keys" value={condition.key} placeholder={t("filterKey")} aria-label={t("filterKey")} onInput={(e) => change({ key: e.currentTarget.value })} />
      <select aria-label={t("filterHow")} value={condition.not ? "not" : "is"} onChange={(e) => change({ not: e.currentTarget.value === "not" })}>
        <option value="is">{t("filterIs")}</option>
        <option value="not">{t("filterIsNot")}</option>
      </select>
      <input class="filter-value" value={condition.value} placeholder={t("filterValue")} aria-label={t("filterValue")} onInput={(e) => change({ value: e.currentTarget.value })} />
      <button type="button" class="quiet icon-only" aria-label={t("removeCondition")} title={t("removeCondition")} onClick={() => (conditions.value = conditions.value.filter((_, i) => i !== at))}><Icon name="close" size={15} /></button>
    </span>
  );
}
