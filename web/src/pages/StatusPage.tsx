// What the server does now: whether it can answer, how much it has, how fast it is. Read every two seconds.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { StatusAnswer } from "../api/types";
import { collections, loadChoices, providers } from "../chat/choices";
import { bytes, duration, fixed } from "../format";
import { number, t, tWord } from "../i18n";
import { PageHead } from "../ui/PageHead";
import { ProblemBox } from "../ui/ProblemBox";
import { Chart } from "./Chart";
import { gauge, mean, rate, sampleOf, type Reading } from "./metrics";

const EVERY_MS = 2000;
const KEPT = 150;

const GAUGES = [
  ["queue", "queue", number], ["process_resident_memory_bytes", "memory", bytes],
  ["database_bytes", "databaseSize", bytes], ["vectors_bytes", "vectorsSize", bytes],
] as const;

export function StatusPage() {
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  const [status, setStatus] = useState<StatusAnswer | undefined>(undefined);
  const [ready, setReady] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  useEffect(() => {
    document.title = `${t("status")} · Tailrace`;
    void loadChoices();
    let gone = false;
    const read = async (): Promise<void> => {
      const [state, answer] = await Promise.allSettled([api.status(), fetch("/readyz")]);
      if (gone) return;
      if (state.status === "fulfilled") {
        setStatus(state.value);
        const reading = { at: performance.now(), sample: sampleOf(state.value) };
        setReadings((before) => [...before, reading].slice(-KEPT));
        setProblem(undefined);
      } else setProblem(asProblem(state.reason));
      setReady(answer.status === "rejected" ? "down" : answer.value.ok ? "ready" : "not_ready");
    };
    void read();
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void read();
    }, EVERY_MS);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, []);
  const last = readings.at(-1)?.sample;
  const total = (name: string): string => number(last?.get(name) ?? 0);
  // At first a minute fills the width, later all that is kept.
  const span = Math.min(EVERY_MS * KEPT, Math.max(60_000, (readings.at(-1)?.at ?? 0) - (readings[0]?.at ?? 0)));
  const until = readings.at(-1)?.at ?? 0;
  return (
    <main class="statuspage" tabIndex={-1}>
      <PageHead title={t("status")}>
        {ready !== undefined && <span class={`status ${ready === "ready" ? "good" : "failed"}`} role="status"><i aria-hidden="true" />{tWord("ready", ready)}</span>}
      </PageHead>
      <div class="status-body">
        {problem !== undefined && <ProblemBox problem={problem} />}
        <section class="tiles">
          <Tile label={t("turns")} value={total("tailrace_turns_total")} more={t("nComplete", { count: last?.get("tailrace_turns_total:complete") ?? 0 })} />
          <Tile label={t("toolCalls")} value={total("tailrace_tool_calls_total")} more={t("nRefused", { count: last?.get("tailrace_tool_calls_total:rejected") ?? 0 })} />
          <Tile label={t("tokensWritten")} value={total("tailrace_tokens_total:output")} more={t("nRead", { count: last?.get("tailrace_tokens_total:input") ?? 0 })} />
          <Tile label={t("timeHidden")} value={duration((last?.get("tailrace_tool_overlap_seconds_sum") ?? 0) * 1000)} more={t("timeHiddenText")} />
        </section>
        <section>
          <h2>{t("answers")}</h2>
          <div class="charts">
            <Chart label={t("tokensPerSecond")} points={rate(readings, "tailrace_tokens_total:output")} spanMs={span} until={until} tell={(v) => fixed(v, 1)} />
            <Chart label={t("turnsPerMinute")} points={rate(readings, "tailrace_turns_total").map((p) => ({ ...p, value: p.value * 60 }))} spanMs={span} until={until} tell={(v) => fixed(v, 1)} />
            <Chart label={t("firstDelta")} points={mean(readings, "tailrace_first_delta_seconds")} spanMs={span} until={until} tell={(v) => duration(v * 1000)} />
            <Chart label={t("turnTime")} points={mean(readings, "tailrace_turn_seconds")} spanMs={span} until={until} tell={(v) => duration(v * 1000)} />
            <Chart label={t("toolTime")} points={mean(readings, "tailrace_tool_seconds")} spanMs={span} until={until} tell={(v) => duration(v * 1000)} />
            <Chart label={t("turnsRunning")} points={gauge(readings, "turns_running")} spanMs={span} until={until} tell={number} />
          </div>
        </section>
        <section>
          <h2>{t("server")}</h2>
          <div class="charts">
            {GAUGES.map(([name, label, tell]) => {
              const points = gauge(readings, name);
              return points.length > 0 && <Chart key={name} label={t(label)} points={points} spanMs={span} until={until} tell={tell} />;
            })}
          </div>
        </section>
        {status !== undefined && Object.keys(status.tools).length > 0 && (
          <section class="wide">
            <h2>{t("tools")}</h2>
            <table class="plain">
              <thead><tr><th>{t("colName")}</th><th class="right">{t("calls")}</th><th class="right">{t("meanTime")}</th></tr></thead>
              <tbody>
                {Object.entries(status.tools).map(([name, tool]) => (
                  <tr key={name}><td><code>{name}</code></td><td class="right">{number(tool.calls)}</td><td class="right">{tool.calls > 0 ? duration((tool.seconds / tool.calls) * 1000) : ""}</td></tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
        <section class="wide">
          <h2>{t("collections")}</h2>
          <table class="plain">
            <thead><tr><th>{t("colName")}</th><th class="right">{t("documents")}</th><th class="right">{t("colChunks")}</th><th>{t("embeddingModel")}</th><th>{t("keywordLanguage")}</th></tr></thead>
            <tbody>
              {collections.value.map((c) => (
                <tr key={c.name}>
                  <td><a href={`/knowledge/${encodeURIComponent(c.name)}`}>{c.name}</a></td><td class="right">{number(c.documents)}</td>
                  <td class="right">{number(c.chunks)}</td><td>{c.embedding_model}</td><td>{c.keyword_language ?? c.language}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        <section class="wide">
          <h2>{t("models")}</h2>
          <table class="plain">
            <thead><tr><th>{t("provider")}</th><th>{t("model")}</th><th>{t("nativeTools")}</th></tr></thead>
            <tbody>{providers.value.map((p) => <tr key={p.id + p.model}><td>{tWord("provider", p.id)}</td><td>{p.model}</td><td>{p.native_tools === true ? t("yes") : t("no")}</td></tr>)}</tbody>
          </table>
        </section>
        {status !== undefined && <section><h2>{t("details")}</h2><dl class="details">{about(status).map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}</dl></section>}
      </div>
    </main>
  );
}

function Tile({ label, value, more }: { label: string; value: string; more: string }) {
  return <div class="tile"><span>{label}</span><b class="num">{value}</b><span class="small num">{more}</span></div>;
}

function about(status: StatusAnswer): [string, string][] {
  const { queues, storage, embedding_models: models } = status;
  const waiting = Object.entries(queues.documents).filter(([, count]) => count > 0);
  const finished = Object.entries(status.turns.ended);
  const all: [string, string][] = [
    [t("versionOf"), status.version],
    [t("uptime"), duration(status.uptime_ms)],
    [t("vectorStore"), storage.vector_store],
    [t("embeddingModel"), models.map((m) => `${m.name} (${number(m.dimension)})`).join(", ")],
    [t("queue"), waiting.map(([word, count]) => `${tWord("upload", word)} ${number(count)}`).join(", ") || number(0)],
    [t("rebuilt"), number(queues.reindexing)],
    [t("tasks"), number(queues.tasks)],
    [t("endedAs"), finished.map(([word, count]) => `${tWord("ended", word)} ${number(count)}`).join(", ")],
  ];
  return all.filter(([, value]) => value !== "");
}
