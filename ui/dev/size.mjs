// @ts-check
// The script stays small: it is part of every surefoot binary and loads over slow tunnels.

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT_BYTES = 60 * 1024;
const bytes = gzipSync(readFileSync(new URL("../dist/app.js", import.meta.url)), { level: 9 }).length;
console.log(`dist/app.js: ${(bytes / 1024).toFixed(1)} KiB gzip of ${LIMIT_BYTES / 1024}`);
if (bytes > LIMIT_BYTES) process.exit(1);
