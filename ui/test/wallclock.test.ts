import assert from "node:assert/strict";
import { test } from "node:test";
import { offsetAt, stretchesOf, whenShown } from "../src/rooms/stall/wallclock.ts";

const set = (at_ns: number, former_offset_ns: number, realtime_offset_ns: number) => ({ at_ns, former_offset_ns, realtime_offset_ns, slept_ns: 0 });

test("each stretch has the offset that held then", () => {
  const stretches = stretchesOf(1000, [set(100, 1000, 9000), set(200, 9000, 500)]);
  assert.deepEqual([0, 99, 100, 199, 200, 999].map((ns) => offsetAt(stretches, ns)), [1000, 1000, 9000, 9000, 500, 500]);
  assert.equal(offsetAt(stretchesOf(7, []), 5), 7);
});

test("a time of the wall clock is looked for from the newest stretch on", () => {
  const stretches = stretchesOf(1000, [set(100, 1000, 9000), set(200, 9000, 500)]);
  assert.equal(whenShown(stretches, 9150), 8650, "the clock was set back, and shows it again later");
  assert.equal(whenShown(stretchesOf(1000, [set(100, 1000, 9000)]), 9150), 150);
  assert.equal(whenShown(stretchesOf(1000, [set(100, 1000, 9000)]), 1050), 50);
});
