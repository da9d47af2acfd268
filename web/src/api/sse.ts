// Server-sent events from a byte stream: however the bytes are cut, the events are the same.

export interface SseEvent {
  id: string;
  name: string;
  data: string;
}

/** Feed it text; it gives the events that are complete. Line ends may be LF, CRLF or CR. */
export class SseReader {
  private rest = "";
  private skipLf = false;
  private id = "";
  private name = "";
  private data: string[] = [];

  feed(text: string): SseEvent[] {
    const events: SseEvent[] = [];
    let input = this.rest + text;
    if (this.skipLf && input.startsWith("\n")) input = input.slice(1);
    if (input !== "") this.skipLf = false;
    let from = 0;
    for (let i = 0; i < input.length; i++) {
      const c = input[i];
      if (c !== "\n" && c !== "\r") continue;
      const event = this.line(input.slice(from, i));
      if (event !== undefined) events.push(event);
      if (c === "\r") {
        if (i + 1 === input.length) this.skipLf = true;
        else if (input[i + 1] === "\n") i++;
      }
      from = i + 1;
    }
    this.rest = input.slice(from);
    return events;
  }

  private line(line: string): SseEvent | undefined {
    if (line === "") {
      const event = { id: this.id, name: this.name, data: this.data.join("\n") };
      const has = this.data.length > 0;
      this.name = "";
      this.data = [];
      return has ? event : undefined;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "id") this.id = value;
    else if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    return undefined;
  }
}
