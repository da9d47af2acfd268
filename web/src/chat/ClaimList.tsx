// How the sentences of an answer stand against its sources: a line, and on demand those that are little supported or
// not at all, for those who do not see the marks and those who wonder.

import { sliceBytes } from "../bytes";
import { rawText, type Turn } from "../fold";
import { number, t } from "../i18n";
import { Icon } from "../ui/Icon";
import { openSources } from "./Sources";

export function ClaimLine({ turn, open, onToggle }: { turn: Turn; open: boolean; onToggle(): void }) {
  const count = (verdict: string): number => turn.claims.filter((c) => c.verdict === verdict).length;
  const [weak, not] = [count("weak"), count("unsupported")];
  const text = t("claims", { supported: count("supported"), count: turn.claims.length });
  if (weak + not === 0) return <span class="small num">· {text}</span>;
  return (
    <button type="button" class="claim-line small num" aria-expanded={open} onClick={onToggle}>
      · {text}{weak > 0 && <>, <span class="claim-weak">{t("claimsWeak", { n: weak })}</span></>}
      {not > 0 && <>, <span class="claim-unsupported">{t("claimsUnsupported", { n: not })}</span></>}
      <span class={`turn${open ? " open" : ""}`}><Icon name="chevron" size={13} /></span>
    </button>
  );
}

export function ClaimList({ turn }: { turn: Turn }) {
  const raw = rawText(turn);
  const doubtful = turn.claims.filter((c) => c.verdict !== "supported");
  return (
    <ul class="claim-list">
      {doubtful.map((claim) => (
        <li key={claim.start}>
          <span class={`claim-${claim.verdict}`}>{plain(sliceBytes(raw, claim.start, claim.end))}</span>{" "}
          <span class="small">
            {claim.verdict === "weak" ? t("claimWeak") : t("claimUnsupported")}
            {claim.sources.map((n) => <button key={n} type="button" class="cite" onClick={() => openSources(n)}>{number(n)}</button>)}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The sentence without the signs that set it. */
function plain(markdown: string): string {
  return markdown.replace(/\[(\d+)\](?!\()/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[*_`#]+/g, "").replace(/\s+([.,;:!?])/g, "$1").trim();
}
