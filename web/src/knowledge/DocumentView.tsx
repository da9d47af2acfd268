// One document beside the table: what is known of it, its text with the borders of its chunks, the passage that
// was asked for in view.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { capabilities } from "../api/capability";
import { asProblem, type Problem } from "../api/problem";
import type { Chunk, DocumentInfo } from "../api/types";
import { bytes, fullMoment } from "../format";
import { number, t } from "../i18n";
import { go, route } from "../route";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { ProblemBox } from "../ui/ProblemBox";
import { Describe } from "./Describe";
import { pieces, type Piece } from "./pieces";
import { removeDocument } from "./remove";
import { Status, typeOf } from "./Table";
import { reasonOf, settled } from "./uploads";

interface Props {
  collection: string;
  id: string;
  from: number | undefined;
  to: number | undefined;
}

export function DocumentView({ collection, id, from, to }: Props) {
  const [document, setDocument] = useState<DocumentInfo | undefined>(undefined);
  const [chunks, setChunks] = useState<Chunk[] | undefined>(undefined);
  const [content, setContent] = useState<string | undefined>(undefined);
  const [version, setVersion] = useState<number | undefined>(undefined);
  const [old, setOld] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    let gone = false;
    const unless = <T,>(set: (value: T) => void) => (value: T) => { if (!gone) set(value); };
    const failed = unless<unknown>((error) => setProblem(asProblem(error)));
    api.document(collection, id).then(unless(setDocument), failed);
    api.chunks(collection, id).then(unless(setChunks), failed);
    api.content(collection, id).then(unless(setContent), failed);
    return () => { gone = true; };
  }, [collection, id, settled.value]);
  useEffect(() => heading.current?.focus(), [document?.id]);
  useEffect(() => {
    setOld(undefined);
    if (version === undefined) return;
    let gone = false;
    api.content(collection, id, version).then((text) => { if (!gone) setOld(text); }, (error: unknown) => { if (!gone) setProblem(asProblem(error)); });
    return () => { gone = true; };
  }, [collection, id, version]);

  const at = route.peek();
  const close = (): void => go({ page: "knowledge", collection, ...(at.page === "knowledge" && at.view !== undefined ? { view: at.view } : {}) });
  const reindex = (): void => {
    api.reindex(collection, id).then(() => settled.value++, (error: unknown) => setProblem(asProblem(error)));
  };
  return (
    <aside class="document" aria-label={t("document")} onKeyDown={(e) => { if (e.key === "Escape") close(); }}>
      <header class="panel-head">
        <h2 tabIndex={-1} ref={heading} title={document?.title}>{document?.title ?? ""}</h2>
        <span class="end row tightly">
          {document !== undefined && (
            <Menu label={t("documentMenu")} items={[
              ...(capabilities.value.ingest ? [{ label: t("reindex"), act: reindex }] : []),
              { label: t("delete"), danger: true, act: () => void removeDocument(collection, document) },
            ]}><Icon name="more" /></Menu>
          )}
          <button type="button" class="quiet icon-only" aria-label={t("close")} onClick={close}><Icon name="close" /></button>
        </span>
      </header>
      <div class="panel-body">
        {problem !== undefined && <div class="pad"><ProblemBox problem={problem} /></div>}
        {document !== undefined && <Facts collection={collection} document={document} onProblem={setProblem} onSaved={(saved) => { setDocument({ ...document, ...saved }); settled.value++; }} />}
        {document !== undefined && <Versions document={document} chosen={version} onChoose={setVersion} />}
        {document !== undefined && <Cited document={document} />}
        {version === undefined ? <Body chunks={chunks} content={content} from={from} to={to} /> : <Body chunks={[]} content={old} from={undefined} to={undefined} />}
      </div>
    </aside>
  );
}

