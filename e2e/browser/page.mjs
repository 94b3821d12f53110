// @ts-check
// Drives the page of a running surefoot in Chromium and holds it to its promises.
//
//   node page.mjs http://127.0.0.1:PORT/ live|replay FOLDER
//
// e2e/tests/browser.rs starts it. Says each check on standard error, leaves screenshots in the folder, and ends with one
// line of JSON on standard output: the commands that the page offered to copy. Ends with 1 when a check fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { faintText } from "../../ui/dev/contrast.mjs";
import { theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.ok(mode === "live" || mode === "replay");

const { browser, faults, asked, checks, open, stageOf } = await theatre(address, folder);
/** The view of lost time without filters. */
const plain = `${address}?view=lost-time`;
/** @typedef {import("./stage.mjs").Stage} Stage */
/** Commands that the page offered. @type {Set<string>} */
const commands = new Set();

/** A number of the page without the spaces that group it, in the smallest step that it shows. */
function steps(/** @type {string} */ text, /** @type {number} */ perUnit) {
  // What nobody looked for is no part of a sum.
  if (text.trim() === "–") return 0;
  const value = Number(text.replace(/[\s\u202f]/g, ""));
  assert.ok(Number.isFinite(value), `no number: ${text}`);
  return Math.round(value * perUnit);
}

/** The ledger beside the timeline, in microseconds; holds it to its sum. @param {Stage} stage */
async function ledger({ part }) {
  // All rows in one go: `evaluateAll` first finds them and then asks them, and a window may arrive in between.
  const rows = await part("ledger").evaluate((/** @type {Element} */ found) =>
    [...found.querySelectorAll("tbody tr, tfoot tr")].map((row) =>
      [row.querySelector("th")?.textContent ?? "", row.querySelector("td")?.textContent ?? ""]),
  );
  const parts = rows.map((/** @type {string[]} */ [name, ms]) => /** @type {const} */ ([name.trim(), steps(ms, 1000)]));
  const wall = parts.pop();
  assert.equal(wall[0], "= wall");
  assert.ok(wall[1] > 0);
  const sum = parts.reduce((/** @type {number} */ all, /** @type {[string, number]} */ row) => all + row[1], 0);
  assert.equal(sum, wall[1], `the parts of the ledger are its wall time: ${JSON.stringify(parts)}`);
  return { parts: Object.fromEntries(parts), wall: wall[1] };
}

/** Chooses each core by key and holds its ledger, and each row of the table of cores, to its sum. @param {Stage} stage */
async function ledgersAddUp(stage) {
  const { page, part, api } = stage;
  const { cpus } = (await api("api/v1/snapshot?range_s=1")).host;
  await ledger(stage);
  await part("timeline-canvas").focus();
  await page.keyboard.press("End");
  for (const [at, cpu] of cpus.slice(0, 8).entries()) {
    if (at > 0) await page.keyboard.press("ArrowDown");
    await part("ledger").getByText(`Core ${cpu}`).waitFor();
    // A window in which the reading of this core was torn has no ledger of it; the page counts them. The one before it has.
    for (let more = 5; more > 0 && (await part("ledger").locator("tbody").count()) === 0; more--) {
      await page.keyboard.press("ArrowLeft");
      await part("ledger").getByText(`Core ${cpu}`).waitFor();
    }
    await ledger(stage);
  }
  await page.keyboard.press("Escape");
  const rows = await part("cores").locator("tbody tr").all();
  assert.equal(rows.length, Math.min(cpus.length, 16));
  for (const row of rows) {
    const cells = await row.locator("td").allInnerTexts();
    const sum = cells.slice(2, 8).reduce((/** @type {number} */ all, /** @type {string} */ text) => all + steps(text, 100), 0);
    assert.equal(sum, 10_000, cells.join(" | "));
  }
}

/** Filters change the address, the rows and the command; back undoes them. @param {Stage} stage */
async function filtersWork(stage) {
  const { page, part, api } = stage;
  const { host } = await api("api/v1/snapshot?range_s=1");
  const command = async () => {
    const line = await part("command").innerText();
    commands.add(line);
    return line;
  };
  const before = await command();
  const least = part("filters").locator("input[name=min_us]");
  assert.equal(await least.inputValue(), String(host.gap_threshold_ns / 1000), "gaps from where they are looked for");
  assert.equal(await page.locator("#looked-for").innerText(), "");

  const field = part("filters").locator("input[name=cpus]");
  await field.fill(String(host.cpus[0]));
  await field.press("Enter");
  await page.waitForURL(`${plain}&cpu=${host.cpus[0]}`);
  await until(async () => (await part("cores").locator("tbody tr").count()) === 1, "one core is left");
  assert.ok((await command()).includes(`--cpu ${host.cpus[0]}`));
  assert.equal((await ledger(stage)).wall > 0, true);

  const kind = await part("filters").locator("button.chip").first().getAttribute("data-kind");
  // By its kind: another kind that comes before it may be lost to meanwhile.
  const chip = part("filters").locator(`button.chip[data-kind="${kind}"]`);
  const label = (await chip.evaluate((/** @type {Element} */ element) =>
    [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join(""),
  )).trim();
  await chip.click();
  await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get("kind") === kind);
  const names = await part("causes").locator("tbody td:first-child").allInnerTexts();
  assert.ok(names.every((/** @type {string} */ name) => name.trim().startsWith(label)), `${label}: ${names.join()}`);
  assert.ok((await command()).includes(`--kinds ${kind}`));

  await least.fill("7.5");
  await least.press("Enter");
  await page.waitForURL(/min_us=7\.5/);
  assert.match(await page.locator("#looked-for").innerText(), /^gaps are looked for from \d+ us on$/);
  assert.ok((await command()).includes("--min-gap 7500ns"));
  await least.fill("5000");
  await least.press("Enter");
  await page.waitForURL(/min_us=5000/);
  assert.ok((await command()).includes("--min-gap 5ms"));
  const gaps = await part("gaps").innerText();
  assert.match(gaps, /of 5 ms and more|No gap of 5 ms or more in this range/);

  for (let back = 0; back < 4; back += 1) await page.goBack();
  await page.waitForURL(plain);
  assert.equal(await command(), before);
  assert.equal(await field.inputValue(), "");
  assert.equal(await part("cores").locator("tbody tr").count(), Math.min(host.cpus.length, 16));
  await page.goForward();
  await page.waitForURL(/&cpu=/);
  await part("filters").getByRole("button", { name: "Reset" }).click();
  await page.waitForURL(plain);
}

/** The button gives the command that is shown. @param {Stage} stage */
async function copies({ page, part }) {
  await part("copy").click();
  await part("copy").getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await part("command").innerText());
}

