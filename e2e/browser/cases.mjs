// @ts-check
// Drives the page of `surefoot remedy serve`: one case from the alert to the host's return, approved on the page.
//
//   node cases.mjs http://127.0.0.1:PORT/ cases FOLDER
//
// e2e/tests/remedy/page.rs starts it, beside a server whose policy has a step that is to be approved. Says each check on standard error and
// leaves pictures in the folder. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { faintText } from "../../ui/dev/contrast.mjs";
import { theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
const { browser, faults, asked, checks, open, stageOf } = await theatre(address, folder);
/** @typedef {import("./stage.mjs").Stage} Stage */

const HOSTILE = "<img src=x onerror=alert(1)>";

/** What Alertmanager says of one alert. @param {string} host @param {boolean} isFiring */
async function tell(host, isFiring) {
  const alert = {
    status: isFiring ? "firing" : "resolved",
    labels: { alertname: "SurefootMemoryCritical", host, service: "web", severity: "critical", room: "memory", rule: "rate", subject: "dimm A1" },
    annotations: { summary: `Module A1 ${HOSTILE} reports 12 errors per second.`, evidence: "312 corrected errors\nwithin 26 s" },
    startsAt: "2026-11-25T10:00:00Z",
    endsAt: isFiring ? "0001-01-01T00:00:00Z" : new Date().toISOString(),
    generatorURL: "",
    fingerprint: host === "n1" ? "00ab" : "00cd",
  };
  const message = { version: "4", status: alert.status, receiver: "surefoot-remedy", groupKey: "{}", groupLabels: {}, commonLabels: {}, commonAnnotations: {}, externalURL: "", truncatedAlerts: 0, alerts: [alert] };
  const response = await fetch(new URL("api/v1/alertmanager", address), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(message) });
  assert.equal(response.status, 200, await response.text());
}

