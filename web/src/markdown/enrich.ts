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

/** An idle moment that is shorter than this is left to others. */
const WORTH_MS = 4;
/** Until the next is looked for, where there was none. */
const AGAIN_MS = 100;

const queue: (() => Promise<void>)[] = [];
let waits = false;

/** One in an idle moment, since the browser lays out what it made: on a busy machine words come before colours. */
function later(work: () => Promise<void>): void {
  queue.push(work);
  if (waits) return;
  waits = true;
  wait();
}

function wait(): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(run);
  else setTimeout(() => void run({ timeRemaining: () => 10 }), 50);
}

async function run(idle: { timeRemaining(): number }): Promise<void> {
  const worth = idle.timeRemaining() > WORTH_MS;
  if (worth) await queue.shift()?.().catch(() => undefined); // without it the text is still readable
  waits = queue.length > 0;
  if (waits) setTimeout(wait, worth ? 0 : AGAIN_MS);
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
