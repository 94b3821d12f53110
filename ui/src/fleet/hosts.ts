// The hosts of the fleet: what the server answers of them, and which rows of a long list are in sight. Pure.

import { isRecord, unusable } from "../api.ts";
import type { Severity } from "../types.ts";

/** The worst of what holds in one room of a host. */
export interface Cell {
  severity: Severity;
  since_ns: number;
  sentence: string;
  count: number;
}

/** What the watched cores of a host lost of their busy time, unexplained time included, in nanoseconds per second. */
export interface LostRate {
  total_ns_per_s: number;
  cores: number;
  worst_ns_per_s: number;
  worst_cpu: number;
  /** Otherwise only the kernel's counters told, and more may have been lost. */
  is_traced: boolean;
}

export interface HostLine {
  host: string;
  service?: string;
  seen_ns?: number;
  is_silent?: boolean;
  severity?: Severity;
  /** By room. */
  found?: Record<string, Cell>;
  /** Alerts of no room. */
  alerts?: Cell;
  /** Rooms in which nothing holds; of a room that is neither here nor in `found` nothing is known. */
  well?: string[];
  kernel?: string;
  firmware?: string;
  product?: string;
  /** Absent where it is not known. */
  lost?: LostRate;
}

export interface Population {
  kind: string;
  name: string;
  hosts: number;
  found?: Record<string, number>;
  /** Of parts: how many there are in these hosts, of those that are known by their serial numbers, and how many have a warning or worse. */
  parts?: { count: number; faulty: number };
}

export interface HostList {
  now_ns: number;
  headline: { severity: Severity; sentence: string };
  hosts: HostLine[];
  matching: number;
  total: number;
  left_out: number;
  populations: Population[];
  /** Where a host's own page is, with {host} in the place of its name. */
  host_page?: string;
}

/** The rooms, in the order of the columns, and what stands above each. */
export const ROOMS: readonly (readonly [string, string])[] = [
  ["stall", "Lost time"],
  ["memory", "Memory"],
  ["checkpoint", "Checkpoints"],
  ["nic", "Interfaces"],
  ["disturb", "Disturbances"],
  ["remedy", "Checks"],
  ["watch", "The watch"],
];

export function checkHosts(value: unknown): HostList {
  const name = "list of hosts";
  if (!isRecord(value) || !Array.isArray(value.hosts) || !Array.isArray(value.populations)) throw unusable(name, "hosts");
  const isCell = (cell: unknown) => isRecord(cell) && typeof cell.severity === "string" && typeof cell.since_ns === "number" && typeof cell.sentence === "string" && typeof cell.count === "number";
  const isLost = (lost: unknown) => isRecord(lost) && [lost.total_ns_per_s, lost.cores, lost.worst_ns_per_s, lost.worst_cpu].every((number) => typeof number === "number");
  const isOne = (one: unknown) => isRecord(one) && typeof one.host === "string" && (one.found === undefined || (isRecord(one.found) && Object.values(one.found).every(isCell))) && (one.alerts === undefined || isCell(one.alerts)) && (one.lost === undefined || isLost(one.lost));
  if (!value.hosts.every(isOne)) throw unusable(name, "hosts");
  if (!isRecord(value.headline) || typeof value.headline.sentence !== "string") throw unusable(name, "headline");
  for (const number of ["now_ns", "matching", "total", "left_out"]) if (typeof value[number] !== "number") throw unusable(name, number);
  return value as unknown as HostList;
}

/** How a room of a host does: the worst that holds there, "well", or "unknown". */
export function stateOf(host: HostLine, room: string): Cell | "well" | "unknown" {
  const found = host.found?.[room];
  if (found !== undefined) return found;
  return host.well?.includes(room) === true ? "well" : "unknown";
}

/** The hosts that a person asks for, in the order of the server. */
export function chosen(hosts: readonly HostLine[], search: string, service: string): readonly HostLine[] {
  const wanted = search.trim().toLowerCase();
  if (wanted === "" && service === "") return hosts;
  const says = (host: HostLine) => [host.host, host.service ?? "", host.kernel ?? "", host.firmware ?? "", ...Object.values(host.found ?? {}).map(({ sentence }) => sentence), host.alerts?.sentence ?? ""];
  return hosts.filter((host) => (service === "" || host.service === service) && (wanted === "" || says(host).some((text) => text.toLowerCase().includes(wanted))));
}

/** The orders in which hosts can be listed, and how each is called. */
export const ORDERS = [
  ["worst", "the worst"],
  ["lost", "most time lost"],
  ["name", "by name"],
] as const;
export type Order = (typeof ORDERS)[number][0];

/** The part of its time that an average core of the host lost; null where that is not known. */
export function lostShare({ lost }: HostLine): number | null {
  return lost === undefined ? null : lost.total_ns_per_s / 1e9 / Math.max(1, lost.cores);
}

/** Hosts that the server has sorted the worst first, in this order. */
export function sorted(hosts: readonly HostLine[], order: Order): readonly HostLine[] {
  if (order === "name") return hosts.toSorted((a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : 0));
  if (order === "lost") return hosts.toSorted((a, b) => (lostShare(b) ?? -1) - (lostShare(a) ?? -1));
  return hosts;
}

/** The address of a host's own page; null where the server knows none. */
export function pageOf(list: HostList, host: string): string | null {
  const page = list.host_page;
  return page !== undefined && /^https?:\/\//.test(page) ? page.replace("{host}", encodeURIComponent(host)) : null;
}

/** The services of hosts, by name. */
export function services(hosts: readonly HostLine[]): string[] {
  return [...new Set(hosts.map(({ service }) => service ?? ""))].filter((service) => service !== "").sort();
}

/** The rows that are drawn of a list that is scrolled to `top`: those in sight, and some beyond. */
export function inSight(count: number, top: number, height: number, row: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(count, Math.floor(top / row)) - 10);
  return { from, to: Math.min(count, Math.ceil((top + height) / row) + 10) };
}