/** What is cut off at the right edge. What scrolls in itself is not. @param {any} page */
const cut = (page) =>
  page.evaluate(() => {
    const scrolls = ".visually-hidden, .table-scroll, .board";
    const shown = [...document.querySelectorAll("body *")].filter((one) => !one.parentElement?.closest(scrolls) && one.getClientRects().length > 0);
    return shown.filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => `${one.tagName} ${one.getAttribute("class") ?? ""}`);
  });

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "without an alert there is no case"({ part }) {
    assert.equal(await part("headline").getAttribute("data-severity"), "ok");
    assert.match(await part("headline").innerText(), /No open cases\./);
  },
  async "of a host it is shown what is found, what is well and what is not known"({ page, api }) {
    const finding = { key: "nic/errors/interface/eth0", room: "nic", rule: "errors", subject: { kind: "interface", name: "eth0" }, severity: "notice", certainty: "certain", sentence: `eth0 ${HOSTILE} drops packets.`, evidence: [], since_realtime_ns: 0 };
    const told = { host: "n9", service: "db", findings: [finding], findings_left_out: { stall: 0, nic: 0 }, facts: { kernel: "6.1.0" } };
    const response = await fetch(new URL("api/v1/findings", address), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(told) });
    assert.equal(response.status, 200, await response.text());
    const row = page.locator("[data-testid=host][data-host=n9]");
    await row.waitFor({ timeout: 60_000 });
    assert.deepEqual(await row.locator("td.heat").evaluateAll((/** @type {Element[]} */ cells) => cells.map((cell) => cell.className.replace("heat", "").trim())), ["well", "unknown", "unknown", "notice", "unknown", "unknown", "unknown", ""]);
    assert.match(await row.innerText(), /eth0 <img src=x onerror=alert\(1\)> drops packets\./);
    const { hosts } = await api("api/v1/hosts?room=nic");
    assert.deepEqual(hosts.map((/** @type {{ host: string, kernel: string }} */ { host, kernel }) => [host, kernel]), [["n9", "6.1.0"]]);
    assert.deepEqual((await api("api/v1/hosts?room=memory")).matching, 0);
  },
  async "everything is paused after a second word, and goes on"({ part, api }) {
    await part("pause-everything").click();
    assert.equal((await api("api/v1/cases")).is_paused, false);
    await part("reason-everything").fill("the network is being changed");
    await part("pause-everything").click();
    await until(async () => (await part("everything").getAttribute("data-paused")) === "true", "the pause of everything");
    assert.equal((await api("api/v1/cases")).is_paused, true);
    assert.match(await part("everything").innerText(), /Everything is paused/);
    const { trail } = await api("api/v1/trail");
    assert.equal(trail.at(-1).reason, "the network is being changed");
    await part("resume-everything").click();
    await until(async () => (await part("everything").getAttribute("data-paused")) === "false", "the end of the pause");
  },
  async "an alert becomes a case that waits for a person"({ page, part, api }) {
    await tell("n1", true);
    await page.locator("[data-testid=case][data-state=needs_approval]").waitFor();
    const { cases } = await api("api/v1/cases");
    assert.deepEqual([cases.length, cases[0].host, cases[0].fault], [1, "n1", "memory/rate"]);
    assert.match(await part("headline").innerText(), /1 open case; 1 needs manual action: n1\./);
    assert.equal(await part("board").locator("[data-state=needs_approval] [data-testid=case]").count(), 1);
    // A second telling changes nothing.
    await tell("n1", true);
    assert.equal((await api("api/v1/cases?state=all")).cases.length, 1);
  },
  async "one host at a time: the next waits for the limit, and says so"({ page, part }) {
    await tell("n2", true);
    await page.locator("[data-testid=case][data-state=waiting]").waitFor();
    await until(async () => /hosts_at_once/.test(await part("board").locator("[data-state=waiting]").first().innerText()), "the limit that it waits for");
    assert.match(await part("fleet").innerText(), /What they wait for/);
  },
  async "by key from the board to the case, its evidence and its trail"({ page, part }) {
    await page.locator("[data-testid=case][data-state=needs_approval]").focus();
    await page.keyboard.press("Enter");
    await part("trail").waitFor();
    await page.waitForURL(/\?case=\d+/);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "story");
    assert.match(await part("evidence").innerText(), /312 corrected errors/);
    assert.match(await part("story").innerText(), /The host is in service/);
    assert.match(await part("to-do").innerText(), /Approve \S+, or cancel the case\./);
    const actions = await part("trail").locator("tbody tr").evaluateAll((/** @type {HTMLElement[]} */ rows) => rows.map(({ dataset }) => dataset.action));
    assert.equal(actions[0], "opened");
    const steps = await part("step").evaluateAll((/** @type {HTMLElement[]} */ all) => all.map(({ dataset }) => dataset.state));
    assert.deepEqual(steps, ["done", "skipped", "pending", "pending"]);
    assert.equal(await page.locator("img").count(), 0);
    assert.ok((await part("story").innerText()).includes(HOSTILE));
  },
  async "it is readable in light and dark, and nothing is cut from 390 px on"({ page }) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForFunction((/** @type {string} */ theme) => document.documentElement.dataset.theme === theme, colorScheme);
      await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
      assert.deepEqual(await faintText(page), [], colorScheme);
      await page.screenshot({ path: join(folder, `${mode}-${colorScheme}.png`), fullPage: true });
    }
    await page.emulateMedia({ colorScheme: "light" });
    for (const width of [2200, 1200, 800, 390]) {
      await page.setViewportSize({ width, height: 1000 });
      assert.deepEqual(await cut(page), [], `${width} px`);
    }
    await page.screenshot({ path: join(folder, `${mode}-390.png`), fullPage: true });
    await page.setViewportSize({ width: 1400, height: 1000 });
  },
  async "approved on the page, the repair is done and the host returns"({ page, part, api }) {
    const id = Number(await part("story").getAttribute("data-case"));
    await part("reason").fill("spare rows are left");
    await part("approve").focus();
    await page.keyboard.press("Enter");
    await tell("n1", false);
    await until(async () => (await part("story").getAttribute("data-state")) === "returned", "the return of n1");
    const { case: one, trail } = await api(`api/v1/cases/${id}`);
    assert.deepEqual(one.steps.map((/** @type {any} */ step) => step.state), ["done", "skipped", "done", "skipped"]);
    assert.equal(one.is_drained, false);
    const approved = trail.find((/** @type {any} */ entry) => entry.action === "approved");
    assert.match(approved.actor, /^user /);
    assert.match(await part("story").innerText(), /row 0x1234 repaired/);
    assert.match(await part("trail").innerText(), /spare rows are left/);
    // What closed cases may be asked is nothing; what became of the part is told of them too.
    assert.equal(await part("approve").count(), 0);
    assert.equal(await part("cancel").count(), 0);
  },
  async "of the closed case it is told that its module was replaced, and that the old one tested good"({ page, part, api }) {
    const id = Number(await part("story").getAttribute("data-case"));
    assert.equal(await part("tested-good").count(), 0, "nothing is replaced yet");
    await part("reason").fill(`S4711 ${HOSTILE}`);
    await part("replaced").focus();
    await page.keyboard.press("Enter");
    await part("tested-good").waitFor();
    assert.equal(await part("replaced").count(), 0, "it is replaced once");
    assert.match(await part("told").innerText(), /The server took it: the part was replaced\./);
    assert.equal((await api(`api/v1/cases/${id}`)).case.replaced.by, `S4711 ${HOSTILE}`);
    await until(async () => /replaced .* by S4711/.test(await part("part").innerText()), "the part's history");
    await part("reason").fill("a night of stress elsewhere");
    await page.screenshot({ path: join(folder, `${mode}-part.png`), fullPage: true });
    // Two clicks at once are one word.
    await part("tested-good").dblclick();
    await until(async () => (await part("tested-good").count()) === 0, "the end of the button");
    const { case: one, trail } = await api(`api/v1/cases/${id}`);
    assert.ok(one.replaced.tested_good_realtime_ns > one.replaced.at_realtime_ns);
    const of = (/** @type {string} */ action) => trail.filter((/** @type {any} */ entry) => entry.action === action);
    assert.deepEqual([of("replaced").length, of("tested_good").length], [1, 1]);
    assert.match(of("tested_good")[0].actor, /^user /);
    assert.equal(of("tested_good")[0].reason, "a night of stress elsewhere");
    assert.equal(await page.locator("img").count(), 0);
  },
  async "then the next has its turn, and a cancelled case is taken back"({ page, part, api }) {
    const next = page.locator("[data-testid=case][data-state=needs_approval]");
    await next.waitFor();
    await next.click();
    await part("cancel").waitFor();
    await part("cancel").click();
    await part("cancel").click();
    await until(async () => ["cancelled"].includes((await part("story").getAttribute("data-state")) ?? ""), "the end of n2's case");
    const { cases } = await api("api/v1/cases?state=all");
    assert.deepEqual(cases.map((/** @type {any} */ one) => one.state).sort(), ["cancelled", "returned"]);
  },
  async "a case that is not there is told"({ page, part }) {
    await page.goto(`${address}?case=4000`);
    await part("story").getByRole("alert").waitFor();
    assert.match(await part("story").innerText(), /there is no case 4000/);
    const refused = faults.findIndex((fault) => fault.includes("404"));
    if (refused >= 0) faults.splice(refused, 1);
  },
};

try {
  const { page, context } = await open(faults, "", "headline");
  await checks(CHECKS, stageOf(page));
  const repeated = faults.filter((fault) => !fault.includes("404"));
  assert.deepEqual(repeated, [], "the console is clean, and nobody but the server was asked");
  assert.ok(asked.includes("/cases.js") && !asked.includes("/app.js"), `${[...new Set(asked)]}`);
  await context.close();
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
