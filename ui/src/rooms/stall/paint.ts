// Draws the timeline on two canvases: the data, and above it the mark of the chosen place, so that
// moving the pointer redraws one line and not 100,000 cells.

import { ticks } from "../../axis.ts";
import { clock } from "../../format.ts";
import type { Gap } from "../../types.ts";
import { heatColour, heatLevel, kindColour, rgb, unexplainedColour } from "./palette.ts";
import type { Theme } from "../../theme.ts";
import { columnAt, kindOfLayer, LAYERS, MAX_LANES, type Cells, type Column } from "./timeline.ts";

/** Where things are, in CSS pixels. */
export interface Layout {
  width: number;
  height: number;
  left: number;
  right: number;
  /** Height of one core's row, with the space below it. */
  row: number;
  /** Space below a row. */
  space: number;
  axis: number;
  lanes: boolean;
}

/** As high as the ledger that stands beside it. */
const USUAL_PX = 410;
const MAX_HEAT_PX = 560;

/** Fewer cores get higher rows, so that the timeline keeps about the same size. */
export function layoutOf(width: number, cores: number): Layout {
  const lanes = cores <= MAX_LANES;
  const row = lanes
    ? Math.max(32, Math.floor(USUAL_PX / Math.max(1, cores)))
    : Math.max(3, Math.floor(USUAL_PX / cores), Math.min(16, Math.floor(MAX_HEAT_PX / cores)));
  const space = lanes ? 8 : row >= 6 ? 1 : 0;
  const axis = 22;
  return { width, height: cores * row + axis, left: width < 500 ? 46 : 62, right: 10, row, space, axis, lanes };
}

export interface Picture {
  layout: Layout;
  columns: readonly Column[];
  cells: Cells;
  cpus: readonly number[];
  fromNs: number;
  toNs: number;
  /** What makes CLOCK_REALTIME of a time; another one after the clock was set. */
  offsetNs: (ns: number) => number;
  full: number;
  gaps: readonly Gap[];
  theme: Theme;
}

interface Ink {
  text: string;
  line: string;
  ground: string;
}

const INK: Record<Theme, Ink> = {
  light: { text: "#53585f", line: "#e4e5e2", ground: "#f7f7f5" },
  dark: { text: "#a7adb4", line: "#2c3136", ground: "#14171a" },
};

const FONT = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";

export function timeToX(layout: Layout, fromNs: number, toNs: number, ns: number): number {
  const span = layout.width - layout.left - layout.right;
  return layout.left + ((ns - fromNs) / Math.max(1, toNs - fromNs)) * span;
}

export function xToTime(layout: Layout, fromNs: number, toNs: number, x: number): number {
  const span = layout.width - layout.left - layout.right;
  return fromNs + ((x - layout.left) / Math.max(1, span)) * (toNs - fromNs);
}

/** Fits the canvas to its size in device pixels and returns a context that draws in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, layout: Layout): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  const width = Math.round(layout.width * ratio);
  const height = Math.round(layout.height * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${layout.width}px`;
    canvas.style.height = `${layout.height}px`;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, layout.width, layout.height);
  return context;
}

export function paintData(context: CanvasRenderingContext2D, picture: Picture): void {
  context.font = FONT;
  paintAxis(context, picture);
  if (picture.layout.lanes) paintLanes(context, picture);
  else paintHeat(context, picture);
  paintLabels(context, picture);
}

function paintAxis(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, fromNs, toNs, offsetNs, theme } = picture;
  const ink = INK[theme];
  const bottom = layout.height - layout.axis;
  const plot = layout.width - layout.left - layout.right;
  // Marks stand at round times of the clock as it is at the end; before it was set they show what it showed.
  const newest = offsetNs(toNs);
  const { stepS, atNs } = ticks(fromNs + newest, toNs + newest, Math.max(2, Math.floor(plot / 90)));
  context.fillStyle = ink.ground;
  context.fillRect(layout.left, 0, plot, bottom);
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const at of atNs) {
    const x = Math.round(timeToX(layout, fromNs, toNs, at - newest)) + 0.5;
    context.fillStyle = ink.line;
    context.fillRect(x - 0.5, 0, 1, bottom + 4);
    const label = clock(at - newest, offsetNs(at - newest), 0);
    const half = context.measureText(label).width / 2;
    if (x - half < layout.left - 8 || x + half > layout.width) continue;
    context.fillStyle = ink.text;
    context.fillText(stepS >= 60 ? label.slice(0, 5) : label, x, bottom + 13);
  }
}

function paintLabels(context: CanvasRenderingContext2D, { layout, cpus, theme }: Picture): void {
  context.fillStyle = INK[theme].text;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(14 / layout.row));
  const name = layout.left >= 60 ? "core " : "";
  cpus.forEach((cpu, row) => {
    if (row % every !== 0) return;
    const middle = row * layout.row + Math.max(7, (layout.row - layout.space) / 2);
    context.fillText(`${name}${cpu}`, layout.left - 8, middle);
  });
}

function paintLanes(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, columns, cells, cpus, fromNs, toNs, full, theme } = picture;
  const ink = INK[theme];
  const height = layout.row - layout.space;
  const hatch = hatchOf(context, theme);
  cpus.forEach((cpu, row) => {
    const base = row * layout.row + height;
    columns.forEach((column, x) => {
      const cell = row * columns.length + x;
      const share = cells.share[cell];
      if (Number.isNaN(share) || !cells.layers) return;
      const left = timeToX(layout, fromNs, toNs, column.startNs);
      const right = timeToX(layout, fromNs, toNs, column.endNs);
      // A hair of ground between columns, as long as columns are wide enough to be told apart.
      const width = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
      let top = base;
      for (let layer = 0; layer < LAYERS && top > base - height; layer += 1) {
        const part = cells.layers[cell * LAYERS + layer];
        if (part <= 0) continue;
        const size = Math.min(top - (base - height), (part / full) * height);
        const kind = kindOfLayer(layer);
        context.fillStyle = kind === null ? hatch : kindColour(kind, theme);
        context.fillRect(left, top - size, width, size);
        top -= size;
      }
      if (share > full * 1.001) paintCut(context, left, base - height, width, ink.ground);
    });
    context.fillStyle = ink.line;
    context.fillRect(layout.left, base, layout.width - layout.left - layout.right, 1);
    paintGaps(context, picture, cpu, base);
  });
}

/** A cell taller than the scale: a slit below its top says that it goes on. */
function paintCut(context: CanvasRenderingContext2D, left: number, top: number, width: number, ground: string): void {
  context.fillStyle = ground;
  context.fillRect(left, top + 4, width, 2);
}

