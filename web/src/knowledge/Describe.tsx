// What a document is called, and what is noted about it: for people and for filters. Nothing is embedded again.

import { useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { DocumentInfo } from "../api/types";
import { t } from "../i18n";
import { Icon } from "../ui/Icon";

interface Props {
  collection: string;
  document: DocumentInfo;
  onClose(): void;
  onSaved(document: DocumentInfo): void;
  onProblem(problem: Problem): void;
}

interface Field {
  readonly key: string;
  readonly value: string;
}

/** Text as it is; everything else as JSON, so that a number stays one. */
export function shown(value: unknown): string {
  return typeof value === "string" && !looksLikeJson(value) ? value : JSON.stringify(value);
}

export function meant(text: string): unknown {
  if (!looksLikeJson(text)) return text;
  return JSON.parse(text) as unknown;
}

function looksLikeJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function Describe({ collection, document, onClose, onSaved, onProblem }: Props) {
  const [title, setTitle] = useState(document.title);
  const [fields, setFields] = useState<readonly Field[]>(Object.entries(document.metadata ?? {}).map(([key, value]) => ({ key, value: shown(value) })));
  const change = (at: number, by: Partial<Field>): void => setFields(fields.map((f, i) => (i === at ? { ...f, ...by } : f)));
  const save = (): void => {
    // The server keeps what is not named: what has been taken out is named as nothing.
    const gone = Object.keys(document.metadata ?? {}).map((key): [string, unknown] => [key, null]);
    const metadata = Object.fromEntries(gone.concat(fields.filter((f) => f.key.trim() !== "").map((f) => [f.key.trim(), meant(f.value.trim())])));
    api.describe(collection, document.id, { title: title.trim(), metadata }).then((saved) => {
      onSaved(saved);
      onClose();
    }, (error: unknown) => onProblem(asProblem(error)));
  };
  return (
    <form class="describe" onSubmit={(e) => { e.preventDefault(); save(); }} onKeyDown={(e) => { if (e.key === "Escape") { e.stopPropagation(); onClose(); } }}>
      <label class="field">{t("title")}<input value={title} maxLength={300} onInput={(e) => setTitle(e.currentTarget.value)} /></label>
      {fields.map((field, i) => (
        <div key={i} class="condition">
          <input class="filter-key" value={field.key} aria-label={t("filterKey")} placeholder={t("filterKey")} onInput={(e) => change(i, { key: e.currentTarget.value })} />
          <input class="grow" value={field.value} aria-label={t("filterValue")} placeholder={t("filterValue")} onInput={(e) => change(i, { value: e.currentTarget.value })} />
          <button type="button" class="quiet icon-only" aria-label={`${t("removeField")}: ${field.key}`} title={t("removeField")} onClick={() => setFields(fields.filter((_, at) => at !== i))}><Icon name="close" size={15} /></button>
        </div>
      ))}
      <div class="row">
        <button type="button" class="btn small" onClick={() => setFields([...fields, { key: "", value: "" }])}><Icon name="plus" size={14} />{t("addField")}</button>
        <span class="end row">
          <button type="button" class="btn small" onClick={onClose}>{t("cancel")}</button>
          <button type="submit" class="btn small primary">{t("save")}</button>
        </span>
      </div>
    </form>
  );
}