/** From the top of the page to a place in the timeline without a pointer. @param {Stage} stage */
async function worksByKey(stage) {
  const { page, part, api } = stage;
  const { host } = await api("api/v1/snapshot?range_s=1");
  // The first thing that Tab reaches after the page was loaded.
  await page.locator(".skip").focus();
  /** Tabs on to this element, all on the way being marked when they have the focus. @param {string} selector */
  const tabTo = async (selector) => {
    for (let press = 0; press < 60; press += 1) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate((/** @type {string} */ wanted) => {
        const focused = document.activeElement;
        if (!focused) return { there: false, marked: true, what: "nothing" };
        const marked = [focused, focused.nextElementSibling].some((one) => {
          const style = one && getComputedStyle(one);
          return style && ((style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none");
        });
        return { there: focused.matches(wanted), marked: focused === document.body || marked, what: focused.outerHTML.slice(0, 90) };
      }, selector);
      assert.ok(at.marked, `the focus is not to be seen on ${at.what}`);
      if (at.there) return;
    }
    assert.fail(`no key leads to ${selector}`);
  };
  await tabTo("input[name=cpus]");
  await page.keyboard.type(String(host.cpus[0]));
  await page.keyboard.press("Enter");
  await page.waitForURL(/&cpu=\d+$/);
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.press("Enter");
  await page.waitForURL(plain);
  await tabTo("[data-testid=copy]");
  await tabTo("button.chip");
  await page.keyboard.press("Space");
  await page.waitForURL(/&kind=/);
  await page.keyboard.press("Space");
  await page.waitForURL(plain);
  await tabTo("[data-testid=timeline-canvas]");
  await page.keyboard.press("End");
  await part("ledger").getByText(`Core ${host.cpus[0]}`).waitFor();
  const newest = await part("ledger").locator("p").first().innerText();
  await page.keyboard.press("ArrowLeft");
  await until(async () => (await part("ledger").locator("p").first().innerText()) !== newest, "the place moves");
  if (host.cpus.length > 1) {
    await page.keyboard.press("ArrowDown");
    await part("ledger").getByText(`Core ${host.cpus[1]}`).waitFor();
  }
  assert.match(await page.locator(".canvas-scroll [role=status]").innerText(), /^Core \d+, .* lost /);
  await page.keyboard.press("Escape");
  await part("ledger").getByText("whole range").waitFor();
}

/** Text stands out in both themes, and nothing needs sideways scrolling. @param {Stage} stage */
async function isReadable({ page, part }) {
  // What is folded must fit and stand out, too.
  await page.locator("#main").evaluate((/** @type {Element} */ main) => {
    for (const folded of main.querySelectorAll("section:not([data-testid=gaps]) details")) folded.setAttribute("open", "");
  });
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((/** @type {string} */ theme) => document.documentElement.dataset.theme === theme, colorScheme);
    // A button on its way from one theme to the other has neither's contrast.
    await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
    assert.deepEqual(await faintText(page), [], colorScheme);
    await page.screenshot({ path: join(folder, `${mode}-${colorScheme}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  for (const width of [1200, 1400, 500]) {
    await page.setViewportSize({ width, height: 1000 });
    // A table of a narrow window may scroll in itself, the page may not.
    const wide = await page.evaluate((/** @type {number} */ inner) => {
      const within = [document.documentElement, ...(inner >= 1200 ? document.querySelectorAll(".table-scroll") : [])];
      const seen = within.filter((one) => one.checkVisibility());
      return seen.filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.getAttribute("aria-label")} ${one.scrollWidth} > ${one.clientWidth}`);
    }, width);
    assert.deepEqual(wide, [], `${width} px`);
  }
  await page.screenshot({ path: join(folder, `${mode}-500.png`), fullPage: true });
  await page.setViewportSize({ width: 1400, height: 1000 });
  await part("room-findings").waitFor();
}

