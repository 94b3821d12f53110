import assert from "node:assert/strict";
import { test } from "node:test";
import { age, bytes, clock, count, duration, instant, roundToSum, share, thousandths, threshold, timed, storedBytes } from "../src/format.ts";

test("durations have three digits and the unit that fits", () => {
  const cases: [number, string][] = [
    [0, "0 ns"],
    [999, "999 ns"],
    [999.6, "1.00 us"],
    [1000, "1.00 us"],
    [12_345, "12.3 us"],
    [9_996, "10.0 us"],
    [99_970, "100 us"],
    [999_499, "999 us"],
    [999_500, "1.00 ms"],
    [61e6, "61.0 ms"],
    [999.6e6, "1.00 s"],
    [7200e9, "7200 s"],
    [-1500, "-1.50 us"],
    [NaN, "–"],
  ];
  for (const [ns, words] of cases) assert.equal(duration(ns), words);
});

test("a share that is not nothing never prints as nothing, and one that is not all never as all", () => {
  assert.equal(share(0, 1e9), "0 %");
  assert.equal(share(1, 1e9), "<0.0001 %");
  assert.equal(share(31_000, 1e9), "0.0031 %");
  assert.equal(share(0.0124, 1), "1.24 %");
  assert.equal(share(0.1, 1), "10.0 %");
  assert.equal(share(0.99996, 1), "99.996 %");
  assert.equal(share(0.9999999, 1), ">99.999 %");
  assert.equal(share(1, 1), "100 %");
  assert.equal(share(1.5, 1), "150 %");
  assert.equal(share(1, 0), "–");
});

test("counts, sizes and ages", () => {
  assert.equal(count(0), "0");
  assert.equal(count(12_345), "12\u202f345");
  assert.equal(count(999_499), "999\u202f499");
  assert.equal(count(12_345_678), "12.3 M");
  assert.equal(bytes(22_400_000), "21.4 MiB");
  assert.equal(bytes(12), "12 B");
  assert.equal(storedBytes(2_190_000), "2.19 MB");
  assert.equal(age(420e6), "0.4 s");
  assert.equal(age(75e9), "75 s");
  assert.equal(age(-5), "0.0 s");
  assert.equal(threshold(20), "20 us");
  assert.equal(threshold(1500), "1.5 ms");
  assert.equal(timed(0, 5, "0 ns"), "not timed");
  assert.equal(timed(0, 0, "0 ns"), "0 ns");
});

test("times of day come from the monotonic time and the offset", () => {
  const offset = Date.UTC(2026, 10, 21, 20, 5, 6, 789) * 1e6 - 5e9;
  assert.equal(clock(5e9, offset, 3), "20:05:06.789");
  assert.equal(clock(5e9, offset, 1), "20:05:06.7");
  assert.equal(clock(5e9, offset, 0), "20:05:06");
  assert.equal(instant(5e9, offset), "2026-11-21 20:05:06.789 UTC");
});

test("rounded parts add up to the rounded whole", () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 500; round += 1) {
    const parts = Array.from({ length: 2 + Math.floor(random() * 20) }, () => Math.floor(random() ** 4 * 1e9));
    const whole = parts.reduce((sum, part) => sum + part, 0);
    const steps = roundToSum(parts, whole, 1000);
    assert.equal(steps.reduce((sum, part) => sum + part, 0), Math.round(whole / 1000));
    steps.forEach((step, at) => assert.ok(Math.abs(step - parts[at] / 1000) < 1, `${step} for ${parts[at]}`));
  }
  assert.equal(thousandths(7_680_000_001), "7\u202f680\u202f000.001");
});
