// The HTTP API: two documents and one stream of events, all from the server that sent the page.

import { formatCpuList } from "./cpulist.ts";
import type { Checkpoints } from "./checkpoints.ts";
import type { Gap, Notice, Report, Snapshot, WhoReport, Window } from "./model.ts";
import type { Filters } from "./url.ts";

/** A document that does not come within this time counts as not reachable. */
const TIMEOUT_MS = 10_000;

async function getJson(path: string): Promise<unknown> {
  const response = await fetch(path, {
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: { accept: "application/json" },
    cache: "no-store",
  });
  if (!response.ok) throw new Error(await refusal(path, response));
  return response.json();
}

/** The server's own sentence where it sent one. */
async function refusal(path: string, response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => null);
  const said = isRecord(body) && typeof body.error === "string" ? body.error : "";
  return said === "" ? `${path.split("?")[0]} answered ${response.status}` : said;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** The parts without which the page would show something false or nothing at all. */
export function checkSnapshot(value: unknown): Snapshot {
  const wrong = (what: string) => new Error(`the server's snapshot has no usable "${what}"; page and server may be of different versions`);
  if (!isRecord(value)) throw wrong("object");
  if (value.mode !== "live" && value.mode !== "replay") throw wrong("mode");
  if (typeof value.now_ns !== "number") throw wrong("now_ns");
  if (!isRecord(value.verdict) || typeof value.verdict.sentence !== "string") throw wrong("verdict");
  if (value.host === null) throw new Error("the server has not looked at its host yet");
  if (!isRecord(value.host) || !Array.isArray(value.host.cpus)) throw wrong("host");
  for (const list of ["capabilities", "windows", "gaps", "notices"]) {
    if (!Array.isArray(value[list])) throw wrong(list);
  }
  return value as unknown as Snapshot;
}

/** The state of everything; with `rangeS` only the windows and gaps of the last seconds. */
export async function fetchSnapshot(rangeS: number | null): Promise<Snapshot> {
  return checkSnapshot(await getJson(`api/v1/snapshot${rangeS === null ? "" : `?range_s=${rangeS}`}`));
}

/**
 * The sums of what these filters leave. The page takes from it what windows do not hold: percentiles, and
 * the longest gaps of the range, of which a snapshot of everything may hold others only.
 */
export async function fetchReport(filters: Filters): Promise<Report> {
  const given = [`range_s=${filters.rangeS}`, `min_us=${filters.minUs}`];
  if (filters.cpus.length > 0) given.push(`cpu=${formatCpuList(filters.cpus)}`);
  if (filters.kinds.length > 0) given.push(`kind=${filters.kinds.join(",")}`);
  const value = await getJson(`api/v1/report?${given.join("&")}`);
  if (!isRecord(value) || !Array.isArray(value.causes) || !Array.isArray(value.gaps)) {
    throw new Error("the server's report has no causes or no gaps; page and server may be of different versions");
  }
  return value as unknown as Report;
}

/** Who interrupted the watched cores; `null` where that is not watched. */
export async function fetchWho(): Promise<WhoReport | null> {
  const value = await getJson("api/v1/who");
  if (!isRecord(value)) throw new Error("the server's answer about raisers cannot be read");
  if (value.who === null) return null;
  const { who } = value;
  const isUsable =
    isRecord(who) &&
    Array.isArray(who.interrupts) &&
    Array.isArray(who.missing) &&
    who.interrupts.every((one) => isRecord(one) && Array.isArray(one.raisers) && Array.isArray(one.advice));
  if (!isUsable) throw new Error("the server's report of raisers has another form; page and server may be of different versions");
  return { ...who, loops: who.loops ?? [], loop_gaps: who.loop_gaps ?? [], notices: who.notices ?? [] } as unknown as WhoReport;
}

/** What lies in the directories of checkpoints. */
export async function fetchCheckpoints(): Promise<Checkpoints> {
  const value = await getJson("api/v1/checkpoints");
  const isUsable =
    isRecord(value) &&
    ["directories", "jobs", "problems"].every((list) => Array.isArray(value[list])) &&
    (value.jobs as unknown[]).every((job) => isRecord(job) && Array.isArray(job.generations) && Array.isArray(job.events));
  if (!isUsable) throw new Error("the server's answer about checkpoints has another form; page and server may be of different versions");
  return value as unknown as Checkpoints;
}

export interface EventHandlers {
  open(): void;
  window(window: Window): void;
  gap(gap: Gap): void;
  notice(notice: Notice): void;
  /** There is a newer report of raisers, which ends then. */
  who(endNs: number): void;
  /** The server left events out because this page read too slowly. */
  lagged(): void;
  closed(reason: string): void;
}

/** Opens the stream of events; the returned function closes it without a call to `closed`. */
export function openEvents(handlers: EventHandlers): () => void {
  const source = new EventSource("api/v1/events");
  const on = (name: string, handle: (data: unknown) => void) =>
    source.addEventListener(name, (event) => {
      try {
        handle(JSON.parse((event as MessageEvent<string>).data));
      } catch (error) {
        source.close();
        handlers.closed(`an event of the server could not be read: ${String(error)}`);
      }
    });
  source.addEventListener("open", () => handlers.open());
  on("window", (data) => handlers.window(data as Window));
  on("gap", (data) => handlers.gap(data as Gap));
  on("notice", (data) => handlers.notice(data as Notice));
  on("who", (data) => handlers.who((data as WhoReport).end_ns));
  source.addEventListener("lagged", () => handlers.lagged());
  source.addEventListener("error", () => {
    // The browser would reconnect by itself, unseen; the page does it with a countdown and a backfill.
    source.close();
    handlers.closed("the stream of events ended");
  });
  return () => source.close();
}
