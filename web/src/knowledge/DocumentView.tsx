// One document beside the table: what is known of it, its text with the borders of its chunks, the passage that
// was asked for in view.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { capabilities, knownCapabilities } from "../api/capability";
import { asProblem, type Problem } from "../api/problem";
import type { Chunk, DocumentInfo } from "../api/types";
import { bytes, fullMoment } from "../format";
import { number, t } from "../i18n";
import { go } from "../route";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { ProblemBox } from "../ui/ProblemBox";
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
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    let gone = false;
    const unless = <T,>(set: (value: T) => void) => (value: T) => { if (!gone) set(value); };
    const failed = unless<unknown>((error) => setProblem(asProblem(error)));
    api.document(collection, id).then(unless(setDocument), failed);
    void knownCapabilities().then((caps) => {
      if (caps.chunks) api.chunks(collection, id).then(unless(setChunks), failed);
      if (caps.content) api.content(collection, id).then(unless(setContent), failed);
    });
    return () => { gone = true; };
  }, [collection, id, settled.value]);
  useEffect(() => heading.current?.focus(), [document?.id]);

  const close = (): void => go({ page: "knowledge", collection });
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
              ...(capabilities.value.reindex ? [{ label: t("reindex"), act: reindex }] : []),
              { label: t("delete"), danger: true, act: () => void removeDocument(collection, document) },
            ]}><Icon name="more" /></Menu>
          )}
          <button type="button" class="quiet icon-only" aria-label={t("close")} onClick={close}><Icon name="close" /></button>
        </span>
      </header>
      <div class="panel-body">
        {problem !== undefined && <div class="pad"><ProblemBox problem={problem} /></div>}
        {document !== undefined && <Facts document={document} />}
        <Body chunks={chunks} content={content} from={from} to={to} />
      </div>
    </aside>
  );
}

function Facts({ document }: { document: DocumentInfo }) {
  const reason = reasonOf(document);
  const facts: [string, string][] = [
    [t("colType"), typeOf(document)],
    [t("colSize"), document.bytes === undefined ? "" : bytes(document.bytes)],
    [t("colChunks"), document.chunks === undefined ? "" : number(document.chunks)],
    [t("version"), document.version === undefined ? "" : number(document.version)],
    [t("colUpdated"), document.updated_at === undefined ? "" : fullMoment(document.updated_at)],
    [t("hash"), document.hash?.slice(0, 16) ?? ""],
    ...Object.entries(document.metadata ?? {}).map(([key, value]): [string, string] => [key, typeof value === "string" ? value : JSON.stringify(value)]),
  ];
  return (
    <div class="facts-box">
      <p class="source-where">{document.uri}</p>
      <Status status={document.status} reason="" />
      {reason !== "" && <p class="bad small">{reason}</p>}
      {(document.notes ?? []).map((note) => <p key={note} class="small">{note}</p>)}
      <dl>
        {facts.filter(([, value]) => value !== "").map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}
      </dl>
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
  if (!capabilities.value.chunks && !capabilities.value.content) return null;
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
