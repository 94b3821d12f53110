// A made-up fleet against a running `surefoot remedy serve`, and how the page of it bears that.
//
//   surefoot remedy serve --policy policy.toml --store sqlite:cases.db --listen 127.0.0.1:7178 &
//   CHROMIUM=/usr/bin/chromium node bench/fleet.mjs http://127.0.0.1:7178/ 10000
//
// Prints reports taken a second over one connection, size and time of the list of hosts, and the longest task of the page's
// thread (PerformanceObserver, longtask: 0 where none took 50 ms) while it loads, and while it is scrolled, searched and asked anew.

import { Agent, request } from "node:http";
import { chromium } from "../ui/node_modules/playwright-core/index.mjs";

const [address, number] = process.argv.slice(2);
const hosts = Number(number);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const ROOMS = ["stall", "memory", "checkpoint", "nic", "disturb", "remedy", "watch"];

function send(method, path, body) {
  return new Promise((done, failed) => {
    const asked = request(new URL(path, address), { agent, method, headers: { "content-type": "application/json" } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => (answer.statusCode === 200 ? done(text) : failed(new Error(`${answer.statusCode} ${text}`))));
    });
    asked.on("error", failed).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function report(at) {
  const room = ROOMS[at % ROOMS.length];
  const finding = { key: `${room}/made-up/host`, room, rule: "made-up", subject: { kind: "host", name: "" }, severity: ["notice", "warning", "critical"][at % 3], certainty: "certain", sentence: `Made-up finding ${at} of ${room}.`, evidence: [], since_realtime_ns: 0 };
  const left = Object.fromEntries(ROOMS.filter((name) => name !== "checkpoint" || at % 3 === 0).map((name) => [name, 0]));
  const facts = { kernel: ["6.1.0", "6.12.9", "6.18.0"][at % 3], firmware: `Vendor 2.${at % 4}`, product: `Vendor R7${at % 2}` };
  return { host: `n${at}`, service: ["web", "db", "train"][at % 3], findings: at % 32 === 0 ? [finding] : [], findings_left_out: left, machine: { hardware: at.toString(16).padStart(32, "0") }, facts };
}

const begun = performance.now();
for (let at = 0; at < hosts; at++) await send("POST", "/api/v1/findings", report(at));
console.log(`${hosts} reports: ${((hosts * 1000) / (performance.now() - begun)).toFixed(0)} a second`);
const asked = performance.now();
const { length } = await send("GET", "/api/v1/hosts?limit=20000");
console.log(`list of hosts: ${length} bytes in ${(performance.now() - asked).toFixed(0)} ms`);
agent.destroy();

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
await page.addInitScript(() => {
  window.longest = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.longest = Math.max(window.longest, one.duration)))).observe({ type: "longtask", buffered: true });
});
await page.goto(address);
await page.waitForSelector("[data-testid=hosts]");
await page.waitForTimeout(1000);
console.log(`longest task while it loads: ${await page.evaluate(() => window.longest)} ms`);
await page.evaluate(() => (window.longest = 0));
const list = page.locator(".fleet-hosts");
for (const top of [1000, 50_000, 140_000, 0]) {
  await list.evaluate((one, to) => (one.scrollTop = to), top);
  await page.waitForTimeout(200);
}
await page.locator("[data-testid=host-search]").fill("memory");
await page.waitForTimeout(500);
console.log(`${await page.locator("[data-testid=hosts-shown]").textContent()}, ${await page.locator("[data-testid=host]").count()} rows drawn`);
await page.locator("[data-testid=host-search]").fill("");
await page.waitForTimeout(25_000);
console.log(`longest task of scrolling, searching and two new lists: ${await page.evaluate(() => window.longest)} ms`);
await browser.close();
