// @ts-check
// Drives the built page in Chromium against made-up hosts: npm run build && npm run browser [-- FOLDER]
// With a folder it also leaves screenshots there; words after it choose the checks with these words in their name. Everything stays on the loopback interface.

import assert from "node:assert/strict";
import { overviewChecks } from "./browser_overview.mjs";
import { faintText } from "./contrast.mjs";
import { openStage } from "./stage.mjs";

const { on, folder, close } = await openStage(process.argv.slice(2));

await on("shows every part of a live host and moves on by itself", {}, async ({ page, part }) => {
  for (const id of ["room-findings", "age", "timeline", "causes", "cores", "gaps", "filters", "command", "copy", "theme", "pause", "capabilities", "cost", "notices", "completeness"]) {
    await part(id).first().waitFor({ state: "visible", timeout: 5000 });
  }
  assert.match(await part("room-findings").innerText(), /Warning\s+core 0\s+Core 0 stood still.*Notice\s+core 1\s+Core 1 lost/s);
  assert.match(await part("age").innerText(), /live\s+\d\.\d s old/);
  const before = (await part("ledger").textContent()) ?? "";
  await page.waitForFunction((old) => document.querySelector("[data-testid=ledger]")?.textContent !== old, before);
  assert.match(await part("causes").innerText(), /softirq NET_RX\s+[\d\u202f]+\s+\d+ ms\s+0\.\d+ %\s+[\d.]+ %\s+[\d.]+ us\s+[\d.]+ us/);
});

await on("text of the machine stays text", {}, async ({ page, part }) => {
  await part("causes").getByRole("button", { name: "Show all" }).click();
  assert.match(await part("causes").innerText(), /<img src=x onerror=alert\(1\)>/);
  assert.equal(await page.locator("img").count(), 0);
});

await on("each core's row adds up to 100.00", { scenario: "large" }, async ({ part }) => {
  await part("cores").locator("tbody tr").nth(15).waitFor();
  await part("pause").click();
  const rows = await part("cores").locator("tbody tr").all();
  assert.equal(rows.length, 16);
  for (const row of rows) {
    const cells = await row.locator("td").allInnerTexts();
    const sum = cells.slice(2, 7).reduce((all, text) => all + Math.round(Number(text) * 100), 0);
    assert.equal(sum, 10_000, cells.join(" | "));
  }
});

await on("the ledger of a place adds up to its wall time, by pointer and by key", {}, async ({ page, part }) => {
  const addsUp = async () => {
    const numbers = (await part("ledger").locator("td:nth-child(2)").allInnerTexts()).map((text) => Math.round(Number(text.replaceAll("\u202f", "")) * 1000));
    const wall = numbers.pop();
    assert.equal(numbers.reduce((sum, part) => sum + part, 0), wall);
  };
  await part("ledger").waitFor();
  await part("pause").click();
  await addsUp();
  const canvas = part("timeline-canvas");
  const box = await canvas.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.75);
  await part("ledger").getByText("Core 1").waitFor();
  await addsUp();
  await page.mouse.move(0, 0);
  await part("ledger").getByText("2 cores, whole range").waitFor();

  await canvas.focus();
  await page.keyboard.press("End");
  const newest = await part("ledger").innerText();
  assert.match(newest, /^Core 0/);
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await part("ledger").innerText(), newest);
  await addsUp();
  await page.keyboard.press("ArrowDown");
  assert.match(await part("ledger").innerText(), /^Core 1/);
  assert.match(await page.locator(".canvas-scroll [role=status]").innerText(), /^Core 1, .* lost .*%/);
  await page.keyboard.press("Escape");
  assert.match(await part("ledger").innerText(), /^2 cores, whole range/);
});

