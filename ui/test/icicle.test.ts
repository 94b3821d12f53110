import assert from "node:assert/strict";
import { test } from "node:test";
import { BOXES_MAX, follow, framesOf, frameKey, groupsOf, layoutOf, MAX_DEPTH, pathTo, search, treeOf, type FrameNode } from "../src/rooms/stall/icicle.ts";
import { makeWho } from "../dev/sample.mjs";
import type { Raiser } from "../src/types.ts";

const raiser = (count: number, kernel_stack: string[], more: Partial<Raiser> = {}): Raiser => ({
  certainty: "certain",
  function: "flush_tlb_func",
  syscall: "munmap",
  comm: "stats",
  pid: 70,
  tid: 71,
  wakee: "",
  count,
  kernel_stack,
  user_stack: ["munmap", "close_counter", "main"],
  ...more,
});

/** Every frame has at least what its children have together, and no child more than its parent. */
function holdsSums(node: FrameNode): void {
  const below = node.children.reduce((sum, child) => sum + child.count, 0);
  assert.ok(below <= node.count, `${node.name}: ${below} below ${node.count}`);
  node.children.forEach((child, at) => {
    assert.ok(at === 0 || child.count <= node.children[at - 1].count, "most frequent first");
    holdsSums(child);
  });
}

test("frames run from the thread over the system call to what was asked for", () => {
  assert.deepEqual(framesOf(raiser(1, ["flush", "do_munmap"])), [
    ["thread", "stats-71 of process 70"],
    ["user", "main"],
    ["user", "close_counter"],
    ["user", "munmap"],
    ["syscall", "munmap"],
    ["kernel", "do_munmap"],
    ["kernel", "flush"],
    ["function", "flush_tlb_func"],
  ]);
  const interrupt = raiser(1, ["wake-up"], { comm: "(interrupt)", pid: 0, tid: 0, syscall: "", function: "wake-up", user_stack: [] });
  assert.deepEqual(framesOf(interrupt), [["thread", "(interrupt)"], ["kernel", "wake-up"]], "what was asked for stands there once");
  const woken = raiser(1, [], { tid: 70, syscall: "", function: "", wakee: "poller", user_stack: [] });
  assert.deepEqual(framesOf(woken), [["thread", "stats-70"], ["function", "waking poller"]]);
});

test("stacks of one interrupt merge, and counts add up", () => {
  const tree = treeOf("flush", [raiser(5, ["a", "b"]), raiser(3, ["c", "b"]), raiser(2, ["c", "b"], { tid: 9, pid: 9 })], 4);
  holdsSums(tree);
  assert.equal(tree.count, 14);
  assert.deepEqual(tree.children.map((child) => [child.kind, child.name, child.count]), [
    ["thread", "stats-71 of process 70", 8],
    ["unknown", "raiser not known", 4],
    ["thread", "stats-9", 2],
  ]);
  const b = follow(tree, ["thread/stats-71 of process 70", "user/main", "user/close_counter", "user/munmap", "syscall/munmap", "kernel/b"]);
  assert.equal(b.length, 7);
  assert.deepEqual(b[6].children.map((child) => [child.name, child.count]), [["a", 5], ["c", 3]]);
  assert.equal(follow(tree, ["thread/gone", "user/main"]).length, 1, "a path that no longer leads anywhere ends early");
  assert.equal(treeOf("x", [raiser(0, ["a"])], 0).count, 0);
});

test("a user function and a system call of one name are two frames", () => {
  const tree = treeOf("x", [raiser(1, [])], 0);
  const names = follow(tree, ["thread/stats-71 of process 70", "user/main", "user/close_counter", "user/munmap", "syscall/munmap"]);
  assert.deepEqual(names.slice(-2).map((node) => node.kind), ["user", "syscall"]);
});

test("stacks of any depth end somewhere", () => {
  const deep = treeOf("x", [raiser(3, Array.from({ length: 50_000 }, (_, at) => `f${at}`))], 0);
  let [depth, at] = [0, deep];
  while (at.children.length > 0) [depth, at] = [depth + 1, at.children[0]];
  assert.equal(depth, MAX_DEPTH);
  assert.deepEqual([at.name, at.count], ["deeper frames", 3]);
});

