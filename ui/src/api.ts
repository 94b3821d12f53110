// The HTTP API: documents and one stream of events, all from the server that sent the page. Each room reads its own
// documents with `getJson`; those that all share are here.

import type { Mode, Overview, PastAnswer } from "./types.ts";
import { resolutionFor, type PastRange } from "./past.ts";

/** A document that does not come within this time counts as not reachable. */
const TIMEOUT_MS = 10_000;
/** A long range of the past is read from a file. */
const PAST_TIMEOUT_MS = 60_000;

/** A refusal of the server, with its own sentence. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

export async function getJson(path: string, timeoutMs = TIMEOUT_MS): Promise<unknown> {
  const response = await fetch(path, {
    signal: AbortSignal.timeout(timeoutMs),
    headers: { accept: "application/json" },
    cache: "no-store",
  });
  if (response.ok) return response.json();
  const body: unknown = await response.json().catch(() => null);
  const said = isRecord(body) && typeof body.error === "string" ? body.error : "";
  throw new Refusal(response.status, said === "" ? `${path.split("?")[0]} answered ${response.status}` : said);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** What to say of an answer without a part that the page cannot do without. */
export function unusable(answer: string, part: string): Error {
  return new Error(`the server's ${answer} has no usable "${part}"; page and server may be of different versions`);
}

/** What went wrong, for people. */
export function sentence(error: unknown): string {
  if (error instanceof DOMException && error.name === "TimeoutError") return "the server does not answer";
  if (error instanceof TypeError) return "the server cannot be reached";
  return error instanceof Error ? error.message : String(error);
}

/** What every room has found. */
export async function fetchOverview(): Promise<Overview> {
  return checkOverview(await getJson("api/v1/overview"));
}

/** Whether this release knows where the data come from. */
export function isMode(mode: unknown): mode is Mode {
  return mode === "live" || mode === "replay" || mode === "demo";
}

export function checkOverview(value: unknown): Overview {
  const wrong = (part: string) => unusable("overview", part);
  if (!isRecord(value)) throw wrong("object");
  if (!isMode(value.mode)) throw wrong("mode");
  if (typeof value.now_realtime_ns !== "number") throw wrong("now_realtime_ns");
  if (!isRecord(value.headline) || typeof value.headline.sentence !== "string") throw wrong("headline");
  const isRoom = (room: unknown) => isRecord(room) && typeof room.room === "string" && Array.isArray(room.findings);
  if (!Array.isArray(value.rooms) || !value.rooms.every(isRoom)) throw wrong("rooms");
  return value as unknown as Overview;
}

/** What the history has of a range; parts that an older server does not send are empty. */
async function fetchPast({ fromS, toS }: PastRange, resolution: "second" | "minute"): Promise<PastAnswer> {
  const value = await getJson(`api/v1/history?from_s=${fromS}&to_s=${toS}&resolution=${resolution}`, PAST_TIMEOUT_MS);
  if (!isRecord(value) || !Array.isArray(value.windows)) throw unusable("history", "windows");
  const list = (name: string) => (Array.isArray(value[name]) ? value[name] : []);
  const lists = { gaps: list("gaps"), notices: list("notices"), findings: list("findings"), records: list("records") };
  return { ...value, ...lists } as unknown as PastAnswer;
}

/** What the history keeps of a range, as fine as the windows of that many cores can be shown. */
export async function fetchKept(range: PastRange, cores: number): Promise<PastAnswer> {
  const resolution = resolutionFor(range, cores);
  try {
    const answer = await fetchPast(range, resolution);
    // Windows of a second are not kept as long as those of a minute.
    return resolution === "second" && answer.windows.length === 0 ? await fetchPast(range, "minute") : answer;
  } catch (error) {
    // Too long an answer at the finer resolution; what else is wrong is wrong at the coarser one, too.
    if (resolution === "minute" || !(error instanceof Refusal) || error.status !== 400) throw error;
    return await fetchPast(range, "minute");
  }
}

export interface StreamHandlers {
  open(): void;
  event(name: string, data: unknown): void;
  closed(reason: string): void;
}

/** Opens the stream of these events; the returned function closes it without a call to `closed`. */
export function openEvents(names: readonly string[], handlers: StreamHandlers): () => void {
  const source = new EventSource("api/v1/events");
  source.addEventListener("open", () => handlers.open());
  for (const name of names) {
    source.addEventListener(name, (event) => {
      try {
        const text = (event as MessageEvent<string>).data;
        handlers.event(name, text === "" ? null : JSON.parse(text));
      } catch (error) {
        source.close();
        handlers.closed(`an event of the server could not be read: ${String(error)}`);
      }
    });
  }
  source.addEventListener("error", () => {
    // The browser would reconnect by itself, unseen; the page does it with a countdown and a backfill.
    source.close();
    handlers.closed("the stream of events ended");
  });
  return () => source.close();
}