await on("filters live in the address and go back and forward", { query: "?view=lost-time&cpu=0,1&kind=timer,softirq&min_us=50&range_s=300" }, async ({ page, part, server }) => {
  await part("command").waitFor();
  assert.equal(await part("command").innerText(), "surefoot stall report --cpu 0,1 --kinds timer,softirq --min-gap 50us --duration 300s");
  const kinds = await part("causes").locator("tbody td:first-child").allInnerTexts();
  assert.ok(kinds.length >= 5 && kinds.every((kind) => /^(timer|softirq) /.test(kind)), kinds.join());

  await part("filters").getByText("15 min").click();
  await page.waitForURL(/range_s=900/);
  await part("filters").getByRole("button", { name: /^timer/ }).click();
  await page.waitForURL(/kind=softirq&/);
  const field = part("filters").locator("input[name=cpus]");
  await field.fill("1");
  await field.press("Enter");
  await page.waitForURL(/cpu=1&kind=softirq&min_us=50&range_s=900/);
  assert.equal(await part("cores").locator("tbody tr").count(), 1);
  await page.goBack();
  assert.equal(await field.inputValue(), "0,1");
  assert.equal(await part("cores").locator("tbody tr").count(), 2);
  await page.goForward();
  assert.equal(await field.inputValue(), "1");
  await page.waitForTimeout(300);
  assert.ok(server.control.requests.includes("/api/v1/report?range_s=900&min_us=50&cpu=1&kind=softirq"), "the report follows the filters");
  await field.fill("nonsense");
  await field.press("Enter");
  await part("filters").getByText("Write cores as 0-3,8.").waitFor();
  assert.match(page.url(), /cpu=1&/, "a mistake changes nothing");
  await part("filters").getByRole("button", { name: "Reset" }).click();
  assert.equal(new URL(page.url()).search, "?view=lost-time");
});

await on("an address that cannot be used says so", { query: "?view=lost-time&cpu=x&kind=nope&at=here&from_s=9&to_s=3&what=1" }, async ({ part }) => {
  const said = await part("address-problems").innerText();
  assert.match(said, /cpu=x is not a list of cores/);
  assert.match(said, /No cause is called nope/);
  assert.match(said, /at=here is not a core and a time/);
  assert.match(said, /from_s=9 is not before to_s=3/);
  assert.match(said, /a part "what" that this page does not know/);
  await part("ledger").waitFor();
});

await on("the command copies without the clipboard", { before: async ({ page }) => void (await page.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })")) }, async ({ page, part }) => {
  await part("copy").click();
  await part("copy").getByText("Selected: press Ctrl+C").waitFor();
  assert.equal(await page.evaluate(() => String(getSelection())), await part("command").innerText());
});

await on("gaps open to their evidence and lead to the timeline", {}, async ({ part }) => {
  await part("pause").click();
  const gap = part("gaps").locator("li").first();
  await gap.locator("summary").click();
  assert.match(await gap.innerText(), /Evidence\s+.*traced intervals cover/s);
  await gap.getByRole("button", { name: "Show in the timeline" }).click();
  assert.match(await part("ledger").innerText(), /^Core \d/);
});

await on("a row opens to its raisers, advice and stacks, and text of the machine stays text", {}, async ({ page, part }) => {
  await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
  await part("icicle").waitFor();
  assert.match(await part("advice").innerText(), /Do not unmap.*because\s+3400 of 3649 from stats in munmap\s+see\s+mmap\(2\)/is);
  const text = await part("who").innerText();
  assert.match(text, /<img src=x onerror=alert\(2\)>-6391 of process 6370 in mprotect/);
  assert.equal(await page.locator("img, main script, main b").count(), 0);
  const names = await part("icicle").locator("[role=treeitem]").evaluateAll((items) => items.map((item) => item.getAttribute("aria-label")));
  assert.ok(names.some((name) => name?.startsWith("<script>alert(3)</script>, user function, 61 times, 1.67")), names.join("\n"));
  assert.equal(await page.title(), "Surefoot");
  await part("loops").getByText("rx <b>queue</b> 0").first().waitFor();
});

