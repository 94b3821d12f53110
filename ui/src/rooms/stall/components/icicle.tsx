// The icicle: each frame a rectangle as wide as its share, below the frame that called it. The rectangles are the items
// of a tree for whoever cannot see them, so that nothing has to be drawn twice.

import { useComputed, useSignal, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { count, share } from "../../../format.ts";
import { follow, FRAME_KINDS, frameKey, layoutOf, pathTo, search, type Box, type Found, type FrameKind, type FrameNode, type Layout } from "../icicle.ts";

/** Height of a frame, pixels; the style sheet has the same. */
const ROW_PX = 20;
/** Frames narrower than this have no words. */
const WORDS_PX_MIN = 26;
/** Frames that the way back names; of a longer one the middle goes. */
const WAY_ROOM = 7;
/** While somebody types, only the last word is looked for. */
const SETTLE_MS = 150;

function nameOf(box: Box): string {
  return box.merged > 0 ? `${count(box.merged)} narrow frames` : box.node.name;
}

/** A frame in words: its name, what it is, how often and how large. */
function spoken(box: Box, whole: number): string {
  const kind = box.merged > 0 ? "too narrow to be drawn alone" : FRAME_KINDS[box.node.kind];
  return `${nameOf(box)}, ${kind}, ${count(box.count)} times, ${share(box.count, whole)}`;
}

function Boxes({ id, layout, found, whole }: { id: string; layout: Layout; found: Found | null; whole: number }) {
  return (
    <>
      {layout.boxes.map((box, at) => (
        <div
          key={at}
          id={`${id}-${at}`}
          role="treeitem"
          aria-level={box.depth + 1}
          aria-label={spoken(box, whole)}
          data-box={at}
          class={`frame f-${box.merged > 0 ? "merged" : box.node.kind}${box.merged === 0 && found?.nodes.has(box.node) ? " hit" : ""}`}
          style={{ left: `${box.x}px`, top: `${box.depth * ROW_PX}px`, width: `${box.width}px` }}
        >
          {box.width >= WORDS_PX_MIN && <span class="untrusted">{nameOf(box)}</span>}
        </div>
      ))}
    </>
  );
}

/** The way from the root to the frame that fills the width, each step a button. */
function Way({ nodes, go }: { nodes: FrameNode[]; go: (steps: number) => void }) {
  const isCut = nodes.length > WAY_ROOM;
  const shown = nodes.map((node, steps) => ({ node, steps })).filter(({ steps }) => steps < 2 || steps >= nodes.length - WAY_ROOM + 2);
  return (
    <nav class="way" aria-label="Way to the frame shown" data-testid="way">
      <ol>
        {shown.map(({ node, steps }, at) => (
          <li key={steps}>
            {at === 2 && isCut && <span class="muted">… </span>}
            {steps === nodes.length - 1 ? (
              <span class="untrusted" aria-current="true">
                {node.name}
              </span>
            ) : (
              <button type="button" class="link untrusted" onClick={() => go(steps)}>
                {node.name}
              </button>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** What the frame under the pointer or the keys is; the legend when there is none. */
function Readout({ box, whole, top, found }: { box: Signal<Box | null>; whole: number; top: FrameNode; found: Found | null }) {
  const at = box.value;
  if (!at) {
    const kinds = (Object.keys(FRAME_KINDS) as FrameKind[]).filter((kind) => kind !== "unknown");
    return (
      <p class="readout" data-testid="readout">
        {found ? (
          <span>
            <strong class="figures">{count(found.nodes.size)}</strong> {found.nodes.size === 1 ? "frame" : "frames"} found, below them{" "}
            <strong class="figures">{share(found.count, top.count)}</strong> of {count(top.count)} arrivals
          </span>
        ) : (
          kinds.map((kind) => (
            <span key={kind} class="legend">
              <span class={`swatch f-${kind}`} aria-hidden="true" />
              {FRAME_KINDS[kind]}
            </span>
          ))
        )}
      </p>
    );
  }
  return (
    <p class="readout" data-testid="readout">
      <strong class="untrusted">{nameOf(at)}</strong>
      <span class="muted">{at.merged > 0 ? "drawn as one" : FRAME_KINDS[at.node.kind]}</span>
      <span class="figures">
        {count(at.count)} times, <strong>{share(at.count, whole)}</strong>
        {top.count !== whole && ` of all, ${share(at.count, top.count)} of what is shown`}
      </span>
    </p>
  );
}

function keysOf(nodes: readonly FrameNode[]): string[] {
  return nodes.map((node) => frameKey(node.kind, node.name));
}

/** Where a key leads from a box. */
function neighbour(layout: Layout, from: Box | null, key: string): Box | null {
  const [top] = layout.boxes;
  if (!from) return top;
  const row = layout.rows[from.depth];
  const at = row.indexOf(from);
  if (key === "ArrowDown") return from.children[0] ?? from;
  if (key === "ArrowUp") return from.parent ?? from;
  if (key === "ArrowLeft") return row[Math.max(0, at - 1)];
  if (key === "ArrowRight") return row[Math.min(row.length - 1, at + 1)];
  return top;
}

const MOVES = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home"];

/** An interrupt's stacks. `id` tells the items of this icicle from those of another. */
export function Icicle({ id, tree }: { id: string; tree: FrameNode }) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const zoom = useSignal<string[]>([]);
  const words = useSignal("");
  const hovered = useSignal<Box | null>(null);
  /** The way to the frame that the keys stand on, from the one that fills the width. */
  const cursor = useSignal<string[] | null>(null);
  const pressed = useSignal<Box | null>(null);
  const read = useComputed(() => hovered.value ?? pressed.value);

  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const observer = new ResizeObserver(([entry]) => (width.value = Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  const nodes = useMemo(() => follow(tree, zoom.value), [tree, zoom.value]);
  const top = nodes[nodes.length - 1];
  const layout = useMemo(() => layoutOf(top, width.value), [top, width.value]);
  const found = useMemo(() => search(top, words.value), [top, words.value]);
  // The same elements again, so that a move of the pointer compares nothing.
  const boxes = useMemo(() => <Boxes id={id} layout={layout} found={found} whole={tree.count} />, [id, layout, found, tree.count]);

  // Before anything is drawn: a key that comes next must find its frame in the new layout.
  useLayoutEffect(() => {
    hovered.value = null;
    const way = cursor.value;
    pressed.value = way === null ? null : (layout.boxes.find((box) => box.merged === 0 && pathTo(box).join("\n") === way.join("\n")) ?? null);
  }, [layout]);

  const stand = (box: Box | null) => {
    pressed.value = box;
    cursor.value = box && box.merged === 0 ? pathTo(box) : null;
    if (box) document.getElementById(`${id}-${layout.boxes.indexOf(box)}`)?.scrollIntoView({ block: "nearest" });
  };
  const go = (steps: number) => {
    zoom.value = keysOf(nodes.slice(1, steps + 1));
    cursor.value = pressed.value ? [] : null;
  };
  /** Fills the width with a frame; the one that fills it already gives way to its caller. */
  const enter = (box: Box) => {
    if (box.merged > 0) return;
    if (box.depth === 0) go(Math.max(0, nodes.length - 2));
    else {
      zoom.value = [...keysOf(nodes.slice(1)), ...pathTo(box)];
      cursor.value = pressed.value ? [] : null;
    }
  };
  const boxOf = (event: Event) => {
    const item = (event.target as Element).closest<HTMLElement>("[data-box]");
    return item ? (layout.boxes[Number(item.dataset.box)] ?? null) : null;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (MOVES.includes(event.key)) {
      hovered.value = null;
      stand(neighbour(layout, pressed.value, event.key));
    } else if ((event.key === "Enter" || event.key === " ") && pressed.value) enter(pressed.value);
    else if (event.key === "Escape" && nodes.length > 1) go(nodes.length - 2);
    else if (event.key === "Escape" && pressed.value) stand(null);
    else return;
    event.preventDefault();
  };

  const at = pressed.value;
  return (
    <div class="icicle">
      <div class="icicle-head">
        <Way nodes={nodes} go={go} />
        <Search words={words} />
      </div>
      <Readout box={read} whole={tree.count} top={top} found={found} />
      <div class="icicle-scroll">
        <div
          ref={frame}
          class={`icicle-frames${found ? " searching" : ""}`}
          data-testid="icicle"
          role="tree"
          tabIndex={0}
          aria-label="Stacks of the raisers. Arrow keys move, Enter fills the width with a frame, Escape goes back."
          aria-activedescendant={at && layout.boxes.includes(at) ? `${id}-${layout.boxes.indexOf(at)}` : undefined}
          style={{ height: `${layout.rows.length * ROW_PX}px` }}
          onKeyDown={onKeyDown}
          onPointerMove={(event) => (hovered.value = boxOf(event))}
          onPointerLeave={() => (hovered.value = null)}
          onClick={(event) => {
            const box = boxOf(event);
            if (box) enter(box);
          }}
        >
          {width.value > 0 && boxes}
          {at && (
            <div
              class="cursor"
              aria-hidden="true"
              style={{ left: `${at.x}px`, top: `${at.depth * ROW_PX}px`, width: `${Math.max(3, at.width)}px` }}
            />
          )}
        </div>
      </div>
      {layout.leftOut > 0 && (
        <p class="muted aside">
          Too narrow to be drawn: {count(layout.leftOut)} {layout.leftOut === 1 ? "frame" : "frames"}; fill the width with a part to see more.
        </p>
      )}
    </div>
  );
}

function Search({ words }: { words: Signal<string> }) {
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class="field icicle-search">
      <span>Find</span>
      <input
        type="search"
        name="frame"
        size={18}
        placeholder="part of a name"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => {
          const { value } = event.currentTarget;
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => (words.value = value), SETTLE_MS);
        }}
      />
    </label>
  );
}
