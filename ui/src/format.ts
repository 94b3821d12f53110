// Numbers as people read them: three significant digits, a unit, never an exponent.

function threeDigits(value: number): string {
  // What rounds up to the next power of ten has that power's digits.
  if (value >= 99.95) return value.toFixed(0);
  if (value >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

/** Scales so that rounding to three digits never prints "1000 us": 999 950 ns is 1.00 ms. */
function scaled(value: number, units: readonly (readonly [number, string])[]): string {
  let at = 0;
  while (at + 1 < units.length && value / units[at][0] >= 999.5) at += 1;
  return `${threeDigits(value / units[at][0])} ${units[at][1]}`;
}

const TIME_UNITS = [
  [1e3, "us"],
  [1e6, "ms"],
  [1e9, "s"],
] as const;

/** A duration in nanoseconds: "640 ns", "12.4 us", "3.10 ms", "61.0 s". */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return "–";
  if (ns < 0) return `-${duration(-ns)}`;
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  return scaled(ns, TIME_UNITS);
}

/** A threshold as it was set, without made-up digits: "20 us", "1.5 ms". */
export function threshold(us: number): string {
  return us >= 1000 ? `${us / 1000} ms` : `${us} us`;
}

/** A total that a source may not know: counted but not timed is not the same as no time. */
export function timed(totalNs: number, times: number, words: string): string {
  return totalNs === 0 && times > 0 ? "not timed" : words;
}

const BYTE_UNITS = [
  [1024, "KiB"],
  [1024 ** 2, "MiB"],
  [1024 ** 3, "GiB"],
  [1024 ** 4, "TiB"],
  [1024 ** 5, "PiB"],
] as const;

const STORED_UNITS = [
  [1e3, "kB"],
  [1e6, "MB"],
  [1e9, "GB"],
  [1e12, "TB"],
  [1e15, "PB"],
] as const;

/** What is stored or written, in the units of drives and of `surefoot checkpoint`. */
export function storedBytes(value: number): string {
  if (!Number.isFinite(value) || value < 0) return "–";
  if (value < 1000) return `${Math.round(value)} B`;
  return scaled(value, STORED_UNITS);
}

/** A size of memory in bytes, with binary units. */
export function bytes(value: number): string {
  if (!Number.isFinite(value) || value < 0) return "–";
  if (value < 1000) return `${Math.round(value)} B`;
  return scaled(value, BYTE_UNITS);
}

/** A whole number in groups of three, parted by a thin space that does not break. */
function grouped(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A count: in full up to a million, then "12.3 M". */
export function count(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value < 999_500) return grouped(value);
  return scaled(value, [
    [1e6, "M"],
    [1e9, "G"],
    [1e12, "T"],
  ]);
}

/** A number of things with its word: "1 error", "2 errors". */
export function plural(value: number, one: string, several: string): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

/** A share: "12.4 %", "0.0031 %", "0 %"; what is not nothing never prints as 0 %, what is not all never as 100 %. */
export function share(part: number, whole: number): string {
  if (!(whole > 0) || !Number.isFinite(part)) return "–";
  const percent = (part / whole) * 100;
  if (percent === 0) return "0 %";
  if (percent < 0.0001) return "<0.0001 %";
  if (percent >= 99.95 && percent < 100) return percent < 99.9995 ? `${percent.toFixed(3)} %` : ">99.999 %";
  if (percent >= 100) return `${percent.toFixed(0)} %`;
  const decimals = Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(percent) + 1e-9)));
  return `${percent.toFixed(decimals)} %`;
}

/** The age of data: tenths of a second while fresh, then whole seconds, minutes, hours. */
export function age(ns: number): string {
  const seconds = Math.max(0, ns) / 1e9;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}

/** How old something is. What is from the future, by a clock that was ahead, has no age. */
export function oldWords(ns: number): string {
  return ns < -1e9 ? `${age(-ns)} in the future` : `${age(ns)} old`;
}

/** Local time of day of a CLOCK_MONOTONIC time: "14:03:07.512". */
export function clock(monotonicNs: number, offsetNs: number, decimals: 0 | 1 | 3 = 3): string {
  const date = new Date((monotonicNs + offsetNs) / 1e6);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (value: number) => value.toString().padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (decimals === 0) return text;
  return `${text}.${date.getMilliseconds().toString().padStart(3, "0").slice(0, decimals)}`;
}

/** Local time of day of a CLOCK_REALTIME time, with the date where that is not today's. */
export function moment(realtimeNs: number, nowNs: number): string {
  const [date, now] = [new Date(realtimeNs / 1e6), new Date(nowNs / 1e6)];
  const time = clock(realtimeNs, 0, 0);
  return date.toDateString() === now.toDateString() || time === "–" ? time : `${day(realtimeNs)} ${time}`;
}

/** Local date of a CLOCK_REALTIME time: "2031-11-22". */
export function day(realtimeNs: number): string {
  const date = new Date(realtimeNs / 1e6);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (value: number) => value.toString().padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Date and time of day in UTC, for titles and recordings. */
export function instant(monotonicNs: number, offsetNs: number): string {
  const date = new Date((monotonicNs + offsetNs) / 1e6);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

/**
 * Rounds parts to whole steps so that they still add up to the rounded whole (largest remainders get
 * the steps that rounding down lost). Sums that people check by eye must not be off by one.
 * Parts must add up to `whole`; the result is in steps.
 */
export function roundToSum(parts: readonly number[], whole: number, step: number): number[] {
  const floors = parts.map((part) => Math.floor(part / step));
  let missing = Math.round(whole / step) - floors.reduce((sum, part) => sum + part, 0);
  const order = parts
    .map((part, at) => ({ at, rest: part / step - floors[at] }))
    .sort((a, b) => b.rest - a.rest || a.at - b.at);
  for (const { at } of order) {
    if (missing <= 0) break;
    floors[at] += 1;
    missing -= 1;
  }
  return floors;
}

/** Steps of 0.001 as "12.345", grouped: the ledger's milliseconds. */
export function thousandths(steps: number): string {
  const sign = steps < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(steps) / 1000);
  const rest = Math.abs(steps) % 1000;
  return `${sign}${grouped(whole)}.${rest.toString().padStart(3, "0")}`;
}

/** Words of the server as a sentence of their own: a capital first, and an end. */
export function asSentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}
