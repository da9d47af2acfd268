// The words of a query in a text, to be lit. Word beginnings, since the search knows forms of a word.

const COMMON = new Set(
  "the and for are was with from that this what who how why does not which der die das und ist ein eine wer wie was den dem des mit von für auf".split(" "),
);

export function marked(text: string, query: string): { text: string; lit: boolean }[] {
  const words = (query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []).filter((w) => !COMMON.has(w)).map((w) => w.slice(0, Math.max(3, w.length - 3)));
  if (words.length === 0) return [{ text, lit: false }];
  const parts: { text: string; lit: boolean }[] = [];
  for (const part of text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) ?? []) {
    const lit = words.some((w) => part.toLowerCase().startsWith(w));
    const last = parts.at(-1);
    if (last !== undefined && last.lit === lit) last.text += part;
    else parts.push({ text: part, lit });
  }
  return parts;
}
