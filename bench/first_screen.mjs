// @ts-check
// How long each monitor takes from its start to the first useful answer, by turns on this machine: `surefoot watch` until a window of lost time
// is on its page, `surefoot demo` until it has printed where to look in its day, node_exporter until a scrape, netdata until a value of the
// processor chart. Also the size of a scrape of each.
//
//   node bench/first_screen.mjs SUREFOOT [TURNS]
//
// It prints medians, their range, and ratios to Surefoot. A program that is not installed is said and left out. Needs root for eBPF.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [surefoot, turns = "5"] = process.argv.slice(2);
if (!surefoot || !(Number(turns) >= 1)) throw new Error("usage: node bench/first_screen.mjs SUREFOOT [TURNS]");

/** @typedef {{ name: string, program: string, words: (port: number, home: string) => string[], ready: string, isReady: (text: string) => boolean, said?: string, scrape: string }} Monitor */

/** @type {Monitor[]} */
const MONITORS = [
  {
    name: "surefoot",
    program: surefoot,
    words: (port, home) => ["watch", "--port", String(port), "--no-history", "--run-directory", join(home, "run")],
    ready: "/api/v1/snapshot",
    isReady: (text) => JSON.parse(text).windows.length > 0,
    scrape: "/metrics",
  },
  {
    name: "surefoot demo",
    program: surefoot,
    words: (port) => ["demo", "--port", String(port)],
    ready: "/api/v1/overview",
    isReady: (text) => JSON.parse(text).tour.length > 0,
    said: "- Remedies",
    scrape: "/metrics",
  },
  {
    name: "node_exporter",
    program: "prometheus-node-exporter",
    words: (port) => [`--web.listen-address=127.0.0.1:${port}`],
    ready: "/metrics",
    isReady: (text) => text.includes("node_cpu_seconds_total"),
    scrape: "/metrics",
  },
  {
    name: "netdata",
    program: "netdata",
    words: (port, home) => ["-D", "-c", configuration(home), "-p", String(port), "-i", "127.0.0.1"],
    ready: "/api/v1/data?chart=system.cpu&after=-1&points=1&format=json",
    isReady: (text) => JSON.parse(text).data?.length > 0,
    scrape: "/api/v1/allmetrics?format=prometheus",
  },
];

/** A configuration of netdata that keeps everything in one folder. @param {string} home */
function configuration(home) {
  const file = join(home, "netdata.conf");
  writeFileSync(file, `[global]\n run as user = root\n[db]\n mode = ram\n[directories]\n cache = ${home}\n lib = ${home}\n log = ${home}\n[logs]\n error = ${home}/error.log\n access = none\n`);
  return file;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address ? address.port : 0;
}

/** @param {Monitor} monitor @returns {Promise<{ ms: number, scrapeMs: number, bytes: number, series: number }>} */
async function turn(monitor) {
  const home = mkdtempSync(join(tmpdir(), "surefoot-first-"));
  const port = await freePort();
  const begun = performance.now();
  const child = spawn(monitor.program, monitor.words(port, home), { stdio: ["ignore", monitor.said ? "pipe" : "ignore", "ignore"] });
  const ended = once(child, "exit");
  try {
    for await (const line of child.stdout ? createInterface({ input: child.stdout }) : []) if (line.startsWith(monitor.said ?? "")) break;
    /** @param {string} path */
    const ask = async (path) => (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { Accept: "application/json, text/plain" } })).text();
    for (;;) {
      const isReady = await ask(monitor.ready).then(monitor.isReady).catch(() => false);
      if (isReady) break;
      if (performance.now() - begun > 120_000) throw new Error(`${monitor.name} does not answer`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const ms = performance.now() - begun;
    // Until each has looked at everything once.
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const asked = performance.now();
    const text = await ask(monitor.scrape);
    const scrapeMs = performance.now() - asked;
    return { ms, scrapeMs, bytes: text.length, series: text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length };
  } finally {
    child.kill("SIGTERM");
    await ended;
    rmSync(home, { recursive: true, force: true });
  }
}

const isThere = (/** @type {Monitor} */ { program }) => spawnSync("sh", ["-c", 'command -v "$0"', program]).status === 0;
const present = MONITORS.filter(isThere);
for (const { name, program } of MONITORS.filter((one) => !isThere(one))) console.log(`${name}: not run: there is no ${program}`);
/** @type {Map<string, Awaited<ReturnType<typeof turn>>[]>} */
const found = new Map(present.map(({ name }) => [name, []]));
for (let at = 0; at < Number(turns); at++) for (const monitor of present) found.get(monitor.name)?.push(await turn(monitor));
const median = (/** @type {number[]} */ all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
const own = found.get("surefoot") ?? [];
for (const [name, all] of found) {
  const of = (/** @type {"ms" | "scrapeMs" | "bytes" | "series"} */ what) => median(all.map((one) => one[what]));
  const times = all.map((one) => Math.round(one.ms));
  const ratio = (/** @type {"ms" | "scrapeMs" | "series"} */ what) => (of(what) / median(own.map((one) => one[what]))).toFixed(2);
  console.log(
    `${name}: first useful answer ${Math.round(of("ms"))} ms (${Math.min(...times)} to ${Math.max(...times)}), ratio ${ratio("ms")}; ` +
      `a scrape ${of("scrapeMs").toFixed(1)} ms, ratio ${ratio("scrapeMs")}; ${of("series")} series, ratio ${ratio("series")}; ${of("bytes")} bytes`,
  );
}
