// A conversation as a file: Markdown for people, JSON for programs.

import { answerText } from "../fold";
import { t } from "../i18n";
import { turnOf, type Exchange } from "./thread";

export function asMarkdown(title: string, list: readonly Exchange[]): string {
  const parts = [`# ${title}`];
  const cited = new Map<number, string>();
  for (const exchange of list) {
    const turn = turnOf(exchange);
    parts.push(`## ${exchange.question}`, answerText(turn));
    for (const s of turn.sources) cited.set(s.n, `${s.title} (${s.uri}${s.page === undefined ? "" : `, ${t("page", { n: s.page })}`})`);
  }
  if (cited.size > 0) parts.push(`## ${t("sources")}`, [...cited].sort((a, b) => a[0] - b[0]).map(([n, text]) => `[${n}] ${text}`).join("\n"));
  return `${parts.join("\n\n")}\n`;
}

export function asJson(title: string, id: string | undefined, list: readonly Exchange[]): string {
  const turns = list.map((exchange) => {
    const turn = turnOf(exchange);
    return {
      turn_id: turn.start?.turn_id, asked_at: exchange.at, question: exchange.question, answer: answerText(turn),
      provider: turn.start?.provider, model: turn.start?.model, finish: turn.end?.finish,
      tool_calls: [...turn.calls.values()].map((c) => ({ name: c.name, arguments: c.arguments, ...c.result })),
      sources: turn.sources, usage: turn.end?.usage, telemetry: turn.end?.telemetry,
    };
  });
  return JSON.stringify({ conversation_id: id, title, turns }, null, 2);
}

export function save(name: string, type: string, content: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function fileName(title: string): string {
  return title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation";
}
