// Network interfaces: which needs a look most, what its state comes to, and answers that cannot be used; fault campaigns in words and
// lengths.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axisEnd, detectedWords, faultsWords, intervalWords, outcomeWords, percent, phasesOf, placeWords, toneOf } from "../src/rooms/nic/campaign.ts";
import { checkCampaign, checkMovie, checkNic } from "../src/rooms/nic/feed.ts";
import { badCount } from "../src/rooms/nic/counters.ts";
import type { InterfaceView as Interface, MovieScene, OutcomeRow } from "../src/types.ts";

const counters = { rx_packets: 0, tx_packets: 0, rx_bytes: 0, tx_bytes: 0, rx_errors: 3, rx_crc_errors: 3, rx_missed_errors: 2, rx_dropped: 9, tx_errors: 1, tx_dropped: 9 };

function nic(name: string, state: Interface["state"], more: Partial<Interface> = {}): Interface {
  return {
    name,
    driver: null,
    device: null,
    state,
    severity: "ok",
    link: "up",
    certainty: null,
    evidence: [],
    is_up: true,
    has_carrier: true,
    speed_mbit_per_s: null,
    carries: [],
    tx_timeout_count: null,
    carrier_change_count: 0,
    counters,
    reporters: [],
    probe: null,
    self_test: null,
    ...more,
  };
}

test("bad packets are those of all three counters", () => {
  assert.equal(badCount(nic("a", "ok")), 6);
  assert.equal(badCount(nic("a", "ok", { counters: { rx_errors: 1, rx_missed_errors: 2 } })), undefined, "what is sent badly is not told");
});

test("an answer that is none is refused", () => {
  const whole = { interfaces: [nic("a", "ok")], problems: [], changes: [] };
  assert.equal(checkNic(whole).interfaces.length, 1);
  for (const bad of [null, [], {}, { ...whole, changes: 1 }, { ...whole, interfaces: [{ name: "a" }] }]) assert.throws(() => checkNic(bad), /network interfaces/);
});

test("shares are printed as the paper prints them, and some is neither none nor all", () => {
  assert.deepEqual([0, 0.0004, 0.397, 0.9996, 1].map(percent), ["0.0\u00a0%", "<0.1\u00a0%", "39.7\u00a0%", ">99.9\u00a0%", "100.0\u00a0%"]);
  assert.equal(intervalWords({ low: 0.3678, high: 0.4266 }), "36.8\u00a0–\u00a042.7\u00a0%");
});

test("the axis holds every failure's interval and the paper's share, and not those without effect", () => {
  const row = (outcome: string, high: number, paper_share: number | null): OutcomeRow => ({ outcome, count: 1, of: 10, share: high / 2, low: 0, high, detected_count: 0, paper_share });
  assert.equal(axisEnd([row("hang", 0.12, 0.143), row("no_effect", 0.9, 0.6)]), 0.15);
  assert.equal(axisEnd([row("hang", 0.12, 0.31)]), 0.35);
  assert.equal(axisEnd([]), 0.05);
});

test("a campaign that is not whole says of how many faults it has some", () => {
  assert.equal(faultsWords({ fault_count: 1984, campaign_fault_count: 1984, missing_count: 0 }), "1\u202f984");
  assert.equal(faultsWords({ fault_count: 496, campaign_fault_count: 1984, missing_count: 1488 }), "496 of 1\u202f984");
  assert.equal(faultsWords({ fault_count: 12, campaign_fault_count: null, missing_count: null }), "12");
});

test("faults are told by place, by who found them, and why nobody did", () => {
  assert.equal(placeWords({ space: "code", place: "0x2b00", bit: 3, function: "send" }), "send at 0x2b00, bit 3");
  assert.equal(placeWords({ space: "stuck", place: "DMA_HOST", bit: 31, function: null }), "DMA_HOST, bit 31, stuck");
  assert.equal(detectedWords({ detected_by: "self_test", finding: "missing", pruned: false }), "self-test: missing");
  assert.equal(detectedWords({ detected_by: null, finding: null, pruned: true }), "never executed");
  assert.equal(detectedWords({ detected_by: null, finding: null, pruned: false }), "not detected");
  assert.deepEqual(["latency", "melted_core"].map(outcomeWords), ["latency", "melted core"]);
});

function scene(since_ns: number, scene: string, step: string | null = null): MovieScene {
  return { at_ns: since_ns, since_ns, host: 0, part: "daemon", scene, step, text: "", usually: null, instead: null };
}

test("a movie's phases are those up to detection, up to the first recovery, and the rest", () => {
  const scenes = [scene(0, "struck"), scene(1000, "daemon", "detected"), scene(1200, "daemon", "recovered"), scene(3000, "daemon", "recovered"), scene(5000, "ended")];
  const phases = phasesOf({ scenes });
  assert.deepEqual(
    phases.map(({ key, fromNs, toNs }) => [key, fromNs, toNs]),
    [
      ["undetected", 0, 1000],
      ["recovering", 1000, 1200],
      ["after", 1200, 5000],
    ],
  );
  assert.match(phases[2].words, /2 recoveries in all/);
  assert.deepEqual(phasesOf({ scenes: scenes.slice(0, 2) }).map(({ key }) => key), ["undetected"]);
  assert.match(phasesOf({ scenes: [scenes[0], scenes[4]] })[0].words, /^not detected within 5\.00 us$/);
  assert.deepEqual(phasesOf({ scenes: [] }), []);
});

test("what harms and what helps looks otherwise than the rest", () => {
  const tones = [scene(0, "struck"), scene(0, "delivered", "wrong"), scene(0, "delivered", "late"), scene(0, "daemon", "recovered"), scene(0, "daemon", "given_up"), scene(0, "daemon", "suspected")].map(toneOf);
  assert.deepEqual(tones, ["bad", "bad", "plain", "good", "bad", "plain"]);
});

test("answers about campaigns that cannot be used are refused", () => {
  const table = { experiment: "a", coverage: {}, failures: {}, outcomes: [], standard: [], detected_by: [] };
  const whole = { files: [], tables: [table], list: null };
  assert.equal(checkCampaign(whole).tables.length, 1);
  for (const bad of [null, {}, { ...whole, tables: [{ experiment: "a" }] }, { ...whole, list: {} }, { ...whole, files: 1 }]) assert.throws(() => checkCampaign(bad), /fault campaigns/);
  const movie = { fault: { id: "a" }, scenes: [scene(0, "struck")] };
  assert.equal(checkMovie(movie).scenes.length, 1);
  for (const bad of [null, {}, { ...movie, fault: {} }, { ...movie, scenes: [{}] }]) assert.throws(() => checkMovie(bad), /fault movie/);
});