await on("the icicle zooms by pointer and key, and the way leads back", {}, async ({ page, part }) => {
  await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
  const icicle = part("icicle");
  await icicle.waitFor();
  const frame = (/** @type {string} */ name) => icicle.locator("[role=treeitem]", { hasText: name }).first();
  const wide = async (/** @type {string} */ name) => Math.round((await frame(name).boundingBox())?.width ?? 0);
  const full = await wide("TLB shootdown");
  assert.ok((await wide("rotate_log")) < full / 5);
  await frame("rotate_log").hover();
  assert.match(await part("readout").innerText(), /rotate_log\s+user function\s+410 times, 11\.2 %/);
  await frame("rotate_log").click();
  await part("way").getByText("rotate_log").waitFor();
  assert.equal(await wide("rotate_log"), full);
  assert.equal(await icicle.getByText("publish", { exact: true }).count(), 0);
  await part("way").getByRole("button", { name: /^TLB shootdown/ }).click();
  await icicle.getByText("publish", { exact: true }).waitFor();

  await icicle.focus();
  const active = () => icicle.evaluate((tree) => document.getElementById(tree.getAttribute("aria-activedescendant") ?? "")?.getAttribute("aria-label") ?? "");
  await page.keyboard.press("ArrowDown");
  assert.match(await active(), /^TLB shootdown/);
  for (let press = 0; press < 4; press += 1) await page.keyboard.press("ArrowDown");
  assert.match(await active(), /^read_counter_by_stdio, user function, /);
  await page.keyboard.press("ArrowRight");
  assert.match(await active(), /^rotate_log, /);
  assert.match(await part("readout").innerText(), /rotate_log/);
  await page.keyboard.press("Enter");
  assert.equal(await wide("rotate_log"), full);
  assert.match(await active(), /^rotate_log, /);
  await page.keyboard.press("Escape");
  await part("way").locator("[aria-current]", { hasText: "main" }).waitFor();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press("Escape");
  assert.equal(await part("way").locator("button").count(), 0);
  assert.equal(await active(), "");
});

await on("a search marks frames, and a raiser shows its own stacks", {}, async ({ page, part }) => {
  await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
  await page.locator("input[name=frame]").fill("MADVISE");
  await part("readout").getByText(/^5 frames found, below them 5\.15 % of 3.649 arrivals$/).waitFor();
  assert.equal(await part("icicle").locator(".hit").count(), 5);
  await page.locator("input[name=frame]").fill("");
  await part("raisers").getByRole("button", { name: /in madvise/ }).click();
  await part("icicle").getByText("arena_purge").waitFor();
  assert.equal(await part("icicle").getByText("rotate_log").count(), 0);
  assert.match(await part("icicle").locator("[role=treeitem]").first().getAttribute("aria-label") ?? "", /, 188 times, 100 %$/);
});

await on("a newer report comes by itself, and what was opened stays open", {}, async ({ page, part, server }) => {
  await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
  await part("icicle").locator("[role=treeitem]", { hasText: "rotate_log" }).first().click();
  const asked = () => server.control.requests.filter((path) => path === "/api/v1/who").length;
  const before = asked();
  await page.waitForTimeout(6500);
  assert.ok(asked() > before && asked() <= before + 3, `asked ${asked() - before} times`);
  await part("way").locator("[aria-current]", { hasText: "rotate_log" }).waitFor();
});

await on("where nobody watches raisers one line says how to", { scenario: "quiet" }, async ({ page, part }) => {
  assert.match(await part("who").innerText(), /not being watched; start with surefoot watch --who CORES/);
  assert.equal(await page.locator("section[data-testid=who]").count(), 0);
});

