import assert from "node:assert/strict";
import { test } from "node:test";
import { makeOverview, makePast } from "../dev/overview.mjs";
import { makeStream } from "../dev/sample.mjs";
import { checkOverview } from "../src/api.ts";
import { roomsNow, roomsThen } from "../src/findings.ts";
import { boxOf, nowWords, pathsOf, runsOf, usable, valueWords } from "../src/overview/chart.ts";
import { lostChart } from "../src/rooms/stall/chart.ts";
import { historyOf } from "../src/rooms/stall/state.ts";
import { byUrgency, subjectWords } from "../src/severity.ts";
import type { Chart, Finding, PastAnswer } from "../src/types.ts";

function finding(change: Partial<Finding>): Finding {
  return { key: "stall/x/host", rule: "x", room: "stall", subject: { kind: "host", name: "" }, severity: "notice", certainty: "certain", sentence: "It is.", since_realtime_ns: 5, ...change };
}

function past(findings: PastAnswer["findings"]): PastAnswer {
  return { schema: 2, headline: { severity: "notice", sentence: "" }, unknown_count: 0, from_s: 0, to_s: 60, resolution: "second", windows: [], gaps: [], notices: [], clock_changes: [], findings, records: [] };
}

test("findings are read the worst first, then the surer, then those of the first room, then the older", () => {
  const all = [
    finding({ key: "a", severity: "warning", certainty: "probable", since_realtime_ns: 1 }),
    finding({ key: "b", severity: "warning", since_realtime_ns: 9 }),
    finding({ key: "c", severity: "warning", since_realtime_ns: 5 }),
    finding({ key: "g", severity: "warning", room: "remedy", since_realtime_ns: 2 }),
    finding({ key: "d", severity: "critical", certainty: "cannot_tell_apart_here" }),
    finding({ key: "e", severity: "ok" }),
    // What a newer server may say counts as a notice.
    finding({ key: "f", severity: "dreadful" as Finding["severity"] }),
  ];
  assert.deepEqual(all.sort(byUrgency).map(({ key }) => key), ["d", "c", "b", "g", "a", "f", "e"]);
  assert.equal(subjectWords({ kind: "dimm", name: "A1" }), "DIMM A1");
  assert.equal(subjectWords({ kind: "host", name: "" }), "this host");
});

test("rooms of now are told as the server tells them", () => {
  const answer = makeOverview(makeStream("small", 130), 4e8);
  const [stall, checkpoint, watch] = roomsNow(checkOverview(structuredClone(answer)));
  assert.deepEqual([stall.room, checkpoint.room, watch.room], ["stall", "checkpoint", "watch"]);
  assert.equal(stall.findings[0].finding.severity, "warning");
  assert.equal(stall.chart?.points.length, 120);
  const quiet = roomsNow(makeOverview(makeStream("quiet", 10), 0));
  assert.deepEqual([quiet[1].isWatched, quiet[1].findings.length], [false, 0]);
  assert.throws(() => checkOverview({ ...answer, rooms: [{ room: "stall" }] }), /no usable "rooms"/);
  assert.throws(() => checkOverview({ ...answer, headline: null }), /no usable "headline"/);
});

test("the past has the findings that held, by room, and one sentence", () => {
  const now = makeOverview(makeStream("small", 10), 0);
  const answer = past([
    { needs_action: false, finding: finding({ key: "a", sentence: "It was." }), from_realtime_ns: 10, last_seen_realtime_ns: 10, until_realtime_ns: 20 },
    { needs_action: true, finding: finding({ key: "b", severity: "critical", room: "checkpoint", sentence: "It is lost." }), from_realtime_ns: 10, last_seen_realtime_ns: 10, until_realtime_ns: null },
    { needs_action: false, finding: finding({ key: "a", sentence: "It was." }), from_realtime_ns: 30, last_seen_realtime_ns: 30, until_realtime_ns: 40 },
    { needs_action: false, finding: finding({ key: "m", room: "memory" }), from_realtime_ns: 30, last_seen_realtime_ns: 30, until_realtime_ns: 40 },
  ]);
  const rooms = roomsThen(answer, now, {});
  assert.deepEqual(rooms.map(({ room, severity, findings }) => [room, severity, findings.length]), [["stall", "notice", 2], ["checkpoint", "critical", 1], ["watch", null, 0], ["memory", "notice", 1]]);
  assert.deepEqual(rooms[0].findings.map(({ held }) => held?.fromNs), [10, 30], "what came twice is told twice");
});

