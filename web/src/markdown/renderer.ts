// Keeps a piece of the page equal to a growing Markdown text. Finished blocks are rendered once and left alone;
// the open one is rendered again, and an open code block only grows. At most once an animation frame.

import { enrich, frameCode } from "./enrich";
import { mathBlock, toHtml } from "./parse";
import { sanitize } from "./sanitize";
import { Splitter, type Block } from "./splitter";

/** Lines of code in one box: the browser lays out the last box again, not the whole block. */
const BOX_LINES = 64;
/** An open block that is dear to render is rendered less often: at most this share of the time. */
const SHARE = 0.25;

interface Placed {
  nodes: ChildNode[];
  list: Element | undefined;
}

export class Renderer {
  private text = "";
  private splitter = new Splitter();
  private references: Record<string, unknown> = {};
  private list: Element | undefined;
  private open: ChildNode[] = [];
  private code: OpenCode | undefined;
  private settled = false;
  private notBefore = 0;

  /** `onBlock` sees each block before it is put in the page. */
  constructor(private readonly root: HTMLElement, private readonly onBlock: (block: DocumentFragment) => void = () => {}) {}

  /** `done`: nothing will be added. True: the open block was left for later; ask again next frame. */
  update(text: string, done: boolean): boolean {
    if (text === this.text && done === this.settled) return this.notBefore > 0;
    if (this.settled || !text.startsWith(this.text)) this.reset();
    this.text = text;
    const finished = this.splitter.push(text);
    if (finished.length > 0) {
      this.dropOpen();
      for (const block of finished) this.commit(block);
    }
    const tail = this.splitter.tail(done);
    const [block] = tail;
    if (!done && tail.length === 1 && block?.kind === "fence") {
      this.grow(block.source);
      return false;
    }
    const now = performance.now();
    if (!done && finished.length === 0 && now < this.notBefore) return true;
    this.dropOpen();
    let list = this.list;
    for (const open of tail) {
      const placed = this.place(open, done, list);
      list = placed.list;
      this.open.push(...placed.nodes);
    }
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
    this.open = [];
    this.code = undefined;
    this.settled = false;
    this.notBefore = 0;
  }

  private dropOpen(): void {
    for (const node of this.open) node.remove();
    this.open = [];
    this.code?.box.remove();
    this.code = undefined;
  }

  private commit(block: Block): void {
    this.list = this.place(block, true, this.list).list;
  }

  /** Puts a block at the end; `list` is the one that an item may go on with. */
  private place(block: Block, finished: boolean, list: Element | undefined): Placed {
    const references = finished ? this.references : { ...this.references };
    const fragment = sanitize(block.kind === "math" ? mathBlock(block.source) : toHtml(block.source, references));
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
    this.root.append(fragment);
    return { nodes, list: block.kind === "item" ? (made ?? undefined) : undefined };
  }

  /** The open code block: only what is new is added. */
  private grow(source: string): void {
    const head = source.indexOf("\n");
    const language = /^[ \t]*(?:`{3,}|~{3,})[ \t]*([\w+#.-]{0,24})/.exec(source)?.[1] ?? "";
    const body = head < 0 ? "" : source.slice(head + 1);
    if (this.code === undefined) {
      this.dropOpen();
      this.code = new OpenCode(this.root, language);
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

  constructor(root: HTMLElement, language: string) {
    const pre = root.ownerDocument.createElement("pre");
    pre.tabIndex = 0;
    if (language !== "") pre.dataset["lang"] = language;
    this.code = root.ownerDocument.createElement("code");
    pre.append(this.code);
    root.append(pre);
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
