// @ts-check
// Drives the page of network interfaces with two fault campaigns, and holds it to what the API says.
//
//   node nic.mjs http://127.0.0.1:PORT/ live FOLDER
//
// e2e/tests/nic/page.rs starts it, beside a watch with a campaign of the detecting and one of the tolerant control program, and with a
// file of neither. Says each check on standard error and leaves pictures in the folder. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { perform, readable, theatre } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.equal(mode, "live");
const play = await theatre(address, folder);
const { faults } = play;
/** @typedef {import("./stage.mjs").Stage} Stage */

const TOLERANT = "send-chunk:tolerant:1";

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "each campaign has a line, and what is of none is told"({ page, part, api }) {
    await part("views").getByRole("link", { name: "Network interfaces" }).click();
    await part("campaigns").waitFor();
    const { tables, files } = await api("api/v1/nic/campaign");
    assert.deepEqual(tables.map((/** @type {any} */ table) => [table.build, table.fault_count]), [["detecting", 120], ["tolerant", 120]]);
    assert.equal(await part("campaigns").locator("tbody tr").count(), 2);
    assert.match(await part("campaign-files").innerText(), /bad: 0 faults, 2 bad lines/);
    assert.equal(files.find((/** @type {any} */ file) => file.path.endsWith("/bad")).bad_count, 2);
    assert.equal(await page.locator("img").count(), 0);
  },
  async "the table is that of the API, beside the paper's"({ page, part, api }) {
    await part("campaigns").locator(`tr[data-row="${TOLERANT}"] button`).click();
    await page.waitForURL(/campaign=send-chunk%3Atolerant%3A1|campaign=send-chunk:tolerant:1/);
    const { tables } = await api("api/v1/nic/campaign");
    const table = tables.find((/** @type {any} */ one) => one.build === "tolerant");
    assert.equal(await part("campaign-table").getAttribute("data-campaign"), TOLERANT);
    const said = await part("campaign-coverage").innerText();
    assert.ok(said.includes(`${table.coverage.count} of ${table.coverage.of} failures detected`) && said.includes("the paper has 99.3"), said);
    assert.ok(said.includes(`${table.broken_count} lost, duplicated, reordered or corrupted a message`), said);
    for (const row of table.outcomes) {
      const cells = await part("campaign-table").locator(`tr[data-row=${row.outcome}] td`).allInnerTexts();
      assert.equal(cells[1], `${row.count}`);
      assert.equal(cells[5], `${(row.paper_share * 100).toFixed(1)}\u00a0%`);
      assert.equal(cells[3], `${(row.low * 100).toFixed(1)}\u00a0–\u00a0${(row.high * 100).toFixed(1)}\u00a0%`);
    }
  },
  async "by key from an outcome to its faults to the movie of one, and back"({ page, part, api }) {
    const { list } = await api(`api/v1/nic/campaign?table=${TOLERANT}&outcome=latency`);
    const found = list.faults.findIndex((/** @type {any} */ fault) => fault.recovery_ns !== null);
    const fault = list.faults[found];
    assert.ok(fault && found < 20, "a fault from which the interface was recovered");
    await part("campaign-table").locator("tr[data-row=latency] button").focus();
    await page.keyboard.press("Enter");
    const row = part("campaign-faults").locator(`tr[data-row="${fault.id}"] button`);
    await row.focus();
    await page.keyboard.press("Enter");
    await part("scenes").waitFor();
    const movie = await api(`api/v1/nic/movie?fault=${encodeURIComponent(fault.id)}`);
    const steps = await page.locator("[data-testid=movie] .scene").evaluateAll((/** @type {HTMLElement[]} */ all) => all.map(({ dataset }) => dataset.scene));
    assert.deepEqual(steps, movie.scenes.map((/** @type {any} */ scene) => scene.step ?? scene.scene));
    const order = ["struck", "detected", "recovered"].map((step) => steps.indexOf(step));
    assert.ok(order[0] >= 0 && order[0] < order[1] && order[1] < order[2], `${steps}`);
    assert.match(await part("scenes").locator("[data-scene=struck]").innerText(), /^0\.0 us\s+interface host 0\s+the fault strikes .*\s+usually\s.*\s+now\s/s);
    assert.match(await part("movie-phases").innerText(), /detected after .*recovered .* later/s);
    assert.equal(await part("movie-command").innerText(), `surefoot nic inject --fault ${fault.id}`);
    // The one who came by key reads on in the movie.
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Step by step");
    await page.goBack();
    await part("movie").waitFor({ state: "detached" });
    await page.goForward();
    await part("scenes").waitFor();
  },
  async "it is readable in light and dark, and nothing is cut from 390 px on"({ page, part }) {
    await part("campaign-table").locator("summary").click();
    await readable(page, join(folder, mode));
  },
  async "a fault that cannot be replayed says why"({ page, part }) {
    await page.goto(`${address}?view=interfaces&fault=nothing`);
    await part("movie-problem").waitFor();
    assert.match(await part("movie-problem").innerText(), /Could not replay it: 'nothing' is no fault/);
    // The browser itself notes the refusal.
    const refused = faults.findIndex((fault) => fault.includes("400"));
    if (refused >= 0) faults.splice(refused, 1);
  },
};

await perform(play, CHECKS);
