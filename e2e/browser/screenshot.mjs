// @ts-check
// Takes the picture of the README: the replay of the recording in docs/recordings, in the light theme.
//
//   cargo build -p surefoot-cli && node e2e/browser/screenshot.mjs
//
// Options: --output FILE, --width PIXELS, --height PIXELS (0 for the whole page), --theme light|dark,
// --query ?FILTERS, --recording FILE. `SUREFOOT_BIN` names another binary.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { launch, root } from "./launch.mjs";

const { values } = parseArgs({
  options: {
    output: { type: "string", default: join(root, "docs/images/page.png") },
    recording: { type: "string", default: "docs/recordings/troubled.surefoot" },
    width: { type: "string", default: "1400" },
    height: { type: "string", default: "1000" },
    theme: { type: "string", default: "light" },
    query: { type: "string", default: "" },
  },
});
const [width, height] = [Number(values.width), Number(values.height)];
if (!(width >= 300 && width <= 4000 && height >= 0 && height <= 4000)) throw new Error("width or height is out of range");
if (values.theme !== "light" && values.theme !== "dark") throw new Error("the theme is light or dark");

// In the top folder, so that the page shows the short name of the file and not where this checkout lies.
const binary = process.env.SUREFOOT_BIN ?? join(root, "target/debug/surefoot");
const surefoot = spawn(binary, ["watch", "--port", "0", "--replay", values.recording], {
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
    await page.getByTestId("stalls").waitFor();
    // The percentiles come with a second answer.
    await page.waitForLoadState("networkidle");
    await page.screenshot({ path: values.output, fullPage: height === 0 });
    console.log(`${values.output}: ${width} px, ${values.theme}`);
  } finally {
    await browser.close();
  }
} finally {
  surefoot.kill("SIGINT");
  await ended;
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
