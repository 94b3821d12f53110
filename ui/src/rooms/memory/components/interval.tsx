// What each polling interval would cost and lose: two lines over the interval, and the one to choose.

import { count, duration, share } from "../../../format.ts";
import type { IntervalPoint, MemoryInterval } from "../../../types.ts";
import { counted, rate, scaled } from "../map.ts";

/** The picture in the pixels of its place, so that its words stay readable: one for a desk, one for a telephone. */
interface Size {
  name: "wide" | "narrow";
  width: number;
  height: number;
  left: number;
  right: number;
}

const SIZES: Size[] = [
  { name: "wide", width: 720, height: 270, left: 84, right: 66 },
  { name: "narrow", width: 330, height: 250, left: 70, right: 54 },
];
const TOP = 26;
const BOTTOM = 46;

function secondsWords(seconds: number): string {
  const short = (value: number) => String(Math.round(value * 10) / 10);
  if (seconds >= 3600) return `${short(seconds / 3600)} h`;
  return seconds >= 60 ? `${short(seconds / 60)} min` : `${short(seconds)} s`;
}

function Chart({ answer, size, says }: { answer: MemoryInterval; size: Size; says: string }) {
  const { points, chosen_interval_s: chosen } = answer;
  const { width, height, left, right } = size;
  const most = points[points.length - 1].interval_s;
  const stalls = points.map((point) => Math.log10(Math.max(1, point.stall_ns_per_day)));
  const [least, top] = [Math.min(...stalls), Math.max(...stalls)];
  const x = (seconds: number) => left + scaled(Math.log10(seconds), 0, Math.log10(most)) * (width - left - right);
  const y = (part: number) => TOP + (1 - part) * (height - TOP - BOTTOM);
  const line = (part: (point: IntervalPoint) => number) => points.map((point, at) => `${at === 0 ? "M" : "L"}${x(point.interval_s).toFixed(1)},${y(part(point)).toFixed(1)}`).join(" ");
  const stall = (part: number) => duration(10 ** (least + part * (top - least)));
  const isLate = chosen !== null && x(chosen) > width / 2;
  return (
    <svg class={`interval-chart ${size.name}-only`} width={width} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Stall per day and lost errors by polling interval. ${says}`}>
      {[1, 10, 60, 600, 3600]
        .filter((seconds) => seconds <= most)
        .map((seconds) => (
          <g key={seconds}>
            <line x1={x(seconds)} x2={x(seconds)} y1={TOP} y2={height - BOTTOM} class="grid" />
            <text x={x(seconds)} y={height - BOTTOM + 16} text-anchor="middle">
              {secondsWords(seconds)}
            </text>
          </g>
        ))}
      {[0, 0.5, 1].map((part) => (
        <g key={part}>
          <line x1={left} x2={width - right} y1={y(part)} y2={y(part)} class="grid" />
          <text x={left - 8} y={y(part) + 4} text-anchor="end" class="stall-words">
            {stall(part)}
          </text>
          <text x={width - right + 8} y={y(part) + 4} class="lost-words">
            {part * 100} %
          </text>
        </g>
      ))}
      <text x={4} y={14} class="stall-words axis">
        stall per day
      </text>
      <text x={width - 4} y={14} text-anchor="end" class="lost-words axis">
        errors lost
      </text>
      <text x={(left + width - right) / 2} y={height - 8} text-anchor="middle" class="axis">
        time between two polls
      </text>
      <path d={line((point) => scaled(Math.log10(Math.max(1, point.stall_ns_per_day)), least, top))} class="stall-line" />
      <path d={line((point) => point.missed_share)} class="lost-line" />
      {chosen !== null && (
        <g>
          <line x1={x(chosen)} x2={x(chosen)} y1={TOP} y2={height - BOTTOM} class="chosen-line" />
          <text x={x(chosen) + (isLate ? -6 : 6)} y={TOP + 14} text-anchor={isLate ? "end" : "start"} class="chosen-words">
            best: {secondsWords(chosen)}
          </text>
        </g>
      )}
    </svg>
  );
}

/** What a counter of so many bits can hold. */
function fullAt(bits: number): string {
  return bits === 0 ? "which only tells that there were errors" : `which is full at ${count(2 ** bits - 1)} errors`;
}

export function Interval({ answer }: { answer: MemoryInterval }) {
  const { points } = answer;
  if (points.length < 2) return null;
  const chosen = answer.chosen_interval_s;
  const says = chosen === null ? "At this rate every interval loses errors." : `Polling every ${secondsWords(chosen)} loses no errors and costs the least.`;
  return (
    <section class="card" data-testid="memory-interval" aria-label="Polling interval">
      <div class="card-head">
        <h2>Polling interval</h2>
      </div>
      <p>
        <strong>{says}</strong> Limit: {answer.binding_constraint}.
      </p>
      <p class="muted">
        Simulated: {rate(answer.rate_per_s)} into one counter of {counted(answer.counter_bits, "bit")}, {fullAt(answer.counter_bits)}; each poll scans{" "}
        {counted(answer.cores, "core")}.
      </p>
      {SIZES.map((size) => (
        <Chart key={size.name} answer={answer} size={size} says={says} />
      ))}
      <p class="legend">
        <span class="stall-key">━ stall of a core per day (left, logarithmic)</span> <span class="lost-key">┅ share of errors lost (right)</span>
        {chosen !== null && <span class="chosen-key">┃ best interval</span>}
      </p>
      <details class="fold">
        <summary>Numbers and assumptions</summary>
        <ul class="muted">
          {answer.assumptions.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Each interval">
          <table class="memory-table">
            <thead>
              <tr>
                {["Interval", "Stall per day", "Longest stall", "Lost"].map((title) => (
                  <th scope="col" class="number" key={title}>
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {points.map((point) => (
                <tr key={point.interval_s}>
                  <td class="number">{secondsWords(point.interval_s)}</td>
                  <td class="number">{duration(point.stall_ns_per_day)}</td>
                  <td class="number">{duration(point.stall_longest_ns)}</td>
                  <td class="number">{share(point.missed_share, 1)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}
