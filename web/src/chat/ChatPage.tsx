// The conversation: the column in the middle, the composer under it, the sources beside it.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { reconnecting } from "../api/feed";
import { asProblem } from "../api/problem";
import { answerText } from "../fold";
import { fullMoment } from "../format";
import { t } from "../i18n";
import { prefs, setPrefs } from "../prefs";
import { Icon } from "../ui/Icon";
import { ProblemBox } from "../ui/ProblemBox";
import { confirmed } from "../ui/Confirm";
import { Menu } from "../ui/Menu";
import { go, route } from "../route";
import { sidebarOpen } from "./Sidebar";
import { Answer } from "./Answer";
import { markCitations } from "./citations";
import { ClaimLine, ClaimList } from "./ClaimList";
import { showClaims } from "./claims";
import { Composer, focusComposer } from "./Composer";
import { collections, providers } from "./choices";
import { conversations, forget, rename } from "./conversations";
import { save } from "./export";
import { FirstRun } from "./FirstRun";
import { onDrawn } from "./Markdown";
import { runClock, stopClock } from "./now";
import { CitePreview, SourcesPanel, onCite } from "./Sources";
import { Timeline } from "./Timeline";
import { ask, conversation, current, exchanges, loadProblem, loading, open, retry, running, sourceCount, turnOf, type Exchange } from "./thread";

export function ChatPage() {
  const wanted = route.value.page === "chat" ? route.value.conversation : undefined;
  useEffect(() => void open(wanted), [wanted]);
  const panel = prefs.value.sourcesOpen && exchanges.value.length > 0;
  return (
    <div class={`chat${panel ? " with-sources" : ""}`}>
      <main class="middle">
        <TopBar />
        <Connection />
        <Thread />
        <Composer />
      </main>
      {panel && <SourcesPanel />}
      {panel && <button type="button" class="scrim" aria-label={t("closeSources")} onClick={() => setPrefs({ sourcesOpen: false })} />}
      <CitePreview />
    </div>
  );
}

function Connection() {
  const lost = reconnecting.value > 0;
  return <div class={`connection${lost ? " lost" : ""}`} role="status">{lost && t("reconnecting")}</div>;
}

export const title = (): string => {
  const id = conversation.value;
  if (id === undefined) return exchanges.value[0]?.question.split("\n")[0]?.slice(0, 80) ?? t("newConversation");
  return conversations.value.find((c) => c.id === id)?.title ?? exchanges.value[0]?.question.split("\n")[0]?.slice(0, 80) ?? "";
};

function TopBar() {
  const [editing, setEditing] = useState(false);
  const id = conversation.value;
  const name = title();
  useEffect(() => {
    document.title = name === "" ? "Tailrace" : `${name} · Tailrace`;
  }, [name]);
  const count = sourceCount.value;
  const remove = async (): Promise<void> => {
    if (id === undefined || !(await confirmed(t("deleteConversationTitle"), t("deleteConversationText"), t("delete")))) return;
    await forget(id);
    go({ page: "chat" });
  };
  const exported = (format: "md" | "json"): void => {
    if (id !== undefined) save(id, name, format).catch((error: unknown) => (loadProblem.value = asProblem(error)));
  };
  const link = (): void => void navigator.clipboard.writeText(location.href);
  return (
    <header class="topbar">
      <button type="button" class="quiet icon-only only-narrow" aria-label={t("openMenu")} onClick={() => (sidebarOpen.value = true)}><Icon name="menu" /></button>
      {editing && id !== undefined ? (
        <input class="title-edit" aria-label={t("title")} value={name} ref={(e) => e?.focus()} maxLength={200}
          onBlur={(e) => { setEditing(false); if (e.currentTarget.value.trim() !== "" && e.currentTarget.value !== name) void rename(id, e.currentTarget.value.trim()); }}
          onKeyDown={(e) => { if (e.key === "Enter") e.currentTarget.blur(); if (e.key === "Escape") { e.currentTarget.value = name; e.currentTarget.blur(); } }} />
      ) : (
        <h1 class="title" title={name} onDblClick={() => setEditing(id !== undefined)}>{name}</h1>
      )}
      <div class="top-end">
        <ModelChip />
        <CollectionChip />
        {id !== undefined && (
          <Menu label={t("conversationMenu")} items={[
            { label: t("rename"), act: () => setEditing(true) },
            { label: t("copyLink"), act: link },
            "line",
            { label: t("exportMarkdown"), act: () => exported("md") },
            { label: t("exportJson"), act: () => exported("json") },
            "line",
            { label: t("delete"), danger: true, act: () => void remove() },
          ]}><Icon name="more" /></Menu>
        )}
        <button type="button" class="quiet with-count" aria-pressed={prefs.value.sourcesOpen}
          aria-label={count > 0 ? `${t("sources")}: ${count}` : t("sources")} title={t("sources")}
          onClick={() => setPrefs({ sourcesOpen: !prefs.value.sourcesOpen })}>
          <Icon name="panel" />{count > 0 && <span class="num">{count}</span>}
        </button>
      </div>
    </header>
  );
}

