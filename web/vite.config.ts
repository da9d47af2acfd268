import { defineConfig } from "vitest/config";

// The page is served by the program itself; while developing, `vite` passes the API on to one that runs.
const server = process.env["TAILRACE"] ?? "http://127.0.0.1:8787";

export default defineConfig({
  build: {
    outDir: "dist",
    target: "es2023",
    assetsInlineLimit: 0, // the content policy knows no data: scripts or styles
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": { target: server, ws: true }, "/healthz": server, "/readyz": server, "/metrics": server } },
  test: { include: ["tests/**/*.test.ts"], environment: "node", testTimeout: 120_000 },
});
