// One tool call: a line until it is opened. What it asked, how long it took, what came of it, what was stored.

import { useState } from "preact/hooks";
import { useComputed } from "@preact/signals";
import { byteLength } from "../bytes";
import { api } from "../api/client";
import { asProblem } from "../api/problem";
import type { Call } from "../fold";
import { bytes, duration } from "../format";
import { number, t, tWord } from "../i18n";
import { Icon, type IconName } from "../ui/Icon";
import { Keep } from "./Keep";
import { kindOf } from "./timeline";
import { now } from "./now";

const ICONS: Record<string, IconName> = { search: "search", fetch: "fetch", agent: "branch", other: "tool" };
/** How much of a result is shown; all of it can be copied. */
const PREVIEW = 4000;

interface Props {
  call: Call;
  /** All of the turn, for those that a sub-agent made. */
  calls: ReadonlyMap<string, Call>;
  turnId?: string | undefined;
  ended: boolean;
}

export function ToolCard({ call, calls, turnId, ended }: Props) {
  const [open, setOpen] = useState(false);
  const kind = kindOf(call.name);
  const state = stateOf(call, ended);
  const id = `call-${call.id}`;
  return (
    <section class={`card ${kind} ${state}`} aria-label={`${call.name}, ${t(`tool_${state}`)}`}>
      <button type="button" class="card-head" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <span class="ico"><Icon name={ICONS[kind] as IconName} size={14} /></span>
        <b>{call.name}</b>
        <code>{mainArgument(call)}</code>
        <State call={call} state={state} />
        <span class={`turn${open ? " open" : ""}`}><Icon name="chevron" size={14} /></span>
      </button>
      {state === "running" && <div class="progress" />}
      {call.approval !== undefined && call.result === undefined && turnId !== undefined && <Approval call={call} turnId={turnId} />}
      <Why call={call} state={state} />
      <Stored call={call} />
      {call.agent !== undefined && (
        <div class="nested">
          {call.agent.calls.flatMap((id) => calls.get(id) ?? []).map((inner) => <ToolCard key={inner.id} call={inner} calls={calls} turnId={turnId} ended={ended} />)}
          {!call.agent.open && call.agent.rounds !== undefined && (
            <p class="small num">{t("rounds", { count: call.agent.rounds })} · {t("toolsRun", { count: call.agent.toolsRun ?? 0 })}</p>
          )}
        </div>
      )}
      {open && <Details call={call} id={id} />}
    </section>
  );
}

/** A block that is complete and not yet told as a call. */
export function PendingCard() {
  return (
    <section class="card other running" aria-label={t("toolPending")}>
      <div class="card-head">
        <span class="ico"><Icon name="tool" size={14} /></span>
        <b>{t("toolPending")}</b>
      </div>
      <div class="progress" />
    </section>
  );
}

type State = "running" | "done" | "failed" | "refused" | "waiting" | "cut";

function stateOf(call: Call, ended: boolean): State {
  if (call.result === undefined) return ended ? "cut" : call.approval !== undefined ? "waiting" : "running";
  if (call.result.rejected === true) return "refused";
  return call.result.ok ? "done" : "failed";
}

function State({ call, state }: { call: Call; state: State }) {
  if (state === "running") return <Running since={call.startedAt} />;
  if (state === "done") {
    const found = call.name === "vector_search" ? hits(call.result?.output ?? "") : undefined;
    return (
      <span class="when">
        {duration(call.result?.duration_ms ?? 0)}
        {found !== undefined && ` · ${t("hits", { count: found })}`}
      </span>
    );
  }
  const time = state === "failed" && call.result !== undefined ? ` · ${duration(call.result.duration_ms)}` : "";
  return <span class={`when ${state === "failed" ? "bad" : ""}`}>{t(`tool_${state}`)}{time}</span>;
}

function Running({ since }: { since: number | undefined }) {
  const text = useComputed(() => (since === undefined ? "" : duration(Math.max(0, now.value - since))));
  return <span class="when">{text}</span>;
}

