// @ts-check
// Bundles each test file, because Node 20 does not read TypeScript, and runs them with Node's own runner.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = join(root, "node_modules/.cache/surefoot-tests");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const names = readdirSync(join(root, "test")).filter((name) => name.endsWith(".test.ts"));
if (names.length === 0) throw new Error("no test was found");
await build({
  root,
  configFile: false,
  logLevel: "warn",
  ssr: { noExternal: true },
  build: {
    ssr: true,
    target: "node20",
    outDir: out,
    emptyOutDir: true,
    rolldownOptions: {
      input: Object.fromEntries(names.map((name) => [name.slice(0, -3), join(root, "test", name)])),
      output: { entryFileNames: "[name].mjs", chunkFileNames: "[name].mjs" },
    },
  },
});
const files = names.map((name) => join(out, `${name.slice(0, -3)}.mjs`));
const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=tap", ...files], { stdio: "inherit", env: { ...process.env, TZ: "UTC" } });
process.exit(status ?? 1);