/** What the server found stands in the view and in the overview, word for word. @param {Stage} stage */
async function findingsAreTold(stage) {
  const { page, part, api } = stage;
  const told = async (/** @type {string[]} */ rooms) => {
    const answer = await api("api/v1/overview");
    const own = answer.rooms.filter((/** @type {any} */ room) => rooms.length === 0 || rooms.includes(room.room));
    const above = own.flatMap((/** @type {any} */ room) => room.findings).filter((/** @type {any} */ one) => one.severity !== "ok");
    return { answer, sentences: above.map((/** @type {any} */ one) => one.sentence).sort() };
  };
  const shown = (/** @type {string} */ id) => part(id).locator(".finding-sentence").allInnerTexts();
  await until(async () => (await part("room-findings").count()) === 1, "what was found of lost time");
  await until(async () => {
    const { answer, sentences } = await told(["stall", "watch"]);
    if (sentences.length > 0) return (await shown("room-findings")).sort().join() === sentences.join();
    const well = answer.rooms.find((/** @type {any} */ room) => room.room === "stall").findings[0].sentence;
    return (await part("room-findings").locator(".finding-well").innerText()).endsWith(well);
  }, "the findings of lost time");

  await part("views").getByRole("link", { name: "Overview" }).click();
  await page.waitForURL(address);
  await part("headline").waitFor();
  await until(async () => {
    const { answer, sentences } = await told([]);
    const { headline } = answer;
    const isTold = (await part("headline").locator("p").innerText()) === headline.sentence && (await part("headline").getAttribute("data-severity")) === headline.severity;
    return isTold && (await shown("findings")).sort().join() === sentences.join();
  }, "the headline and every finding");
  const { answer } = await told([]);
  const rooms = await part("room").evaluateAll((/** @type {Element[]} */ cards) => cards.map((card) => card.getAttribute("data-room")));
  assert.deepEqual(rooms, answer.rooms.map((/** @type {any} */ room) => room.room));
  for (const room of answer.rooms.filter((/** @type {any} */ one) => !one.is_watched)) {
    const why = page.locator(`[data-room=${room.room}] [data-testid=why]`);
    // As a sentence; the answer has it as the end of one.
    assert.equal((await why.innerText()).toLowerCase().replace(/\.$/, ""), room.why.toLowerCase());
  }
  const charts = answer.rooms.filter((/** @type {any} */ room) => room.chart && room.chart.points.length > 0);
  await until(async () => (await part("chart").locator(".chart-line").count()) === charts.length, "a picture for each chart");
  for (const line of await part("chart").locator(".chart-line").all()) assert.match(await line.getAttribute("d"), /^M[\d.]+ [\d.]+[^N]*$/);
  const row = part("findings").locator("[data-testid=finding] button").first();
  if (answer.rooms.some((/** @type {any} */ room) => room.findings.some((/** @type {any} */ one) => one.severity !== "ok"))) {
    await row.press("Enter");
    await page.waitForURL(/\?finding=/);
    await part("finding-evidence").waitFor();
    // Of the one that was opened: findings may have changed their order since.
    const key = new URL(page.url()).searchParams.get("finding");
    const opened = answer.rooms.flatMap((/** @type {any} */ room) => room.findings).find((/** @type {any} */ one) => one.key === key);
    if (opened?.next) assert.equal(await part("finding-command").innerText(), opened.next.command);
    await page.goBack();
    await until(async () => (await part("finding-evidence").count()) === 0, "Back closes it");
  } else await part("nothing-found").waitFor();
  for (const width of [1400, 800, 500]) {
    await page.setViewportSize({ width, height: 1000 });
    await page.screenshot({ path: join(folder, `${mode}-overview-${width}.png`), fullPage: true });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `${width} px`);
  }
  await page.setViewportSize({ width: 1400, height: 1000 });
  assert.deepEqual(await faintText(page), []);
  await page.goBack();
  await page.waitForURL(plain);
  await part("ledger").waitFor();
}

