// Whether a piece of text is a tool block that will become a call. The server decides that and tells it a moment
// later; until then this guess keeps raw XML off the page. Wrong guesses are put right at the end of the round.

const BLOCK = /^<tool[\s>/][\s\S]*(?:<\/tool\s*>|\/>)$/;

export function isToolBlock(text: string): boolean {
  if (!BLOCK.test(text)) return false;
  const body = text.slice(text.indexOf(">") + 1).trimStart();
  // In a plain body an opener makes the block invalid; in JSON it may stand in a string.
  return /^[{[]/.test(body) || !/<tool[\s>/]/.test(body);
}

/** `before`: the text up to the block. Calls in code, in quotes and in comments are never run. */
export function isQuoted(before: string): boolean {
  let fence = "";
  for (const line of before.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line);
    if (mark?.[1] === undefined) continue;
    if (fence === "") fence = mark[1];
    else if (mark[1].startsWith(fence) && mark[2]?.trim() === "") fence = "";
  }
  if (fence !== "") return true;
  if (before.lastIndexOf("<!--") > before.lastIndexOf("-->")) return true;
  const paragraph = before.slice(before.search(/(?:(?!\n[ \t]*\n)[\s\S])*$/));
  if (/(?:^|\n) {0,3}>[^\n]*$/.test(paragraph)) return true;
  return hasOpenSpan(paragraph);
}

function hasOpenSpan(paragraph: string): boolean {
  let open = "";
  for (const [run] of paragraph.matchAll(/`+/g)) {
    if (open === "") open = run;
    else if (open === run) open = "";
  }
  return open !== "";
}
