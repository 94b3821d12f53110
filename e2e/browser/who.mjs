// @ts-check
// Drives the part of the page that says who interrupted the cores, and holds it to what the API says.
//
//   node who.mjs http://127.0.0.1:PORT/ live|replay FOLDER
//
// e2e/tests/browser.rs starts it: live beside a process whose thread "stats" unmaps memory beside a polling thread,
// in a replay with a made-up report. Says each check on standard error and ends with 1 when one fails.

import assert from "node:assert/strict";
import { join } from "node:path";
import { faintText } from "../../ui/dev/contrast.mjs";
import { theatre, until } from "./stage.mjs";

const [address, mode, folder] = process.argv.slice(2);
assert.ok(mode === "live" || mode === "replay");
const { browser, faults, asked, checks, open, stageOf } = await theatre(address, folder);
/** @typedef {import("./stage.mjs").Stage} Stage */

/** The shootdowns, as the API has them. @param {Stage} stage */
async function shootdowns({ api }) {
  const { who } = await api("api/v1/who?kind=tlb_shootdown");
  return who?.interrupts.find((/** @type {any} */ one) => one.raisers.length > 0) ?? null;
}

/** The frames that are drawn: words, level, place. @param {Stage} stage */
function frames({ part }) {
  return part("icicle").evaluate((/** @type {Element} */ tree) => {
    const { left, width } = tree.getBoundingClientRect();
    const items = [...tree.querySelectorAll("[role=treeitem]")].map((item) => {
      const box = item.getBoundingClientRect();
      const words = item.getAttribute("aria-label") ?? "";
      const times = Number((words.match(/, ([\d\u202f]+) times, [^,]*$/)?.[1] ?? "NaN").replaceAll("\u202f", ""));
      return { words, times, level: Number(item.getAttribute("aria-level")), x: box.left - left, width: box.width };
    });
    return { items, width };
  });
}

/** A frame by the beginning of what it says. @param {Stage} stage @param {string} name */
function frame({ part }, name) {
  return part("icicle").locator(`[role=treeitem][aria-label^=${JSON.stringify(name)}]`).first();
}

/** What the keys stand on. @param {Stage} stage @returns {Promise<string>} */
function active({ part }) {
  return part("icicle").evaluate((/** @type {Element} */ tree) => {
    const id = tree.getAttribute("aria-activedescendant");
    return (id && document.getElementById(id)?.getAttribute("aria-label")) || "";
  });
}

/** Every part is within its parent, and counts add up; the same holds for what is drawn. @param {Stage} stage */
async function addsUp(stage) {
  const { items, width } = await frames(stage);
  assert.ok(items.length > 5 && items.length <= 4000, `${items.length} rectangles`);
  /** The frames on the way from the root. @type {any[]} */
  const way = [];
  for (const item of items) {
    way.length = item.level - 1;
    const parent = way[way.length - 1];
    assert.ok(Number.isFinite(item.times) && item.times > 0, item.words);
    if (parent) {
      parent.below = (parent.below ?? 0) + item.times;
      assert.ok(parent.below <= parent.times, `${parent.below} below ${parent.words}`);
      assert.ok(item.x >= parent.x - 0.6 && item.x + item.width <= parent.x + parent.width + 0.6, `${item.words} stands out of ${parent.words}`);
    } else assert.ok(Math.abs(item.width - width) < 1, "the root fills the width");
    way.push(item);
  }
  return items;
}