/** Whether the server has said that it keeps no history. */
let hasNoHistory = false;

/** What the history has of the last minutes, or that none is kept. @param {Stage} stage */
async function pastIsShown({ page, part, api }) {
  await part("when").getByText("Past").click();
  await page.waitForURL(/from_s=\d+&to_s=\d+/);
  const fromS = Math.floor(Date.now() / 1000) - 300;
  const local = new Date((fromS - new Date().getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19);
  await part("past-from").fill(local);
  await part("past-length").selectOption("300");
  await part("past-show").click();
  await page.waitForURL(new RegExp(`from_s=${fromS}&to_s=${fromS + 300}`));
  const answer = await api(`api/v1/history?from_s=${fromS}&to_s=${fromS + 300}&resolution=second`);
  if (!Array.isArray(answer.windows)) {
    // A refusal is what the console calls an error, sooner or later.
    await part("past-problem").getByText(answer.error).waitFor();
    hasNoHistory = true;
  } else {
    assert.ok(answer.windows.length > 0, "the history has the seconds before");
    await part("ledger").waitFor();
    const wallNs = answer.windows.flatMap((/** @type {any} */ window) => window.cores).reduce((/** @type {number} */ sum, /** @type {any} */ core) => sum + core.wall_ns, 0);
    // The history may have gained a window since.
    await until(async () => (await ledger({ page, part, api })).wall * 1000 >= wallNs - 1000, "the sums of the history");
    assert.equal(await part("who").count(), 0);
    assert.match(await part("age").innerText(), /^past\s/);
  }
  await part("when").getByText("Live").click();
  await page.waitForURL(plain);
  await until(async () => (await part("age").getAttribute("data-state")) === "live", "what is live comes back");
  await part("ledger").waitFor();
}

/** The other checks would see a request to elsewhere, and the server's policy refuses it. */
async function policyHolds() {
  /** @type {string[]} */
  const own = [];
  const { page, context } = await open(own);
  assert.deepEqual(own, []);
  const answer = await page.evaluate(() => fetch("http://127.0.0.2:9/").then(() => "answered", () => "refused"));
  assert.equal(answer, "refused");
  await until(async () => own.some((fault) => fault.startsWith("connect-src refused http://127.0.0.2:9")), "a complaint");
  assert.ok(!own.some((fault) => fault.startsWith("request to")), "refused before it was sent");
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "document.title = 'taken over'";
    document.body.append(script);
  });
  await until(async () => own.some((fault) => fault.startsWith("script-src")), "a complaint about the script");
  assert.notEqual(await page.title(), "taken over");
  await context.close();
}

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const LIVE = {
  "the findings and the headline are what the API says": findingsAreTold,
  "the past is shown as far as a history is kept": pastIsShown,
  async "the age counts, and windows arrive by themselves"({ page, part, api }) {
    const times = async () => (await part("ledger").locator("p").first().innerText()) + (await ledger({ page, part, api })).wall;
    const drawn = () => part("timeline-canvas").locator("canvas").first().evaluate((/** @type {HTMLCanvasElement} */ canvas) => canvas.toDataURL());
    const [timesBefore, drawnBefore] = [await times(), await drawn()];
    // Rises with time and falls with a window.
    await page.waitForFunction(() => {
      const text = document.querySelector("[data-testid=age]")?.textContent ?? "";
      const seconds = parseFloat(text.match(/([\d.]+) s old/)?.[1] ?? "NaN");
      const seen = /** @type {any} */ (globalThis);
      if (seconds > seen.lastAge) seen.ageRose = true;
      if (seconds < seen.lastAge) seen.ageFell = true;
      if (Number.isFinite(seconds)) seen.lastAge = seconds;
      return seen.ageRose && seen.ageFell;
    });
    assert.match(await part("age").innerText(), /^(live|late)\s/);
    // The page also asks for a snapshot now and then. Three steps without another question are the stream's: one answer
    // can look like two, when it comes between the two halves of a reading.
    const questions = () => asked.filter((path) => path === "/api/v1/snapshot").length;
    let [last, since, moved] = [timesBefore, questions(), 0];
    await until(async () => {
      const [now, count] = [await times(), questions()];
      if (count !== since) [since, moved] = [count, 0];
      else if (now !== last) moved += 1;
      last = now;
      return moved >= 3;
    }, "the ledger moves on with the stream");
    await until(async () => (await drawn()) !== drawnBefore, "the timeline is drawn anew");
    assert.ok(asked.includes("/api/v1/events"));
  },
  async "each ledger adds up"(stage) {
    await stage.part("pause").click();
    await until(async () => (await stage.part("age").getAttribute("data-state")) === "paused", "the page pauses");
    await ledgersAddUp(stage);
    await stage.part("pause").click();
    await until(async () => (await stage.part("age").getAttribute("data-state")) === "live", "the page goes on");
  },
  "filters change the address, the rows and the command": filtersWork,
  "the command is copied": copies,
  "all of it works by key": worksByKey,
  "it is readable in light and dark, from 500 px on": isReadable,
};

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const REPLAY = {
  "the findings and the headline are what the API says": findingsAreTold,
  async "it says that it is a recording and claims nothing live"({ page, part, api }) {
    const { recording } = await api("api/v1/snapshot");
    assert.ok((await part("age").innerText()).replace(/\s+/g, " ").startsWith(`recording: ${recording} `));
    assert.equal(await part("pause").count(), 0);
    const top = await page.locator("header").innerText();
    assert.doesNotMatch(top, /\blive\b|\bold\b|\blate\b/i);
    const text = () => page.locator("#main").innerText();
    const before = await text();
    await page.waitForTimeout(1500);
    assert.equal(await text(), before, "a recording stands still");
    assert.ok(!asked.includes("/api/v1/events"));
  },
  async "its sums are those of the API"(stage) {
    const report = await stage.api("api/v1/report?range_s=0");
    const { parts, wall } = await ledger(stage);
    const sum = (/** @type {string} */ field) => report.cores.reduce((/** @type {number} */ all, /** @type {any} */ core) => all + core[field], 0) / 1000;
    // Rounded so that all parts add up: a part may be off by one step.
    for (const [name, field] of [["idle", "idle_ns"], ["user", "user_ns"], ["kernel for tasks", "kernel_ns"], ["unexplained", "unexplained_ns"]]) {
      assert.ok(Math.abs(parts[name] - sum(field)) <= 1, `${name}: ${parts[name]} us and ${sum(field)} us`);
    }
    assert.ok(Math.abs(wall - sum("wall_ns")) <= 1);
  },
  "each ledger adds up": ledgersAddUp,
  async "a gap opens to its causes, and what none covers is untraced"({ part, api }) {
    const { gaps } = await api("api/v1/report?range_s=0");
    assert.ok(gaps.length > 0, "the recording of a troubled host has gaps");
    const first = part("gaps").locator("li").first();
    await first.locator("summary").click();
    const inside = first.locator("table.ledger");
    await inside.waitFor();
    assert.ok((await inside.innerText()).includes("untraced"));
    const evidence = await first.locator(".gap-inside ul").innerText();
    assert.ok(evidence.includes(gaps[0].evidence[0]), evidence);
    assert.ok(!(await part("gaps").innerText()).includes("unexplained"));
    await first.getByRole("button", { name: "Show in the timeline" }).click();
    await part("ledger").getByText(`Core ${gaps[0].cpu}`).waitFor();
    await part("ledger").getByRole("button", { name: "Whole range" }).click();
    await first.locator("summary").click();
  },
  "filters change the address, the rows and the command": filtersWork,
  "the command is copied": copies,
  "all of it works by key": worksByKey,
  "it is readable in light and dark, from 500 px on": isReadable,
};

try {
  const { page, context } = await open(faults);
  const stage = stageOf(page);
  await checks(mode === "live" ? LIVE : REPLAY, stage);
  const isRefusal = (/** @type {string} */ fault) => hasNoHistory && fault.includes("404") && fault.includes("/api/v1/history?");
  assert.deepEqual(faults.filter((fault) => !isRefusal(fault)), [], "the console is clean, and nobody but the server was asked");
  await context.close();
  await checks({ "the policy refuses what it should, and this test sees it": policyHolds }, stage);
  console.log(JSON.stringify({ commands: [...commands] }));
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
