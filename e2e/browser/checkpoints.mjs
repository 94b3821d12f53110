// @ts-check
// Drives the page of checkpoints while a real job takes some, and holds it to what the API says.
//
//   node checkpoints.mjs http://127.0.0.1:PORT/ live FOLDER
//
// e2e/tests/checkpoint_page.rs starts it, beside a job "cfd/wing" that runs and one whose newest durable checkpoint is
// spoilt. Says each check on standard error, leaves pictures in the folder, ends with one line of JSON: the command that
// the page offered to copy. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { faintText } from "../../ui/dev/contrast.mjs";
import { theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.equal(mode, "live");
const { browser, faults, asked, checks, open, stageOf } = await theatre(address, folder);
/** @typedef {import("./stage.mjs").Stage} Stage */
let command = "";

/** A job, as the API has it. @param {Stage} stage @param {string} name */
async function jobOf({ api }, name) {
  const { jobs } = await api("api/v1/checkpoints");
  return jobs.find((/** @type {any} */ job) => job.name === name) ?? null;
}

/** The newest number that the decisions of the page speak of. @param {Stage} stage */
async function newest({ part }) {
  const words = await part("decisions").locator(".decision-number").allInnerTexts();
  return Math.max(0, ...words.map((/** @type {string} */ text) => Number(text.slice(1)) || 0));
}

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "the way there is a step of its own, and nothing was asked before"(stage) {
    const { page, part } = stage;
    assert.ok(!asked.includes("/api/v1/checkpoints"), "nobody looked");
    await part("views").getByRole("link", { name: "Checkpoints" }).click();
    await page.waitForURL(`${address}?view=checkpoints`);
    await part("directories").waitFor();
    assert.equal(await part("timeline").count(), 0);
    await page.goBack();
    await part("timeline").waitFor();
    await page.goForward();
    await part("directories").waitFor();
    // What one person sees another can open.
    const other = await browser.newContext();
    const linked = await other.newPage();
    await linked.goto(page.url());
    await linked.getByTestId("directories").waitFor();
    await other.close();
    await until(async () => (await jobOf(stage, "cfd/wing"))?.events.length > 6, "a few decisions");
    await part("jobs").getByRole("button", { name: "cfd/wing" }).click();
  },
  async "the table says what the API says"(stage) {
    const { part } = stage;
    await until(async () => {
      const job = await jobOf(stage, "cfd/wing");
      const rows = await part("generations").evaluate((/** @type {Element} */ found) => [...found.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => (/** @type {HTMLElement} */ (cell)).innerText.trim())));
      const shown = rows.map((/** @type {string[]} */ cells) => `${cells[0]} ${cells[1]} ${cells[2]} ${cells[4]}`);
      const words = /** @type {Record<string, string>} */ ({ memory: "memory", durable: "SSD", complete: "complete", unfinished: "not finished" });
      const known = job.generations.map((/** @type {any} */ one) => `${one.number} ${words[one.tier]} ${words[one.state]} ${one.ranks_here} of ${one.ranks}`);
      // Both move on, and the page may be a look behind.
      return shown.length >= 3 && shown.join("; ") === known.join("; ");
    }, "the same checkpoints");
    const { directories } = await stage.api("api/v1/checkpoints");
    const rows = await part("directories").locator("tbody tr").allInnerTexts();
    assert.equal(rows.length, 2);
    for (const directory of directories) {
      const row = rows.find((/** @type {string} */ text) => text.includes(directory.path));
      assert.ok(row?.includes(directory.file_system), row);
    }
  },
  async "each decision says its reasons, and newer ones come by themselves"(stage) {
    const { part } = stage;
    const job = await jobOf(stage, "cfd/wing");
    const text = await part("decisions").innerText();
    const told = job.events.filter((/** @type {any} */ event) => event.event === "decision");
    assert.ok(told.some((/** @type {any} */ event) => event.reasons.length > 0 && text.includes(event.reasons[0])), text);
    assert.match(text, /Into memory: rank 0 saved (2\.10|16\.8) MB in/);
    const before = await newest(stage);
    const line = await part("decisions").locator("li").first().elementHandle();
    const words = await line.innerText();
    await until(async () => (await newest(stage)) > before, "a newer decision");
    // A line that is still shown is the same one: whoever points at it or marks its words keeps it.
    const stays = (await part("decisions").innerText()).includes(words.split("\n").at(-1));
    if (stays) assert.ok(await line.evaluate((/** @type {Element} */ one) => one.isConnected), "the line was made anew");
    await until(async () => (await newest(stage)) > before + 1, "newer decisions");
    await until(async () => (await part("decisions").innerText()).includes("It is durable"), "a durable copy");
    // Each look says how old the copies are then; on a busy machine the page shows another look than the one asked for here.
    const ageless = (/** @type {string} */ sentence) => sentence.replace(/[\d.]+ (ms|s)\b/g, "a while");
    await until(async () => {
      const [said] = (await jobOf(stage, "cfd/wing")).findings;
      const row = part("job-verdict").first();
      const isWell = said.severity === "ok" && (await row.getAttribute("data-severity")) === "ok";
      return isWell && ageless(await row.innerText()).endsWith(ageless(said.sentence));
    }, "what the server found of the job, and that all is well");
    assert.ok((await part("job").innerText()).includes("running"));
  },
  async "the strip draws what is there, its age and its bound"({ page, part }) {
    const strip = part("strip");
    assert.ok((await strip.locator("path.mark-complete").first().getAttribute("d"))?.startsWith("M"));
    const ages = await part("ages").getAttribute("d");
    assert.ok(ages && ages.split("L").length >= 3 && !ages.includes("NaN"), ages ?? "no line");
    assert.match(await strip.innerText(), /bound (10|15) s/);
    const box = await strip.locator("svg[role=img]").boundingBox();
    assert.ok(box);
    // From the right edge on leftward the newest checkpoint in memory is soon met.
    for (let x = box.width - 4; x > box.width / 2; x -= 4) {
      await page.mouse.move(box.x + x, box.y + 10);
      if (/^Checkpoint \d+ in memory/.test(await part("strip-said").innerText())) break;
    }
    assert.match(await part("strip-said").innerText(), /^Checkpoint \d+ in memory, [\d:]+: (complete|replaced by newer ones)$/);
    await page.mouse.move(0, 0);
    await strip.getByText("10 min").click();
    assert.ok(await strip.locator("input[value='600']").isChecked());
    await strip.getByText("all", { exact: true }).click();
  },
  async "damage is said, and its words stay words"(stage) {
    const { page, part } = stage;
    await part("jobs").getByRole("button", { name: "odd:[name]" }).click();
    await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get("job") === "odd:[name]");
    const { findings } = await jobOf(stage, "odd:[name]");
    const damage = findings.find((/** @type {any} */ one) => /\b4\b.*damaged/.test(one.sentence));
    assert.ok(damage && ["warning", "critical"].includes(damage.severity), JSON.stringify(findings));
    const row = part("job-verdict").filter({ hasText: damage.sentence });
    await row.waitFor();
    assert.equal(await row.getAttribute("data-severity"), damage.severity);
    assert.ok((await part("generations").innerText()).includes("damaged"));
    assert.equal(await page.locator("img").count(), 0);
    await part("jobs").getByRole("button", { name: "cfd/wing" }).click();
  },
  async "the command is copied"({ page, part }) {
    await part("copy-verify").click();
    await part("copy-verify").getByText("Copied").waitFor();
    command = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(command, await part("verify").innerText());
  },
  async "all of it works by key"({ page, part }) {
    await page.locator(".skip").focus();
    const reached = new Set();
    for (let press = 0; press < 60; press += 1) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => {
        const at = document.activeElement;
        return at?.getAttribute("data-testid") ?? at?.getAttribute("aria-label") ?? at?.getAttribute("name") ?? at?.textContent ?? "";
      }));
    }
    for (const wanted of ["Checkpoints", "pause", "span cfd/wing", "copy-verify"]) assert.ok([...reached].some((words) => words.includes(wanted)), `${wanted} in ${[...reached].join(", ")}`);
    assert.match(await part("views").locator("[aria-current=page]").innerText(), /Checkpoints$/);
  },
  async "it is readable in light and dark, from 400 px on"({ page, part }) {
    const decisions = part("decisions").getByRole("button", { name: /^Show \d/ });
    if ((await decisions.count()) > 0) await decisions.click();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForFunction((/** @type {string} */ theme) => document.documentElement.dataset.theme === theme, colorScheme);
      await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
      assert.deepEqual(await faintText(page), [], colorScheme);
      await page.screenshot({ path: join(folder, `${mode}-${colorScheme}.png`), fullPage: true });
    }
    await page.emulateMedia({ colorScheme: "light" });
    for (const width of [2200, 1200, 800, 400]) {
      await page.setViewportSize({ width, height: 1000 });
      const wide = await page.evaluate(() => [document.documentElement].filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.scrollWidth} > ${one.clientWidth}`));
      assert.deepEqual(wide, [], `${width} px`);
    }
    const fewer = part("decisions").getByRole("button", { name: /^Show the last/ });
    if ((await fewer.count()) > 0) await fewer.click();
    await page.screenshot({ path: join(folder, `${mode}-400.png`), fullPage: true });
    await page.setViewportSize({ width: 1400, height: 1000 });
  },
  async "a paused page, and another one, ask for no checkpoints"({ page, part }) {
    const questions = () => asked.filter((path) => path === "/api/v1/checkpoints").length;
    await part("pause").click();
    await page.waitForTimeout(300);
    const paused = questions();
    await page.waitForTimeout(4000);
    assert.equal(questions(), paused);
    await part("pause").click();
    await until(async () => questions() > paused, "it goes on");
    await part("views").getByRole("link", { name: "Lost time" }).click();
    await page.waitForURL(/view=lost-time/);
    await part("ledger").waitFor();
    const left = questions();
    await page.waitForTimeout(4000);
    assert.equal(questions(), left);
  },
};

try {
  const { page, context } = await open(faults);
  await checks(CHECKS, stageOf(page));
  assert.deepEqual(faults, [], "the console is clean, and nobody but the server was asked");
  await context.close();
  console.log(JSON.stringify({ command }));
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
