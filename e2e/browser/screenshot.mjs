// @ts-check
// Takes the picture of the README: the replay of the recording in docs/recordings, in the light theme.
//
//   cargo build -p surefoot-cli && node e2e/browser/screenshot.mjs
//
// With --who it takes the picture of docs/guide/who.md instead: this machine, live, while a thread unmaps memory beside
// a polling thread of its process, cut to the part of the page that names it. That needs root, two cores and clang.
//
// Options: --output FILE, --width PIXELS, --height PIXELS (0 for the whole page), --theme light|dark,
// --query ?FILTERS, --recording FILE. `SUREFOOT_BIN` names another binary.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { launch, root } from "./launch.mjs";

const { values } = parseArgs({
  options: {
    output: { type: "string" },
    who: { type: "boolean", default: false },
    recording: { type: "string", default: "docs/recordings/troubled.surefoot" },
    width: { type: "string", default: "1100" },
    height: { type: "string", default: "800" },
    theme: { type: "string", default: "light" },
    query: { type: "string", default: "?view=lost-time" },
  },
});
const [width, height] = [Number(values.width), Number(values.height)];
if (!(width >= 300 && width <= 4000 && height >= 0 && height <= 4000)) throw new Error("width or height is out of range");
if (values.theme !== "light" && values.theme !== "dark") throw new Error("the theme is light or dark");

// In the top folder, so that the page shows the short name of the file and not where this checkout lies.
const binary = process.env.SUREFOOT_BIN ?? join(root, "target/debug/surefoot");
const scratch = mkdtempSync(join(tmpdir(), "surefoot-picture-"));
const raiser = values.who ? startRaiser() : null;
const live = ["--cpu", "1", "--workload", "none", "--who", "1", "--no-history", "--run-directory", scratch];
const output = values.output ?? join(root, values.who ? "docs/images/who.png" : "docs/images/page.png");
const surefoot = spawn(binary, ["watch", "--port", "0", ...(values.who ? live : ["--replay", values.recording])], {
  cwd: root,
  stdio: ["ignore", "pipe", "inherit"],
});
const ended = once(surefoot, "exit");
try {
  const address = await Promise.race([
    addressIn(surefoot.stdout),
    ended.then(([code]) => Promise.reject(new Error(`${binary} ended with ${code} before it had a page`))),
  ]);
  const browser = await launch();
  try {
    const viewport = { width, height: height === 0 ? 1000 : height };
    const context = await browser.newContext({ viewport, deviceScaleFactor: 1, colorScheme: values.theme, timezoneId: "UTC" });
    const page = await context.newPage();
    await page.goto(address + values.query);
    await page.getByTestId("gaps").waitFor();
    if (values.who) await pictureOfWho(page);
    else {
      // The percentiles come with a second answer.
      await page.waitForLoadState("networkidle");
      await page.screenshot({ path: output, fullPage: height === 0 });
    }
    console.log(`${output}: ${width} px, ${values.theme}`);
  } finally {
    await browser.close();
  }
} finally {
  surefoot.kill("SIGTERM");
  raiser?.kill();
  await ended;
  rmSync(scratch, { recursive: true, force: true });
}

/** A process whose thread "stats" unmaps a buffer beside a polling thread, as e2e/programs/raiser.c says. */
function startRaiser() {
  const program = join(scratch, "raiser");
  const source = join(root, "e2e/programs/raiser.c");
  const built = spawnSync("clang", ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", source, "-o", program], { stdio: "inherit" });
  if (built.status !== 0) throw new Error(`clang did not build ${source}`);
  return spawn(program, ["stdio", "10000000", "200", "1", "0"], { stdio: "ignore" });
}

/** Opens the shootdowns once there are a thousand, and takes the picture of that part of the page. @param {any} page */
async function pictureOfWho(page) {
  await page.waitForFunction(
    () => fetch("api/v1/who?kind=tlb_shootdown").then((answer) => answer.json()).then(({ who }) => who?.interrupts[0]?.count > 1000),
    null,
    { timeout: 60_000, polling: 500 },
  );
  await page.goto(`${new URL(page.url()).origin}/?view=lost-time&kind=timer,tlb_shootdown`);
  await page.getByTestId("who").getByRole("button", { name: /TLB shootdown/ }).click();
  await page.getByTestId("icicle").locator("[role=treeitem]").first().waitFor();
  // While the page moves on, what stands above this part can push it out of the picture.
  await page.getByTestId("pause").click();
  await page.mouse.move(0, 0);
  // The call chain goes on below what a guide has room for.
  const box = await page.getByTestId("who").boundingBox();
  await page.screenshot({ path: output, fullPage: true, clip: { ...box, y: box.y + (await page.evaluate(() => scrollY)), height: Math.min(box.height, 1100) } });
}

/** The address of the page, as the command says it. @param {import("node:stream").Readable} stdout @returns {Promise<string>} */
async function addressIn(stdout) {
  for await (const line of createInterface({ input: stdout })) {
    const found = line.match(/http:\/\/127\.0\.0\.1:\d+\//);
    if (found) {
      stdout.resume();
      return found[0];
    }
  }
  throw new Error("the command said no address");
}
