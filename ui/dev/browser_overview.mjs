// @ts-check
// What the checks in a browser say of the overview, of the address and of the past.

import assert from "node:assert/strict";
import { faintText } from "./contrast.mjs";

/** @param {import("playwright-core").Page} page */
const search = (page) => new URL(page.url()).search;

/** @param {import("./stage.mjs").On} on @param {string | undefined} folder */
export async function overviewChecks(on, folder) {
  await on("the overview has the headline, a card per room and every finding", { query: "" }, async ({ page, part, server }) => {
    assert.match(await part("headline").innerText(), /^Critical\s+The newest durable checkpoint is 61 min old; its bound is 5 min\. 3 more findings\.$/);
    assert.equal(await part("room").count(), 3);
    const card = page.locator("[data-room=stall]");
    assert.match(await card.innerText(), /Lost time\s+Warning\s+Core 0 stood still.*One more finding\..*Lost per second\s+[\d.]+ ms\/s now, at most [\d.]+ ms\/s/s);
    const line = await card.locator(".chart-line").getAttribute("d");
    assert.ok(line && line.split("L").length === 120 && !line.includes("NaN"), line ?? "no line");
    const rows = await part("findings").locator("[data-testid=finding]").evaluateAll((found) => found.map((one) => one.getAttribute("data-severity")));
    assert.deepEqual(rows, ["critical", "warning", "warning", "notice"]);
    // Nothing else is asked for; no window is wanted here.
    assert.ok(!server.control.requests.some((path) => /snapshot|report|checkpoints|who/.test(path)), server.control.requests.join(" "));
    await card.getByRole("link", { name: "Lost time" }).click();
    await part("ledger").waitFor();
    assert.equal(search(page), "?view=lost-time");
    await page.goBack();
    await part("headline").waitFor();
  });

  await on("a finding opens to its evidence, and stands in the address", { query: "" }, async ({ page, part }) => {
    const row = part("findings").locator("[data-key='stall/lost-time/core/1']");
    await row.getByRole("button").press("Enter");
    assert.equal(await row.getByRole("button").getAttribute("aria-expanded"), "true");
    assert.match(await part("finding-evidence").innerText(), /softirq NET_RX took 1\.9 %.*<img src=x onerror=alert\(5\)>/s);
    assert.equal(await page.locator("main img").count(), 0);
    assert.equal(search(page), "?finding=stall/lost-time/core/1");
    await part("finding-evidence").getByRole("link", { name: "Open Lost time" }).click();
    await part("room-findings").locator("[data-key='stall/lost-time/core/1'] [data-testid=finding-evidence]").waitFor();
    await page.goBack();
    await page.goBack();
    assert.equal(search(page), "");
    assert.equal(await part("finding-evidence").count(), 0);
    await page.goForward();
    await part("finding-evidence").waitFor();
    await part("findings").locator("[data-key='checkpoint/damaged/job/broken'] button").click();
    await part("finding-evidence").getByRole("link", { name: "Open Checkpoints" }).click();
    await page.locator("[data-testid=job][data-job=broken]").waitFor();
    assert.equal(search(page), "?view=checkpoints&job=broken");
  });

  await on("a paused page that goes to the past shows it", { query: "" }, async ({ page, part }) => {
    await part("headline").waitFor();
    await part("pause").click();
    await page.waitForTimeout(300);
    await part("when").getByText("Past").click();
    await part("past-says").waitFor();
    await part("when").getByText("Live").click();
    await page.waitForFunction(() => document.querySelector("[data-testid=age]")?.getAttribute("data-state") === "live");
  });

  await on("a recording ignores a range of the past, and says so", { scenario: "replay", query: "?from_s=1700000000&to_s=1700000900" }, async ({ part }) => {
    await part("headline").waitFor();
    assert.match(await part("address-problems").innerText(), /this is a recording/);
  });

  await on("where all is well the overview says so, and what is not watched", { scenario: "quiet", query: "?finding=memory/errors/dimm/A1&view=nowhere" }, async ({ part }) => {
    assert.equal(await part("headline").getAttribute("data-severity"), "ok");
    await part("nothing-found").getByText("There is no finding").waitFor();
    assert.match(await part("why").innerText(), /^No checkpoint directory is configured; start with: surefoot watch --checkpoints DIR$/);
    assert.match(await part("findings").innerText(), /Not watched: Checkpoints\./);
    assert.match(await part("finding-unknown").innerText(), /No finding of this key holds now: memory\/errors\/dimm\/A1/);
    assert.match(await part("address-problems").innerText(), /No view is called nowhere; the overview is shown\./);
  });

  await on("news of findings are asked for at once", { query: "" }, async ({ page, part, server }) => {
    await part("headline").waitFor();
    await page.waitForTimeout(1000);
    const asked = () => server.control.requests.filter((path) => path === "/api/v1/overview").length;
    const before = asked();
    server.send("findings", { type: "findings", headline: { severity: "ok", sentence: "It is." } });
    await page.waitForTimeout(500);
    assert.equal(asked(), before + 1);
  });

  await on("a chosen place and a chosen job stand in the address", { query: "?view=lost-time" }, async ({ page, part, server }) => {
    await part("ledger").waitFor();
    await part("pause").click();
    await part("timeline-canvas").focus();
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowDown");
    const place = await part("ledger").innerText();
    assert.match(search(page), /^\?view=lost-time&at=1@\d{10}(\.\d+)?$/);
    await page.goBack();
    assert.match(await part("ledger").innerText(), /^2 cores, whole range/, "moving is one step");
    await page.goForward();
    assert.equal(await part("ledger").innerText(), place);
    const other = await page.context().newPage();
    await other.goto(`${server.url}?view=lost-time&at=${new URL(page.url()).searchParams.get("at")}`);
    await other.getByTestId("ledger").getByText("Core 1").waitFor();
    await other.goto(`${server.url}?view=lost-time&at=1@1000000000`);
    await other.getByTestId("place-lost").getByText("Core 1 at 01:46:40.0 was chosen, and is not in what is shown.").waitFor();
    await other.goto(`${server.url}?view=checkpoints&job=cfd/wing`);
    await other.locator("[data-testid=job][data-job='cfd/wing']").waitFor();
    await other.goto(`${server.url}?view=checkpoints&job=nobody`);
    await other.getByTestId("job-unknown").getByText("No job is called nobody here; another one is shown.").waitFor();
    await other.close();
  });

  await on("the past is chosen, shown in every view, and left again", { query: "?view=lost-time&cpu=1" }, async ({ page, part, server }) => {
    await part("ledger").waitFor();
    await part("when").getByText("Past").click();
    await page.waitForURL(/from_s=\d+&to_s=\d+/);
    await part("past-says").getByText("It keeps no percentiles").waitFor();
    const wall = async () => (await page.evaluate(() => document.querySelector("[data-testid=ledger] tfoot td")?.textContent))?.replaceAll("\u202f", "");
    assert.equal(await wall(), "900000.000", "a quarter of an hour of one core");
    assert.equal(await part("cores").locator("tbody tr").count(), 1, "filters go on");
    assert.equal(await part("causes").getByRole("button", { name: "p99" }).count(), 0);
    for (const gone of ["who", "cost", "completeness", "capabilities", "pause", "command"]) assert.equal(await part(gone).count(), 0, gone);
    assert.match(await part("age").innerText(), /^past\s+\d{4}-\d\d-\d\d \d\d:\d\d – \d\d:\d\d$/);
    const asked = server.control.requests.length;
    await page.waitForTimeout(6000);
    assert.equal(server.control.requests.length, asked, "the past does not change");

    // Yesterday at 03:00, for an hour.
    const yesterday = new Date(Date.now() - 86_400e3).toLocaleDateString("sv-SE");
    await part("past-from").fill(`${yesterday}T03:00`);
    await part("past-length").selectOption("3600");
    await part("past-show").click();
    const fromS = new Date(`${yesterday}T03:00`).getTime() / 1000;
    await page.waitForURL(new RegExp(`from_s=${fromS}&to_s=${fromS + 3600}`));
    await part("past-says").getByText("Each window is a minute.").waitFor();
    assert.equal(await wall(), "3600000.000");
    assert.ok(server.control.requests.includes(`/api/v1/history?from_s=${fromS}&to_s=${fromS + 3600}&resolution=second`));
    await part("gaps").locator("summary").first().click();
    await part("gaps").getByRole("button", { name: "Show in the timeline" }).click();
    await part("ledger").getByText("Core 1").waitFor();
    await part("parts").getByRole("link", { name: "Before and after" }).click();
    await part("compare-with").selectOption({ label: "one day earlier" });
    await page.waitForURL(new RegExp(`before_s=${fromS - 86_400}`));
    await part("compare").getByRole("row", { name: /^lost / }).waitFor();
    assert.ok(server.control.requests.includes(`/api/v1/history?from_s=${fromS - 86_400}&to_s=${fromS - 86_400 + 3600}&resolution=second`));
    assert.match(await part("compare").locator("thead").innerText(), /Before\s+After\s+Change/);
    await part("past-earlier").click();
    await page.waitForURL(new RegExp(`from_s=${fromS - 3600}&to_s=${fromS}`));

    await part("views").getByRole("link", { name: "Checkpoints" }).click();
    await part("decisions").getByText("Into memory").first().waitFor();
    assert.match(search(page), new RegExp(`from_s=${fromS - 3600}`));
    await part("views").getByRole("link", { name: "Overview" }).click();
    await part("findings").getByText("Findings that held then").waitFor();
    assert.match(await part("headline").innerText(), /^(Notice|Warning|Critical)\s+Core \d/);
    assert.ok(!(await page.locator("[data-room=stall]").innerText()).includes(" now,"));

    await part("when").getByText("Live").click();
    await page.waitForFunction(() => document.querySelector("[data-testid=age]")?.getAttribute("data-state") === "live");
    assert.equal(search(page), "?cpu=1");
    await part("views").getByRole("link", { name: "Lost time" }).click();
    await page.waitForFunction(() => document.querySelector("[data-testid=ledger] tfoot td")?.textContent?.replaceAll("\u202f", "") === "60000.000");
    await page.goBack();
    await page.goBack();
    await part("findings").getByText("Findings that held then").waitFor();
  });

  await on("an address of the past opens the past, and an empty one is said", { query: "?from_s=1000000000&to_s=1000000900" }, async ({ part, server }) => {
    await part("past-says").getByText("The history has nothing in this range").waitFor();
    assert.match(await part("headline").innerText(), /no findings in this range/);
    assert.ok(!server.control.requests.includes("/api/v1/events"), "nothing live is followed");
  });

  await on("where no history is kept the past says so, once", { scenario: "quiet", query: "?from_s=1700000000&to_s=1700000900", faultsExpected: true }, async ({ page, part, server }) => {
    await part("past-problem").getByText("Could not load the past: no history is kept").waitFor();
    await page.waitForTimeout(4000);
    assert.equal(server.control.requests.filter((path) => path.startsWith("/api/v1/history")).length, 1);
    await part("when").getByText("Live").click();
    await part("nothing-found").waitFor();
  });

  await on("a recording has no past beside it", { scenario: "replay", query: "" }, async ({ page, part, server }) => {
    await part("headline").waitFor();
    assert.match(await part("age").innerText(), /^recording:\s+recordings\/troubled host\.sfr\s+· ends \d{4}-/);
    assert.equal(await part("when").count(), 0);
    await page.waitForTimeout(6000);
    assert.equal(server.control.requests.filter((path) => path === "/api/v1/overview").length, 1, "it stands still");
  });

  await on("a hidden tab asks nothing, and catches up", { query: "?view=lost-time" }, async ({ page, part, server }) => {
    await part("ledger").waitFor();
    const show = (/** @type {string} */ state) =>
      page.evaluate((wanted) => {
        Object.defineProperty(document, "visibilityState", { configurable: true, get: () => wanted });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
    await show("hidden");
    await page.waitForTimeout(500);
    const asked = server.control.requests.length;
    await page.waitForTimeout(4000);
    assert.equal(server.control.requests.length, asked);
    await show("visible");
    await page.waitForTimeout(1500);
    assert.ok(server.control.requests.length > asked);
    const wall = await page.evaluate(() => document.querySelector("[data-testid=ledger] tfoot td")?.textContent);
    assert.equal(wall?.replaceAll("\u202f", ""), "120000.000", "no window is missing");
  });

  await on("the overview is reached and used by key", { query: "" }, async ({ page, part }) => {
    await part("headline").waitFor();
    /** @type {string[]} */
    const reached = [];
    for (let press = 0; press < 16; press += 1) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(() => document.activeElement?.getAttribute("data-testid") ?? document.activeElement?.getAttribute("name") ?? (document.activeElement?.className || document.activeElement?.textContent || "")));
    }
    const order = ["skip", "Overview", "when", "pause", "theme", "Lost time", "finding-head"].map((name) => reached.lastIndexOf(name));
    assert.ok(order.every((at, nth) => at >= 0 && (nth === 0 || at > order[nth - 1])), reached.join(" | "));
    const headings = await page.locator("main h2").allInnerTexts();
    assert.deepEqual(headings, ["Lost time", "Checkpoints", "Surefoot itself", "Findings"]);
    assert.equal(await page.getByRole("region", { name: "Headline" }).count() + await page.getByRole("status", { name: "Headline" }).count(), 1);
  });

  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    for (const scenario of /** @type {const} */ (["small", "large", "quiet", "reduced", "replay"])) {
      await on(`the overview of ${scenario} is readable in ${colorScheme}`, { scenario, colorScheme, query: "" }, async ({ page, part }) => {
        await part("headline").waitFor();
        if (scenario !== "quiet") await part("findings").locator("[data-testid=finding] button").first().click();
        assert.deepEqual(await faintText(page), []);
        for (const width of [1400, 800, 500, 400]) {
          await page.setViewportSize({ width, height: 900 });
          await page.waitForTimeout(200);
          assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `no sideways scrolling at ${width} px`);
          if (folder) await page.screenshot({ path: `${folder}/overview-${scenario}-${width}-${colorScheme}.png`, fullPage: true });
        }
      });
    }
    await on(`the past is readable in ${colorScheme}`, { colorScheme, query: "?from_s=1&to_s=2" }, async ({ page, part }) => {
      const toS = Math.floor(Date.now() / 1000) - 7200;
      for (const view of ["", "view=lost-time&", "view=checkpoints&"]) {
        await page.goto(`${new URL(page.url()).origin}/?${view}from_s=${toS - 900}&to_s=${toS}`);
        await part("past-says").waitFor();
        assert.deepEqual(await faintText(page), []);
        for (const width of [1400, 500]) {
          await page.setViewportSize({ width, height: 900 });
          await page.waitForTimeout(200);
          assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `no sideways scrolling at ${width} px`);
        }
      }
    });
  }
}
