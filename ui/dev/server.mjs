// @ts-check
// Serves the built page and the API of a made-up host on the loopback interface, for development:
//   npm run build && npm run dev -- [small|large|quiet|reduced|replay] [port]
// The headers are those of the real daemon, so that a breach of the content-security policy shows here.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { makeCheckpoints } from "./checkpoints.mjs";
import { makeOverview, makePast } from "./overview.mjs";
import { hasWho, makeStream, makeWho, reportOf, snapshotOf, whoEndNs } from "./sample.mjs";

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The built page: its scripts are named as their files are. */
function fileAt(/** @type {string} */ path) {
  if (path === "/") return ["index.html", "text/html; charset=utf-8"];
  if (path === "/app.css") return ["app.css", "text/css; charset=utf-8"];
  return /^\/\w+\.js$/.test(path) ? [path.slice(1), "text/javascript; charset=utf-8"] : null;
}

/**
 * Starts a server; `port` 0 takes a free one.
 * @param {import("./sample.mjs").Scenario} scenario
 * @param {{ port?: number, seconds?: number }} [options]
 */
export async function startServer(scenario, { port = 0, seconds = 900 } = {}) {
  const stream = makeStream(scenario, seconds);
  let newestAtMs = Date.now();
  /** What the checks can change while it runs. */
  const control = { broken: false, silent: false, requests: /** @type {string[]} */ ([]) };
  /** @type {Set<import("node:http").ServerResponse>} */
  const listeners = new Set();

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    control.requests.push(url.pathname + url.search);
    response.setHeader("Content-Security-Policy", CSP);
    response.setHeader("X-Content-Type-Options", "nosniff");
    response.setHeader("Cache-Control", "no-store");
    const file = fileAt(url.pathname);
    if (file) {
      response.setHeader("Content-Type", file[1]);
      response.end(await readFile(new URL(`../dist/${file[0]}`, import.meta.url)));
      return;
    }
    if (control.broken) {
      response.statusCode = 503;
      response.end();
      return;
    }
    if (url.pathname === "/api/v1/events" && scenario !== "replay") {
      response.setHeader("Content-Type", "text/event-stream");
      response.write(": hello\n\n");
      listeners.add(response);
      response.on("close", () => listeners.delete(response));
      return;
    }
    const refuse = (/** @type {number} */ status, /** @type {string} */ error) => {
      response.statusCode = status;
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ error }));
    };
    const isPast = url.pathname === "/api/v1/history";
    const known = isPast ? ["from_s", "to_s", "resolution"] : ["cpu", "kind", "min_us", "range_s"];
    const unknown = [...url.searchParams.keys()].find((name) => !known.includes(name));
    if (unknown) return refuse(400, `unknown parameter '${unknown}'`);
    if (isPast) {
      if (scenario === "quiet") return refuse(404, "no history is kept; start with a history file to keep one");
      const [fromS, toS] = ["from_s", "to_s"].map((name) => Number(url.searchParams.get(name)));
      const resolution = url.searchParams.get("resolution") === "second" ? "second" : "minute";
      if ((toS - fromS) / (resolution === "second" ? 1 : 60) > 4000) return refuse(400, "the answer would be longer than 64 MiB; ask for a shorter time between from_s and to_s");
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify(makePast(scenario, fromS, toS, resolution, Date.now() / 1000)));
      return;
    }
    const age = (Date.now() - newestAtMs) * 1e6;
    const body =
      url.pathname === "/api/v1/snapshot"
        ? snapshotOf(stream, age, url.searchParams)
        : url.pathname === "/api/v1/overview"
        ? makeOverview(stream, age)
        : url.pathname === "/api/v1/report"
          ? reportOf(stream, url.searchParams)
          : url.pathname === "/api/v1/who"
            ? { who: hasWho(scenario) ? makeWho(scenario, whoEndNs(stream)) : null }
            : url.pathname === "/api/v1/checkpoints"
              ? makeCheckpoints(scenario, Date.now() * 1e6)
              : url.pathname === "/api/v1/deeds"
                ? { deeds: [], left_out: [] }
                : null;
    response.statusCode = body ? 200 : 404;
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(body));
  });

  /** @param {string} name @param {unknown} data */
  const send = (name, data) => {
    for (const listener of listeners) listener.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const timer = setInterval(() => {
    if (scenario === "replay" || control.silent) return;
    const { window, gaps } = stream.step();
    newestAtMs = Date.now();
    send("window", window);
    for (const gap of gaps) send("gap", gap);
    if (hasWho(scenario)) send("who", { type: "who", start_ns: 0, end_ns: whoEndNs(stream) });
  }, 1000);

  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(null)));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" && address ? address.port : port}/`;
  return {
    url,
    control,
    send,
    /** Ends all streams of events, as a restart of the daemon would. */
    cut: () => listeners.forEach((listener) => listener.destroy()),
    stop: () => {
      clearInterval(timer);
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [scenario = "small", port = "8686"] = process.argv.slice(2);
  const { url } = await startServer(/** @type {any} */ (scenario), { port: Number(port) });
  console.log(`a made-up ${scenario} host at ${url}`);
}