function ModelChip() {
  const used = current.value === undefined ? undefined : turnOf(current.value).start;
  const chosen = prefs.value.provider ?? used?.provider ?? providers.value[0]?.id;
  if (chosen === undefined) return null;
  const of = providers.value.find((p) => p.id === chosen);
  const model = prefs.value.model ?? of?.model ?? used?.model ?? "";
  return (
    <a class="chip model" href="/settings" title={t("modelChip")}>
      <span class="dot" aria-hidden="true" />{model === "" ? chosen : shortModel(model)}
    </a>
  );
}

function shortModel(model: string): string {
  return model.split("/").at(-1) ?? model;
}

function CollectionChip() {
  const chosen = prefs.value.collection;
  const found = collections.value.filter((c) => chosen.includes(c.name));
  if (found.length === 0) return null;
  const count = found.reduce((sum, c) => sum + c.documents, 0);
  return (
    <a class="chip collection" href={`/knowledge/${encodeURIComponent(chosen[0] ?? "default")}`}>
      {chosen.join(", ")} · {t("nDocuments", { count })}
    </a>
  );
}

/** How near to the end counts as being there. */
const NEAR = 80;

function Thread() {
  const scroll = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);
  const follows = useRef(true);
  const list = exchanges.value;

  useLayoutEffect(() => {
    const box = scroll.current;
    const content = inner.current;
    if (box === null || content === null) return;
    const follow = (): void => {
      if (follows.current) box.scrollTop = box.scrollHeight;
    };
    const grow = new ResizeObserver(() => {
      follow();
      setAway(!follows.current && !atEnd(box));
    });
    grow.observe(content);
    // In the frame that drew it, before the browser lays it out: one layout, not two.
    const off = onDrawn(follow);
    return () => {
      off();
      grow.disconnect();
    };
  }, []);
  // A new question always brings the reader to it; a link to an answer brings to that.
  useLayoutEffect(() => {
    const linked = list.length === 0 ? undefined : list.findIndex((e) => location.hash === `#${anchorOf(e)}`);
    const at = linked === undefined || linked < 0 ? null : inner.current?.querySelectorAll(".exchange")[linked];
    follows.current = at == null;
    if (at != null) at.scrollIntoView();
    else if (scroll.current !== null) scroll.current.scrollTop = scroll.current.scrollHeight;
  }, [list.length, conversation.value]);

  const onScroll = (): void => {
    const box = scroll.current;
    if (box === null) return;
    follows.current = atEnd(box);
    setAway(!follows.current);
  };
  const toEnd = (): void => {
    follows.current = true;
    scroll.current?.scrollTo({ top: scroll.current.scrollHeight });
  };
  return (
    <div class="thread-wrap">
      <div class="thread" ref={scroll} onScroll={onScroll} tabIndex={-1}>
        <div class="column" ref={inner} onPointerOver={onCite} onPointerOut={onCite} onFocusIn={onCite} onFocusOut={onCite} onClick={onClickIn}>
          {loading.value && <Skeleton />}
          {loadProblem.value !== undefined && <ProblemBox problem={loadProblem.value} onRetry={() => void open(conversation.peek())} />}
          {!loading.value && loadProblem.value === undefined && list.length === 0 && <FirstRun />}
          {list.map((exchange) => <ExchangeView key={exchange.key} exchange={exchange} last={exchange === list.at(-1)} />)}
        </div>
      </div>
      {away && <button type="button" class="newest" onClick={toEnd}><Icon name="down" size={15} />{t("newest")}</button>}
    </div>
  );
}

function anchorOf(exchange: Exchange): string {
  return exchange.live.turn.peek().start?.turn_id ?? exchange.key;
}

function atEnd(box: HTMLElement): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
}

function onClickIn(event: MouseEvent): void {
  onCite(event);
  const copy = (event.target as Element | null)?.closest?.(".copycode");
  if (copy == null) return;
  const code = copy.closest(".codeblock")?.querySelector("code")?.textContent ?? "";
  void navigator.clipboard.writeText(code).then(() => {
    copy.textContent = t("copied");
    setTimeout(() => (copy.textContent = t("copy")), 1500);
  });
}

function Skeleton() {
  return (
    <div class="skeleton" aria-label={t("loading")} role="status">
      <i class="bubble" /><i /><i /><i class="short" />
    </div>
  );
}

