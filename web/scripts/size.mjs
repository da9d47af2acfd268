// The page's weight: what a first visit loads, compressed. Fails over the limit.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 150 * 1024;
const dist = join(import.meta.dirname, "../dist");
const assets = join(dist, "assets");
const html = readFileSync(join(dist, "index.html"), "utf8");

/** What a module imports before it runs; `import(…)` is for later. */
function needs(name, found = new Set()) {
  if (found.has(name)) return found;
  found.add(name);
  if (!name.endsWith(".js")) return found;
  const code = readFileSync(join(assets, name), "utf8");
  for (const [, other] of code.matchAll(/(?:import|from)\s*["']\.\/([^"']+)["']/g)) needs(other, found);
  return found;
}

const first = new Set();
for (const [, name] of html.matchAll(/\/assets\/([^"]+)/g)) for (const n of needs(name)) first.add(n);
const size = (name) => gzipSync(readFileSync(join(assets, name)), { level: 9 }).length;
let sum = 0;
for (const name of [...first].sort()) {
  sum += size(name);
  console.log(`${String(size(name)).padStart(8)}  ${name}`);
}
const later = readdirSync(assets).filter((n) => /\.(js|css)$/.test(n) && !first.has(n));
const rest = later.reduce((total, name) => total + size(name), 0);
console.log(`${String(sum).padStart(8)}  first load, gzip (limit ${LIMIT}); ${rest} more when they are needed`);
if (sum > LIMIT) {
  console.error("the first load is over its limit");
  process.exit(1);
}
