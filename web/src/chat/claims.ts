// Marks under sentences that the passages support little or not at all. Painted by the browser over the text
// (CSS highlights), so the rendered blocks stay untouched.

import { sliceBytes } from "../bytes";
import type { Turn } from "../fold";
import { rawText } from "../fold";

const NAMES = { weak: "claim-weak", unsupported: "claim-unsupported" } as const;

interface Letter {
  node: Text;
  at: number;
}

/** What is left of a text when marks, spaces and signs are gone: the same in Markdown and on the page. */
function letters(text: string): string {
  return text.toLowerCase().replace(/\[\d+\]/g, "").replace(/\]\([^)\s]*\)/g, "]").replace(/[^\p{L}\p{N}]/gu, "");
}

/** The page's letters, and where each stands. */
function lettersIn(root: Element): { text: string; places: Letter[] } {
  const walk = root.ownerDocument.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const places: Letter[] = [];
  let text = "";
  for (let node = walk.nextNode() as Text | null; node !== null; node = walk.nextNode() as Text | null) {
    if (node.parentElement?.closest(".cite, .host, .codebar") != null) continue;
    for (let at = 0; at < node.data.length; at++) {
      const letter = letters(node.data[at] as string);
      if (letter === "") continue;
      text += letter;
      places.push(...Array.from(letter, () => ({ node: node as Text, at })));
    }
  }
  return { text, places };
}

/** The ranges of the claims in the answer, by verdict. */
export function claimRanges(turn: Turn, root: Element): { verdict: keyof typeof NAMES; range: Range }[] {
  const doubtful = turn.claims.filter((c) => c.verdict !== "supported");
  if (doubtful.length === 0) return [];
  const raw = rawText(turn);
  const { text, places } = lettersIn(root);
  let from = 0;
  return doubtful.flatMap((claim) => {
    const wanted = letters(sliceBytes(raw, claim.start, claim.end));
    const at = wanted === "" ? -1 : text.indexOf(wanted, from);
    const [first, last] = [places[at], places[at + wanted.length - 1]];
    if (at < 0 || first === undefined || last === undefined) return [];
    from = at + wanted.length;
    const range = root.ownerDocument.createRange();
    range.setStart(first.node, first.at);
    range.setEnd(last.node, last.at + 1);
    return [{ verdict: claim.verdict as keyof typeof NAMES, range }];
  });
}

/** Shows the marks; the result takes them away. */
export function showClaims(turn: Turn, root: Element): () => void {
  if (typeof CSS === "undefined" || !("highlights" in CSS)) return () => {};
  const ranges = claimRanges(turn, root);
  for (const { verdict, range } of ranges) {
    const known = CSS.highlights.get(NAMES[verdict]) ?? new Highlight();
    known.add(range);
    CSS.highlights.set(NAMES[verdict], known);
  }
  return () => {
    for (const { verdict, range } of ranges) CSS.highlights.get(NAMES[verdict])?.delete(range);
  };
}
