// The icicle of an interrupt: its raisers' stacks merged into one tree, and where each frame is drawn. Pure.

import type { Interrupt, Raiser } from "../../types.ts";

/** What a frame is, in the words of the legend; the root is the interrupt. */
export const FRAME_KINDS = {
  interrupt: "interrupt",
  thread: "thread",
  user: "user function",
  syscall: "system call",
  kernel: "kernel function",
  function: "asked for",
  unknown: "unknown",
} as const;

export type FrameKind = keyof typeof FRAME_KINDS;

/** Frames below this depth are one frame: a recording can come from anybody. */
export const MAX_DEPTH = 200;
const DEEPER = "deeper frames";

/** A frame with everything that was raised below it. */
export interface FrameNode {
  kind: FrameKind;
  name: string;
  /** How many arrivals were raised in it or below it; never less than its children have together. */
  count: number;
  /** Most frequent first. */
  children: FrameNode[];
}

interface Growing {
  kind: FrameKind;
  name: string;
  count: number;
  children: Map<string, Growing>;
}

/** A thread as one word; in an interrupt the thread is a bystander and has no number. */
export function threadWord(raiser: Raiser): string {
  return raiser.tid === 0 ? raiser.comm : `${raiser.comm}-${raiser.tid}`;
}

/** A thread with its process. */
export function threadName(raiser: Raiser): string {
  const isOnlyOne = raiser.tid === 0 || raiser.pid === 0 || raiser.pid === raiser.tid;
  return isOnlyOne ? threadWord(raiser) : `${threadWord(raiser)} of process ${raiser.pid}`;
}

/** What was asked for, and for whom. */
export function askedFor(raiser: Raiser): string {
  const waking = raiser.wakee === "" ? "" : `waking ${raiser.wakee}`;
  return raiser.function === "" || waking === "" ? raiser.function + waking : `${raiser.function}, ${waking}`;
}

/** The frames of a raiser from the outermost to what was asked for. */
export function framesOf(raiser: Raiser): [FrameKind, string][] {
  const asked = askedFor(raiser);
  return [
    ["thread", threadName(raiser)],
    ...[...raiser.user_stack].reverse().map((name): [FrameKind, string] => ["user", name]),
    ...(raiser.syscall === "" ? [] : [["syscall", raiser.syscall] as [FrameKind, string]]),
    ...[...raiser.kernel_stack].reverse().map((name): [FrameKind, string] => ["kernel", name]),
    ...(asked === "" || asked === raiser.kernel_stack[0] ? [] : [["function", asked] as [FrameKind, string]]),
  ];
}

/** Merges the stacks of raisers, and the arrivals whose raiser is not known. */
export function treeOf(name: string, raisers: readonly Raiser[], unknown: number): FrameNode {
  const root: Growing = { kind: "interrupt", name, count: 0, children: new Map() };
  const grow = (parent: Growing, kind: FrameKind, name: string, count: number): Growing => {
    const key = frameKey(kind, name);
    let child = parent.children.get(key);
    if (!child) parent.children.set(key, (child = { kind, name, count: 0, children: new Map() }));
    child.count += count;
    return child;
  };
  for (const raiser of raisers) {
    if (!(raiser.count > 0)) continue;
    root.count += raiser.count;
    let at = root;
    let depth = 1;
    for (const [kind, name] of framesOf(raiser)) {
      at = depth < MAX_DEPTH ? grow(at, kind, name, raiser.count) : grow(at, kind, DEEPER, raiser.count);
      if (depth === MAX_DEPTH) break;
      depth += 1;
    }
  }
  if (unknown > 0) {
    root.count += unknown;
    grow(root, "unknown", "raiser not known", unknown);
  }
  return settled(root);
}

/** As deep as `MAX_DEPTH`, so that it may call itself. */
function settled(node: Growing): FrameNode {
  const children = [...node.children.values()].map(settled);
  children.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
  return { kind: node.kind, name: node.name, count: node.count, children };
}

/** What tells a frame from its siblings. */
export function frameKey(kind: FrameKind, name: string): string {
  return `${kind}/${name}`;
}

/** The frames along a path of keys from the root, the root included, as far as the path still leads. */
export function follow(root: FrameNode, path: readonly string[]): FrameNode[] {
  const nodes = [root];
  for (const key of path) {
    const next = nodes[nodes.length - 1].children.find((child) => frameKey(child.kind, child.name) === key);
    if (!next) break;
    nodes.push(next);
  }
  return nodes;
}

/** A drawn frame. */
export interface Box {
  node: FrameNode;
  /** 0 at the top. */
  depth: number;
  x: number;
  width: number;
  parent: Box | null;
  children: Box[];
  /** 0 for a frame; else how many frames that are too narrow by themselves are drawn as one. */
  merged: number;
  /** Arrivals of the frame, or of all the merged ones. */
  count: number;
}

