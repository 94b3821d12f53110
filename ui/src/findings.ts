// The findings that are shown: those that hold now, as the overview says them, or those that held in a range of the past.

import { computed } from "@preact/signals";
import { byUrgency } from "./severity.ts";
import { overview, past, pastAnswer } from "./state.ts";
import type { Chart, Finding, Headline, Next, Overview, PastAnswer, PastFinding, Severity } from "./types.ts";
import { views } from "./view.ts";

/** A finding, and in the past the time in which it held. */
export interface Held {
  finding: Finding;
  held: { fromNs: number; untilNs: number | null } | null;
  /** The command to run on its account; in the past none. */
  next: Next | null;
}

/** A room with what it found. */
export interface RoomShown {
  room: string;
  title: string;
  /** `null` in the past where nothing is known. */
  severity: Severity | null;
  /** Whether somebody should act. */
  needsAction: boolean;
  isWatched: boolean;
  why: string;
  /** The worst first. */
  findings: Held[];
  leftOut: number;
  chart: Chart | null;
}

/** The rooms as the server tells of them now. */
export function roomsNow(answer: Overview): RoomShown[] {
  return answer.rooms.map((room) => ({
    room: room.room,
    title: room.title,
    severity: room.severity,
    needsAction: room.needs_action,
    isWatched: room.is_watched,
    why: room.why,
    findings: [...room.findings].sort(byUrgency).map((finding) => ({ finding, held: null, next: finding.next })),
    leftOut: room.findings_left_out,
    chart: room.chart,
  }));
}

/** The rooms as the history tells of them; their names come from those of now. */
export function roomsThen(answer: PastAnswer, now: Overview | null, charts: Readonly<Record<string, Chart | null>>): RoomShown[] {
  const titles = new Map<string, string>((now?.rooms ?? []).map(({ room, title }) => [room, title]));
  const byRoom = new Map<string, PastFinding[]>([...titles.keys()].map((room) => [room, []]));
  for (const one of answer.findings) {
    const known = byRoom.get(one.finding.room);
    if (known) known.push(one);
    else byRoom.set(one.finding.room, [one]);
  }
  return [...byRoom].map(([room, list]) => {
    const sorted = list.sort((a, b) => byUrgency(a.finding, b.finding) || a.from_realtime_ns - b.from_realtime_ns);
    return {
      room,
      title: titles.get(room) ?? room,
      severity: sorted[0]?.finding.severity ?? null,
      needsAction: sorted.some(({ needs_action }) => needs_action),
      isWatched: true,
      why: "",
      findings: sorted.map(({ finding, from_realtime_ns: fromNs, until_realtime_ns: untilNs }) => ({ finding, held: { fromNs, untilNs }, next: null })),
      leftOut: 0,
      chart: charts[room] ?? null,
    };
  });
}

/** `null` until an answer came. */
export const rooms = computed<RoomShown[] | null>(() => {
  if (past.value === null) return overview.value && roomsNow(overview.value);
  const answer = pastAnswer.value;
  if (!answer) return null;
  const charts = Object.fromEntries(views.value.flatMap((view) => (view.pastChart ? [[view.rooms[0], view.pastChart(answer)]] : [])));
  return roomsThen(answer, overview.value, charts);
});

export const headline = computed<Headline | null>(() => {
  if (past.value === null) return overview.value?.headline ?? null;
  return pastAnswer.value?.headline ?? null;
});
