// What finished blocks get afterwards, when there is time and the part of the program for it has arrived:
// colours for code, real formulas for math, a button to copy. Until then, and without, the text stands as it is.

import { t } from "../i18n";

/** Code longer than this stays plain: colouring it would be felt. */
const LONGEST = 60_000;

export function enrich(fragment: DocumentFragment): void {
  for (const pre of fragment.querySelectorAll("pre")) {
    frameCode(pre);
    const language = pre.dataset["lang"];
    const code = pre.firstElementChild;
    if (language !== undefined && code !== null && (code.textContent?.length ?? 0) <= LONGEST) later(() => colour(code, language));
  }
  for (const math of fragment.querySelectorAll("code.math")) later(() => formula(math));
}

/** A bar above the code: its language, a button to copy it. */
export function frameCode(pre: HTMLElement): HTMLElement {
  const box = pre.ownerDocument.createElement("div");
  box.className = "codeblock";
  pre.replaceWith(box);
  const bar = pre.ownerDocument.createElement("div");
  bar.className = "codebar";
  const name = pre.ownerDocument.createElement("span");
  name.textContent = pre.dataset["lang"] ?? "";
  const copy = pre.ownerDocument.createElement("button");
  copy.type = "button";
  copy.className = "copycode";
  copy.textContent = t("copy");
  bar.append(name, copy);
  box.append(bar, pre);
  return box;
}

function later(work: () => Promise<void>): void {
  const run = (): void => void work().catch(() => undefined); // without it the text is still readable
  if (typeof requestIdleCallback === "function") requestIdleCallback(run, { timeout: 1500 });
  else setTimeout(run, 50);
}

async function colour(code: Element, language: string): Promise<void> {
  const { highlight } = await import("./highlight");
  const coloured = highlight(code.textContent ?? "", language);
  if (coloured !== undefined) code.replaceChildren(coloured);
}

async function formula(math: Element): Promise<void> {
  const { mathml } = await import("./math");
  const block = math.parentElement?.classList.contains("mathblock") === true;
  const made = mathml(math.textContent ?? "", block);
  if (made !== undefined) math.replaceWith(made);
}
