// Round times for the axis of a picture over time; pure.

const TICK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];

/** Round local times between two instants, about `wanted` of them. All in nanoseconds of CLOCK_REALTIME. */
export function ticks(fromNs: number, toNs: number, wanted: number): { stepS: number; atNs: number[] } {
  const span = (toNs - fromNs) / 1e9;
  const stepS = TICK_STEPS_S.find((step) => span / step <= wanted) ?? TICK_STEPS_S[TICK_STEPS_S.length - 1];
  // Steps of an hour and more should stand on local hours.
  const zoneS = -new Date(toNs / 1e6).getTimezoneOffset() * 60;
  const atNs: number[] = [];
  const first = Math.ceil((fromNs / 1e9 + zoneS) / stepS) * stepS - zoneS;
  for (let at = first; at * 1e9 <= toNs; at += stepS) atNs.push(at * 1e9);
  return { stepS, atNs };
}
