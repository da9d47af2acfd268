// Caring for a collection: what is in it, adding, looking at one document, deleting.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { capabilities, knownCapabilities } from "../api/capability";
import { asProblem } from "../api/problem";
import type { Collection, Reindexing } from "../api/types";
import { collections, loadChoices } from "../chat/choices";
import { bytes } from "../format";
import { number, t } from "../i18n";
import { prefs, setPrefs } from "../prefs";
import { go, pathOf, route, type View } from "../route";
import { confirmed } from "../ui/Confirm";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { PageHead } from "../ui/PageHead";
import { ProblemBox } from "../ui/ProblemBox";
import { lazy } from "../lazy";
import { DocumentView } from "./DocumentView";
import { NewCollection } from "./NewCollection";
import { Table } from "./Table";
import { proof } from "./remove";
import { complete, counts, documents, isWorking, known, loadDocuments, problem, status, words, type StatusFilter } from "./documents";
import { settled, takeFiles, takeUrl } from "./uploads";

const MapView = lazy<{ collection: string }>(async () => (await import("./MapView")).default);
const JobsView = lazy<{ collection: string }>(async () => (await import("./JobsView")).default);

/** While documents are being worked on, the table looks again this often. */
const LOOK_MS = 2500;

const rebuilding = signal<{ name: string; state: Reindexing } | undefined>(undefined);

export function KnowledgePage() {
  const at = route.value.page === "knowledge" ? route.value : { page: "knowledge" as const };
  const name = at.collection ?? prefs.value.collection[0] ?? "default";
  useEffect(() => {
    document.title = `${t("knowledge")} · Tailrace`;
    void knownCapabilities();
  }, []);
  useEffect(() => void loadDocuments(name), [name, settled.value]);
  const working = documents.value.some(isWorking) && complete.value;
  useEffect(() => {
    if (!working) return;
    const timer = setInterval(() => void loadDocuments(name), LOOK_MS);
    return () => clearInterval(timer);
  }, [working, name]);
  return (
    <main class={`knowledge${at.document === undefined ? "" : " with-document"}`} tabIndex={-1}>
      <div class="knowledge-main">
        <PageHead title={t("knowledge")}>
          <CollectionMenu name={name} />
        </PageHead>
        <Tabs name={name} view={at.view} />
        {capabilities.value.ingest && <Adding name={name} />}
        <Proof />
        {problem.value !== undefined && <div class="pad"><ProblemBox problem={problem.value} onRetry={() => void loadDocuments(name)} /></div>}
        {at.view === "jobs" ? <JobsView collection={name} />
          : known.value && documents.value.length === 0 && problem.value === undefined ? <Empty name={name} />
          : at.view === "map" ? <MapView collection={name} />
          : <><Filters /><Table collection={name} current={at.document} /></>}
      </div>
      {at.document !== undefined && <DocumentView key={at.document} collection={name} id={at.document} from={at.from} to={at.to} />}
    </main>
  );
}

const VIEWS = [
  { view: undefined, icon: "list", label: "viewList" }, { view: "map", icon: "map", label: "viewMap" }, { view: "jobs", icon: "activity", label: "viewJobs" },
] as const;

function Views({ name, now }: { name: string; now: View | undefined }) {
  return (
    <div class="views" role="group" aria-label={t("views")}>
      {VIEWS.filter((v) => v.view !== "jobs" || capabilities.value.ingest).map(({ view, icon, label }) => (
        <a key={label} href={pathOf({ page: "knowledge", collection: name, ...(view === undefined ? {} : { view }) })} aria-current={view === now ? "page" : undefined}>
          <Icon name={icon} size={15} /><span>{t(label)}</span>
        </a>
      ))}
    </div>
  );
}

function Tabs({ name, view }: { name: string; view: View | undefined }) {
  const [adding, setAdding] = useState(false);
  return (
    <nav class="tabs" aria-label={t("collections")}>
      {collections.value.map((c) => (
        <a key={c.name} href={pathOf({ page: "knowledge", collection: c.name })} aria-current={c.name === name ? "page" : undefined}>
          {c.name} <span class="num">{number(c.documents)}</span>
        </a>
      ))}
      {adding ? <NewCollection onClose={() => setAdding(false)} /> : capabilities.value.admin && (
        <button type="button" class="quiet" onClick={() => setAdding(true)}><Icon name="plus" size={15} /><span>{t("newCollection")}</span></button>
      )}
      <Views name={name} now={view} />
    </nav>
  );
}

