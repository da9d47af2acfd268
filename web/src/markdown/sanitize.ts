// The last gate before the page: only these elements and attributes, links only to http and https. It returns
// nodes, never a string, so nothing in this program writes HTML into the document by itself.

import DOMPurify from "dompurify";
import { safeUrl } from "./parse";

const TAGS = [
  "a", "blockquote", "br", "button", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
  "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ATTRIBUTES = ["class", "data-lang", "data-n", "href", "rel", "referrerpolicy", "start", "tabindex", "target", "type"];
const CLASSES = /^(?:align-(?:left|right|center)|cite|host|image|math|mathblock|table|unrun|hljs-[a-z_-]+(?: [a-z_]+)?)$/;

const MATH_TAGS = [
  "math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot", "munder",
  "mover", "munderover", "mtable", "mtr", "mtd", "mpadded", "mphantom", "menclose", "mstyle", "mmultiscripts", "mprescripts",
];
const MATH_ATTRIBUTES = [
  "display", "mathvariant", "stretchy", "fence", "separator", "lspace", "rspace", "width", "height", "depth", "accent",
  "accentunder", "displaystyle", "scriptlevel", "columnalign", "rowspacing", "columnspacing", "linethickness", "minsize",
  "maxsize", "symmetric", "movablelimits", "largeop", "form",
];

type Purifier = typeof DOMPurify;
type Config = NonNullable<Parameters<Purifier["setConfig"]>[0]>;

function config(tags: string[], attributes: string[]): Config {
  return {
    ALLOWED_TAGS: tags, ALLOWED_ATTR: attributes, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    // Every attribute but `href` would else be measured as an address.
    ADD_URI_SAFE_ATTR: attributes.filter((name) => name !== "href"),
    ALLOWED_URI_REGEXP: /^https?:\/\//i, RETURN_DOM_FRAGMENT: true, KEEP_CONTENT: true,
  };
}

const HTML = config(TAGS, ATTRIBUTES);
const MATH = config(MATH_TAGS, MATH_ATTRIBUTES);

let purifier: Purifier | undefined;
/** Reading a configuration costs more than most blocks: it is set when it changes. */
let set: Config | undefined;

/** For tests, which bring their own window. */
export function makePurifier(root?: Window): Purifier {
  const made = root === undefined ? DOMPurify : (DOMPurify as unknown as (w: Window) => Purifier)(root);
  made.addHook("uponSanitizeAttribute", (_node, data) => {
    const { attrName: name, attrValue: value } = data;
    if (name === "class") data.keepAttr = CLASSES.test(value);
    else if (name === "href") data.keepAttr = safeUrl(value) !== undefined;
    else if (name === "data-n" || name === "start" || name === "tabindex") data.keepAttr = /^\d{1,9}$/.test(value);
    else if (name === "type") data.keepAttr = value === "button";
    else if (name === "target") data.keepAttr = value === "_blank";
  });
  made.addHook("afterSanitizeAttributes", (node) => {
    if (node.nodeName !== "A") return;
    node.setAttribute("rel", "noopener noreferrer nofollow");
    node.setAttribute("referrerpolicy", "no-referrer");
  });
  purifier = made;
  set = undefined;
  return made;
}

function clean(html: string, wanted: Config): DocumentFragment {
  const by = purifier ?? makePurifier();
  if (set !== wanted) by.setConfig(wanted);
  set = wanted;
  return by.sanitize(html) as unknown as DocumentFragment;
}

export function sanitize(html: string): DocumentFragment {
  return clean(html, HTML);
}

/** Several at once, each in a box of its own. If they do not come back one to one, each goes alone. */
export function sanitizeAll(htmls: readonly string[]): DocumentFragment[] {
  if (htmls.length < 2) return htmls.map(sanitize);
  const boxes = [...sanitize(htmls.map((html) => `<div>${html}</div>`).join("")).childNodes];
  if (boxes.length !== htmls.length || boxes.some((b) => b.nodeName !== "DIV")) return htmls.map(sanitize);
  return boxes.map((b) => {
    const fragment = (b.ownerDocument as Document).createDocumentFragment();
    fragment.append(...b.childNodes);
    return fragment;
  });
}

export function sanitizeMath(mathml: string): DocumentFragment {
  return clean(mathml, MATH);
}