/** @type {Record<string, (stage: Stage) => Promise<void>>} */
const CHECKS = {
  async "the table says what the API says"(stage) {
    const { page, part, api } = stage;
    await page.locator("section[data-testid=who]").waitFor();
    if (mode === "live") await until(() => shootdowns(stage), "shootdowns with a raiser");
    const interrupt = await until(async () => {
      // The page may be a report behind; both move on.
      const found = await shootdowns(stage);
      const top = found.raisers[0];
      const row = part("who").locator("tbody tr", { hasText: "TLB shootdown" }).first();
      const text = (await row.count()) > 0 ? await row.innerText() : "";
      return text.includes(`${top.comm}-${top.tid}`) && text.includes(found.handler) ? found : null;
    }, "the row of the shootdowns");
    assert.equal(interrupt.raisers[0].comm, "stats");
    const { who } = await api("api/v1/who");
    const raised = who.interrupts.filter((/** @type {any} */ one) => one.kind !== "preemption");
    if (mode === "replay") assert.equal(await part("who").locator("tbody tr").count(), raised.length);
    assert.match(await part("who").innerText(), /in the last .*; [\d.>]+ % of [\d\u202f]+ called functions joined exactly/);
    assert.ok(asked.includes("/api/v1/who"));
  },
  async "a row opens to advice, raisers and stacks"(stage) {
    const { part } = stage;
    const opener = part("who").getByRole("button", { name: /TLB shootdown/ }).first();
    assert.equal(await opener.getAttribute("aria-expanded"), "false");
    await opener.press("Enter");
    assert.equal(await opener.getAttribute("aria-expanded"), "true");
    await part("icicle").locator("[role=treeitem]").first().waitFor();
    const [advice] = (await shootdowns(stage)).advice;
    const said = (await part("advice").first().innerText()).toLowerCase();
    assert.ok(said.includes(advice.remedy.toLowerCase()) && said.includes("because") && said.includes(advice.source.toLowerCase()), said);
    assert.match(await part("raisers").innerText(), /stats-\d+.* in munmap/);
    const items = await addsUp(stage);
    for (const words of [/^stats-\d+[^,]*, thread, /, /^read_counter_by_stdio, user function, /, /^munmap, system call, /, /^__x64_sys_munmap, kernel function, /, /^flush_tlb_func, asked for, /]) {
      assert.ok(items.some((/** @type {any} */ item) => words.test(item.words)), `${words} is not among ${items.map((/** @type {any} */ item) => item.words).join("\n")}`);
    }
  },
  async "a frame fills the width by pointer and by key, and the way leads back"(stage) {
    const { page, part } = stage;
    await frame(stage, "close_counter,").click();
    await part("way").locator("[aria-current]", { hasText: "close_counter" }).waitFor();
    assert.match((await frames(stage)).items[0].words, /^close_counter, /);
    await addsUp(stage);
    await part("way").locator("button").first().click();
    await until(async () => (await part("way").locator("button").count()) === 0, "the way leads to the root");
    await part("icicle").focus();
    for (let press = 0; press < 3; press += 1) await page.keyboard.press("ArrowDown");
    const third = await active(stage);
    assert.match(third, /, user function, /);
    await page.keyboard.press("ArrowUp");
    assert.match(await active(stage), /^stats-\d+[^,]*, thread, /);
    await page.keyboard.press("ArrowDown");
    assert.equal((await active(stage)).split(",")[0], third.split(",")[0]);
    await page.keyboard.press("Enter");
    await part("way").locator("[aria-current]", { hasText: third.split(",")[0] }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await until(async () => (await part("way").locator("button").count()) === 0, "Escape leads back");
  },
  async "a search marks frames and says their share"(stage) {
    const { page, part } = stage;
    await page.locator("input[name=frame]").fill("CLOSE_COUNTER");
    await page.mouse.move(0, 0);
    await page.keyboard.press("Tab");
    // A newer report draws anew; the frames stay found.
    await until(async () => (await part("icicle").locator(".hit").count()) > 0, "a frame is marked");
    const hits = await part("icicle").locator(".hit").evaluateAll((/** @type {Element[]} */ found) => found.map((one) => one.getAttribute("aria-label")));
    assert.ok(hits.every((/** @type {string} */ words) => words.startsWith("close_counter, ")), hits.join());
    await part("icicle").focus();
    await page.keyboard.press("Escape");
    await part("readout").getByText("found, below them").waitFor();
    await page.locator("input[name=frame]").fill("");
    await until(async () => (await part("icicle").locator(".hit").count()) === 0, "nothing is marked");
  },
  async "names of the machine stay text"(stage) {
    const { page } = stage;
    if (mode === "replay") {
      await stage.part("who").getByText("<img src=x onerror=alert(1)>").first().waitFor();
      await stage.part("loops").getByText("<b>rx</b>").first().waitFor();
    }
    assert.equal(await page.locator("img, main script, main b, main iframe").count(), 0);
    assert.equal(await page.title(), "Surefoot");
  },
  async "it is readable in light and dark, from 500 px on"({ page, part }) {
    // A page that moves on takes the time that looking at all of its text needs.
    if (mode === "live") await part("pause").click();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForFunction((/** @type {string} */ theme) => document.documentElement.dataset.theme === theme, colorScheme);
      await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
      assert.deepEqual(await faintText(page), [], colorScheme);
      await part("who").screenshot({ path: join(folder, `${mode}-${colorScheme}.png`) });
    }
    for (const width of [1200, 1400, 500]) {
      await page.setViewportSize({ width, height: 1000 });
      const tooWide = (/** @type {number} */ inner) => {
        const within = [document.documentElement, ...(inner >= 1200 ? document.querySelectorAll("[data-testid=who] .table-scroll, .icicle-scroll") : [])];
        return within.filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.className} ${one.scrollWidth} > ${one.clientWidth}`);
      };
      // Frames are laid out anew once the page has its new width, a moment later.
      let wide = await page.evaluate(tooWide, width);
      for (let look = 0; look < 50 && wide.length > 0; look++) {
        await page.waitForTimeout(100);
        wide = await page.evaluate(tooWide, width);
      }
      assert.deepEqual(wide, [], `${width} px`);
    }
    await page.setViewportSize({ width: 1400, height: 1000 });
  },
};

/** What came of ten thousand frames: bounded in number, and still there for the keys. @type {Record<string, (stage: Stage) => Promise<void>>} */
const MANY = {
  async "thousands of frames are drawn within limits and added up"(stage) {
    const { page, part } = stage;
    await part("who").getByRole("button", { name: /do_sync_core/ }).click();
    await frame(stage, "call function do_sync_core,").waitFor();
    const items = await addsUp(stage);
    assert.ok(items.length > 500, `${items.length} rectangles`);
    assert.ok(items.some((/** @type {any} */ item) => /^[\d\u202f]+ narrow frames, too narrow to be drawn alone, /.test(item.words)));
    await part("icicle").focus();
    // The first key stands on the root, the others on the second raiser and on what it called first.
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    await until(async () => (await part("way").locator("button").count()) === 2, "a frame fills the width");
    await addsUp(stage);
  },
};

try {
  const { page, context } = await open(faults);
  await checks(mode === "live" ? CHECKS : { ...CHECKS, ...MANY }, stageOf(page));
  assert.deepEqual(faults, [], "the console is clean, and nobody but the server was asked");
  await context.close();
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
