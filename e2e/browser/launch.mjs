// @ts-check
// Starts Chromium for the real page, with the driver that ui/ has installed.

import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));

/** The top of the repository. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** The first browser on the path, or the one that `CHROMIUM` names. @returns {string} */
function executable() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const folders = (process.env.PATH ?? "").split(delimiter);
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const folder of folders) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not in this folder.
      }
    }
  }
  throw new Error("no chromium, chromium-browser or google-chrome is on the path; `make setup` installs one");
}

/** A browser that asks nobody for anything by itself. */
export function launch() {
  const { chromium } = require("playwright-core");
  return chromium.launch({
    executablePath: executable(),
    args: [
      // The tests run as root, where Chromium has no sandbox of its own; the page is ours.
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
