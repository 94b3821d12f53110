// @ts-check
// Drives the page of experiments, and holds it to what the API says.
//
//   node disturb.mjs http://127.0.0.1:PORT/ live FOLDER
//
// e2e/tests/experiments/page.rs starts it, beside a watch that knows of one experiment that finished, one of several workloads, one that
// was killed, and three predictions. Says each check on standard error and leaves pictures in the folder. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { perform, readable, theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.equal(mode, "live");
const play = await theatre(address, folder);
/** @typedef {import("./stage.mjs").Stage} Stage */

/** @param {Stage["api"]} api @param {string} standing @param {boolean} isOfSeveral */
async function named(api, standing, isOfSeveral = false) {
  const { experiments } = await api("api/v1/disturb");
  const found = experiments.find((/** @type {any} */ one) => one.standing === standing && Boolean(one.series) === isOfSeveral);
  assert.ok(found, `${standing} of ${JSON.stringify(experiments)}`);
  return found;
}

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "each experiment has a line with what came of it"({ page, part, api }) {
    await part("views").getByRole("link", { name: "Disturbances" }).click();
    await part("experiments").waitFor();
    await until(async () => (await part("experiments").locator("tbody tr").count()) === 3, "all experiments");
    const { experiment, ended } = await named(api, "finished");
    const row = await part("experiments").locator(`tr[data-row="${experiment}"]`).innerText();
    const { effect } = ended;
    for (const wanted of ["<img src=x onerror=alert(1)>", effect.ratio.toFixed(4), effect.interval_low.toFixed(4)]) assert.ok(row.includes(wanted), `${wanted} in ${row}`);
    assert.match(await part("experiments").innerText(), /vanished: its process is gone/);
    assert.equal(await page.locator("img").count(), 0);
  },
  async "by key to the one that finished: ratio, runs, stalls, warnings"({ page, part, api }) {
    const { experiment, ended } = await named(api, "finished");
    await part("experiments").locator(`tr[data-row="${experiment}"] button`).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`experiment=${experiment}`));
    await part("experiment-runs").waitFor();
    const { effect } = ended;
    assert.equal(await part("experiment").getAttribute("data-experiment"), experiment);
    assert.ok((await part("experiment-ratio").innerText()).startsWith(`${effect.ratio.toFixed(4)} (`));
    assert.equal(await part("experiment-warnings").locator("li").count(), effect.warnings.length + effect.notes.length);
    const { detail } = await api(`api/v1/disturb?experiment=${experiment}`);
    await part("experiment-runs").locator("summary").focus();
    await page.keyboard.press("Enter");
    const rows = part("experiment-runs").locator("tbody tr");
    assert.equal(await rows.count(), detail.runs.length);
    const outliers = effect.outlier_runs.length;
    assert.equal(await part("experiment-runs").locator("svg .plot-marks circle").count(), detail.runs.length - 1 + outliers, "a dot for each but the run to warm up, a ring for each outlier");
    const cells = await part("experiment-stalls").locator("tbody tr").first().locator("td").allInnerTexts();
    assert.deepEqual(cells.slice(0, 2), ["the workload", `${detail.cores[0].count}`]);
    assert.equal(cells[2], "20.0 ms");
  },
  async "one of several workloads has each of its numbers, and which workload failed"({ page, part, api }) {
    const { experiment, ended } = await named(api, "finished", true);
    const row = await part("experiments").locator(`tr[data-row="${experiment}"]`).innerText();
    assert.ok(row.includes("two <b>workloads</b>") && row.includes(ended.summary), row);
    await page.goto(`${address}?view=experiments&experiment=${experiment}`);
    await part("experiment-rows").waitFor();
    const { detail } = await api(`api/v1/disturb?experiment=${experiment}`);
    const number = detail.rows.find((/** @type {any} */ one) => one.measure === "wall_ns");
    const text = await part("experiment-rows").innerText();
    for (const wanted of ["sleeper", "half", `${number.effect.toFixed(4)} times`, "failed: run"]) assert.ok(text.includes(wanted), `${wanted} in ${text}`);
    assert.equal(await part("experiment-rows").locator("tbody tr").count(), detail.rows.length);
    assert.equal(await part("experiment-runs").locator("svg").count(), 0, "their numbers have no common axis");
  },
  async "the address holds it, and one that is not here is told"({ page, part, api }) {
    const { experiment } = await named(api, "vanished");
    await page.goto(`${address}?view=experiments&experiment=${experiment}`);
    await part("experiment").waitFor();
    assert.match(await part("experiment").innerText(), /vanished/);
    await page.goto(`${address}?view=experiments&experiment=none`);
    await part("experiment-missing").waitFor();
    assert.match(await part("experiment-missing").innerText(), /No experiment is called none here/);
    await page.goBack();
    await part("experiment").waitFor();
  },
  async "predictions stand over their nodes with their intervals"({ page, part, api }) {
    const { predictions } = await api("api/v1/disturb");
    assert.equal(predictions.length, 3);
    assert.equal(await part("predictions").locator("svg .plot-marks circle").count(), 3);
    await part("predictions").locator("summary").first().click();
    const text = await part("predictions").innerText();
    for (const { slowdown } of predictions) assert.ok(text.includes(slowdown.toFixed(4)), `${slowdown} in ${text}`);
    assert.match(text, /barrier, 1\.00 ms of work/);
    await page.mouse.move(0, 0);
  },
  async "it is readable in light and dark, and nothing is cut from 390 px on"(stage) {
    const { experiment } = await named(stage.api, "finished");
    await stage.page.goto(`${address}?view=experiments&experiment=${experiment}`);
    await stage.part("experiment-runs").waitFor();
    await stage.part("experiment-runs").locator("summary").click();
    await stage.part("predictions").locator("summary").first().click();
    await readable(stage.page, join(folder, mode));
  },
};

await perform(play, CHECKS);
