// Markdown to HTML. Raw HTML is never passed on: tags of any kind are text, and whole tool blocks that were
// not run are shown as code. What comes out of here is sanitized again before it is put in the page.

import MarkdownIt, { type Env, type StateInline, type Token } from "markdown-it";

const md = new MarkdownIt({ html: false, linkify: true, typographer: false, breaks: false, maxNesting: 40 });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });

/** Only these two, and only with a host: everything else is text. */
export function safeUrl(url: string): URL | undefined {
  if (!/^https?:\/\//i.test(url.trim())) return undefined;
  try {
    const parsed = new URL(url.trim());
    return (parsed.protocol === "http:" || parsed.protocol === "https:") && parsed.hostname !== "" ? parsed : undefined;
  } catch {
    return undefined;
  }
}

md.validateLink = (url) => safeUrl(url) !== undefined;

md.inline.ruler.before("link", "citation", (state, silent) => {
  const found = /^\[(\d{1,4})\](?!\()/.exec(state.src.slice(state.pos, state.pos + 8));
  if (found?.[1] === undefined) return false;
  if (!silent) state.push("citation", "", 0).content = found[1];
  state.pos += found[0].length;
  return true;
});

md.inline.ruler.before("escape", "math_inline", (state, silent) => mathInline(state, silent));

function mathInline(state: StateInline, silent: boolean): boolean {
  const rest = state.src.slice(state.pos, state.pos + 2000);
  // A dollar sign is money unless it hugs its content on both sides and no digit follows.
  const found = /^\\\(([^\n]+?)\\\)/.exec(rest) ?? /^\$((?:[^\s$\\]|\\.)(?:(?:[^$\\\n]|\\.)*?(?:[^\s$\\]|\\.))?)\$(?!\d)/.exec(rest);
  if (found?.[1] === undefined) return false;
  if (!silent) state.push("math", "", 0).content = found[1];
  state.pos += found[0].length;
  return true;
}

/** A tool block in the text that did not become a call: invalid, or not finished. */
md.inline.ruler.before("escape", "tool_block", (state, silent) => {
  const rest = state.src.slice(state.pos);
  if (!/^<tool[\s>/]/.test(rest)) return false;
  const whole = /^<tool[\s>/](?:(?!<tool[\s>/])[\s\S])*?(?:<\/tool\s*>|(?=<tool[\s>/])|$)/.exec(rest);
  if (whole === null) return false;
  if (!silent) state.push("tool_code", "", 0).content = whole[0];
  state.pos += whole[0].length;
  return true;
});

const escape = md.utils.escapeHtml;

const rules = md.renderer.rules;
rules["citation"] = (tokens, i) => cite(tokens[i]?.content ?? "");
rules["math"] = (tokens, i) => `<code class="math">${escape(tokens[i]?.content ?? "")}</code>`;
rules["tool_code"] = (tokens, i) => `<code class="unrun">${escape(tokens[i]?.content ?? "")}</code>`;
// An image would fetch from another host as soon as it is shown: its place is taken by a link, or by its text.
rules["image"] = (tokens, i) => {
  const token = tokens[i] as Token;
  const label = escape(token.content === "" ? "image" : token.content);
  const url = safeUrl(String(token.attrGet("src") ?? ""));
  if (url === undefined) return `<span class="image">${label}</span>`;
  return `<a class="image" ${anchor(url)}>${label}</a><span class="host">${escape(url.host)}</span>`;
};
rules["fence"] = (tokens, i) => {
  const token = tokens[i] as Token;
  return codeBlock(token.content, token.info.trim().split(/\s+/)[0] ?? "");
};
rules["code_block"] = (tokens, i) => codeBlock(tokens[i]?.content ?? "", "");
rules["table_open"] = () => '<div class="table" tabindex="0"><table>';
rules["table_close"] = () => "</table></div>";
for (const cell of ["th", "td"]) {
  rules[`${cell}_open`] = (tokens, i) => {
    // As a class: the content policy forbids inline styles.
    const align = /text-align:(left|right|center)/.exec(String((tokens[i] as Token).attrGet("style") ?? ""))?.[1];
    return align === undefined ? `<${cell}>` : `<${cell} class="align-${align}">`;
  };
}
rules["link_open"] = (tokens, i) => {
  const url = safeUrl(String((tokens[i] as Token).attrGet("href") ?? ""));
  return url === undefined ? "<span>" : `<a ${anchor(url)}>`;
};
rules["link_close"] = (tokens, i) => {
  const url = openedBy(tokens, i);
  if (url === undefined) return "</span>";
  const text = tokens.slice(0, i).at(-1)?.content ?? "";
  // The host is said where the text does not say it already.
  return text.toLowerCase().startsWith(url.origin.toLowerCase()) ? "</a>" : `</a><span class="host">${escape(url.host)}</span>`;
};

function openedBy(tokens: Token[], close: number): URL | undefined {
  for (let i = close - 1, depth = 0; i >= 0; i--) {
    const token = tokens[i] as Token;
    if (token.type === "link_close") depth++;
    else if (token.type === "link_open" && depth-- === 0) return safeUrl(String(token.attrGet("href") ?? ""));
  }
  return undefined;
}

function anchor(url: URL): string {
  return `href="${escape(url.href)}" target="_blank" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer"`;
}

function cite(n: string): string {
  return `<button type="button" class="cite" data-n="${n}">${n}</button>`;
}

function codeBlock(code: string, language: string): string {
  const lang = /^[\w+#.-]{1,24}$/.test(language) ? language : "";
  return `<pre${lang === "" ? "" : ` data-lang="${escape(lang)}"`} tabindex="0"><code>${escape(code)}</code></pre>`;
}

export function mathBlock(source: string): string {
  const inner = source.trim().replace(/^(?:\$\$|\\\[)/, "").replace(/(?:\$\$|\\\])$/, "");
  return `<div class="mathblock"><code class="math">${escape(inner.trim())}</code></div>`;
}

/** `references`: link definitions of the blocks before; this block's are added. */
export function toHtml(source: string, references: Env): string {
  return md.render(source, references);
}