await on("a thousand raisers with ten thousand frames open and zoom fast enough", { scenario: "large" }, async ({ page, part }) => {
  await part("who").waitFor();
  await part("pause").click();
  await page.evaluate(() => {
    const seen = /** @type {any} */ (globalThis);
    seen.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => (seen.longest = Math.max(seen.longest, entry.duration)))).observe({ type: "longtask" });
  });
  await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
  await part("icicle").locator("[role=treeitem]").first().waitFor();
  const drawn = await part("icicle").locator("[role=treeitem]").count();
  assert.ok(drawn > 1000 && drawn <= 4000, `${drawn} rectangles`);
  await page.waitForTimeout(500);
  const opened = await page.evaluate(() => /** @type {any} */ (globalThis).longest);
  await page.evaluate(() => void (/** @type {any} */ (globalThis).longest = 0));
  const box = await part("icicle").boundingBox();
  assert.ok(box);
  for (let at = 0; at < 60; at += 1) await page.mouse.move(box.x + (box.width * at) / 60, box.y + 60);
  await page.waitForTimeout(300);
  const moved = await page.evaluate(() => /** @type {any} */ (globalThis).longest);
  console.log(`        longest task: ${Math.round(opened)} ms to draw ${drawn} rectangles, ${Math.round(moved)} ms to move over them`);
  assert.ok(moved < 200, "moving the pointer draws nothing anew");
});

await on("a thousand checkpoints with their decisions open and move on fast enough", { scenario: "large", query: "?view=checkpoints" }, async ({ page, part }) => {
  await part("jobs").getByRole("button", { name: "cfd/wing" }).click();
  await part("generations").getByRole("button", { name: /^Show all/ }).click();
  await part("decisions").getByRole("button", { name: /^Show/ }).click();
  assert.ok((await part("generations").locator("tbody tr").count()) > 1000);
  // A second of the clock, an answer of the server, and the pointer on the strip.
  await page.evaluate(() => {
    const seen = /** @type {any} */ (globalThis);
    seen.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => (seen.longest = Math.max(seen.longest, entry.duration)))).observe({ type: "longtask" });
  });
  const box = await part("strip").locator("svg[role=img]").boundingBox();
  assert.ok(box);
  for (let at = 0; at < 60; at += 1) await page.mouse.move(box.x + 64 + ((box.width - 80) * at) / 60, box.y + 10);
  await page.waitForTimeout(7000);
  const longest = await page.evaluate(() => /** @type {any} */ (globalThis).longest);
  console.log(`        longest task with a thousand checkpoints and 400 decisions: ${Math.round(longest)} ms`);
});

await on("where no directory of checkpoints is named the page says how to", { scenario: "quiet", query: "?view=checkpoints" }, async ({ part }) => {
  await part("checkpoints-none").getByText("No checkpoint directory is configured").waitFor();
  assert.match(await part("watch-command").innerText(), /^surefoot watch --checkpoints/);
});

await on("directories without a job say so", { scenario: "reduced", query: "?view=checkpoints" }, async ({ part }) => {
  await part("jobs-none").getByText("No job has saved anything").waitFor();
});

await on("a job in trouble comes first, and what it says stays words", { query: "?view=checkpoints", faultsExpected: true }, async ({ page, part, server }) => {
  assert.equal(await part("job").getAttribute("data-job"), "training", "it runs, and its durable copy is too old");
  await part("jobs").getByRole("button", { name: "broken" }).click();
  await page.waitForURL(/job=broken/);
  assert.match(await part("decisions").innerText(), /An event that this page does not know/);
  assert.equal(await page.locator("img").count(), 0);
  server.control.broken = true;
  await part("checkpoints-problem").waitFor();
  assert.match(await part("checkpoints-problem").innerText(), /Could not load checkpoints: .* What is shown is the last answer/);
  server.control.broken = false;
  await part("checkpoints-problem").waitFor({ state: "detached", timeout: 20_000 });
});