export interface Layout {
  /** Each frame before those below it. */
  boxes: Box[];
  /** The boxes of each depth from left to right. */
  rows: Box[][];
  /** Frames that have no box, not even together with others; what lies below them is not counted. */
  leftOut: number;
}

/** The least width of a frame, pixels. */
const BOX_PX_MIN = 1;
/** So many rectangles a browser still lays out between two frames of its own. */
export const BOXES_MAX = 4000;

/**
 * Places a tree within `width` pixels: width by count, children within their parent. Where there would be more than
 * `boxesMax` boxes, frames have to be wider to have one: the many that are rare give way to the few that are not.
 */
export function layoutOf(root: FrameNode, width: number, boxesMax = BOXES_MAX): Layout {
  for (let leastPx = BOX_PX_MIN; ; leastPx *= 1.5) {
    const layout = place(root, width, leastPx, boxesMax);
    if (layout) return layout;
    // A row has no more than two boxes then, so that only so many remain as the tree is deep.
    if (leastPx > width / 2) return place(root, width, leastPx, Infinity) as Layout;
  }
}

/** As above, with every box of `leastPx` or wider; `null` when there would be more than `boxesMax`. */
function place(root: FrameNode, width: number, leastPx: number, boxesMax: number): Layout | null {
  const top: Box = { node: root, depth: 0, x: 0, width, parent: null, children: [], merged: 0, count: root.count };
  const rows: Box[][] = [[top]];
  let leftOut = 0;
  let count = 1;
  for (let depth = 0; depth < rows.length; depth += 1) {
    const next: Box[] = [];
    for (const parent of rows[depth]) {
      if (parent.merged > 0) continue;
      leftOut += placeChildren(parent, leastPx);
      count += parent.children.length;
      if (count > boxesMax) return null;
      next.push(...parent.children);
    }
    if (next.length > 0) rows.push(next);
  }
  return { boxes: inOrder(top), rows, leftOut };
}

/** Gives a box its children; returns how many frames are too narrow even together. */
function placeChildren(parent: Box, leastPx: number): number {
  const { node } = parent;
  const end = parent.x + parent.width;
  const perCount = parent.width / node.count;
  let x = parent.x;
  const add = (child: FrameNode, count: number, merged: number) => {
    // Rounding must not let a child stand out.
    const box = { node: child, depth: parent.depth + 1, x, width: Math.min(count * perCount, end - x), parent, children: [], merged, count };
    parent.children.push(box);
    x += box.width;
  };
  let at = 0;
  while (at < node.children.length && node.children[at].count * perCount >= leastPx) {
    add(node.children[at], node.children[at].count, 0);
    at += 1;
  }
  const rest = node.children.slice(at);
  const restCount = rest.reduce((sum, child) => sum + child.count, 0);
  if (restCount * perCount < leastPx) return rest.length;
  add(rest[0], restCount, rest.length);
  return 0;
}

function inOrder(top: Box): Box[] {
  const boxes: Box[] = [];
  const visit = (box: Box) => {
    boxes.push(box);
    box.children.forEach(visit);
  };
  visit(top);
  return boxes;
}

/** The keys that lead from the root of the layout to a box. */
export function pathTo(box: Box): string[] {
  const path: string[] = [];
  for (let at: Box | null = box; at?.parent; at = at.parent) path.unshift(frameKey(at.node.kind, at.node.name));
  return path;
}

export interface Found {
  nodes: ReadonlySet<FrameNode>;
  /** Arrivals below the frames found; those below two of them count once. */
  count: number;
}

/** The frames whose name holds these words, in any case; `null` when there is nothing to look for. */
export function search(root: FrameNode, words: string): Found | null {
  const wanted = words.trim().toLowerCase();
  if (wanted === "") return null;
  const nodes = new Set<FrameNode>();
  let count = 0;
  const visit = (node: FrameNode, isBelowOne: boolean) => {
    const isOne = node.name.toLowerCase().includes(wanted);
    if (isOne) nodes.add(node);
    if (isOne && !isBelowOne) count += node.count;
    for (const child of node.children) visit(child, isBelowOne || isOne);
  };
  for (const child of root.children) visit(child, false);
  return { nodes, count };
}

/** Raisers that differ in their stacks only, together. */
export interface RaiserGroup {
  key: string;
  /** One of them, for its names. */
  first: Raiser;
  raisers: Raiser[];
  count: number;
}

/** The raisers of an interrupt by thread, system call and what was asked for, most frequent first. */
export function groupsOf(interrupt: Interrupt): RaiserGroup[] {
  const groups = new Map<string, RaiserGroup>();
  for (const raiser of interrupt.raisers) {
    const { comm, pid, tid, syscall, certainty } = raiser;
    const key = JSON.stringify([comm, pid, tid, syscall, raiser.function, raiser.wakee, certainty]);
    const group = groups.get(key);
    if (!group) groups.set(key, { key, first: raiser, raisers: [raiser], count: raiser.count });
    else {
      group.raisers.push(raiser);
      group.count += raiser.count;
    }
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}
