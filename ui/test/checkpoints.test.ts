import assert from "node:assert/strict";
import { test } from "node:test";
import { makeJob } from "../dev/checkpoints.mjs";
import { day, moment } from "../src/format.ts";
import { verifyCommand } from "../src/rooms/checkpoint/command.ts";
import { agesOf, ageWords, cornersFrom, eventWords, isFailure, marksOf, markWords, nearest, placeWords } from "../src/rooms/checkpoint/journal.ts";
import { journalsOf } from "../src/rooms/checkpoint/past.ts";
import { agePath, ageScale, lanePath, timeOf, xOf, type Strip } from "../src/rooms/checkpoint/strip.ts";
import type { EntryView, Job, PastRecord } from "../src/types.ts";

const NOW = 1_700_000_000e9;

function job(change: Partial<Job> = {}): Job {
  return { ...makeJob("cfd/wing", 90, 30, NOW), ...change };
}

test("a decision is told as a sentence with its reasons", () => {
  const decision = job().events.find((event) => event.event === "decision");
  assert.ok(decision && decision.event === "decision");
  assert.deepEqual(eventWords(decision), {
    what: "Into memory: rank 0 saved 2.15 GB in 210 ms.",
    why: "Because the durable copy is 30 s old; every 240 s wastes least.",
  });
  const failed: EntryView = { ...decision, severity: "warning", generation: null, failure: "cannot write /dev/shm/x: No space left on device (os error 28)" };
  assert.equal(eventWords(failed).what, "Into memory, but it could not be saved: cannot write /dev/shm/x: No space left on device (os error 28).");
  assert.ok(isFailure(failed) && !isFailure(decision));
  assert.equal(eventWords({ ...decision, place: "skip", generation: null }).what, "None taken.");
  assert.equal(placeWords("constructor"), "To constructor", "a word of the server is no key of an object's own");
  assert.equal(placeWords("a_new_place"), "To a new place");
  assert.equal(eventWords({ severity: "ok" as const, event: "durable", tier: "shared", realtime_ns: 0, generation: 3, age_s: 5, took_s: 4, bytes: 2 ** 30 }).what, "It is in the shared directory: all ranks wrote 1.07 GB in 4.0 s.");
  const arrived = { severity: "ok" as const, event: "durable", tier: "durable", realtime_ns: 0, generation: 3, age_s: 5, took_s: 4, bytes: 2 ** 30 } as const;
  assert.deepEqual(eventWords({ ...arrived, is_durable: true }), { what: "It is durable: all ranks wrote 1.07 GB in 4.0 s.", why: "" });
  // Of an unknown medium, and of a release that did not look.
  assert.deepEqual(eventWords(arrived), { what: "It is in the durable directory: all ranks wrote 1.07 GB in 4.0 s.", why: "The medium there is not known." });
  const opened = { severity: "ok", event: "opened", realtime_ns: 0, job: "a", ranks: 1, policy: "surefoot" } as const;
  assert.equal(eventWords(opened).why, "");
  assert.equal(eventWords({ ...opened, weakness: "partner=yes protects nothing: this job has one rank" }).why, "partner=yes protects nothing: this job has one rank.");
  assert.equal(eventWords({ event: "unheard_of", realtime_ns: 1 } as unknown as EntryView).what, "An event that this page does not know.");
  const asked: EntryView = { severity: "ok", event: "asked", realtime_ns: 0, place: "memory", reasons: ["it pays"], asked_count: 7, durable_age_s: 1, session_s: 1 };
  assert.deepEqual(eventWords(asked), { what: "The job asked whether a checkpoint pays (7 times): into memory.", why: "Because it pays." });
  assert.equal(eventWords({ ...asked, place: "skip", asked_count: 1 }).what, "The job asked whether a checkpoint pays: none pays.");
  const none: EntryView = { severity: "ok", event: "restart", realtime_ns: 0, generation: null, report: "there was no checkpoint" };
  assert.equal(eventWords(none).what, "The job began without a checkpoint.");
  assert.equal(eventWords({ ...none, severity: "warning", report: "all are lost" }).what, "The job asked for its newest checkpoint; none could be read.");
  assert.ok(!isFailure(none) && isFailure({ ...none, severity: "warning" }));
});