await on("pause asks nothing of the server, resume catches up", {}, async ({ page, part, server }) => {
  await part("ledger").waitFor();
  await part("pause").click();
  await page.waitForTimeout(500);
  const asked = server.control.requests.length;
  const frozen = (await part("ledger").textContent()) ?? "";
  await page.waitForTimeout(3200);
  assert.equal(server.control.requests.length, asked);
  assert.equal(await part("ledger").textContent(), frozen);
  assert.match(await part("age").innerText(), /paused\s+\d+\.\d s old/);
  await part("pause").click();
  await page.waitForFunction((old) => document.querySelector("[data-testid=ledger]")?.textContent !== old, frozen);
  const gap = await page.evaluate(() => document.querySelector("[data-testid=ledger] tfoot td")?.textContent);
  assert.equal(gap?.replaceAll("\u202f", ""), "120000.000", "no window is missing after the pause");
});

await on("a server that goes away is said, counted down, and caught up with", { faultsExpected: true }, async ({ part, server }) => {
  await part("ledger").waitFor();
  server.control.broken = true;
  server.cut();
  await part("error").waitFor();
  assert.match(await part("error").innerText(), /Not connected: .*Trying again/s);
  assert.equal(await part("age").getAttribute("data-state"), "retrying");
  server.control.broken = false;
  await part("error").waitFor({ state: "detached", timeout: 20_000 });
  assert.equal(await part("age").getAttribute("data-state"), "live");
});

await on("a server that is not there at the start is said", { faultsExpected: true, before: ({ server }) => void (server.control.broken = true) }, async ({ part, server }) => {
  await part("error").waitFor();
  assert.match(await part("error").innerText(), /Is surefoot watch still running/);
  // The page waits longer each time; the click must come before it tries by itself.
  await part("error").getByText(/Trying again in [78] s/).waitFor();
  server.control.broken = false;
  await part("error").getByRole("button", { name: "Try now" }).click();
  await part("room-findings").waitFor();
});

await on("data that stops coming turns to a warning", {}, async ({ page, part, server }) => {
  await part("ledger").waitFor();
  server.control.silent = true;
  await page.waitForFunction(() => document.querySelector("[data-testid=age]")?.getAttribute("data-state") === "late", null, { timeout: 15_000 });
  assert.match(await part("age").innerText(), /late/);
});

await on("a quiet host has no gap and says so", { scenario: "quiet" }, async ({ part }) => {
  await part("gaps").getByText("No gap of 20 us or more in this range.").waitFor();
  await part("room-findings").locator("[data-severity=ok]").waitFor();
});

await on("gaps are shown from the length on that they were looked for", { scenario: "large" }, async ({ page, part }) => {
  const field = part("filters").locator("input[name=min_us]");
  await part("gaps").getByText("of 100 us and more").waitFor();
  assert.equal(await field.inputValue(), "100");
  assert.equal(await page.locator("#looked-for").innerText(), "");
  await field.fill("20");
  await field.press("Enter");
  await page.waitForURL(/&min_us=20$/);
  assert.equal(await page.locator("#looked-for").innerText(), "gaps are looked for from 100 us on");
  await part("gaps").getByText("of 100 us and more").waitFor();
});

await on("a host without a window yet", { seconds: 0, before: ({ server }) => void (server.control.silent = true) }, async ({ part }) => {
  await part("timeline").getByText("There is no window of this range.").waitFor();
  assert.match(await part("age").innerText(), /no data yet/);
});

await on("counts without times are not shown as no time", { scenario: "reduced" }, async ({ part }) => {
  assert.match(await part("causes").innerText(), /softirq NET_RX\s+[\d\u202f]+\s+not timed/);
  await part("missing").getByText("run with sudo").waitFor();
});

await on("a recording is shown whole and claims nothing live", { scenario: "replay" }, async ({ page, part, server }) => {
  assert.match(await part("age").innerText(), /^recording:\s+recordings\/troubled host\.sfr/);
  assert.equal(await part("pause").count(), 0);
  assert.match(await part("command").innerText(), /^surefoot stall replay 'recordings\/troubled host\.sfr'/);
  await page.waitForTimeout(1500);
  assert.ok(!server.control.requests.includes("/api/v1/events"));
  assert.match(await part("ledger").innerText(), /900 s/);
});

