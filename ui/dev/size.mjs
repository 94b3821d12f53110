// @ts-check
// Scripts stay small: they are part of every surefoot binary and load over slow tunnels.

import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** What any one view needs, and all together. */
const VIEW_LIMIT_BYTES = 60 * 1024;
const ALL_LIMIT_BYTES = 96 * 1024;
/** What every view needs. */
const ALWAYS = ["app.js", "parts.js"];

const folder = new URL("../dist/", import.meta.url);
const size = (/** @type {string} */ name) => gzipSync(readFileSync(new URL(name, folder)), { level: 9 }).length;
const sizes = new Map(readdirSync(folder).filter((name) => name.endsWith(".js")).map((name) => [name, size(name)]));
const sum = (/** @type {number[]} */ bytes) => bytes.reduce((a, b) => a + b, 0);
const always = sum(ALWAYS.map((name) => sizes.get(name) ?? 0));
const kib = (/** @type {number} */ bytes) => (bytes / 1024).toFixed(1);

let isTooLarge = sum([...sizes.values()]) > ALL_LIMIT_BYTES;
for (const [name, bytes] of sizes) {
  if (ALWAYS.includes(name)) continue;
  console.log(`${name}: ${kib(bytes)} KiB gzip, ${kib(always + bytes)} of ${kib(VIEW_LIMIT_BYTES)} with ${ALWAYS.join(" and ")}`);
  isTooLarge ||= always + bytes > VIEW_LIMIT_BYTES;
}
console.log(`all scripts: ${kib(sum([...sizes.values()]))} of ${kib(ALL_LIMIT_BYTES)} KiB gzip`);
if (isTooLarge) process.exit(1);
