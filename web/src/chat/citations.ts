// A number without a passage is no citation: it is shown as the text that it is.

import { sources } from "./thread";

export function markCitations(within: ParentNode): void {
  const known = sources.peek();
  for (const cite of within.querySelectorAll<HTMLButtonElement>(".cite[data-n]")) {
    const unknown = !known.has(Number(cite.dataset["n"]));
    if (cite.disabled !== unknown) cite.disabled = unknown;
  }
}
