import assert from "node:assert/strict";
import { test } from "node:test";
import { checkCases, checkHead, checkNotices, checkOlder } from "../src/fleet/feed.ts";
import { checkHosts, chosen, inSight, lostShare, pageOf, services, sorted, stateOf, type HostLine } from "../src/fleet/hosts.ts";
import { actionWords, actorWords, joined, partAsked, tally, type CaseLine } from "../src/fleet/words.ts";

function one(id: number, host: string, state: CaseLine["state"], more: Partial<CaseLine> = {}): CaseLine {
  const rest = { service: "web", fault: "memory/rate", subject: "", severity: "critical" as const, step: "", since_ns: 1, state_since_ns: 1, waits_for: "", policy: "web-1", ticket: "" };
  return { id, host, state, label: state, ...rest, ...more };
}

test("a tally has the most frequent first, and equals by name", () => {
  const all = [one(1, "a", "waiting", { service: "b" }), one(2, "b", "waiting", { service: "c" }), one(3, "c", "waiting", { service: "c" }), one(4, "d", "waiting", { service: "a" })];
  assert.deepEqual(tally(all, ({ service }) => service), [["c", 2], ["a", 1], ["b", 1]]);
});

test("an old open case is not hidden by newer ones that are closed", () => {
  const open = [one(1, "n1", "with_person")];
  const newest = [one(9, "n9", "returned"), one(8, "n8", "cleared")];
  assert.deepEqual(joined(newest, open).map(({ id }) => id), [9, 8, 1]);
  assert.deepEqual(joined([one(1, "n1", "returned")], open).map(({ state }) => state), ["returned"]);
});

test("the page shows nothing without the words of the server", () => {
  const head = { states: [{ state: "waiting", label: "waiting", is_open: true }], headline: { severity: "ok", sentence: "No open cases." } };
  assert.equal(checkHead(head).headline.sentence, "No open cases.");
  assert.throws(() => checkHead({ ...head, states: [{ state: "waiting" }] }), /states/);
  assert.throws(() => checkHead({ ...head, headline: undefined }), /headline/);
  assert.equal(checkCases({ cases: [one(1, "n1", "waiting")] }).length, 1);
  assert.throws(() => checkCases({ cases: [{ ...one(1, "n1", "waiting"), label: undefined }] }), /cases/);
});

test("actors and actions are read without what is for programs", () => {
  assert.equal(actorWords("controller vm/30306/18eb5edec9c86870"), "controller vm/30306");
  assert.equal(actorWords("user a/b/c"), "user a/b/c");
  assert.equal(actionWords("goes_on_later"), "goes on later");
});

test("of a part it is told that it was replaced, and then that it tested good", () => {
  assert.equal(partAsked({ subject: "" }), null, "a host is no part");
  assert.equal(partAsked({ subject: "dimm A1" }), "replaced");
  assert.equal(partAsked({ subject: "dimm A1", replaced: { tested_good_realtime_ns: 0 } }), "tested-good");
  assert.equal(partAsked({ subject: "dimm A1", replaced: { tested_good_realtime_ns: 5 } }), null);
});

test("host names of two machines are told, and a server that has none leaves them out", () => {
  const two = "two machines report as h1: machine hw-a has the name, machine hw-b is refused";
  assert.deepEqual(checkNotices({ notices: [two] }), [two]);
  assert.deepEqual(checkNotices({ cases: [] }), []);
  assert.throws(() => checkNotices({ notices: "none" }), /notices/);
  assert.throws(() => checkNotices({ notices: [7] }), /notices/);
  assert.deepEqual(checkNotices({ notices: [two], unread: [{ id: 7, host: "n1", says: "case 7 of n1 cannot be read" }] }), [two, "Case 7 of n1 cannot be read."]);
  assert.throws(() => checkNotices({ unread: [7] }), /unread/);
  assert.deepEqual(checkOlder({ left_out: 7, next_before: 12 }), { count: 7, before: 12 });
  assert.equal(checkOlder({ cases: [] }), null);
});

const cell = { severity: "warning" as const, since_ns: 5, sentence: "DIMM A1 reports errors.", count: 2 };
const line: HostLine = { host: "n1", service: "web", severity: "warning", found: { memory: cell }, well: ["stall"], kernel: "6.1" };
const list = { now_ns: 9, headline: { severity: "warning", sentence: "1 host: 1 with warnings." }, hosts: [line], matching: 1, total: 1, left_out: 0, populations: [] };

test("a room that nobody looks at is neither well nor found bad", () => {
  assert.deepEqual(stateOf(line, "memory"), cell);
  assert.equal(stateOf(line, "stall"), "well");
  assert.equal(stateOf(line, "nic"), "unknown");
  assert.equal(stateOf({ host: "n2" }, "stall"), "unknown");
});

test("a list of hosts that is not one shows nothing", () => {
  assert.equal(checkHosts(list).hosts.length, 1);
  for (const wrong of [null, { ...list, hosts: [{}] }, { ...list, hosts: [{ ...line, found: { memory: {} } }] }, { ...list, headline: {} }, { ...list, total: "1" }, { ...list, populations: 1 }]) assert.throws(() => checkHosts(wrong));
});

test("hosts are searched by what is said of them, and by service", () => {
  const other: HostLine = { host: "b7", service: "db" };
  assert.deepEqual(chosen([line, other], "dimm a1", "").map(({ host }) => host), ["n1"]);
  assert.deepEqual(chosen([line, other], "", "db").map(({ host }) => host), ["b7"]);
  assert.deepEqual(chosen([line, other], "n1", "db"), []);
  assert.deepEqual(services([line, other, { host: "x" }]), ["db", "web"]);
});

test("of ten thousand rows those in sight are drawn", () => {
  assert.deepEqual(inSight(10_000, 0, 448, 28), { from: 0, to: 26 });
  assert.deepEqual(inSight(10_000, 140_000, 448, 28), { from: 4990, to: 5026 });
  assert.deepEqual(inSight(3, 0, 448, 28), { from: 0, to: 3 });
  assert.deepEqual(inSight(3, 9_000, 448, 28), { from: 0, to: 3 });
  assert.deepEqual(inSight(0, 0, 448, 28), { from: 0, to: 0 });
});

test("hosts are sorted by what an average core lost, and those of which it is unknown come last", () => {
  const lost = { total_ns_per_s: 100e6, cores: 128, worst_ns_per_s: 61e6, worst_cpu: 2, is_traced: true };
  const hosts: HostLine[] = [{ host: "b" }, { host: "many", lost }, { host: "few", lost: { ...lost, total_ns_per_s: 10e6, cores: 4 } }, { host: "a" }, { host: "none", lost: { ...lost, total_ns_per_s: 0 } }];
  assert.deepEqual(sorted(hosts, "lost").map(({ host }) => host), ["few", "many", "none", "b", "a"]);
  assert.deepEqual(sorted(hosts, "name").map(({ host }) => host), ["a", "b", "few", "many", "none"]);
  assert.equal(sorted(hosts, "worst"), hosts);
  assert.equal(lostShare({ host: "a" }), null);
  assert.throws(() => checkHosts({ ...list, hosts: [{ ...line, lost: { cores: 4 } }] }));
});

test("a host's own page is where the server says, and nowhere else than on the web", () => {
  const of = (host_page?: string) => pageOf({ ...checkHosts(list), ...(host_page === undefined ? {} : { host_page }) }, "n/1");
  assert.equal(of("https://{host}:9470/"), "https://n%2F1:9470/");
  assert.equal(of(), null);
  assert.equal(of("javascript:alert('{host}')"), null);
});
