// Experiments in words and points; pure.

import { count, duration } from "../../format.ts";
import type { DetailView, ExperimentRow, ExperimentRun, ExperimentView, InjectedStall, PredictionView } from "../../types.ts";
import type { Point, Series } from "./plot.ts";

/** Cores that have dots of their own; more are told apart in the table. */
export const CORES_DRAWN = 6;

type Named = Pick<ExperimentView, "part" | "series" | "workload" | "experiment">;

/** Its part, the file or preset that it does, or what it runs. */
export function nameOf({ part, series, workload, experiment }: Named): string {
  return (part ?? "") || (series ?? "") || workload || experiment;
}

/** Whether it has several workloads or disturbances, so that no one number is its own. */
export function isOfSeveral({ part, series }: Pick<ExperimentView, "part" | "series">): boolean {
  return (series ?? "") !== "" && (part ?? "") === "";
}

export function ratioWords(value: number): string {
  return value.toFixed(value >= 10 ? 2 : 4);
}

/** A number of a run: the wall time is in nanoseconds, any other is what the workload says. */
export function valueWords(metric: string, value: number): string {
  if (metric === "wall") return duration(value);
  return Number.isInteger(value) ? count(value) : value.toPrecision(5);
}

export function conditionWords(condition: string): string {
  return condition.replaceAll("_", " ");
}

/** What came of it, in a few words. */
export function resultWords({ standing, ended, runs_done, run_count }: Pick<ExperimentView, "standing" | "ended" | "runs_done" | "run_count">): string {
  if (standing === "running") return `running, ${runs_done} of ${run_count} runs`;
  const effect = ended?.effect;
  if (!effect) return ended?.summary || (ended?.why ? `${standing}: ${ended.why}` : standing);
  return effect.effect_shown ? "an effect is shown" : `no effect shown; ${((effect.minimum_detectable_ratio - 1) * 100).toFixed(1)} % would have been`;
}

/** What went otherwise than planned in a run. */
export function runNotes({ missed_stalls, dropped_stalls, cut_stalls, left_behind }: ExperimentRun, isOutlier: boolean): string {
  const said = isOutlier ? ["outlier, counted all the same"] : [];
  const add = (how: number, one: string, many: string, words: string) => how > 0 && said.push(`${count(how)} ${how === 1 ? one : many} ${words}`);
  add(missed_stalls, "stall", "stalls", "missed");
  add(dropped_stalls, "stall", "stalls", "not recorded");
  add(cut_stalls, "stall", "stalls", "cut short");
  add(left_behind, "process", "processes", "left behind");
  return said.join("; ");
}

/** A time that may be before another: "-3.1 us". */
export function lateWords(ns: number): string {
  return duration(ns);
}

/** The rows that say what was published, and those that are numbers of its own. */
export function rowsOf(rows: readonly ExperimentRow[]): { published: ExperimentRow[]; own: ExperimentRow[] } {
  const isPublished = ({ published, verdict }: ExperimentRow) => (published ?? "") !== "" || (verdict ?? "") !== "";
  return { published: rows.filter(isPublished), own: rows.filter((row) => !isPublished(row)) };
}

/** Published rows by the table that they stand in, in their order. */
export function tablesOf(published: readonly ExperimentRow[]): { name: string; rows: ExperimentRow[] }[] {
  const tables = new Map<string, ExperimentRow[]>();
  for (const row of published) tables.set(row.case, [...(tables.get(row.case) ?? []), row]);
  return [...tables].map(([name, rows]) => ({ name, rows }));
}

