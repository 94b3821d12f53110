// Where modules sit; pure.

import { count } from "../../format.ts";
import { rank } from "../../severity.ts";
import type { DimmView as Dimm, ErrorReport, FaultMode, LostReports, Memory, MemoryController } from "../../types.ts";

export const MODE_WORDS: Record<FaultMode, string> = {
  none: "none",
  cell: "cell",
  row: "row",
  rows: "adjacent rows",
  column: "column",
  bank: "bank",
  banks: "several banks",
  rank: "rank",
  undetermined: "undetermined",
};

export const FIDELITY_WORDS: Record<Dimm["fidelity"], string> = {
  exact: "exact: every error is counted",
  lower_bound: "at least: some may be missing",
  sampled: "at least: sampled, one for each record",
  unknown: "unknown: nothing counts this module's errors",
};

export const LOSS_WORDS: Record<LostReports["kind"], string> = {
  not_listed: "read and counted, but not listed",
  not_read: "dropped by the kernel before being read",
  not_understood: "not understood",
};

export const WORK_WORDS: Record<string, string> = {
  corrected_error_interrupt: "Corrected-error interrupt",
  poll: "Poll",
  scanned_core: "Core scanned by a poll",
  handled_record: "Record decoded, traced and logged",
  logged_line: "Logged line",
  smi: "SMI (stops all cores)",
};

/** Where a module sits on its controller, as its label says. */
export interface Place {
  channel: string;
  slot: string;
}

/** `CPU_SrcID#0_MC#1_Chan#2_DIMM#0`, `CPU0_C1_D0`, `DIMM_A1`; `null` where a label says nothing of the kind. */
export function placeOf(label: string): Place | null {
  const named = /chan(?:nel)?\D{0,2}(\d+).*?dimm\D{0,2}(\d+)/i.exec(label);
  if (named) return { channel: named[1], slot: named[2] };
  const lettered = /(?:^|[^a-z])([a-p])(\d{1,2})$/i.exec(label.trim());
  return lettered ? { channel: lettered[1].toUpperCase(), slot: lettered[2] } : null;
}

/** The modules of one controller as rows of channels and columns of slots; `null` where their labels tell no places, or one twice. */
export interface Grid {
  channels: string[];
  slots: string[];
  at: Map<string, Dimm>;
}

