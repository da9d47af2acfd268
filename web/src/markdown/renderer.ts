// Keeps a piece of the page equal to a growing Markdown text. Finished blocks are rendered once and left alone;
// the open one is rendered again, and an open code block only grows. At most once an animation frame.
// Blocks stand in stretches: a full one is closed, and while it is out of sight the browser passes it by as one.

import { enrich, frameCode } from "./enrich";
import { mathBlock, toHtml } from "./parse";
import { sanitize, sanitizeAll } from "./sanitize";
import { Splitter, type Block } from "./splitter";

/** Lines of code in one box: the browser lays out the last box again, not the whole block. */
const BOX_LINES = 64;
/** An open block that is dear to render is rendered less often: at most this share of the time. */
const SHARE = 0.25;
/** Finished blocks that took so long fill a frame. */
const FULL_MS = 4;
/** Blocks of a stretch. Fewer would be more for the browser to keep an eye on, more would be much to lay out at once. */
const STRETCH_BLOCKS = 24;
/** Those before the last that may be in sight of a reader who follows. */
const NEAR_STRETCHES = 2;

interface Placed {
  nodes: ChildNode[];
  list: Element | undefined;
}

export class Renderer {
  private text = "";
  private splitter = new Splitter();
  private references: Record<string, unknown> = {};
  private list: Element | undefined;
  private stretch: HTMLElement | undefined;
  private stretchBlocks = 0;
  private open: ChildNode[] = [];
  private growing: Element | undefined;
  private code: OpenCode | undefined;
  private settled = false;
  private notBefore = 0;
  /** The open block is not shown as it is by now. */
  private owes = false;

  /** `onBlock` sees each block before it is put in the page. */
  constructor(private readonly root: HTMLElement, private readonly onBlock: (block: DocumentFragment) => void = () => {}) {}

  /** `done`: nothing will be added. True: the open block was left for later; ask again next frame. */
  update(text: string, done: boolean): boolean {
    if (text === this.text && done === this.settled && !this.owes) return false;
    if (this.settled || !text.startsWith(this.text)) this.reset();
    this.text = text;
    const began = performance.now();
    const finished = this.splitter.push(text);
    if (finished.length > 0) {
      this.dropOpen();
      this.commit(finished);
    }
    const tail = this.splitter.tail(done);
    const [block] = tail;
    if (!done && tail.length === 1 && block?.kind === "fence") {
      this.grow(block.source);
      this.mark(done);
      this.owes = false;
      return false;
    }
    const now = performance.now();
    // Dear to render, or this frame has had its share: the open block is for a later one.
    this.owes = !done && ((finished.length === 0 && now < this.notBefore) || now - began > FULL_MS);
    if (this.owes) return true;
    this.dropOpen();
    let list = this.list;
    for (const open of tail) {
      const placed = this.place(open, sanitize(this.html(open, done)), done, list);
      list = placed.list;
      this.open.push(...placed.nodes);
    }
    this.mark(done);
    const cost = performance.now() - now;
    this.notBefore = done ? 0 : cost > 2 ? now + cost / SHARE : 0;
    this.settled = done;
    return false;
  }

  private reset(): void {
    this.root.replaceChildren();
    this.splitter = new Splitter();
    this.references = {};
    this.list = undefined;
    this.stretch = undefined;
    this.open = [];
    this.code = undefined;
    this.settled = false;
    this.notBefore = 0;
    this.owes = false;
  }

  /** Where the text grows: an element knows it by itself, so that nothing else is styled anew when it ends. */
  private mark(done: boolean): void {
    const block = this.stretch?.lastElementChild;
    const last = block?.matches("ul, ol") === true ? block.lastElementChild : block;
    const next = done || last?.matches("p, li, h1, h2, h3, h4, h5, h6, blockquote") !== true ? undefined : last;
    if (this.growing === next) return;
    this.growing?.classList.remove("growing");
    if (this.growing?.className === "") this.growing.removeAttribute("class");
    next?.classList.add("growing");
    this.growing = next;
  }

  private dropOpen(): void {
    for (const node of this.open) node.remove();
    this.open = [];
    this.code?.box.remove();
    this.code = undefined;
  }

