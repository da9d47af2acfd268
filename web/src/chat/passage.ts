// Which sentence of a passage has most to do with a question: by words in common. It is only highlighted.

/** A passage as it is read: marks of headings say nothing without their lines. */
export function readable(passage: string): string {
  return passage.replace(/(^|\s)#{1,6}\s+(?=\S)/g, "$1");
}

export function bestSentence(passage: string, question: string): { before: string; best: string; after: string } {
  const asked = words(question);
  const sentences = passage.match(/[^.!?\n]+[.!?\n]*\s*/g) ?? [passage];
  let at = 0;
  let best = -1;
  let score = 0;
  const starts: number[] = [];
  sentences.forEach((sentence, i) => {
    starts.push(at);
    at += sentence.length;
    const found = [...words(sentence)].filter((w) => asked.has(w)).length / Math.sqrt(words(sentence).size + 4);
    if (found > score) {
      score = found;
      best = i;
    }
  });
  if (best < 0) return { before: passage, best: "", after: "" };
  const from = starts[best] as number;
  const sentence = (sentences[best] as string).trimEnd();
  return { before: passage.slice(0, from), best: sentence, after: passage.slice(from + sentence.length) };
}

function words(text: string): Set<string> {
  return new Set((text.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) ?? []).map((w) => w.slice(0, 6)));
}
