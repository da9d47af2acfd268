// The answer of one turn: text, tool cards, reasoning, notices, in the order in which they happened.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Segment, Turn } from "../fold";
import { duration, seconds } from "../format";
import { t, tWord } from "../i18n";
import { Icon } from "../ui/Icon";
import { Markdown } from "./Markdown";
import { PendingCard, ToolCard } from "./ToolCard";

export function Answer({ turn, onRetry }: { turn: Turn; onRetry: () => void }) {
  const ended = turn.end !== undefined;
  const last = turn.segments.length - 1;
  return (
    <div class={`answer${ended ? "" : " live"}`} aria-busy={!ended}>
      {turn.segments.map((segment, i) => (
        <Piece key={`${segment.kind}${segment.from}-${keyOf(segment)}`} segment={segment} turn={turn} open={!ended && i === last} onRetry={onRetry} />
      ))}
      {!ended && <Waiting turn={turn} />}
      <Ending turn={turn} />
    </div>
  );
}

function keyOf(segment: Segment): string {
  if (segment.kind === "call") return segment.call;
  return segment.kind === "notice" ? segment.notice.code : "";
}

interface PieceProps {
  segment: Segment;
  turn: Turn;
  open: boolean;
  onRetry: () => void;
}

function Piece({ segment, turn, open, onRetry }: PieceProps) {
  switch (segment.kind) {
    case "text":
      return segment.text.trim() === "" ? null : <Markdown text={segment.text.replace(/^\s*\n/, "")} done={!open} />;
    case "block":
      return <PendingCard />;
    case "call": {
      const call = turn.calls.get(segment.call);
      return call === undefined ? null : <ToolCard call={call} calls={turn.calls} turnId={turn.start?.turn_id} ended={turn.end !== undefined} />;
    }
    case "reasoning":
      return <Reasoning segment={segment} />;
    case "notice":
      return <NoticeLine code={segment.notice.code} title={segment.notice.title} message={segment.notice.message} />;
    case "retry":
      return (
        <Aside icon="again">
          {t("retrying", { attempt: segment.retry.attempt, time: seconds(segment.retry.after_ms) })} {segment.retry.error}
        </Aside>
      );
    case "error":
      return (
        <div class="problem" role="alert">
          <Icon name="alert" />
          <div>
            <strong>{t("providerFailed")}</strong>
            <p>{segment.error.message}</p>
            <p class="small">{segment.error.retryable ? t("mayHelp") : t("willNotHelp")}</p>
          </div>
          {segment.error.retryable && turn.end !== undefined && <button type="button" class="btn" onClick={onRetry}>{t("tryAgain")}</button>}
        </div>
      );
  }
}

function Aside({ icon, children }: { icon: "again" | "info"; children: ComponentChildren }) {
  return <p class="aside"><Icon name={icon} size={15} /> <span>{children}</span></p>;
}

function NoticeLine({ code, title, message }: { code: string; title: string; message: string }) {
  const own = tWord("notice", code);
  const text = own === code.replaceAll("_", " ") ? `${title}${message === "" ? "" : `. ${message}`}` : own;
  return <p class="aside" title={message}><Icon name={code === "auto_continue" ? "branch" : "info"} size={15} /> <span>{text}</span></p>;
}

function Reasoning({ segment }: { segment: Segment & { kind: "reasoning" } }) {
  const [open, setOpen] = useState(false);
  const spent = segment.since !== undefined && segment.until !== undefined ? segment.until - segment.since : 0;
  const label = segment.open ? t("reasoning") : spent > 0 ? t("reasonedFor", { time: duration(spent) }) : t("reasoned");
  return (
    <div class="reasoning">
      <button type="button" class="aside" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="thought" size={15} /> <span class={segment.open ? "breathing" : ""}>{label}</span>
        <span class={`turn${open ? " open" : ""}`}><Icon name="chevron" size={13} /></span>
      </button>
      {open && <div class="reasoning-text">{segment.text}</div>}
    </div>
  );
}

/** Nothing has come yet: says who is waited for. */
function Waiting({ turn }: { turn: Turn }) {
  if (turn.segments.length > 0 && !turn.thinking) return null;
  if (turn.segments.at(-1)?.kind === "reasoning") return null;
  return <p class="waiting"><span class="caret" /> <span class="visually-hidden">{t("waitingFor")}</span></p>;
}

function Ending({ turn }: { turn: Turn }) {
  const finish = turn.end?.finish;
  if (finish === undefined || finish === "complete" || finish === "provider_error") return null;
  return <p class="aside"><Icon name="info" size={15} /> {tWord("finish", finish)}</p>;
}