function ExchangeView({ exchange, last }: { exchange: Exchange; last: boolean }) {
  const [editing, setEditing] = useState(false);
  const [told, setTold] = useState(false);
  const turn = exchange.live.turn.value;
  const problem = exchange.live.problem.value;
  const live = last && exchange.live.running;
  useEffect(() => {
    if (!live) return;
    runClock(exchange.live.turn.peek().at);
    return stopClock;
  }, [live, turn.start?.turn_id]);
  const box = useRef<HTMLDivElement>(null);
  const count = sourceCount.value;
  useLayoutEffect(() => {
    if (box.current !== null) markCitations(box.current);
  }, [count]);
  const doubtful = turn.end === undefined ? 0 : turn.claims.length;
  useEffect(() => (doubtful > 0 && box.current !== null ? showClaims(exchange.live.turn.peek(), box.current) : undefined), [doubtful]);
  const asked = useMemo(() => fullMoment(exchange.at), [exchange.at]);
  // Once it has streamed it stays so: the browser need not lay out what is out of sight.
  const streamed = useRef(live);
  streamed.current ||= live;
  const again = (): void => retry(exchange);
  return (
    <section class={`exchange${streamed.current ? " streamed" : ""}`} aria-label={t("exchange")}>
      {editing ? (
        <EditQuestion exchange={exchange} onClose={() => setEditing(false)} />
      ) : (
        <div class="question-row">
          <div class="question" title={asked}>{exchange.question}</div>
          <div class="question-acts">
            <Act name="copy" label={t("copyQuestion")} act={() => void navigator.clipboard.writeText(exchange.question)} />
            {!running.value && <Act name="pencil" label={t("edit")} act={() => setEditing(true)} />}
          </div>
        </div>
      )}
      <div ref={box}><Answer turn={turn} onRetry={again} /></div>
      {problem !== undefined && <ProblemBox problem={problem} onRetry={again} />}
      <Timeline turn={turn} />
      {turn.end !== undefined && (
        <div class="answer-acts">
          <CopyAnswer exchange={exchange} />
          {last && <Act name="again" label={t("retry")} act={again} />}
          <CopyLink exchange={exchange} />
          <span class="small num">{usageLine(exchange)}</span>
          {doubtful > 0 && <ClaimLine turn={turn} open={told} onToggle={() => setTold(!told)} />}
        </div>
      )}
      {told && doubtful > 0 && <ClaimList turn={turn} />}
      <span class="visually-hidden" role="status">{live ? "" : turn.end !== undefined && last ? t("answerComplete") : ""}</span>
    </section>
  );
}

function usageLine(exchange: Exchange): string {
  const turn = turnOf(exchange);
  const usage = turn.end?.usage;
  const parts = [turn.start?.model === undefined ? "" : shortModel(turn.start.model)];
  if (usage !== undefined && usage.output_tokens > 0) parts.push(t("tokens", { in: usage.input_tokens, out: usage.output_tokens }));
  return parts.filter((p) => p !== "").join(" · ");
}

function CopyAnswer({ exchange }: { exchange: Exchange }) {
  const [done, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard.writeText(answerText(turnOf(exchange))).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return <Act name={done ? "check" : "copy"} label={done ? t("copied") : t("copyAnswer")} act={copy} />;
}

/** The address of this answer in its conversation. */
function CopyLink({ exchange }: { exchange: Exchange }) {
  const [done, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard.writeText(`${location.origin}${location.pathname}#${anchorOf(exchange)}`).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return <Act name={done ? "check" : "share"} label={done ? t("copied") : t("linkAnswer")} act={copy} />;
}

function Act({ name, label, act }: { name: "copy" | "check" | "pencil" | "again" | "share"; label: string; act(): void }) {
  return <button type="button" class="quiet icon-only" aria-label={label} title={label} onClick={act}><Icon name={name} size={16} /></button>;
}

function EditQuestion({ exchange, onClose }: { exchange: Exchange; onClose(): void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(exchange.question.length, exchange.question.length);
  }, []);
  const send = (): void => {
    const question = area.current?.value.trim() ?? "";
    if (question === "") return;
    onClose();
    void ask(question, exchange);
    focusComposer();
  };
  return (
    <form class="edit" onSubmit={(e) => { e.preventDefault(); send(); }}>
      <textarea ref={area} rows={3} aria-label={t("edit")} onKeyDown={(e) => {
        if (e.key === "Escape") onClose();
        if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
      }}>{exchange.question}</textarea>
      <div class="row end">
        <span class="small">{t("editHint")}</span>
        <button type="button" class="btn" onClick={onClose}>{t("cancel")}</button>
        <button type="submit" class="btn primary">{t("askAgain")}</button>
      </div>
    </form>
  );
}