await on("a slow first answer leaves no hole in time", { before: async ({ page }) => {
  let first = true;
  await page.route("**/api/v1/snapshot", async (route) => {
    const answer = await route.fetch();
    if (first) await new Promise((resolve) => setTimeout(resolve, 6000));
    first = false;
    await route.fulfill({ response: answer });
  });
} }, async ({ page, part }) => {
  await part("ledger").waitFor();
  await page.waitForTimeout(3000);
  const wall = await page.evaluate(() => document.querySelector("[data-testid=ledger] tfoot td")?.textContent);
  assert.equal(wall?.replaceAll("\u202f", ""), "120000.000");
});

await on("128 cores over 15 minutes redraw fast enough", { scenario: "large", query: "?view=lost-time&range_s=900" }, async ({ page, part }) => {
  await part("ledger").getByText("128 cores").waitFor({ timeout: 20_000 });
  const longest = await page.evaluate(
    () =>
      new Promise((resolve) => {
        let most = 0;
        new PerformanceObserver((list) => list.getEntries().forEach((entry) => (most = Math.max(most, entry.duration)))).observe({ type: "longtask" });
        setTimeout(() => resolve(most), 4000);
      }),
  );
  console.log(`        longest task with 128 cores x 900 windows: ${Math.round(Number(longest))} ms`);
});

await on("everything is reached by key, in the order of the page", {}, async ({ page, part }) => {
  await part("ledger").waitFor();
  /** @type {string[]} */
  const reached = [];
  for (let press = 0; press < 60; press += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement?.getAttribute("data-testid") ?? document.activeElement?.getAttribute("name") ?? document.activeElement?.className ?? ""));
    const outline = await page.evaluate(() => {
      const at = document.activeElement;
      const next = at?.matches(".segments input") ? at.nextElementSibling : at;
      return next ? getComputedStyle(next).outlineStyle : "none";
    });
    assert.notEqual(outline, "none", `focus shows on ${reached.at(-1)}`);
  }
  const order = ["skip", "when", "pause", "theme", "finding-head", "range", "cpus", "min_us", "copy", "chip", "timeline-canvas"].map((name) => reached.indexOf(name));
  assert.ok(order.every((at, n) => at >= 0 && (n === 0 || at > order[n - 1])), reached.join(" "));
});

await on("the theme button changes the colours and the choice stays", {}, async ({ page, part }) => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await part("theme").click();
  assert.equal(await ground(), light, "auto was light already");
  await part("theme").click();
  assert.notEqual(await ground(), light);
  await page.reload();
  await part("theme").waitFor();
  assert.notEqual(await ground(), light);
});

for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
  for (const scenario of /** @type {const} */ (["small", "large", "quiet", "reduced", "replay"])) {
    await on(`text of ${scenario} stands out in ${colorScheme}`, { scenario, colorScheme }, async ({ page, part }) => {
      await part("gaps").waitFor();
      const first = part("gaps").locator("summary").first();
      if (scenario !== "quiet") await first.click();
      const opener = part("who").getByRole("button", { name: /TLB shootdown/ });
      if (await opener.count()) {
        await opener.click();
        await part("icicle").locator("[role=treeitem]").first().waitFor();
        await page.locator("input[name=frame]").fill("munmap");
        await part("readout").getByText("found").waitFor();
      }
      assert.deepEqual(await faintText(page), []);
    });
  }
  for (const width of [400, 768, 1024, 1440, 2560]) {
    await on(`fits ${width} px in ${colorScheme}`, { viewport: { width, height: 900 }, colorScheme }, async ({ page, part }) => {
      await part("gaps").waitFor();
      await part("who").getByRole("button", { name: /TLB shootdown/ }).click();
      await page.waitForTimeout(300);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, "no sideways scrolling");
      if (folder) await page.screenshot({ path: `${folder}/small-${width}-${colorScheme}.png`, fullPage: true });
    });
  }
}

await overviewChecks(on, folder);
process.exit((await close()) > 0 ? 1 : 0);
