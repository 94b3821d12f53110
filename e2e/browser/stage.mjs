// @ts-check
// A page of the real command in Chromium, with every request and every complaint watched; the checks on it.

import assert from "node:assert/strict";
import { join } from "node:path";
import { faintText } from "../../ui/dev/contrast.mjs";
import { launch } from "./launch.mjs";

/** Longer than anything takes on a busy machine. */
const PATIENCE_MS = 120_000;
/** The whole run; a browser that hangs must not hang the tests. */
const DEADLINE_MS = 600_000;

/** @typedef {{ page: any, part: (id: string) => any, api: (path: string) => Promise<any> }} Stage */

/** Chromium for the page at this address; pictures of failures go into the folder. @param {string} address @param {string} folder */
export async function theatre(address, folder) {
  assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/$/);
  assert.ok(folder);
  const browser = await launch();
  setTimeout(() => {
    console.error(`not done after ${DEADLINE_MS} ms`);
    void browser.close().finally(() => process.exit(1));
  }, DEADLINE_MS).unref();
  /** What no check may leave behind: console errors, refused loads, questions to anybody else. @type {string[]} */
  const faults = [];
  /** Paths that the page asked its server for. @type {string[]} */
  const asked = [];

  /** @param {Record<string, (stage: Stage) => Promise<void>>} list @param {Stage} stage */
  async function checks(list, stage) {
    for (const [name, check] of Object.entries(list)) {
      const began = performance.now();
      try {
        await check(stage);
      } catch (error) {
        console.error(`FAILED  ${name}\nfaults: ${faults.join("; ")}`);
        await stage.page.screenshot({ path: join(folder, "failed.png"), fullPage: true }).catch(() => {});
        throw error;
      }
      console.error(`ok      ${name} (${Math.round(performance.now() - began)} ms)`);
    }
  }

  /** Opens the page in a fresh profile, with every request and every complaint watched. @param {string[]} faults @param {string} query @param {string} first what must come */
  async function open(faults, query = "?view=lost-time", first = "ledger") {
    const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, colorScheme: "light" });
    context.setDefaultTimeout(PATIENCE_MS);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(address).origin });
    await context.route("**", (/** @type {any} */ route) => {
      const url = route.request().url();
      if (url.startsWith(address)) {
        asked.push(new URL(url).pathname);
        return route.continue();
      }
      faults.push(`request to ${url}`);
      return route.abort();
    });
    await context.exposeBinding("complain", (/** @type {unknown} */ _, /** @type {string} */ text) => void faults.push(text));
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        // @ts-ignore The binding is not known to the types.
        void complain(`${event.violatedDirective} refused ${event.blockedURI || "inline"}`);
      });
    });
    const page = await context.newPage();
    page.on("console", (/** @type {any} */ message) => {
      if (message.type() === "error" || message.type() === "warning") faults.push(`console: ${message.text()} at ${message.location().url ?? ""}`);
    });
    page.on("pageerror", (/** @type {Error} */ error) => void faults.push(`exception: ${error}`));
    page.on("websocket", (/** @type {any} */ socket) => void faults.push(`socket to ${socket.url()}`));
    page.on("requestfailed", (/** @type {any} */ request) => {
      // A stream that the page itself closes ends as aborted.
      // Whoever leaves a page breaks off what that had just asked for.
      const isLeft = request.failure()?.errorText === "net::ERR_ABORTED";
      if (!request.url().includes("/api/v1/events") && !isLeft) faults.push(`${request.url()}: ${request.failure()?.errorText}`);
    });
    await page.goto(`${address}${query}`);
    await page.getByTestId(first).waitFor();
    return { page, context };
  }

  const api = async (/** @type {string} */ path) => (await fetch(new URL(path, address))).json();
  /** @param {any} page @returns {Stage} */
  const stageOf = (page) => ({ page, part: (id) => page.getByTestId(id), api });
  return { browser, faults, asked, checks, open, stageOf };
}

/** Waits until `probe` gives something true, and returns it. @template T @param {() => Promise<T>} probe @param {string} what */
export async function until(probe, what) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await probe();
    if (found) return found;
    assert.ok(performance.now() < deadline, `not within ${PATIENCE_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** What is cut off at the right edge, or inside its own box. @param {any} page */
export const cut = (page) =>
  page.evaluate(() => {
    const shown = [...document.querySelectorAll("body *")].filter((one) => !one.closest(".visually-hidden") && one.getClientRects().length > 0);
    const beyond = shown.filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
    const inside = shown.filter((one) => one instanceof HTMLElement && one.clientWidth > 0 && getComputedStyle(one).display !== "inline" && one.scrollWidth > one.clientWidth + 1);
    return [...beyond, ...inside].map((one) => `${one.tagName} ${one.getAttribute("class") ?? ""} ${(one.textContent ?? "").slice(0, 40)}`);
  });

/** Holds the page to cut nothing at this width, once its charts have followed it: they are told a frame or more later. @param {any} page @param {number} width */
export async function uncutAt(page, width) {
  await page.setViewportSize({ width, height: 1000 });
  let left = await cut(page);
  for (let turn = 0; turn < 50 && left.length > 0; turn += 1) {
    await page.waitForTimeout(100);
    left = await cut(page);
  }
  assert.deepEqual(left, [], `${width} px`);
}

/** Holds the page to be readable in light and dark, and to cut nothing from 390 px on; leaves pictures. @param {any} page @param {string} path */
export async function readable(page, path) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((/** @type {string} */ theme) => document.documentElement.dataset.theme === theme, colorScheme);
    await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
    assert.deepEqual(await faintText(page), [], colorScheme);
    await page.screenshot({ path: `${path}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  for (const width of [2200, 1200, 800, 390]) {
    await uncutAt(page, width);
  }
  await page.screenshot({ path: `${path}-390.png`, fullPage: true });
  await page.setViewportSize({ width: 1400, height: 1000 });
}

/** Does all checks on one page, and ends the browser. @param {Awaited<ReturnType<typeof theatre>>} play @param {Record<string, (stage: Stage) => Promise<void>>} list */
export async function perform({ browser, faults, checks, open, stageOf }, list) {
  try {
    const { page, context } = await open(faults);
    await checks(list, stageOf(page));
    assert.deepEqual(faults, [], "the console is clean, and nobody but the server was asked");
    await context.close();
  } catch (error) {
    console.error(error instanceof Error ? error.stack : error);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
}