test("windows of the past keep their sums, with times of the world", () => {
  const fromS = 1_700_000_000;
  const answer = makePast("small", fromS, fromS + 300, "second", fromS + 400);
  const history = historyOf(answer);
  assert.equal(history.blocks.length, 300);
  assert.equal(history.blocks[0].startNs, fromS * 1e9);
  assert.ok(history.gaps.length > 0 && history.gaps.every((gap) => gap.start_ns > (fromS - 2) * 1e9));
  const chart = lostChart(answer);
  assert.equal(chart?.points.length, 100, "three windows a point");
  const lost = answer.windows.flatMap(({ cores }) => cores.flatMap((core) => core.lost)).reduce((sum, one) => sum + one.total_ns - one.while_idle_ns, 0);
  const drawn = chart!.points.reduce((sum, [, value]) => sum + value * 3, 0);
  assert.ok(Math.abs(drawn / lost - 1) < 1e-9, `${drawn} of ${lost}`);
  assert.equal(lostChart(past([])), null);
});

test("a small picture joins neighbours, leaves holes open, and stays within its box", () => {
  const points: [number, number][] = [[0, 1], [10, 4], [20, 2], [100, 0], [110, 4], [300, 1]];
  assert.deepEqual(runsOf(points).map((run) => run.length), [3, 2, 1]);
  const box = boxOf(points, 300, 50);
  const { line, area } = pathsOf(points, box);
  assert.equal((line.match(/M/g) ?? []).length, 3);
  assert.ok(!`${line}${area}`.includes("NaN"));
  const ys = [...line.matchAll(/[ML][\d.]+ ([\d.]+)/g)].map((found) => Number(found[1]));
  assert.deepEqual([Math.min(...ys), Math.max(...ys)], [1, 49], "the largest touches the top, zero the bottom");
  assert.deepEqual(usable({ title: "", unit: "", points: [[2, 1], [1, NaN], [0, 3], [5, -1]], now: "last" }), [[0, 3], [2, 1]]);
  assert.equal(boxOf([], 10, 10).full, 1);
  assert.ok(!pathsOf([[5, 0]], boxOf([[5, 0]], 100, 50)).line.includes("NaN"));
  // A nanosecond after a time of today is the same number.
  const today: [number, number][] = [[1_795_000_000_000_000_000, 3]];
  assert.ok(!pathsOf(today, boxOf(today, 100, 50)).line.includes("NaN"));
});

test("the units of a picture are words", () => {
  assert.equal(valueWords("ns_per_s", 12.34e6), "12.3 ms/s");
  assert.equal(valueWords("s", 0.25), "250 ms");
  assert.equal(valueWords("s", 150), "2 min");
  assert.equal(valueWords("count", 1234), "1\u202f234");
  assert.equal(valueWords("something new", 1.23456), "1.23");
  assert.equal(valueWords("count", NaN), "–");
});

test("an age grows between two answers, and a value that is over is not said to be now", () => {
  const chart = (now: Chart["now"]): Chart => ({ title: "Age", unit: "s", points: [[5e9, 40]], now });
  assert.equal(nowWords(chart("ages"), [5e9, 40], 12e9), valueWords("s", 47));
  assert.equal(nowWords(chart("ages"), [5e9, 40], 4e9), valueWords("s", 40), "the page's estimate may lag");
  assert.equal(nowWords(chart("last"), [5e9, 40], 12e9), valueWords("s", 40));
  assert.equal(nowWords(chart("none"), [5e9, 40], 12e9), null);
});
