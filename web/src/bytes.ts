// Offsets on the wire count UTF-8 bytes, strings here count UTF-16 units.

/** Bytes that `text` has in UTF-8. A lone surrogate counts as its replacement, three bytes. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit >= 0xd800 && unit < 0xdc00 && isLow(text.charCodeAt(i + 1))) {
      bytes += 2; // four bytes for two units
      i++;
    } else bytes += 2;
  }
  return bytes;
}

/** The unit where byte `at` of `text` stands; inside a character, that character's start. */
export function unitAt(text: string, at: number): number {
  let bytes = 0;
  let unit = 0;
  while (unit < text.length) {
    const code = text.codePointAt(unit) as number;
    const width = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes + width > at) return unit;
    bytes += width;
    unit += code < 0x10000 ? 1 : 2;
  }
  return unit;
}

/** Bytes `from` to `to` of `text`. */
export function sliceBytes(text: string, from: number, to: number): string {
  return text.slice(unitAt(text, from), unitAt(text, to));
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}
