// The documents as a table that stays fast at ten thousand rows: only what can be seen is in the page. Arrow keys
// move, Enter opens, Delete deletes.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { DocumentInfo } from "../api/types";
import { bytes, fullMoment, moment } from "../format";
import { number, t, tWord } from "../i18n";
import { go } from "../route";
import { rows, sort, sortBy, known, type SortKey } from "./documents";
import { removeDocument } from "./remove";
import { reasonOf } from "./uploads";

const ROW = 42;
const HEAD = 36;
const EXTRA = 8;

const COLUMNS: readonly { key: SortKey; label: "colName" | "colType" | "colChunks" | "colSize" | "colStatus" | "colUpdated"; right?: boolean }[] = [
  { key: "title", label: "colName" },
  { key: "mime", label: "colType" },
  { key: "chunks", label: "colChunks", right: true },
  { key: "bytes", label: "colSize", right: true },
  { key: "status", label: "colStatus" },
  { key: "updated_at", label: "colUpdated", right: true },
];

export function Table({ collection, current }: { collection: string; current: string | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [at, setAt] = useState(0);
  const list = rows.value;

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const first = Math.max(0, Math.floor(view.top / ROW) - EXTRA);
  const last = Math.min(list.length, Math.ceil((view.top + view.height) / ROW) + EXTRA);
  const openAt = (index: number): void => {
    const document = list[index];
    if (document !== undefined) go({ page: "knowledge", collection, document: document.id });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 2);
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: list.length - 1,
    }[event.key];
    if (event.key === "Enter") openAt(at);
    else if (event.key === "Delete" && list[at] !== undefined) void removeDocument(collection, list[at]);
    else if (to === undefined) return;
    else move(Math.min(list.length - 1, Math.max(0, to)));
    event.preventDefault();
  };
  const move = (index: number): void => {
    setAt(index);
    const element = box.current;
    if (element === null) return;
    if (index * ROW < element.scrollTop) element.scrollTop = index * ROW;
    if (HEAD + (index + 1) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = HEAD + (index + 1) * ROW - element.clientHeight;
  };

  return (
    <div class="doc-table" ref={box} onScroll={(e) => setView({ top: e.currentTarget.scrollTop, height: e.currentTarget.clientHeight })} role="grid" aria-label={t("documents")} aria-rowcount={list.length + 1} aria-colcount={COLUMNS.length} tabIndex={0}
      aria-activedescendant={list[at] === undefined ? undefined : `row-${at}`} onKeyDown={onKeyDown}>
      <div class="doc-head" role="row" aria-rowindex={1}>
        {COLUMNS.map(({ key, label, right }) => (
          <div key={key} role="columnheader" class={`c-${key}${right === true ? " right" : ""}`}
            aria-sort={sort.value.key === key ? (sort.value.down ? "descending" : "ascending") : "none"}>
            <button type="button" tabIndex={-1} onClick={() => sortBy(key)}>
              {t(label)}<span aria-hidden="true">{sort.value.key === key ? (sort.value.down ? " ↓" : " ↑") : ""}</span>
            </button>
          </div>
        ))}
      </div>
      <div class="doc-rows" role="rowgroup">
        <div role="presentation" style={{ height: `${list.length * ROW}px`, position: "relative" }}>
          {list.slice(first, last).map((document, i) => (
            // The same few boxes are used again and again: scrolling makes no new ones.
            <Row key={(first + i) % (last - first)} index={first + i} document={document} on={document.id === current} at={first + i === at}
              onPick={() => { setAt(first + i); openAt(first + i); }} />
          ))}
        </div>
        {known.value && list.length === 0 && <p class="empty-note">{t("noMatch")}</p>}
      </div>
    </div>
  );
}

interface RowProps {
  document: DocumentInfo;
  index: number;
  on: boolean;
  at: boolean;
  onPick(): void;
}

function Row({ document, index, on, at, onPick }: RowProps) {
  const reason = reasonOf(document);
  return (
    <div class={`doc-row${on ? " on" : ""}${at ? " at" : ""}`} role="row" id={`row-${index}`} aria-rowindex={index + 2} aria-selected={on}
      style={{ top: `${index * ROW}px` }} onClick={onPick}>
      <div role="gridcell" class="c-title"><b>{document.title === "" ? document.uri : document.title}</b><span>{document.uri === document.title ? "" : document.uri}</span></div>
      <div role="gridcell" class="c-mime">{typeOf(document)}</div>
      <div role="gridcell" class="c-chunks right">{document.chunks === undefined ? "" : number(document.chunks)}</div>
      <div role="gridcell" class="c-bytes right">{document.bytes === undefined ? "" : bytes(document.bytes)}</div>
      <div role="gridcell" class="c-status" title={reason}><Status status={document.status} reason={reason} {...(document.total ? { share: `${document.done ?? 0}/${document.total}` } : {})} /></div>
      <div role="gridcell" class="c-updated_at right" title={document.updated_at === undefined ? "" : fullMoment(document.updated_at)}>{moment(document.updated_at)}</div>
    </div>
  );
}

export function Status({ status, reason, share }: { status: string; reason: string; share?: string }) {
  const kind = status === "indexed" ? "good" : status === "failed" ? "failed" : "working";
  return <span class={`status ${kind}`}><i aria-hidden="true" />{tWord("upload", status)}{kind === "working" && share !== undefined && <span class="num"> {share}</span>}{reason !== "" && <span class="reason">{reason}</span>}</span>;
}

const TYPES: Readonly<Record<string, string>> = {
  markdown: "Markdown", plain: "Text", text: "Text", html: "HTML", "xhtml+xml": "HTML", pdf: "PDF", csv: "CSV", json: "JSON", xml: "XML", "epub+zip": "EPUB", rfc822: "E-Mail", zip: "ZIP",
};

export function typeOf(document: DocumentInfo): string {
  const mime = document.mime?.split(";")[0] ?? "";
  if (mime.includes("wordprocessingml")) return "Word";
  if (mime.includes("spreadsheetml")) return "Excel";
  if (mime.includes("presentationml")) return "PowerPoint";
  const kind = mime.split("/").at(-1) ?? "";
  return TYPES[kind] ?? kind;
}
