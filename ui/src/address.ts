// The address bar holds what the page shows: the view, the past range, and what each view adds. What one person sees
// another can open; back and forward work. Values are kept as they were written; who reads one says what is wrong with it.

import { batch, computed, signal } from "@preact/signals";

export type Given = Readonly<Record<string, string>>;

/** Longer values are nobody's. */
const VALUE_CHARS_MAX = 1000;

/** Every name that may stand in the address, in its order. */
let names: readonly string[] = [];
const problemsOf: (() => readonly string[])[] = [];
const unknown = signal<readonly string[]>([]);

/** What the address says, name by name. */
export const given = signal<Given>({});

/** Says which names there are, and who finds faults with their values. */
export function openAddress(known: readonly string[], problems: readonly (() => readonly string[])[]): void {
  names = known;
  problemsOf.splice(0, problemsOf.length, ...problems);
  readAddress();
  addEventListener("popstate", readAddress);
}

export function readAddress(): void {
  const said: string[] = [];
  const next: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (!names.includes(name)) said.push(`The address has a part "${clip(name)}" that this page does not know; it is left out.`);
    else if (!Object.hasOwn(next, name)) next[name] = value.slice(0, VALUE_CHARS_MAX);
  }
  batch(() => {
    given.value = next;
    unknown.value = said;
  });
}

/** What is wrong with the address, a sentence each. */
export const problems = computed(() => [...unknown.value, ...problemsOf.flatMap((find) => find())]);

/** A change of the address; `null` takes a part out. */
export type Change = Readonly<Record<string, string | null>>;

/** The query of an address with this change, with its question mark; empty for the plain page. */
export function queryOf(from: Given, change: Change = {}, order: readonly string[] = names): string {
  const parts = order.flatMap((name) => {
    const value = Object.hasOwn(change, name) ? change[name] : Object.hasOwn(from, name) ? from[name] : null;
    return value === null ? [] : [`${name}=${written(value)}`];
  });
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

/** Where a link with this change leads. */
export function hrefWith(change: Change): string {
  return queryOf(given.value, change) || "./";
}

/** Goes there: as a step of its own, or in place of the last one. */
export function go(change: Change, how: "step" | "replace" = "step"): void {
  const query = queryOf(given.value, change);
  if (query === location.search) return;
  const address = query === "" ? location.pathname : query;
  if (how === "step") history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  readAddress();
}

/** A click with a key opens a tab of its own, as everywhere; any other goes there within the page. */
export function followLink(change: Change, then?: () => void): (event: MouseEvent) => void {
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(change);
    then?.();
  };
}

/** Readable: what needs no escape in a query stays. */
function written(value: string): string {
  return encodeURIComponent(value).replaceAll("'", "%27").replace(/%(2C|2F|3A|40)/g, (escaped) => decodeURIComponent(escaped));
}

export function clip(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