test("the line of ages rises with time and falls when a copy lands", () => {
  const corners = agesOf(job(), NOW);
  assert.ok(corners.every((corner, at) => at === 0 || corner.atNs >= corners[at - 1].atNs), "time goes on");
  for (let at = 1; at < corners.length; at += 1) {
    const [from, to] = [corners[at - 1], corners[at]];
    if (from.atNs === to.atNs) assert.ok(to.ageS < from.ageS, "a landing makes it younger");
    else assert.ok(Math.abs(to.ageS - from.ageS - (to.atNs - from.atNs) / 1e9) < 1e-6, "otherwise it ages by the clock");
  }
  const falls = corners.filter((corner, at) => at > 0 && corner.atNs === corners[at - 1].atNs);
  assert.equal(falls.length, 11, "eleven of ninety became durable");
  assert.equal(falls[0].ageS, 4, "what lands is as old as its way was long");
  assert.ok(Math.abs(Math.max(...corners.map((corner) => corner.ageS)) - 244.5) < 1, "never older than eight steps and the way");
  assert.equal(corners.at(-1)?.atNs, NOW);
  // A window on it begins on the line.
  const cut = cornersFrom(corners, NOW - 100e9);
  assert.equal(cut[0].atNs, NOW - 100e9);
  assert.ok(Math.abs(cut[0].ageS + 100 - (cut[1]?.ageS ?? 0)) < 1e-6 || cut[1].atNs < NOW);
  assert.deepEqual(agesOf(job({ events: [], generations: [] }), NOW), [], "nothing is known");
  const stale = agesOf(job({ events: [] }), NOW);
  assert.ok(stale.length >= 2 && stale.at(-1)!.ageS > 0, "copies without a journal still have an age");
  const failing = job({ events: job().events.map((event): EntryView => (event.event === "durable" ? { severity: "warning", event: "not_durable", tier: "durable", realtime_ns: event.realtime_ns, generation: event.generation, why: "x" } : event)), generations: [] });
  assert.ok(agesOf(failing, NOW).at(-1)!.ageS > 2600, "what did not become durable makes nothing younger");
});

test("what is there and what was there are marks, each once", () => {
  const marks = marksOf(job());
  assert.ok(marks.every((mark, at) => at === 0 || mark.atNs >= marks[at - 1].atNs));
  const there = marks.filter((mark) => mark.look === "complete");
  assert.deepEqual(there.map((mark) => `${mark.lane} ${mark.number}`), ["durable 80", "durable 88", "memory 89", "memory 90"]);
  assert.equal(marks.filter((mark) => mark.lane === "memory").length, 90);
  assert.equal(marks.filter((mark) => mark.lane === "durable").length, 11);
  const near = nearest(marks, there[3].atNs + 5e9, "memory");
  assert.equal(near?.number, 90);
  assert.match(markWords(near!, NOW), /^Checkpoint 90 in memory, .*: complete$/);
  assert.equal(nearest(marks, NOW, "shared"), null);
});

test("the strip keeps a thousand generations in a few short paths", () => {
  const large = makeJob("large", 1199, 30, NOW);
  const marks = marksOf(large);
  const strip: Strip = { width: 1000, left: 64, right: 10, fromNs: marks[0].atNs, toNs: NOW };
  const path = lanePath(strip, marks, "memory", "gone", 0);
  assert.ok(path.length < 30_000, `${path.length} characters`);
  assert.equal((path.match(/M/g) ?? []).length <= 927, true, "no more marks than pixels");
  assert.ok(Math.abs(timeOf(strip, xOf(strip, NOW - 5e9)) - (NOW - 5e9)) < 1e3);
  assert.equal(lanePath({ ...strip, fromNs: NOW, toNs: NOW + 1 }, marks, "memory", "gone", 0), "", "what is outside is not drawn");
  const corners = agesOf(large, NOW);
  const full = ageScale(corners, 300);
  assert.ok(full > 300 && !agePath(strip, corners, full, 100).includes("NaN"));
  assert.equal(ageScale([], null), 1);
});

test("the command names every directory as a shell needs it", () => {
  assert.equal(verifyCommand(["/dev/shm/a", "/scratch/it's here"]), "surefoot checkpoint verify /dev/shm/a '/scratch/it'\\''s here'");
});

test("the history's records give each job its journal, and other records are counted", () => {
  const subject = { kind: "job", name: "b" } as const;
  const record = (change: Partial<PastRecord>): PastRecord => ({ room: "checkpoint", kind: "journal", severity: "ok", subject, at_realtime_ns: 5, body: { event: "restart", generation: null, report: "" }, ...change });
  const { jobs, others } = journalsOf([
    record({ at_realtime_ns: 9 }),
    record({ subject: { kind: "job", name: "a" } }),
    record({ body: { event: "restart", generation: 3, report: "", realtime_ns: 2 } }),
    record({ room: "stall" }),
    record({ body: null }),
    record({ body: { seen: "gone" } }),
    record({ body: { seen: "journal", job: "b", entries: [{ event: "restart", generation: null, report: "", realtime_ns: 4 }, 7] } }),
    record({ subject: { kind: "drive", name: "nvme0n1" } }),
  ]);
  assert.deepEqual(jobs.map(({ name, entries }) => [name, ...entries.map((entry) => entry.realtime_ns)]), [["a", 5], ["b", 2, 4, 9]], "by name and time");
  assert.equal(others, 3);
});

test("times of today have no date", () => {
  assert.equal(moment(NOW, NOW), "22:13:20");
  assert.equal(moment(NOW - 86_400e9, NOW), "2023-11-13 22:13:20");
  assert.equal(day(NOW), "2023-11-14");
  assert.equal(moment(NaN, NOW), "–");
});

test("without a durable copy no age of one is told", () => {
  const corners = agesOf(job(), NOW);
  assert.match(ageWords(job(), corners), /^Now [\d.]+ (s|min); oldest in this range /);
  const none = ageWords(job({ durable_realtime_ns: null }), corners);
  assert.ok(none.startsWith("No complete durable copy is there.") && !none.includes("Now"), none);
});
