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
}

export interface Population {
  kind: string;
  name: string;
  hosts: number;
  found: Record<string, number>;
}

export interface HostList {
  now_ns: number;
  headline: { severity: Severity; sentence: string };
  hosts: HostLine[];
  matching: number;
  total: number;
  left_out: number;
  populations: Population[];
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
  const isOne = (one: unknown) => isRecord(one) && typeof one.host === "string" && (one.found === undefined || (isRecord(one.found) && Object.values(one.found).every(isCell))) && (one.alerts === undefined || isCell(one.alerts));
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

/** The services of hosts, by name. */
export function services(hosts: readonly HostLine[]): string[] {
  return [...new Set(hosts.map(({ service }) => service ?? ""))].filter((service) => service !== "").sort();
}

/** The rows that are drawn of a list that is scrolled to `top`: those in sight, and some beyond. */
export function inSight(count: number, top: number, height: number, row: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(count, Math.floor(top / row)) - 10);
  return { from, to: Math.min(count, Math.ceil((top + height) / row) + 10) };
}
