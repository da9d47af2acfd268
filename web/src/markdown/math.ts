// TeX to MathML, which browsers draw themselves. Loaded with the first formula.

import temml from "temml";
import { sanitizeMath } from "./sanitize";

/** Nothing where it is not TeX: the source then stays to be read. */
export function mathml(tex: string, display: boolean): DocumentFragment | undefined {
  try {
    return sanitizeMath(temml.renderToString(tex, { displayMode: display, throwOnError: true, trust: false, maxExpand: 200 }));
  } catch {
    return undefined;
  }
}
