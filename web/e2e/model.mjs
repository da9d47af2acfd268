// A language model that says what it is told to: an OpenAI-compatible server with scripts. A script is a list of
// rounds, a round a list of pieces: text, or a pause in milliseconds. `{page}` is replaced by the page server's address.

import { createServer } from "node:http";

/** Which round of its script a request is for: what the assistant has said since the question was first asked. */
function roundOf(messages, question) {
  const first = messages.findIndex((m) => m.role === "user" && textOf(m).includes(question));
  return messages.slice(first + 1).filter((m) => m.role === "assistant").length;
}

function textOf(message) {
  return typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "");
}

export async function startModel(scripts, values = {}) {
  const seen = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (d) => (body += d));
    request.on("end", () => void answer(JSON.parse(body || "{}"), request, response));
  });

  async function answer(body, request, response) {
    const messages = body.messages ?? [];
    const asked = messages.filter((m) => m.role === "user").map(textOf).reverse();
    // The newest message that has a script: older ones are the conversation so far.
    const question = asked.map((a) => [...scripts.keys()].find((q) => a.includes(q))).find((q) => q !== undefined);
    seen.push({ body, question });
    const rounds = question === undefined ? [["I have no script for this."]] : scripts.get(question);
    const round = rounds[Math.min(question === undefined ? 0 : roundOf(messages, question), rounds.length - 1)];
    if (round.status !== undefined) {
      response.writeHead(round.status, { "content-type": "application/json" });
      return response.end(JSON.stringify({ error: { message: round.message, type: "server_error" } }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    let gone = false;
    response.on("close", () => (gone = true));
    const send = (delta, finish = null) =>
      response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", model: "example-model", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    for (const piece of round) {
      if (gone) return;
      if (typeof piece === "number") await new Promise((r) => setTimeout(r, piece));
      else if (typeof piece === "function") await piece((text) => send({ content: text }), () => gone);
      else if (typeof piece === "object") send({ reasoning_content: piece.reasoning });
      else send({ content: piece.replaceAll("{page}", values.page ?? "") });
    }
    send({}, "stop");
    response.write(`data: ${JSON.stringify({ id: "x", choices: [], usage: { prompt_tokens: 812, completion_tokens: 164 } })}\n\n`);
    response.end("data: [DONE]\n\n");
  }

  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, seen, scripts, close: () => server.close() };
}

/** A text as a model streams it: words, with a pause between. */
export function spoken(text, pause = 12) {
  const pieces = [];
  for (const word of text.match(/\S+\s*|\s+/g) ?? []) pieces.push(word, pause);
  return pieces;
}
