import assert from "node:assert/strict";
import { test } from "node:test";
import { queryOf, type Given } from "../src/address.ts";
import { formatCpuList, parseCpuList } from "../src/cpulist.ts";
import { commandLine } from "../src/rooms/stall/command.ts";
import { changeTo, defaults, filtersOf, momentOf, momentText, type Filters } from "../src/rooms/stall/filters.ts";
import { KINDS } from "../src/rooms/stall/words.ts";
import { shellWord } from "../src/shell.ts";

const NAMES = ["cpu", "kind", "min_us", "range_s"];
const givenOf = (query: string): Given => Object.fromEntries(new URLSearchParams(query));
const toQuery = (filters: Filters, base: Filters) => queryOf({}, changeTo(filters, base), NAMES);
const parseQuery = (query: string, base: Filters) => filtersOf(givenOf(query), base);

const live = defaults("live", 20_000);

test("core lists are the kernel's", () => {
  assert.deepEqual(parseCpuList("0-3,8"), [0, 1, 2, 3, 8]);
  assert.deepEqual(parseCpuList(" 3 , 1-1,3 "), [1, 3]);
  for (const bad of ["", "a", "3-1", "1,,2", "-1", "0-99999", "1e2", "0x1"]) assert.equal(parseCpuList(bad), null, bad);
  assert.equal(formatCpuList([0, 1]), "0,1");
  assert.equal(formatCpuList([0, 1, 2, 3, 8]), "0-3,8");
  assert.equal(formatCpuList([]), "");
});

test("filters survive the way through the URL", () => {
  let seed = 7;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 300; round += 1) {
    const filters: Filters = {
      cpus: Array.from({ length: 40 }, (_, cpu) => cpu).filter(() => random() < 0.3),
      kinds: KINDS.map((kind) => kind.id).filter(() => random() < 0.3),
      minUs: [0, 0.5, 20, 100, 1000][Math.floor(random() * 5)],
      rangeS: [60, 300, 900, 0, 42][Math.floor(random() * 5)],
    };
    const base = defaults(random() < 0.5 ? "live" : "replay", random() < 0.5 ? 20_000 : 100_000);
    const { filters: back, problems } = parseQuery(toQuery(filters, base), base);
    assert.deepEqual(back, filters);
    assert.deepEqual(problems, []);
  }
});

test("the defaults are the plain address", () => {
  assert.equal(toQuery(live, live), "");
  assert.deepEqual(parseQuery("", live).filters, live);
  assert.equal(
    toQuery({ cpus: [0, 1], kinds: ["timer", "softirq"], minUs: 50, rangeS: 300 }, live),
    "?cpu=0,1&kind=timer,softirq&min_us=50&range_s=300",
  );
});

test("what cannot be used is left out and said", () => {
  const { filters, problems } = parseQuery("?cpu=x&kind=timer,<b>&min_us=-4&range_s=1.5&other=1", live);
  assert.deepEqual(filters, { ...live, kinds: ["timer"] });
  assert.equal(problems.length, 4);
  assert.match(problems[0], /^cpu=x is not a list of cores/);
  assert.ok(parseQuery(`?cpu=${"9".repeat(500)}`, live).problems[0].length < 150);
});

test("the command says the same as the filters", () => {
  assert.equal(
    commandLine({ cpus: [0, 1], kinds: ["timer", "softirq"], minUs: 20, rangeS: 60 }, null, 20),
    "surefoot stall report --cpu 0,1 --kinds timer,softirq --min-gap 20us --duration 60s",
  );
  assert.equal(commandLine({ ...live, minUs: 1000 }, null, 20), "surefoot stall report --min-gap 1ms --duration 60s");
  assert.equal(commandLine({ ...live, minUs: 0.5 }, null, 20), "surefoot stall report --min-gap 500ns --duration 60s");
  assert.equal(commandLine({ ...live, minUs: 0 }, null, 20), "surefoot stall report --min-gap 1ns --duration 60s");
  assert.equal(commandLine({ ...live, cpus: [1], rangeS: 0 }, null, 20), "surefoot history --room stall --last 24h --cpu 1");
  // A made-up day is shown as a live one is, not all of it at first.
  assert.equal(defaults("demo", 20_000).rangeS, 60);
});

test("the command of a recording names what was chosen and nothing else", () => {
  const whole = defaults("replay", 100_000);
  assert.equal(commandLine(whole, "a.sfr", 100), "surefoot stall replay a.sfr");
  assert.equal(
    commandLine({ cpus: [0, 1, 2], kinds: ["timer"], minUs: 250, rangeS: 0 }, "a.sfr", 100),
    "surefoot stall replay a.sfr --cpu 0-2 --kinds timer --min-gap 250us",
  );
});

test("the plain address shows every gap that was looked for", () => {
  const slow = defaults("live", 100_000);
  assert.equal(parseQuery("", slow).filters.minUs, 100);
  assert.equal(toQuery({ ...slow, minUs: 20 }, slow), "?min_us=20");
  assert.equal(parseQuery("?min_us=20", slow).filters.minUs, 20);
  assert.match(parseQuery("?min_us=x", slow).problems[0], /100 us is used/);
});

test("a file name cannot become another command", () => {
  assert.equal(commandLine(live, "a b.sfr", 20), "surefoot stall replay 'a b.sfr'");
  assert.equal(shellWord("x'; rm -rf ~ #"), "'x'\\''; rm -rf ~ #'");
  assert.match(commandLine(live, "--help", 20), / \.\/--help$/);
});

test("a chosen place survives the way through the address to the millisecond", () => {
  const { moment, problems } = momentOf({ at: "12@1700000000.25" });
  assert.deepEqual([moment, problems], [{ cpu: 12, realtimeNs: 1_700_000_000.25e9 }, []]);
  assert.equal(momentText({ cpu: 12, realtimeNs: 1_700_000_000.25e9 }), "12@1700000000.25");
  assert.equal(momentText({ cpu: 0, realtimeNs: 1_700_000_000e9 + 123_456_789 }), "0@1700000000.123");
  assert.deepEqual(momentOf({}), { moment: null, problems: [] });
  for (const at of ["", "1", "1@", "@5", "1@5@6", "-1@5", "1@1e9", "1@<b>"]) {
    const read = momentOf({ at });
    assert.equal(read.moment, null, at);
    assert.match(read.problems[0], /is not a core and a time such as/);
  }
});
