// The strip over time of a job: its checkpoints by tier, and how old the durable copy was.

import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Job } from "../../../types.ts";
import { ticks } from "../../../axis.ts";
import { clock, day } from "../../../format.ts";
import { agesOf, ageWords, cornersFrom, markWords, marksOf, nearest, seconds, TIER_PLACES, TIER_WORDS, type Mark, type Tier } from "../journal.ts";
import { agePath, ageScale, AGES_PX, ageY, AXIS_PX, LANE_PX, lanePath, SPANS_S, timeOf, xOf, type Strip } from "../strip.ts";

const LOOKS: readonly Mark["look"][] = ["gone", "complete", "partial", "unfinished", "damaged", "failed"];

const LEGEND: readonly (readonly [string, string])[] = [
  ["complete", "there"],
  ["partial", "in part, or not finished"],
  ["damaged", "damaged"],
  ["gone", "replaced by newer ones"],
  ["failed", "failed"],
];

/** A length of time as a choice. */
function spanLabel(lengthS: number): string {
  return { 0: "all", 600: "10 min", 3600: "1 h", 86400: "1 d" }[lengthS] ?? seconds(lengthS);
}

function Spans({ name, chosen }: { name: string; chosen: { value: number } }) {
  return (
    <fieldset class="segments">
      <legend>Last</legend>
      {SPANS_S.map((lengthS) => (
        <label key={lengthS}>
          <input type="radio" name={name} value={lengthS} checked={lengthS === chosen.value} onChange={() => (chosen.value = lengthS)} />
          <span>{spanLabel(lengthS)}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Axis({ strip, top }: { strip: Strip; top: number }) {
  const offsetNs = -new Date(strip.toNs / 1e6).getTimezoneOffset() * 60e9;
  const room = Math.max(2, Math.floor((strip.width - strip.left - strip.right) / 90));
  const { stepS, atNs } = ticks(strip.fromNs + offsetNs, strip.toNs + offsetNs, room);
  const isLong = strip.toNs - strip.fromNs > 86_400e9;
  return (
    <g class="strip-axis">
      {atNs.map((at) => {
        const ns = at - offsetNs;
        const x = Math.round(xOf(strip, ns));
        const words = isLong ? `${day(ns).slice(5)} ${clock(ns, 0, 0).slice(0, 5)}` : stepS >= 60 ? clock(ns, 0, 0).slice(0, 5) : clock(ns, 0, 0);
        const isWhole = x > strip.left + 20 && x < strip.width - 30;
        return (
          <g key={at}>
            <path d={`M${x + 0.5} 0V${top + 4}`} />
            {isWhole && (
              <text x={x} y={top + 16} text-anchor="middle">
                {words}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

export function JobStrip({ job, nowNs }: { job: Job; nowNs: number }) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const lengthS = useSignal(0);
  const said = useSignal("");
  const clip = useId();
  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const observer = new ResizeObserver(([entry]) => (width.value = Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const marks = useMemo(() => marksOf(job), [job]);
  const corners = agesOf(job, nowNs);
  const lanes: Tier[] = ["memory", "durable"];
  if (marks.some((mark) => mark.lane === "shared")) lanes.push("shared");
  const oldestNs = Math.min(nowNs - 10e9, marks[0]?.atNs ?? nowNs, corners[0]?.atNs ?? nowNs);
  const fromNs = lengthS.value === 0 ? oldestNs - (nowNs - oldestNs) * 0.01 : Math.max(oldestNs, nowNs - lengthS.value * 1e9);
  const strip: Strip = { width: width.value, left: 64, right: 10, fromNs, toNs: nowNs + (nowNs - fromNs) * 0.01 };
  const boundS = job.state?.staleness_max_s ?? null;
  const shown = cornersFrom(corners, fromNs);
  const full = ageScale(shown, boundS);
  const agesTop = lanes.length * LANE_PX + 6;
  const bottom = agesTop + AGES_PX;
  const boundY = boundS === null ? null : Math.round(ageY(boundS, full, bottom)) + 0.5;
  const isLate = boundS !== null && shown.some((corner) => corner.ageS > boundS);

  const line = agePath(strip, shown, full, bottom);

  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const lane = lanes[Math.floor(y / LANE_PX)];
    if (x < strip.left || !lane) return void (said.value = "");
    const mark = nearest(marks, timeOf(strip, x), lane);
    said.value = mark && Math.abs(xOf(strip, mark.atNs) - x) < 12 ? markWords(mark, nowNs) : "";
  };

  return (
    <div class="strip" data-testid="strip">
      <div class="strip-head">
        <Spans name={`span ${job.name}`} chosen={lengthS} />
        <p class="muted strip-said" data-testid="strip-said">
          {said.value !== "" ? (
            said.value
          ) : (
            <span class="strip-legend">
              {LEGEND.map(([look, words]) => (
                <span key={look}>
                  <svg width="12" height="14" viewBox="0 0 12 14" aria-hidden="true">
                    <path class={`mark-${look}`} d={look === "failed" ? "M3 4l6 6m0-6l-6 6" : look === "gone" ? "M5.5 4h1v8h-1z" : look === "partial" ? "M3.5 2.5h5v9h-5z" : "M4.5 1h3v12h-3z"} />
                  </svg>
                  {words}
                </span>
              ))}
            </span>
          )}
        </p>
      </div>
      <div ref={frame} class="strip-frame">
        {width.value >= 100 && (
          <svg
            width={width.value}
            height={bottom + AXIS_PX}
            role="img"
            aria-label={`Checkpoints over time: ${lanes.map((lane) => `${marks.filter((mark) => mark.lane === lane && mark.look !== "gone").length} ${TIER_PLACES[lane]}`).join(", ")}. Age of the durable copy below${boundS === null ? "" : `, its bound is ${seconds(boundS)}`}.`}
            onPointerMove={point}
            onPointerLeave={() => (said.value = "")}
          >
            <Axis strip={strip} top={bottom} />
            {lanes.map((lane, row) => (
              <g key={lane}>
                <rect class="strip-lane" x={strip.left} y={row * LANE_PX} width={Math.max(0, strip.width - strip.left - strip.right)} height={LANE_PX - 2} />
                <text x={strip.left - 8} y={row * LANE_PX + 15} text-anchor="end">
                  {TIER_WORDS[lane]}
                </text>
                {LOOKS.map((look) => (
                  <path key={look} class={`mark-${look}`} d={lanePath(strip, marks, lane, look, row * LANE_PX)} />
                ))}
              </g>
            ))}
            <text x={strip.left - 8} y={agesTop + 14} text-anchor="end">
              age of
            </text>
            <text x={strip.left - 8} y={agesTop + 28} text-anchor="end">
              durable
            </text>
            <path class="strip-base" d={`M${strip.left} ${bottom + 0.5}H${strip.width - strip.right}`} />
            {boundY !== null && boundS !== null && (
              <g class="strip-bound">
                <path d={`M${strip.left} ${boundY}H${strip.width - strip.right}`} />
                <text x={strip.width - strip.right - 4} y={boundY > agesTop + 14 ? boundY - 4 : boundY + 13} text-anchor="end">
                  bound {seconds(boundS)}
                </text>
              </g>
            )}
            <path class="strip-ages" data-testid="ages" d={line} />
            {isLate && boundY !== null && (
              <>
                <clipPath id={clip}>
                  <rect x={strip.left} y={agesTop - 8} width={Math.max(0, strip.width - strip.left)} height={Math.max(0, boundY - agesTop + 8)} />
                </clipPath>
                <path class="strip-ages late" data-testid="late" clip-path={`url(#${clip})`} d={line} />
              </>
            )}
          </svg>
        )}
      </div>
      {corners.length === 0 && <p class="muted aside">There is no journal and no durable copy, so nothing is known of its age.</p>}
      {corners.length > 0 && shown.length > 0 && (
        <p class="muted aside figures">
          {ageWords(job, shown)}
          {boundS === null && "; the policy sets no bound"}.
        </p>
      )}
    </div>
  );
}