  /** Sanitizing costs more for each call than for each letter, so what has been finished in a frame goes together. */
  private commit(blocks: Block[]): void {
    const fragments = sanitizeAll(blocks.map((block) => this.html(block, true)));
    blocks.forEach((block, i) => {
      this.list = this.place(block, fragments[i] as DocumentFragment, true, this.list).list;
      this.stretchBlocks++;
      // An item may be followed by another of its list.
      if (this.stretchBlocks < STRETCH_BLOCKS || block.kind === "item") return;
      this.close();
    });
  }

  /** What is passed by while out of sight must be out of sight: the last few stretches never are closed. */
  private close(): void {
    this.stretch = undefined;
    const old = this.root.children.length - 1 - NEAR_STRETCHES;
    this.root.children[old]?.classList.add("closed");
  }

  /** Link definitions of finished blocks hold for those after them. */
  private html(block: Block, finished: boolean): string {
    return block.kind === "math" ? mathBlock(block.source) : toHtml(block.source, finished ? this.references : { ...this.references });
  }

  private into(): HTMLElement {
    if (this.stretch === undefined) {
      this.stretch = this.root.ownerDocument.createElement("div");
      this.stretch.className = "stretch";
      this.stretchBlocks = 0;
      this.root.append(this.stretch);
    }
    return this.stretch;
  }

  /** Puts a block at the end; `list` is the one that an item may go on with. */
  private place(block: Block, fragment: DocumentFragment, finished: boolean, list: Element | undefined): Placed {
    if (finished) enrich(fragment);
    this.onBlock(fragment);
    const made = fragment.firstElementChild;
    if (block.kind === "item" && made !== null) {
      if (block.joins && list !== undefined && list.nodeName === made.nodeName) {
        const items = [...made.childNodes];
        list.append(...items);
        return { nodes: items, list };
      }
      if (block.number !== undefined && block.number !== 1) made.setAttribute("start", String(block.number));
      else made.removeAttribute("start");
    }
    const nodes = [...fragment.childNodes];
    this.into().append(fragment);
    return { nodes, list: block.kind === "item" ? (made ?? undefined) : undefined };
  }

  /** The open code block: only what is new is added. */
  private grow(source: string): void {
    const head = source.indexOf("\n");
    const language = /^[ \t]*(?:`{3,}|~{3,})[ \t]*([\w+#.-]{0,24})/.exec(source)?.[1] ?? "";
    const body = head < 0 ? "" : source.slice(head + 1);
    if (this.code === undefined) {
      this.dropOpen();
      this.code = new OpenCode(this.into(), language);
    }
    this.code.show(body);
  }
}

class OpenCode {
  /** As a finished block has it, so that nothing moves when it is finished. */
  readonly box: HTMLElement;
  private readonly code: HTMLElement;
  private lines: Text | undefined;
  private boxLines = 0;
  private shown = 0;

  constructor(into: HTMLElement, language: string) {
    const pre = into.ownerDocument.createElement("pre");
    pre.tabIndex = 0;
    if (language !== "") pre.dataset["lang"] = language;
    this.code = into.ownerDocument.createElement("code");
    pre.append(this.code);
    into.append(pre);
    this.box = frameCode(pre);
  }

  show(body: string): void {
    let rest = body.slice(this.shown);
    this.shown = body.length;
    while (rest !== "") {
      if (this.lines === undefined || this.boxLines >= BOX_LINES) this.nextBox();
      const end = nthLineEnd(rest, BOX_LINES - this.boxLines);
      const part = rest.slice(0, end);
      this.lines?.appendData(part);
      this.boxLines += countLines(part);
      rest = rest.slice(end);
    }
  }

  private nextBox(): void {
    const span = this.code.ownerDocument.createElement("span");
    span.className = "box";
    this.lines = span.ownerDocument.createTextNode("");
    span.append(this.lines);
    this.code.append(span);
    this.boxLines = 0;
  }
}

function nthLineEnd(text: string, n: number): number {
  let at = 0;
  for (let i = 0; i < n; i++) {
    const end = text.indexOf("\n", at);
    if (end < 0) return text.length;
    at = end + 1;
  }
  return at;
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}
