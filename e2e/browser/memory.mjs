// @ts-check
// Drives the page of memory errors on a recorded tree, and holds it to what the API says.
//
//   node memory.mjs http://127.0.0.1:PORT/ live FOLDER
//
// e2e/tests/memory/page.rs starts it, beside a watch of a tree with sixteen modules: one lost data and nobody reported where, one has
// a row that fails, and two checks of the accounting cannot be made. Says each check on standard error and leaves pictures in the
// folder. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { perform, readable, theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.equal(mode, "live");
const play = await theatre(address, folder);
/** @typedef {import("./stage.mjs").Stage} Stage */

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "the module that lost data stands first, with what to do though nobody reported its place"({ page, part, api }) {
    await part("views").getByRole("link", { name: "Memory errors" }).click();
    await page.waitForURL(`${address}?view=memory`);
    await part("dimm-map").waitFor();
    const { dimms } = await api("api/v1/memory");
    assert.equal(await part("dimm").count(), dimms.length);
    const lost = dimms.find((/** @type {any} */ dimm) => dimm.uncorrected_count > 0);
    assert.equal(await part("dimm-card").getAttribute("data-dimm"), lost.id);
    assert.equal(lost.fault, null);
    const words = await part("no-place").innerText();
    assert.match(words, /Fault: undetermined/);
    assert.match(words, /What to do: .*replace the module/s);
    // A serial number that was only matched by numbers is none that anybody may order by.
    assert.equal(lost.serial_certainty, "probable");
    assert.ok((await part("dimm-card").innerText()).includes(`${lost.serial} (probable)`));
  },
  async "a failing row is shown with its map, one number for its bank and advice"({ page, part, api }) {
    await until(async () => (await api("api/v1/memory")).dimms.some((/** @type {any} */ dimm) => dimm.fault_mode === "row"), "the fault of the reports");
    const { dimms } = await api("api/v1/memory");
    const row = dimms.find((/** @type {any} */ dimm) => dimm.fault_mode === "row");
    await page.locator(`[data-testid=dimm][data-dimm="${row.id}"]`).click();
    await part("fault-map").waitFor();
    const card = await part("dimm-card").innerText();
    assert.match(card, /Fault: row/);
    assert.match(card, /What to do: /);
    assert.match(await part("fault-map").innerText(), /Rank 0, bank 7 · row 0x1a2b/);
    assert.match(await part("reports").innerText(), /bank 7 \(bank 3 of group 1\), row 0x1a2b/);
    // Counted over weeks: a second look finds that nothing is added now.
    await until(async () => /Rate now\s+(≥ )?0\s/.test(await part("dimm-card").innerText()), "no error between two looks");
  },
  async "what was not checked has not passed"({ part, api }) {
    const { checks: made } = await api("api/v1/memory");
    const of = (/** @type {string} */ result) => made.filter((/** @type {any} */ check) => check.result === result).length;
    assert.ok(of("not_checked") > 0 && of("passed") > 0);
    const words = await part("memory-checks").innerText();
    assert.ok(words.includes(`${made.length} checks: ${of("found")} failed, ${of("passed")} passed, ${of("not_checked")} not checked`), words);
    await part("checks-not-checked").locator("summary").click();
    assert.equal(await part("checks-not-checked").locator("li").count(), of("not_checked"));
    assert.match(await part("memory-lost").innerText(), /1 report not understood/);
  },
  async "the chart of intervals names its axes with units, its cores and its bits"({ part, api }) {
    const answer = await api("api/v1/memory/interval");
    const words = await part("memory-interval").innerText();
    assert.ok(words.includes(`one counter of ${answer.counter_bits} bits`) && words.includes(`${answer.cores} core`), words);
    const chart = await part("memory-interval").locator("svg:visible").textContent();
    for (const word of ["stall per day", "errors lost", "100 %", "time between two polls", "best: "]) assert.ok(chart.includes(word), `${word} in ${chart}`);
  },
  async "it is readable in light and dark, and nothing is cut from 390 px on"({ page, part }) {
    await part("memory-interval").locator("summary").click();
    await readable(page, join(folder, mode));
  },
};

await perform(play, CHECKS);
