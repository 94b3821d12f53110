// @ts-check
// Builds the page into a scratch directory and compares it with the built page that is checked in.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = join(root, "node_modules/.cache/surefoot-fresh");
await build({ root, logLevel: "warn", build: { outDir: out, emptyOutDir: true } });

const names = (/** @type {string} */ folder) => readdirSync(folder).sort();
const expected = names(out);
let stale = false;
if (names(join(root, "dist")).join() !== expected.join()) {
  console.error(`dist holds ${names(join(root, "dist")).join(", ")} instead of ${expected.join(", ")}`);
  stale = true;
}
for (const name of stale ? [] : expected) {
  if (readFileSync(join(out, name)).equals(readFileSync(join(root, "dist", name)))) continue;
  console.error(`dist/${name} is not what the sources give; run npm run build and commit dist`);
  stale = true;
}
if (stale) process.exit(1);
console.log("dist is what the sources give");
