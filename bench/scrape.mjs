// One Prometheus that scrapes a fleet of made-up hosts, once as `surefoot watch` shows them and once as node_exporter does, in turns;
// and one controller to which the same hosts' agents report.
//
//   node bench/scrape.mjs SUREFOOT 1000 120
//
// Both metrics are those of this machine, asked anew every second from the real programs; a server here hands them out as those
// of each host. Every TURN seconds the one Prometheus or the other is stopped (SIGSTOP), so that both have had the same machine. For each
// it prints series and bytes of a host, the median and the 99th percentile of a scrape, samples a second, memory and processor time;
// for the controller reports a second, processor time of one, and memory. As root. Nothing outlives it, and its files are in a
// folder that it removes.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, createServer, get, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [surefoot, number, length] = process.argv.slice(2);
const [hosts, seconds] = [Number(number), Number(length)];
const SCRAPE_S = 15;
const REPORT_S = 30;
const folder = mkdtempSync(join(tmpdir(), "surefoot-scrape-"));
const TICKS = Number(execFileSync("getconf", ["CLK_TCK"]));
const started = [];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function start(program, words) {
  const child = spawn(program, words, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (part) => (said = (said + part).slice(-2000)));
  child.on("exit", (code) => started.includes(child) && code !== null && fail(`${program} ended (${code}): ${said}`));
  started.push(child);
  return child;
}

function end() {
  for (const child of started.splice(0)) {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
  }
  rmSync(folder, { recursive: true, force: true });
}

function fail(why) {
  end();
  console.error(why);
  process.exit(1);
}

function text(url, headers = {}) {
  return new Promise((done, failed) => {
    const asked = get(url, { headers }, (answer) => {
      let got = "";
      answer.setEncoding("utf8").on("data", (part) => (got += part)).on("end", () => (answer.statusCode === 200 ? done(got) : failed(new Error(`${url}: ${answer.statusCode}`))));
    });
    asked.on("error", failed);
  });
}

async function until(url) {
  for (let turn = 0; ; turn++) {
    try {
      return await text(url);
    } catch (error) {
      if (turn > 300) fail(`${url}: ${error}`);
      await sleep(100);
    }
  }
}

/** Processor time and memory of a process. */
function used(child) {
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1].split(" ");
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  const mib = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) / 1024;
  return { cpu_s: (Number(fields[11]) + Number(fields[12])) / TICKS, mib: mib("VmRSS"), most_mib: mib("VmHWM") };
}

const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];

process.on("SIGINT", () => fail("ended"));
process.on("SIGTERM", () => fail("ended"));

// The real programs.
start(surefoot, ["watch", "--port", "17460", "--no-history", "--run-directory", join(folder, "run")]);
start("prometheus-node-exporter", ["--web.listen-address=127.0.0.1:17461"]);
const kinds = [
  { name: "surefoot", url: "http://127.0.0.1:17460/metrics", port: 17462, body: "" },
  { name: "node_exporter", url: "http://127.0.0.1:17461/metrics", port: 17463, body: "" },
];
for (const kind of kinds) kind.body = await until(kind.url);
// A watch tells more once it has seen a few windows.
await sleep(10_000);

// The hosts: each asks for no more than one page of text.
const fresh = setInterval(() => {
  for (const kind of kinds) text(kind.url, { accept: "text/plain" }).then((body) => (kind.body = body), () => {});
}, 1000);
const server = createServer((asked, answer) => {
  const kind = kinds.find(({ name }) => asked.url.startsWith(`/${name}/`));
  answer.writeHead(kind === undefined ? 404 : 200, { "content-type": "text/plain; version=0.0.4" });
  answer.end(kind?.body);
});
await new Promise((done) => server.listen(17464, "127.0.0.1", done));

for (const kind of kinds) {
  const groups = Array.from({ length: hosts }, (_, at) => ({ targets: ["127.0.0.1:17464"], labels: { __metrics_path__: `/${kind.name}/${at}`, instance: `n${at}` } }));
  writeFileSync(join(folder, `${kind.name}.json`), JSON.stringify(groups));
  writeFileSync(join(folder, `${kind.name}.yml`), `global: {scrape_interval: ${SCRAPE_S}s, scrape_timeout: 10s}\nscrape_configs: [{job_name: fleet, file_sd_configs: [{files: [${kind.name}.json]}]}]\n`);
  kind.child = start("prometheus", [`--config.file=${kind.name}.yml`, `--storage.tsdb.path=${kind.name}`, `--web.listen-address=127.0.0.1:${kind.port}`, "--log.level=error"]);
  await until(`http://127.0.0.1:${kind.port}/-/ready`);
}

