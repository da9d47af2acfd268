// Chromium as Debian packages it, without a network beyond loopback.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

export function chromiumPath() {
  return [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => p && existsSync(p));
}

export async function startBrowser() {
  const executablePath = chromiumPath();
  if (executablePath === undefined) throw new Error("no Chromium: apt install chromium, or set CHROMIUM");
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-first-run",
      "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
}
