// @ts-check
// A page and a server of its own for each check in a browser.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { startServer } from "./server.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

/**
 * @typedef {{ page: import("playwright-core").Page, server: Awaited<ReturnType<typeof startServer>>, part: (id: string) => import("playwright-core").Locator, faults: string[] }} Stage
 * @typedef {{ scenario?: import("./sample.mjs").Scenario, seconds?: number, query?: string, before?: (stage: Stage) => Promise<void> | void, viewport?: { width: number, height: number }, colorScheme?: "light" | "dark", faultsExpected?: boolean }} Options
 * @typedef {(name: string, options: Options, check: (stage: Stage) => Promise<void>) => Promise<void>} On
 */

/** Chromium for the checks; the folder takes their pictures, the words choose among them. @param {string[]} given */
export async function openStage([folder, words = ""]) {
  if (!existsSync(executablePath)) throw new Error(`${executablePath} is not there; install chromium or set CHROMIUM`);
  if (folder) mkdirSync(folder, { recursive: true });
  const browser = await chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  let failed = 0;

  /** One check on a page and a server of its own; the page of lost time unless the query says otherwise. @type {On} */
  async function on(name, options, check) {
    if (!name.includes(words)) return;
    const server = await startServer(options.scenario ?? "small", { seconds: options.seconds ?? 900 });
    const context = await browser.newContext({
      viewport: options.viewport ?? { width: 1440, height: 900 },
      colorScheme: options.colorScheme ?? "light",
    });
    const page = await context.newPage();
    /** @type {string[]} */
    const faults = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("dialog", (dialog) => (faults.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    page.on("request", (request) => request.url().startsWith(server.url) || request.url().startsWith("data:") || faults.push(`request to ${request.url()}`));
    const stage = { page, server, part: (/** @type {string} */ id) => page.getByTestId(id), faults };
    try {
      await options.before?.(stage);
      await page.goto(server.url + (options.query ?? "?view=lost-time"));
      await check(stage);
      if (!options.faultsExpected) assert.deepEqual(faults, [], "the console is clean, and all requests go to the server");
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error instanceof Error ? error.stack : error}`);
    } finally {
      await context.close();
      await server.stop();
    }
  }

  /** Ends the browser; how many checks failed. */
  async function close() {
    await browser.close();
    if (failed > 0) console.log(`${failed} failed`);
    return failed;
  }
  return { on, folder, close };
}