// The controller, and the agents' reports: every host every 30 s, one in 32 with a finding.
writeFileSync(join(folder, "policy.toml"), '[[policy]]\nservice = "web"\nmatch = { room = "memory" }\nsteps = ["drain"]\n[[service]]\nname = "web"\nsize = 10\ndrain = "none"\n');
const controller = start(surefoot, ["remedy", "serve", "--policy", "policy.toml", "--store", "sqlite:cases.db", "--listen", "127.0.0.1:17465"]);
await until("http://127.0.0.1:17465/api/v1/cases");
const agent = new Agent({ keepAlive: true, maxSockets: 4 });
const ROOMS = ["stall", "memory", "checkpoint", "nic", "disturb", "remedy", "watch"];
let [reports, refused, at] = [0, 0, 0];
function report(host) {
  const finding = { key: "memory/made-up/host", room: "memory", rule: "made-up", subject: { kind: "host", name: "" }, severity: "notice", certainty: "certain", sentence: `Made-up finding of ${host}.`, evidence: [], since_realtime_ns: 0 };
  const lost = { total_ns_per_s: Math.floor(Math.random() * 1e8), cores: 128, worst_ns_per_s: 1e7, worst_cpu: 3, is_traced: true };
  const body = { host: `n${host}`, service: "web", findings: host % 32 === 0 ? [finding] : [], findings_left_out: Object.fromEntries(ROOMS.map((room) => [room, 0])), machine: { hardware: host.toString(16).padStart(32, "0") }, facts: { kernel: "6.1.0" }, lost };
  const asked = request("http://127.0.0.1:17465/api/v1/findings", { agent, method: "POST", headers: { "content-type": "application/json" } }, (answer) => {
    answer.resume();
    answer.statusCode === 200 ? reports++ : refused++;
  });
  asked.on("error", () => refused++).end(JSON.stringify(body));
}
const telling = setInterval(() => report(at++ % hosts), (REPORT_S * 1000) / hosts);

// In turns, of which the first two let both find their targets.
const TURN_S = 2 * SCRAPE_S;
const other = (kind) => kinds.find((one) => one !== kind);
for (const kind of kinds) kind.spent = { cpu_s: 0, s: 0 };
const told = { from: used(controller), at: performance.now(), reports: 0 };
for (let turn = 0; turn < 2 + (2 * seconds) / TURN_S; turn++) {
  const kind = kinds[turn % 2];
  other(kind).child.kill("SIGSTOP");
  kind.child.kill("SIGCONT");
  const before = used(kind.child).cpu_s;
  await sleep(TURN_S * 1000);
  if (turn === 1) Object.assign(told, { from: used(controller), at: performance.now(), reports });
  if (turn < 2) continue;
  kind.spent.cpu_s += used(kind.child).cpu_s - before;
  kind.spent.s += TURN_S;
}
const passed_s = (performance.now() - told.at) / 1000;
const spent = used(controller);
clearInterval(telling);
clearInterval(fresh);

for (const kind of kinds) {
  other(kind).child.kill("SIGSTOP");
  kind.child.kill("SIGCONT");
  const query = async (words) => JSON.parse(await text(`http://127.0.0.1:${kind.port}/api/v1/query?query=${encodeURIComponent(words)}`)).data.result.map(({ value }) => Number(value[1]));
  const [up] = await query("sum(max_over_time(up[5m]))");
  const took = (await query("avg_over_time(scrape_duration_seconds[5m])")).sort((a, b) => a - b);
  const [samples] = await query("max(scrape_samples_scraped)");
  const { mib, most_mib } = used(kind.child);
  const { cpu_s, s } = kind.spent;
  console.log(
    `${kind.name}: ${up} hosts up, ${samples} samples and ${kind.body.length} bytes a host, scrape ${(1000 * quantile(took, 0.5)).toFixed(2)} ms (99th percentile ${(1000 * quantile(took, 0.99)).toFixed(2)} ms), ` +
      `${((hosts * samples) / SCRAPE_S).toFixed(0)} samples a second, Prometheus ${((100 * cpu_s) / s).toFixed(1)} % of a core, ${mib.toFixed(0)} MiB (most ${most_mib.toFixed(0)})`,
  );
}
const count = reports - told.reports;
console.log(
  `controller: ${(count / passed_s).toFixed(1)} reports a second (${refused} refused), ${((1e6 * (spent.cpu_s - told.from.cpu_s)) / count).toFixed(0)} us of a processor for each, ${spent.mib.toFixed(0)} MiB (most ${spent.most_mib.toFixed(0)})`,
);
server.closeAllConnections();
server.close();
end();
process.exit(0);
