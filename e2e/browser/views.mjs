// @ts-check
// Takes a picture of each view of the demo, for eyes: at 1400, 800 and 390 pixels, light and dark. It says which views are wider than the
// screen.
//
//   cargo build -p surefoot-cli && node e2e/browser/views.mjs --output FOLDER
//
// With --docs it takes the pictures that the README and the guides show instead, into docs/images, each of at most 150 kB.
// `SUREFOOT_BIN` names another binary.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { launch, root } from "./launch.mjs";

const VIEWS = ["overview", "lost-time", "memory", "checkpoints", "interfaces", "experiments", "remedies"];
const WIDTHS = [1400, 800, 390];
const THEMES = /** @type {const} */ (["light", "dark"]);
/** What the documents show: a view, its width and height, the theme. */
const SHOWN = /** @type {const} */ ([
  ["overview", 1100, 500, "light"],
  ["memory", 1100, 900, "light"],
  ["checkpoints", 1100, 850, "light"],
]);
const BYTES_MAX = 150_000;

const { values } = parseArgs({
  options: { output: { type: "string" }, docs: { type: "boolean", default: false }, view: { type: "string" } },
});
const output = values.output ?? (values.docs ? join(root, "docs/images") : null);
if (output === null) throw new Error("--output FOLDER says where the pictures go");
mkdirSync(output, { recursive: true });

const demo = spawn(process.env.SUREFOOT_BIN ?? join(root, "target/debug/surefoot"), ["demo"], { stdio: ["ignore", "pipe", "inherit"] });
const ended = once(demo, "exit");
let problems = 0;
try {
  const address = await filled(demo.stdout);
  const browser = await launch();
  try {
    if (values.docs) for (const [view, width, height, theme] of SHOWN) await picture(browser, address, view, { width, height, theme, name: `demo-${view}` });
    else
      for (const theme of THEMES)
        for (const width of WIDTHS)
          for (const view of VIEWS.filter((view) => (values.view ?? view) === view))
            await picture(browser, address, view, { width, height: 0, theme, name: `${view}-${width}-${theme}` });
  } finally {
    await browser.close();
  }
} finally {
  demo.kill("SIGTERM");
  await ended;
}
process.exitCode = problems > 0 ? 1 : 0;

/**
 * @param {any} browser @param {string} address @param {string} view
 * @param {{ width: number, height: number, theme: "light" | "dark", name: string }} how
 */
async function picture(browser, address, view, { width, height, theme, name }) {
  const context = await browser.newContext({ viewport: { width, height: height || 900 }, colorScheme: theme, timezoneId: "UTC" });
  const page = await context.newPage();
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (/** @type {Error} */ error) => errors.push(error.message));
  await page.goto(`${address}?view=${view}`);
  await page.locator("main h2").first().waitFor();
  await page.waitForTimeout(1500);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  const file = join(/** @type {string} */ (output), `${name}.png`);
  await page.screenshot({ path: file, fullPage: height === 0 });
  const size = statSync(file).size;
  const said = [`${name}.png: ${size} bytes`];
  if (wide > 0) said.push(`${wide} px wider than the screen`);
  if (values.docs && size > BYTES_MAX) said.push(`more than ${BYTES_MAX} bytes`);
  said.push(...errors.map((error) => `error: ${error}`));
  problems += said.length - 1;
  console.log(said.join("; "));
  await context.close();
}

/** The address of the page, once the whole day is on it. @param {import("node:stream").Readable} from @returns {Promise<string>} */
async function filled(from) {
  let address = "";
  for await (const line of createInterface({ input: from })) {
    address ||= line.match(/^page: (\S+)/)?.[1] ?? "";
    if (line.startsWith("- Remedies")) return address;
  }
  throw new Error("the demo ended before its day was there");
}