/** The versions that are kept; one that is chosen is read below in the place of the live one. */
function Versions({ document, chosen, onChoose }: { document: DocumentInfo; chosen: number | undefined; onChoose(version: number | undefined): void }) {
  const versions = document.versions ?? [];
  if (versions.length < 2) return null;
  return (
    <section class="versions pad" aria-label={t("versions")}>
      <h3>{t("versions")}</h3>
      <ol>
        {versions.map((v) => {
          const live = v.superseded_at === undefined;
          return (
            <li key={v.version}>
              <button type="button" class="chip" aria-pressed={live ? chosen === undefined : chosen === v.version} onClick={() => onChoose(live ? undefined : v.version)}>
                <span class="num">{number(v.version)}</span> {fullMoment(v.created_at)} {live && <b>{t("versionLive")}</b>}
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Cited({ document }: { document: DocumentInfo }) {
  const cited = document.cited_in ?? [];
  if (cited.length === 0) return null;
  return (
    <details class="cited pad">
      <summary>{t("citedIn", { count: cited.length })}</summary>
      <ul>{cited.map((c) => <li key={c.id}><a href={`/c/${encodeURIComponent(c.id)}`}>{c.title}</a></li>)}</ul>
    </details>
  );
}

/** A document that failed is tried again, one that is worked on is let go. */
function JobActs({ document, job, onProblem }: { document: DocumentInfo; job: string; onProblem(problem: Problem): void }) {
  const failed = document.status === "failed";
  const act = (): void => {
    (failed ? api.retryJob(job) : api.cancelJob(job)).then(() => settled.value++, (error: unknown) => onProblem(asProblem(error)));
  };
  return <button type="button" class="btn small" onClick={act}><Icon name={failed ? "again" : "close"} size={15} />{t(failed ? "tryAgain" : "cancel")}</button>;
}

function Facts({ collection, document, onSaved, onProblem }: { collection: string; document: DocumentInfo; onSaved(document: DocumentInfo): void; onProblem(problem: Problem): void }) {
  const [editing, setEditing] = useState(false);
  const reason = reasonOf(document);
  const facts: [string, string][] = [
    [t("colType"), typeOf(document)],
    [t("colSize"), document.bytes === undefined ? "" : bytes(document.bytes)],
    [t("colChunks"), document.chunks === undefined ? "" : number(document.chunks)],
    [t("version"), document.version === undefined ? "" : number(document.version)],
    [t("colUpdated"), document.updated_at === undefined ? "" : fullMoment(document.updated_at)],
    [t("hash"), document.hash?.slice(0, 16) ?? ""],
  ];
  const metadata = Object.entries(document.metadata ?? {});
  return (
    <div class="facts-box">
      <p class="source-where">{document.uri}</p>
      <Status status={document.status} reason="" />
      {reason !== "" && <p class="bad small">{reason}</p>}
      {document.job_id !== undefined && capabilities.value.ingest && <JobActs document={document} job={document.job_id} onProblem={onProblem} />}
      {(document.notes ?? []).map((note) => <p key={note} class="small">{note}</p>)}
      <dl>
        {facts.filter(([, value]) => value !== "").map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}
      </dl>
      <div class="meta-head">
        <h3>{t("metadata")}</h3>
        {!editing && document.versions !== undefined && capabilities.value.ingest && (
          <button type="button" class="textlink end" onClick={() => setEditing(true)}>{t("editMetadata")}</button>
        )}
      </div>
      {editing ? (
        <Describe collection={collection} document={document} onClose={() => setEditing(false)} onSaved={onSaved} onProblem={onProblem} />
      ) : metadata.length === 0 ? <p class="small">{t("noMetadata")}</p> : (
        <dl>{metadata.map(([key, value]) => <div key={key}><dt>{key}</dt><dd class="num">{typeof value === "string" ? value : JSON.stringify(value)}</dd></div>)}</dl>
      )}
    </div>
  );
}

interface BodyProps {
  chunks: Chunk[] | undefined;
  content: string | undefined;
  from: number | undefined;
  to: number | undefined;
}

function Body({ chunks, content, from, to }: BodyProps) {
  const box = useRef<HTMLDivElement>(null);
  const cut = pieces(content, chunks, from, to);
  useEffect(() => {
    box.current?.querySelector(".highlighted")?.scrollIntoView({ block: "center" });
  }, [cut.length, from]);
  return <div class="doc-text" ref={box}>{cut.map((piece, i) => <PieceView key={i} piece={piece} />)}</div>;
}

function PieceView({ piece }: { piece: Piece }) {
  return (
    <section class={piece.chunk === undefined ? "gap" : "chunk"}>
      {piece.chunk !== undefined && (
        <div class="chunk-mark num" title={t("chunkSpan", { from: piece.start, to: piece.end })}>
          {number(piece.chunk + 1)}{piece.page !== undefined && <span>{t("page", { n: piece.page })}</span>}
        </div>
      )}
      <p>{piece.parts.map((part, i) => (part.lit ? <mark key={i} class="highlighted">{part.text}</mark> : part.text))}</p>
    </section>
  );
}