function hits(output: string): number | undefined {
  if (output.includes("No passage of the knowledge base")) return 0;
  const found = /(?:^|\s)(\d+) passages?[:,]/.exec(output.slice(0, 400))?.[1];
  return found === undefined ? undefined : Number(found);
}

/** The one argument that says what this call is about. */
function mainArgument(call: Call): string {
  const args = call.arguments;
  const first = ["query", "url", "task", "path", "name"].find((key) => typeof args[key] === "string") ?? Object.keys(args)[0];
  if (first === undefined) return "";
  const value = args[first];
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Why({ call, state }: { call: Call; state: State }) {
  if (state !== "failed" && state !== "refused") return null;
  const reason = call.result?.reason;
  return (
    <div class="card-foot">
      <span class={state === "failed" ? "bad" : ""}>
        {reason !== undefined && <>{tWord("reason", reason)} </>}
        {(reason === undefined || reason === "bad_arguments") && call.result?.error}
      </span>
    </div>
  );
}

function Stored({ call }: { call: Call }) {
  const ingested = call.result?.ingested;
  const output = call.result?.output;
  if (call.result?.ok !== true || (ingested === undefined && kindOf(call.name) !== "fetch")) return null;
  return (
    <div class="card-foot">
      {output !== undefined && <span>{t("read", { size: bytes(byteLength(output)) })}{call.result.truncated === true && `, ${t("cut")}`}</span>}
      {ingested !== undefined && (
        <span class={ingested.fresh ? "ok" : ""}>
          {ingested.fresh || ingested.chunks > 0 ? `${t("chunksStored", { count: ingested.chunks })}, ${ingested.fresh ? t("searchable") : t("searchableSoon")}` : t("storedSoon")}
        </span>
      )}
      {ingested !== undefined && ingested.scope === "conversation" && <Keep document={ingested.document_id} collection={ingested.collection} />}
    </div>
  );
}

function Approval({ call, turnId }: { call: Call; turnId: string }) {
  const [answered, setAnswered] = useState(false);
  const [problem, setProblem] = useState("");
  const answer = (allow: boolean): void => {
    setAnswered(true);
    api.approve(turnId, call.id, allow).catch((error: unknown) => {
      setAnswered(false);
      setProblem(asProblem(error).detail);
    });
  };
  return (
    <div class="card-foot approval">
      <span>{call.approval?.why}</span>
      {problem !== "" && <span class="bad" role="alert">{problem}</span>}
      <span class="end row">
        <button type="button" class="btn small" disabled={answered} onClick={() => answer(false)}>{t("refuse")}</button>
        <button type="button" class="btn small primary" disabled={answered} onClick={() => answer(true)}>{t("allow")}</button>
      </span>
    </div>
  );
}

function Details({ call, id }: { call: Call; id: string }) {
  const output = call.result?.output ?? call.result?.error ?? "";
  const left = output.length - PREVIEW;
  return (
    <div class="card-body" id={id}>
      {Object.keys(call.arguments).length > 0 && (
        <>
          <h4>{t("arguments")}</h4>
          <pre tabIndex={0}>{JSON.stringify(call.arguments, null, 2)}</pre>
        </>
      )}
      {Object.keys(call.arguments).length === 0 && call.raw !== "" && (
        <>
          <h4>{t("asWritten")}</h4>
          <pre tabIndex={0}>{call.raw}</pre>
        </>
      )}
      {output !== "" && (
        <>
          <h4>{t("result")}</h4>
          <pre tabIndex={0}>{output.slice(0, PREVIEW)}{left > 0 && `\n… ${t("moreCharacters", { count: left })}`}</pre>
        </>
      )}
      {call.result?.ingest_ms !== undefined && <p class="small">{t("storedIn", { time: duration(call.result.ingest_ms) })}</p>}
      <p class="small num">{t("roundN", { n: number(call.round) })} · {call.id}</p>
    </div>
  );
}