function CollectionMenu({ name }: { name: string }) {
  const of: Collection | undefined = collections.value.find((c) => c.name === name);
  const asks = prefs.value.collection.includes(name);
  const remove = async (): Promise<void> => {
    if (!(await confirmed(t("deleteCollectionTitle", { name }), t("deleteCollectionText", { count: of?.documents ?? 0 }), t("delete")))) return;
    try {
      await api.deleteCollection(name);
      await loadChoices();
      go({ page: "knowledge", collection: "default" });
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  const rebuild = async (): Promise<void> => {
    if (!(await confirmed(t("reindexCollectionTitle", { name }), t("reindexCollectionText"), t("reindexCollection")))) return;
    try {
      rebuilding.value = { name, state: await api.reindexCollection(name) };
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  return (
    <>
      <Rebuilding name={name} />
      {of !== undefined && (
        <span class="small num facts">
          {t("nChunks", { count: of.chunks })} · {of.embedding_model} · {t("dimensions", { count: of.dimension })}
        </span>
      )}
      <Menu label={t("collectionMenu")} items={[
        { label: asks ? t("askedAlready") : t("askThis"), act: () => { setPrefs({ collection: [name] }); go({ page: "chat" }); } },
        ...(capabilities.value.admin ? [{ label: t("reindexCollection"), act: () => void rebuild() }] : []),
        { label: t("searchThis"), act: () => { setPrefs({ collection: [name] }); go({ page: "search" }); } },
        ...(name === "default" || !capabilities.value.admin ? [] : ["line" as const, { label: t("deleteCollection"), danger: true, act: () => void remove() }]),
      ]}><Icon name="more" /></Menu>
    </>
  );
}

/** How far the new build of the collection has come; while there is one, it is looked at again and again. */
function Rebuilding({ name }: { name: string }) {
  const now = rebuilding.value?.name === name ? rebuilding.value.state : undefined;
  useEffect(() => {
    let gone = false;
    const look = (): void => void api.collection(name).then((found) => {
      if (gone) return;
      const before = rebuilding.peek();
      rebuilding.value = found.reindex === undefined ? undefined : { name, state: found.reindex };
      if (before?.name === name && found.reindex === undefined) void loadChoices().then(() => settled.value++);
    }, () => undefined);
    look();
    const timer = setInterval(() => { if (rebuilding.peek()?.name === name) look(); }, LOOK_MS);
    return () => { gone = true; clearInterval(timer); };
  }, [name]);
  if (now === undefined) return null;
  return (
    <span class="small num rebuilding" role="status" title={now.error ?? now.embedding_model}>
      <progress max={Math.max(1, now.total)} value={now.done} aria-hidden="true" />
      <span class={now.error === undefined ? "" : "bad"}>{t(now.error === undefined ? "rebuilding" : "rebuildingFailed", { done: now.done, total: now.total })}</span>
    </span>
  );
}

function Adding({ name }: { name: string }) {
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const [wrong, setWrong] = useState(false);
  useEffect(() => folder.current?.setAttribute("webkitdirectory", ""), []);
  const take = (input: HTMLInputElement): void => {
    takeFiles(name, [...(input.files ?? [])]);
    input.value = "";
  };
  return (
    <div class="adding">
      <input ref={files} type="file" multiple hidden aria-label={t("chooseFiles")} onChange={(e) => take(e.currentTarget)} />
      <input ref={folder} type="file" multiple hidden aria-label={t("chooseFolder")} onChange={(e) => take(e.currentTarget)} />
      <button type="button" class="btn primary" onClick={() => files.current?.click()}><Icon name="upload" size={16} />{t("chooseFiles")}</button>
      <button type="button" class="btn folder" onClick={() => folder.current?.click()}><Icon name="folder" size={16} />{t("chooseFolder")}</button>
      <form class="add-url" onSubmit={(e) => {
        e.preventDefault();
        const input = e.currentTarget.elements.namedItem("url") as HTMLInputElement;
        const ok = /^https?:\/\/[^\s/]+/i.test(input.value.trim());
        setWrong(!ok);
        if (!ok) return;
        takeUrl(name, input.value.trim());
        input.value = "";
      }}>
        <input name="url" type="text" inputMode="url" placeholder={t("addUrl")} aria-label={t("addUrl")} aria-invalid={wrong} />
        <button type="submit" class="btn" aria-label={t("add")}><Icon name="globe" size={16} /><span>{t("add")}</span></button>
      </form>
      <span class="small">{wrong ? <span class="bad" role="alert">{t("urlRule")}</span> : t("dropAnywhere")}</span>
    </div>
  );
}

/** What the server counted before and after a deletion. */
function Proof() {
  const done = proof.value;
  if (done === undefined) return null;
  return (
    <div class="proof" role="status">
      <Icon name="check" size={16} />
      <span class="num">{t("deleteProof", { title: done.title, before: done.before, after: done.after })}</span>
      <button type="button" class="quiet icon-only end" aria-label={t("close")} onClick={() => (proof.value = undefined)}><Icon name="close" size={15} /></button>
    </div>
  );
}

const FILTERS = ["all", "indexed", "working", "failed"] as const satisfies readonly StatusFilter[];

function Filters() {
  const labels = { all: t("filterAll"), indexed: t("filterIndexed"), working: t("filterWorking"), failed: t("filterFailed") };
  return (
    <div class="filters">
      <label class="find boxed">
        <Icon name="search" size={15} />
        <input type="search" value={words.value} placeholder={t("findDocuments")} aria-label={t("findDocuments")} onInput={(e) => (words.value = e.currentTarget.value)} />
      </label>
      {FILTERS.map((f) => (
        <button key={f} type="button" class="chip" aria-pressed={status.value === f} onClick={() => (status.value = f)}>
          {labels[f]} <span class="num">{number(counts.value[f])}</span>
        </button>
      ))}
      <span class="small num end">{complete.value ? bytes(documents.value.reduce((sum, d) => sum + (d.bytes ?? 0), 0)) : t("loading")}</span>
    </div>
  );
}

function Empty({ name }: { name: string }) {
  return (
    <div class="empty">
      <Icon name="book" size={30} />
      <h2>{t("emptyCollection", { name })}</h2>
      <p>{t("emptyCollectionText")}</p>
    </div>
  );
}
