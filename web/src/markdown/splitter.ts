// Cuts a growing Markdown text into top-level blocks. A block that is finished never changes again, so it is
// rendered once; only the open one is rendered again. Looks at whole lines only, and at each line once:
// where the text was cut on its way here makes no difference.

export type BlockKind = "text" | "fence" | "math" | "item";

export interface Block {
  readonly kind: BlockKind;
  readonly source: string;
  /** An item that goes on with the list of the block before it. */
  readonly joins: boolean;
  /** Number of an item of an ordered list. */
  readonly number?: number;
}

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const HEADING = /^ {0,3}#{1,6}(?:[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const SETEXT = /^ {0,3}(?:=+|-+)[ \t]*$/;
const ITEM = /^( {0,3})([-+*]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const INDENTED = /^(?: {4}| {0,3}\t)/;
const BLANK = /^[ \t]*$/;
const MATH = /^ {0,3}(\$\$|\\\[)/;
const BLANK_TEXT = /^\s*$/;
const UNDECIDED = /^[ \t]*(?:[-=#*+~`>|_$\\]+|\d+[.)]?)[ \t]*$/;
const QUOTE = /^ {0,3}>/;

interface List {
  /** The bullet, or `.` or `)` of an ordered list. */
  readonly mark: string;
  readonly indent: number;
  readonly content: number;
  readonly number: number | undefined;
}

type State = "none" | "text" | "indented" | "fence" | "math" | "item";

export class Splitter {
  /** Start of the open block, and of the first line that has not been looked at. */
  private from = 0;
  private line = 0;
  private text = "";
  private state: State = "none";
  private blank = false;
  private close = "";
  private list: List | undefined;
  private joins = false;

  /** Blocks that are finished now. `text` is all of it so far, and begins with what was given before. */
  push(text: string): Block[] {
    const done: Block[] = [];
    this.text = text;
    for (;;) {
      const end = text.indexOf("\n", this.line);
      if (end < 0) return done;
      const start = this.line;
      this.line = end + 1;
      const line = text[end - 1] === "\r" && end > start ? text.slice(start, end - 1) : text.slice(start, end);
      this.take(line, start, done);
    }
  }

  /**
   * What is not finished: the open block, or two where the last line begins another. `done`: nothing will follow;
   * until then a last line that may still become a list, a rule or a fence is held back, so that nothing flickers.
   */
  tail(done: boolean): Block[] {
    const line = this.text.slice(this.line);
    const ahead: Splitter = Object.assign(new Splitter(), this);
    if (line === "" || (!done && this.state !== "fence" && UNDECIDED.test(line))) return ahead.rest(this.line);
    const finished = ahead.push(`${this.text}\n`);
    return [...finished, ...ahead.rest(this.text.length)];
  }

  /** The open block up to `end`. */
  private rest(end: number): Block[] {
    const source = this.text.slice(this.from, end);
    return this.state === "none" || BLANK_TEXT.test(source) ? [] : [this.block(source)];
  }

  private take(line: string, start: number, done: Block[]): void {
    if (this.state === "fence") {
      if (isClosing(line, this.close)) this.finish(this.line, done);
      return;
    }
    if (this.state === "math") {
      if (line.trimEnd().endsWith(this.close)) this.finish(this.line, done);
      return;
    }
    if (BLANK.test(line)) {
      if (this.state === "item" || this.state === "indented") this.blank = true;
      else if (this.state === "text") this.finish(this.line, done);
      else this.from = this.line;
      return;
    }
    if (this.state === "none") return this.begin(line, start, done);
    if (this.continues(line)) {
      this.blank = false;
      if (this.state === "text" && SETEXT.test(line)) this.finish(this.line, done);
      return;
    }
    this.finish(start, done);
    this.begin(line, start, done);
  }

  private continues(line: string): boolean {
    if (this.state === "item") {
      const content = this.list?.content ?? 0;
      if (indentOf(line) >= content) return true;
      return !this.blank && !ITEM.test(line) && !this.starts(line) && !QUOTE.test(line);
    }
    if (this.state === "indented") return INDENTED.test(line);
    if (SETEXT.test(line)) return true;
    return !this.starts(line) && !interrupts(line);
  }

  private starts(line: string): boolean {
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || MATH.test(line);
  }

  private begin(line: string, start: number, done: Block[]): void {
    this.from = start;
    this.blank = false;
    const fence = FENCE.exec(line);
    const math = MATH.exec(line);
    const item = RULE.test(line) ? null : ITEM.exec(line);
    const before = this.list;
    this.list = undefined;
    this.joins = false;
    if (fence?.[1] !== undefined) {
      this.state = "fence";
      this.close = fence[1];
    } else if (math?.[1] !== undefined) {
      this.state = "math";
      this.close = math[1] === "$$" ? "$$" : "\\]";
      if (line.trim().length > 2 && line.trimEnd().endsWith(this.close)) this.finish(this.line, done);
    } else if (HEADING.test(line) || RULE.test(line)) {
      this.state = "text";
      this.finish(this.line, done);
    } else if (item !== null) {
      this.state = "item";
      this.list = listOf(item, before);
      this.joins = before !== undefined && before.mark === this.list.mark;
    } else this.state = INDENTED.test(line) ? "indented" : "text";
  }

  private finish(end: number, done: Block[]): void {
    const source = this.text.slice(this.from, end);
    done.push(this.block(source));
    this.from = end;
    this.state = "none";
    this.blank = false;
  }

  private block(source: string): Block {
    if (this.state === "item") {
      const number = this.list?.number;
      return { kind: "item", source, joins: this.joins, ...(number === undefined ? {} : { number }) };
    }
    const kind = this.state === "fence" || this.state === "math" ? this.state : "text";
    return { kind, source, joins: false };
  }
}

function listOf(item: RegExpExecArray, before: List | undefined): List {
  const [, indent = "", marker = "", gap = "", rest = ""] = item;
  const ordered = /\d/.test(marker);
  const mark = ordered ? marker.slice(-1) : marker;
  const wide = gap.length > 4 || rest === "" ? 1 : gap.length;
  const goesOn = before !== undefined && before.mark === mark;
  const number = !ordered ? undefined : goesOn ? (before.number ?? 0) + 1 : Number(marker.slice(0, -1));
  return { mark, indent: indent.length, content: indent.length + marker.length + wide, number };
}

function indentOf(line: string): number {
  let column = 0;
  for (const c of line) {
    if (c === " ") column += 1;
    else if (c === "\t") column += 4 - (column % 4);
    else break;
  }
  return column;
}

function isClosing(line: string, fence: string): boolean {
  const closing = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
  return closing !== undefined && closing[0] === fence[0] && closing.length >= fence.length;
}

/** Lists that may end a paragraph: not empty, and ordered ones only from 1. */
function interrupts(line: string): boolean {
  const item = ITEM.exec(line);
  if (item === null || (item[4] ?? "").trim() === "") return false;
  const marker = item[2] ?? "";
  return !/\d/.test(marker) || /^1[.)]$/.test(marker);
}
