// What a view is, and which one the address shows. The list of them is in views.ts.

import { computed, effect, signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { clip, given, type Change } from "./address.ts";
import type { Listener, Question } from "./poller.ts";
import type { Chart, Finding, PastAnswer } from "./types.ts";

export interface View {
  /** Its name in the address. */
  key: string;
  title: string;
  /** Its component, which may be in a script of its own. */
  load: () => Promise<ComponentType>;
  /** The rooms of the API whose findings and cards lead here. */
  rooms: readonly string[];
  /** Its documents below api/v1, for whoever wants the numbers themselves. */
  documents: readonly string[];
  /** The parts of the address that are its own. */
  parameters?: readonly string[];
  /** What is wrong with them, a sentence each. Reads signals. */
  problems?: () => readonly string[];
  /** What is asked of the server while it is shown. */
  questions?: readonly Question[];
  /** What it takes from the stream of events while it is shown. */
  listener?: Listener;
  /** What the address gains when a finding leads here. */
  changeFor?: (finding: Finding) => Change;
  /** The picture of its card in the past, which the overview of what is live has from the server. */
  pastChart?: (answer: PastAnswer) => Chart | null;
}

export const views = signal<readonly View[]>([]);

/** The view of the address; what it does not know is the first. */
export const shownView = computed<View | null>(() => views.value.find((view) => view.key === given.value.view) ?? views.value[0] ?? null);

/** What has come of the views that were shown so far. */
const loaded = signal<ReadonlyMap<View, ComponentType | Error>>(new Map());

/** The component of the view that is shown: null while its script is on the way, an error where it did not come. */
export const shownComponent = computed(() => (shownView.value && loaded.value.get(shownView.value)) ?? null);

function load(view: View) {
  const keep = (come: ComponentType | Error) => {
    loaded.value = new Map(loaded.peek()).set(view, come);
  };
  view.load().then(keep, (why: unknown) => keep(why instanceof Error ? why : new Error(String(why))));
}

/** Fetches each view's script when it is first shown. */
export function startLoading() {
  const asked = new Set<View>();
  effect(() => {
    const view = shownView.value;
    if (!view || asked.has(view)) return;
    asked.add(view);
    load(view);
  });
}

export function viewProblems(): string[] {
  const { view } = given.value;
  return view === undefined || views.value.some(({ key }) => key === view) ? [] : [`No view is called ${clip(view)}; the overview is shown.`];
}

/** The view of a room; none for a room that this page does not know. */
export function viewOf(room: string): View | null {
  return views.value.find((view) => view.rooms.includes(room)) ?? null;
}

/** The change of the address that shows a view; the first is the plain address. */
export function changeToView(view: View): { view: string | null; finding: null } {
  return { view: view === views.value[0] ? null : view.key, finding: null };
}

/** The change of the address that leads from a finding to its view, where it stays open unless the view shows it otherwise. */
export function changeFrom(finding: Finding, view: View): Change {
  return { view: view.key, ...view.changeFor?.(finding) };
}

/** Its questions, asked while it is shown. */
export function questionsOf(view: View): Question[] {
  return (view.questions ?? []).map((question) => ({ ...question, wanted: () => (shownView.value === view ? question.wanted() : null) }));
}

/** What it takes from the stream, while it is shown. */
export function listenerOf(view: View): Listener {
  const own = Object.entries(view.listener ?? {});
  return Object.fromEntries(own.map(([name, take]) => [name, (data: unknown) => shownView.value === view && take(data)]));
}
