// Everything an end-to-end test stands on: a model, a page server, Tailrace itself, and, where its binary was
// built without the page, a server of the same page under the same policy. All on loopback, all on free ports.

import { spawn } from "node:child_process";
import { createServer, request as httpRequest } from "node:http";
import { mkdtempSync, readFileSync, rmSync, existsSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { startModel } from "./model.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const root = resolve(here, "../..");
const dist = join(root, "web/dist");

/** Found by TAILRACE_BIN, else where cargo builds. */
function binary() {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const found = [process.env.TAILRACE_BIN, join(target, "debug/tailrace"), join(target, "release/tailrace")].find((p) => p && existsSync(p));
  if (!found) throw new Error("no tailrace binary: build it, or set TAILRACE_BIN");
  return found;
}

export async function startStand({ scripts = new Map(), pages = new Map(), env = {}, settings = [], provider = "openai" } = {}) {
  const data = mkdtempSync(join(tmpdir(), "tailrace-e2e-"));
  const pageServer = createServer((req, res) => {
    const page = pages.get(req.url);
    if (page === undefined) return void res.writeHead(404).end("no such page");
    setTimeout(() => res.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page.html), page.after ?? 0);
  });
  const pagePort = await listen(pageServer);
  const page = `http://127.0.0.1:${pagePort}`;
  const model = await startModel(scripts, { page });
  const port = await freePort();
  let server = await startServer();

  async function startServer() {
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--set", `storage.data_dir=${data}`,
      "--set", `models.dir=${process.env.TAILRACE_MODELS ?? process.env.TAILRACE_TEST_MODELS ?? join(root, "models")}`,
      "--set", `tools.fetch_url.allow_hosts=["127.0.0.1:${pagePort}"]`, ...settings.flatMap((s) => ["--set", s])];
    const llm = provider === "openai"
      ? { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: "none", TAILRACE__LLM__PROVIDER: "openai", TAILRACE__LLM__MODEL: "example-model" }
      : { TAILRACE__LLM__PROVIDER: provider };
    const child = spawn(binary(), args, { env: { ...process.env, ...llm, ...env }, cwd: data, stdio: ["ignore", "pipe", "pipe"] });
    let errors = "";
    child.stderr.on("data", (d) => (errors += d));
    await new Promise((ready, failed) => {
      child.stdout.on("data", (d) => String(d).includes("listens on") && ready());
      child.on("exit", (code) => failed(new Error(`tailrace ended (${code}): ${errors.slice(-2000)}`)));
    });
    return child;
  }

  const api = `http://127.0.0.1:${port}`;
  const has = await fetch(api, { headers: { accept: "text/html" } });
  // A binary that was built elsewhere brings another page: the one that is tested is the one in this folder.
  const bundled = has.ok && (await has.text()) === readFileSync(join(dist, "index.html"), "utf8");
  const front = bundled ? undefined : await startFront(port);
  const url = front === undefined ? api : `http://127.0.0.1:${front.address().port}`;
  return {
    url, api, model, page, data, bundled,
    async add(collection, documents) {
      const answer = await fetch(`${api}/api/v1/collections/${collection}/documents?wait=true`, {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ documents }),
      });
      if (!answer.ok) throw new Error(await answer.text());
      return answer.json();
    },
    async kill() {
      const ended = new Promise((r) => server.on("exit", r));
      server.kill("SIGKILL");
      await ended;
    },
    async restart() {
      server = await startServer();
    },
    async close() {
      const ended = server.exitCode === null && server.signalCode === null ? new Promise((r) => server.on("exit", r)) : undefined;
      server.kill("SIGKILL");
      await ended;
      front?.closeAllConnections();
      front?.close();
      model.close();
      pageServer.closeAllConnections();
      pageServer.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2" };

/** The policy is the program's own: read from its source, so that both cannot differ. */
export function policy() {
  const source = readFileSync(join(root, "src/http/assets.rs"), "utf8");
  const found = /const POLICY: &str = "([^"]+)"/s.exec(source)?.[1];
  return found.replace(/\\\n\s*/g, "");
}

async function startFront(port) {
  const csp = policy();
  const front = createServer((req, res) => {
    const path = new URL(req.url, "http://x").pathname;
    if (/^\/(api|v1|healthz|readyz|metrics)/.test(path)) return forward(req, res, port);
    const file = join(dist, path);
    const found = extname(path) !== "" && file.startsWith(dist) && existsSync(file) ? file : join(dist, "index.html");
    res.writeHead(200, { "content-type": TYPES[extname(found)] ?? "application/octet-stream", "content-security-policy": csp });
    res.end(readFileSync(found));
  });
  front.on("upgrade", (req, socket, head) => {
    const upstream = connect(port, "127.0.0.1", () => {
      const lines = [`${req.method} ${req.url} HTTP/1.1`];
      for (let i = 0; i < req.rawHeaders.length; i += 2) lines.push(`${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}`);
      upstream.write(`${lines.join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  await listen(front);
  return front;
}

function forward(req, res, port) {
  const up = httpRequest({ port, host: "127.0.0.1", method: req.method, path: req.url, headers: req.headers }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
    answer.on("error", () => res.destroy());
    answer.on("close", () => answer.complete || res.destroy());
  });
  up.on("error", () => res.destroy());
  res.on("close", () => up.destroy());
  req.pipe(up);
}

function listen(server) {
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
}

async function freePort() {
  const probe = createServer();
  const port = await listen(probe);
  await new Promise((done) => probe.close(done));
  return port;
}