/** Gaps as small wedges under the lane; many in one pixel are one wedge. */
function paintGaps(context: CanvasRenderingContext2D, picture: Picture, cpu: number, base: number): void {
  const { layout, fromNs, toNs, gaps, theme } = picture;
  context.fillStyle = INK[theme].text;
  const drawn = new Set<number>();
  for (const gap of gaps) {
    if (gap.cpu !== cpu || gap.start_ns > toNs) continue;
    const x = Math.round(timeToX(layout, fromNs, toNs, gap.start_ns));
    if (x < layout.left || drawn.has(x)) continue;
    drawn.add(x);
    context.beginPath();
    context.moveTo(x, base + 2);
    context.lineTo(x + 2.5, base + 6.5);
    context.lineTo(x - 2.5, base + 6.5);
    context.fill();
  }
}

function hatchOf(context: CanvasRenderingContext2D, theme: Theme): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext("2d");
  if (!pen) return unexplainedColour(theme);
  pen.fillStyle = INK[theme].ground;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = unexplainedColour(theme);
  pen.lineWidth = 2.2;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat") ?? unexplainedColour(theme);
}

/** One pixel per device column and core, stretched to the rows without smoothing. */
function paintHeat(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, columns, cells, cpus, fromNs, toNs, full, theme } = picture;
  const plot = layout.width - layout.left - layout.right;
  const wide = Math.max(1, Math.round(plot * (devicePixelRatio || 1)));
  if (cpus.length === 0 || columns.length === 0) return;
  const image = new ImageData(wide, cpus.length);
  const table = Array.from({ length: 256 }, (_, level) => heatColour(level / 255, theme));
  const ground = rgb(INK[theme].ground);
  for (let x = 0; x < wide; x += 1) {
    const ns = xToTime(layout, fromNs, toNs, layout.left + ((x + 0.5) / wide) * plot);
    const at = columnAt(columns, ns);
    const inside = columns[at].startNs <= ns && ns <= columns[at].endNs;
    for (let row = 0; row < cpus.length; row += 1) {
      const share = inside ? cells.share[row * columns.length + at] : NaN;
      const colour = Number.isNaN(share) ? ground : table[Math.round(heatLevel(share, full) * 255)];
      const to = (row * wide + x) * 4;
      image.data[to] = colour[0];
      image.data[to + 1] = colour[1];
      image.data[to + 2] = colour[2];
      image.data[to + 3] = 255;
    }
  }
  const strip = document.createElement("canvas");
  strip.width = wide;
  strip.height = cpus.length;
  strip.getContext("2d")?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(strip, layout.left, 0, plot, cpus.length * layout.row);
  if (layout.space > 0) {
    context.fillStyle = INK[theme].ground;
    for (let row = 1; row < cpus.length; row += 1) context.fillRect(layout.left, row * layout.row - 0.5, plot, 1);
  }
}

/** The mark of the chosen place: a frame around its column in its row, a faint line through all rows. */
export function paintMark(context: CanvasRenderingContext2D, picture: Picture, cpu: number, column: Column, colour: string): void {
  const { layout, cpus, fromNs, toNs } = picture;
  const row = cpus.indexOf(cpu);
  if (row < 0) return;
  const left = Math.max(layout.left, timeToX(layout, fromNs, toNs, column.startNs));
  const width = Math.max(3, timeToX(layout, fromNs, toNs, column.endNs) - left);
  context.globalAlpha = layout.lanes ? 0.07 : 0.14;
  context.fillStyle = colour;
  context.fillRect(left, 0, width, layout.height - layout.axis);
  // A row of the heat map is a hair that needs a guide to its label; a lane speaks for itself.
  if (!layout.lanes) context.fillRect(layout.left, row * layout.row, layout.width - layout.left - layout.right, layout.row);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(left - 1, row * layout.row, width + 2, Math.max(3, layout.row - layout.space));
}