export function gridOf(dimms: readonly Dimm[]): Grid | null {
  const at = new Map<string, Dimm>();
  const channels = new Set<string>();
  const slots = new Set<string>();
  for (const dimm of dimms) {
    const place = placeOf(dimm.label);
    if (!place || at.has(key(place.channel, place.slot))) return null;
    at.set(key(place.channel, place.slot), dimm);
    channels.add(place.channel);
    slots.add(place.slot);
  }
  const sorted = (names: Set<string>) => [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return { channels: sorted(channels), slots: sorted(slots), at };
}

export function key(channel: string, slot: string): string {
  return `${channel}/${slot}`;
}

/** The controllers with their modules; those that no controller has come last, under an empty name. */
export function byController(controllers: readonly MemoryController[], dimms: readonly Dimm[]): { id: string; name: string; dimms: Dimm[] }[] {
  const groups = controllers.map(({ id, name }) => ({ id, name, dimms: dimms.filter((dimm) => dimm.controller === id) }));
  const others = dimms.filter((dimm) => !controllers.some(({ id }) => id === dimm.controller));
  if (others.length > 0) groups.push({ id: "", name: "", dimms: others });
  return groups.filter((group) => group.dimms.length > 0);
}

/** The one that needs a look most. */
export function worstOf(dimms: readonly Dimm[]): Dimm | null {
  const order = (dimm: Dimm) => [rank(dimm.severity), dimm.uncorrected_count ?? 0, dimm.corrected_count ?? 0];
  const isWorse = (a: number[], b: number[]) => {
    const at = a.findIndex((value, index) => value !== b[index]);
    return at >= 0 && a[at] > b[at];
  };
  return dimms.reduce<Dimm | null>((worst, dimm) => (worst === null || isWorse(order(dimm), order(worst)) ? dimm : worst), null);
}

/** A rate: "0", "0.02 /s", "12.3 /s". */
export function rate(perS: number): string {
  if (!(perS > 0)) return "0";
  if (perS < 0.01) return "<0.01 /s";
  return `${perS >= 100 ? perS.toFixed(0) : perS >= 10 ? perS.toFixed(1) : perS.toFixed(2)} /s`;
}

/** A count or rate of a module, with ≥ where it is no more than a lower bound. */
export function atLeast(dimm: Pick<Dimm, "fidelity">, words: string): string {
  return dimm.fidelity === "exact" ? words : `≥ ${words}`;
}

/** Whether errors of that severity may have been counted that nobody could read, so that 0 does not mean "none". */
export function isUnread(dimm: Pick<Dimm, "fidelity" | "unread">, severity: "corrected" | "uncorrected"): boolean {
  return dimm.fidelity === "unknown" || dimm.unread.includes(severity);
}

/** A module's errors of that severity: "-" where no counter of them could be read. */
export function errorsOf(dimm: Dimm, severity: "corrected" | "uncorrected"): string {
  const errors = (severity === "corrected" ? dimm.corrected_count : dimm.uncorrected_count) ?? 0;
  const isLess = isUnread(dimm, severity);
  if (errors === 0 && isLess) return "-";
  // Errors of the place that may be this module's.
  const mayBeMore = (dimm.unplaced ?? []).includes(severity) || (dimm.mixed_with ?? []).length > 0;
  // Each uncorrected error is one report, and no threshold hides it.
  if (errors === 0 && severity === "uncorrected" && !mayBeMore) return "0";
  return dimm.fidelity === "exact" && !isLess && !mayBeMore ? count(errors) : `≥ ${count(errors)}`;
}

/** Whether a controller's total is that of its modules; why that is not known, where it is not. */
export function sumOf(one: MemoryController, dimms: readonly Dimm[]): string {
  if (one.adds_up !== null) return one.adds_up ? "adds up" : "does not add up";
  const own = dimms.filter((dimm) => dimm.controller === one.id);
  const isUnreadable =
    [one.corrected_count, one.uncorrected_count, one.no_information_count].includes(null) || own.some((dimm) => isUnread(dimm, "corrected") || isUnread(dimm, "uncorrected"));
  return `sum not checkable: ${isUnreadable ? "not every counter can be read" : "the driver counts too little"}`;
}

/** What the cell of a module shows: the same numbers as the table and the terminal, uncorrected errors first. */
export function cellErrors(dimm: Dimm): string {
  const lost = errorsOf(dimm, "uncorrected");
  if ((dimm.uncorrected_count ?? 0) > 0) return `${lost} lost`;
  const corrected = errorsOf(dimm, "corrected");
  // A 0 that was read goes without saying, an unread counter does not.
  return lost === "0" || corrected === "-" ? corrected : `${corrected}, ${lost} lost`;
}

/** The modules, and apart from them the rows that are a place with errors and no module. */
export function apart(dimms: readonly Dimm[]): { modules: Dimm[]; places: Dimm[] } {
  return { modules: dimms.filter((dimm) => !dimm.only_place), places: dimms.filter((dimm) => dimm.only_place) };
}

export interface Checked {
  found: Memory["checks"];
  notChecked: Memory["checks"];
  passed: Memory["checks"];
}

/** The checks by what became of them, the worst that were found first: what was not checked has not passed. */
export function checked(checks: Memory["checks"]): Checked {
  const found = checks.filter(({ result }) => result === "found").sort((a, b) => rank(b.severity) - rank(a.severity));
  const passed = checks.filter(({ result }) => result === "passed");
  return { found, passed, notChecked: checks.filter((check) => !found.includes(check) && !passed.includes(check)) };
}

/** Where in its module an error was, with the bank's number in its rank, as maps and evidence have it. */
export function where(location: ErrorReport["location"]): string {
  const has = (value: number | null | undefined): value is number => value !== null && value !== undefined;
  const hex = (word: string, value: number | null | undefined) => (has(value) ? [`${word} 0x${value.toString(16)}`] : []);
  const { rank, bank, bank_group: group } = location;
  const parts = has(rank) ? [`rank ${rank}`] : [];
  if (has(bank)) parts.push(has(group) ? `bank ${group * 4 + bank} (bank ${bank} of group ${group})` : `bank ${bank}`);
  else if (has(group)) parts.push(`bank group ${group}`);
  return [...parts, ...hex("row", location.row), ...hex("column", location.column)].join(", ");
}

/** A number and what it counts: "1 row", "12 rows". */
export function counted(value: number, one: string): string {
  return `${count(value)} ${one}${value === 1 ? "" : "s"}`;
}

/** A point of a line, 0 to 1 in both directions. */
export function scaled(value: number, from: number, to: number): number {
  return to > from ? Math.min(1, Math.max(0, (value - from) / (to - from))) : 0.5;
}