/** The ratios with their intervals, by how much they are. */
export function ratioSeries(rows: readonly ExperimentRow[]): Series[] {
  const isRatio = ({ compared, effect }: ExperimentRow) => compared === "ratio" && typeof effect === "number" && effect > 0;
  const ratios = rows.filter(isRatio).sort((a, b) => (a.effect ?? 0) - (b.effect ?? 0));
  const point = ({ effect, interval_low, interval_high }: ExperimentRow, at: number): Point => {
    const y = effect ?? 0;
    return { x: at + 1, y, low: interval_low ?? y, high: interval_high ?? y };
  };
  const of = (isShown: boolean) => ratios.map(point).filter((_, at) => ratios[at].effect_shown === isShown);
  const all: Series[] = [
    { name: "an effect is shown", look: "dot", points: of(true) },
    { name: "none is shown", look: "ring", points: of(false) },
  ];
  return all.filter(({ points }) => points.length > 0);
}

/** The runs over the time since the first: undisturbed, disturbed, and rings around outliers. */
export function runSeries(runs: readonly ExperimentRun[], outliers: readonly number[]): Series[] {
  const first = runs[0]?.start_ns ?? 0;
  const point = (run: ExperimentRun): Point => ({ x: (run.start_ns - first) / 1e9, y: run.value });
  const of = (condition: string) => runs.filter((run) => run.condition === condition).map(point);
  const far = runs.filter(({ run }) => outliers.includes(run)).map(point);
  const all: Series[] = [
    { name: "undisturbed", look: "ring", points: of("undisturbed") },
    { name: "disturbed", look: "dot", points: of("disturbed") },
    { name: "outlier", look: "halo", points: far },
  ];
  return all.filter(({ points }) => points.length > 0);
}

/** How much longer each stall was than asked, core by core, over the time since the first. */
export function stallSeries(stalls: readonly InjectedStall[], askedNs: number): Series[] {
  const first = stalls[0]?.start_ns ?? 0;
  const cores = new Map<number | null, Point[]>();
  for (const { core, start_ns, length_ns } of stalls) {
    const points = cores.get(core) ?? [];
    points.push({ x: (start_ns - first) / 1e9, y: length_ns - askedNs });
    cores.set(core, points);
  }
  return [...cores].slice(0, CORES_DRAWN).map(([core, points]) => ({ name: core === null ? "the workload" : `core ${core}`, look: "dot", points }));
}

/** What two predictions must share to lie on one line: everything but the number of nodes. */
function lineOf(one: PredictionView): string {
  return JSON.stringify([one.pattern, one.ranks_per_node, one.compute_ns, one.iterations, one.bytes, one.noises, one.progress, one.seed, one.draws]);
}

export interface PredictionLine {
  name: string;
  /** By the number of nodes; of those with as many the newest. */
  points: PredictionView[];
}

export function predictionLines(all: readonly PredictionView[]): PredictionLine[] {
  const lines = new Map<string, Map<number, PredictionView>>();
  for (const one of all) {
    const line = lines.get(lineOf(one)) ?? new Map<number, PredictionView>();
    line.set(one.nodes, one);
    lines.set(lineOf(one), line);
  }
  return [...lines.values()].map((line) => {
    const points = [...line.values()].sort((a, b) => a.nodes - b.nodes);
    return { name: predictionName(points[0]), points };
  });
}

function predictionName({ pattern, compute_ns, ranks_per_node, noises, progress }: PredictionView): string {
  const work = compute_ns === null || compute_ns === undefined ? "" : `, ${duration(compute_ns)} of work`;
  const ranks = ranks_per_node > 1 ? `, ${ranks_per_node} ranks a node` : "";
  return `${pattern}${work}${ranks}; ${noises.join("; ")}${progress === "host" ? "; the cores move the bytes" : ""}`;
}

/** The lines as a picture has them: slowdown over nodes, with the interval. */
export function predictionSeries(lines: readonly PredictionLine[]): Series[] {
  return lines.map(({ name, points }) => ({
    name,
    look: "line",
    points: points.map(({ nodes, slowdown, interval_low, interval_high }) => ({ x: nodes, y: slowdown, low: interval_low, high: interval_high })),
  }));
}

/** Whether the list of runs of an answer is that of the chosen experiment. */
export function isOf(detail: DetailView | undefined, experiment: string): detail is DetailView {
  return detail !== undefined && detail.experiment === experiment;
}