/** A tree of pseudo-random shape; seeded, so that a failure can be looked at. */
function wild(seed: number, raisers: number): FrameNode {
  let state = seed;
  const random = (below: number) => ((state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648 * below) | 0;
  return treeOf(
    "x",
    Array.from({ length: raisers }, () =>
      raiser(1 + random(1000) ** 2, Array.from({ length: random(12) }, () => `k${random(9)}`), {
        tid: random(40),
        user_stack: Array.from({ length: random(12) }, () => `u${random(9)}`),
      }),
    ),
    random(500),
  );
}

test("children lie within their parent, side by side, as wide as their share", () => {
  for (const [seed, raisers, width] of [[1, 3, 800], [2, 400, 1200], [3, 5000, 333.3], [4, 900, 40]]) {
    const tree = wild(seed, raisers);
    holdsSums(tree);
    const { boxes, rows } = layoutOf(tree, width);
    assert.equal(boxes[0].width, width);
    assert.equal(rows.flat().length, boxes.length);
    for (const box of boxes) {
      let x = box.x;
      for (const child of box.children) {
        assert.equal(child.parent, box);
        assert.ok(child.x >= x - 1e-9 && child.width >= 0, `${seed}: side by side`);
        assert.ok(Math.abs(child.width - (width * child.count) / tree.count) < 1e-6 * width, `${seed}: as wide as its share`);
        x = child.x + child.width;
      }
      assert.ok(x <= box.x + box.width, `${seed}: ${x} beyond ${box.x + box.width}`);
      assert.ok(box.width >= 1 - 1e-9, `${seed}: none is narrower than a pixel`);
    }
    for (const row of rows) row.forEach((box, at) => assert.ok(at === 0 || box.x >= row[at - 1].x, "from left to right"));
  }
});

test("frames narrower than a pixel are drawn as one, and counted", () => {
  const many = Array.from({ length: 10_000 }, (_, at) => raiser(1, [`f${at}`], { tid: at + 1, pid: 0 }));
  const tree = treeOf("x", [raiser(10_000, ["big"]), ...many], 0);
  const { boxes, leftOut } = layoutOf(tree, 1000);
  const [big, rest] = boxes[0].children;
  assert.equal(big.merged, 0);
  assert.deepEqual([rest.merged, rest.count, Math.round(rest.width)], [10_000, 10_000, 500]);
  assert.equal(rest.children.length, 0);
  assert.equal(leftOut, 0);
  const few = layoutOf(treeOf("x", [raiser(1_000_000, ["big"]), ...many.slice(0, 5)], 0), 1000);
  assert.equal(few.leftOut, 5, "together they are narrower than a pixel: left out, and counted");
});

test("however many frames there are, so many boxes and no more", () => {
  const tree = wild(5, 10_000);
  assert.ok(layoutOf(tree, 1e6).boxes.length <= BOXES_MAX);
  const often = raiser(1_000_000, ["a", "b", "c"], { tid: 99 });
  const rare = Array.from({ length: 5000 }, (_, at) => raiser(100, [`f${at % 70}`, `g${at}`], { tid: at + 100 }));
  const few = layoutOf(treeOf("x", [...rare, often], 0), 1e6, 50);
  assert.ok(few.boxes.length <= 50);
  assert.equal(few.rows.length, 10, "the widest are drawn down to their end");
  assert.equal(few.leftOut + few.boxes.reduce((sum, box) => sum + box.merged, 0), 5000);
  const deep = treeOf("x", [raiser(3, Array.from({ length: 500 }, (_, at) => `f${at}`))], 0);
  assert.equal(layoutOf(deep, 100, 50).boxes.length, MAX_DEPTH + 1, "a single stack is drawn whole");
});

test("a path leads to a box and back", () => {
  const tree = wild(6, 200);
  for (const box of layoutOf(tree, 900).boxes.filter((box) => box.merged === 0)) {
    assert.equal(follow(tree, pathTo(box)).at(-1), box.node);
  }
  assert.equal(frameKey("user", "a"), "user/a");
});

test("a search finds frames in any case and counts arrivals once", () => {
  const tree = treeOf("x", [raiser(5, ["Flush_one", "flush_two"]), raiser(3, ["other"], { function: "" })], 2);
  const found = search(tree, " FLUSH ");
  assert.deepEqual([...(found?.nodes ?? [])].map((node) => node.name), ["flush_two", "Flush_one", "flush_tlb_func"]);
  assert.equal(found?.count, 5, "three frames of one stack, but five arrivals");
  assert.equal(search(tree, "nothing")?.count, 0);
  assert.equal(search(tree, "  "), null);
});

test("raisers that differ in their stacks only are one row", () => {
  const [interrupt] = makeWho("small", 1e9).interrupts;
  const groups = groupsOf({ ...interrupt, raisers: [raiser(2, ["a"]), raiser(9, [], { tid: 5 }), raiser(8, ["b"])] });
  assert.deepEqual(groups.map((group) => [group.first.tid, group.count, group.raisers.length]), [[71, 10, 2], [5, 9, 1]]);
});

test("10,000 frames are merged and placed in the time of a few frames of the screen", () => {
  const { interrupts } = makeWho("large", 1e9);
  const { raisers } = interrupts.reduce((most, one) => (one.raisers.length > most.raisers.length ? one : most));
  assert.ok(raisers.length >= 500 && raisers.reduce((sum, one) => sum + one.kernel_stack.length + one.user_stack.length, 0) >= 10_000);
  const began = performance.now();
  layoutOf(treeOf("x", raisers, 0), 1400);
  // Far more than it takes, because a busy machine must not fail it; a square of the number would take minutes.
  assert.ok(performance.now() - began < 5000);
});
