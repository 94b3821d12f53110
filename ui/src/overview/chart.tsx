// A small picture over time, drawn by the page; its numbers stand beside it in words.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Chart } from "../types.ts";
import { clock, day } from "../format.ts";
import { realtimeNow } from "../state.ts";
import { boxOf, nowWords, pathsOf, usable, valueWords } from "./chart.ts";

const HEIGHT_PX = 56;

/** The value now, which ages on the page between two answers. */
function Now({ chart, last }: { chart: Chart; last: readonly [number, number] }) {
  const tick = useSignal(0);
  tick.value;
  useEffect(() => {
    if (chart.now !== "ages") return undefined;
    const timer = setInterval(() => (tick.value += 1), 1000);
    return () => clearInterval(timer);
  }, [chart.now]);
  const words = nowWords(chart, last, realtimeNow());
  if (words === null) return null;
  return (
    <>
      <strong data-testid="chart-now">{words}</strong> now,{" "}
    </>
  );
}

export function SmallChart({ chart, isPast }: { chart: Chart; isPast: boolean }) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const observer = new ResizeObserver(([entry]) => (width.value = Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const points = usable(chart);
  if (points.length === 0) return <p class="chart-none muted">{chart.title}: no data yet.</p>;
  const box = boxOf(points, width.value, HEIGHT_PX);
  const { line, area } = pathsOf(points, box);
  const most = points.reduce((largest, point) => (point[1] > largest[1] ? point : largest));
  const last = points[points.length - 1];
  const isDay = box.toNs - box.fromNs > 86_400e9;
  const time = (ns: number) => `${isDay ? `${day(ns).slice(5)} ` : ""}${clock(ns, 0, 0).slice(0, box.toNs - box.fromNs < 300e9 ? 8 : 5)}`;
  return (
    <figure class="chart" data-testid="chart">
      <figcaption>
        <span>{chart.title}</span>
        <span class="figures muted">
          {!isPast && <Now chart={chart} last={last} />}
          at most <strong>{valueWords(chart.unit, most[1])}</strong> <span class="chart-when">at {clock(most[0], 0, 0)}</span>
        </span>
      </figcaption>
      <div ref={frame} class="chart-frame">
        {width.value > 0 && (
          <svg width={width.value} height={HEIGHT_PX} aria-hidden="true" focusable="false">
            <path class="chart-area" d={area} />
            <path class="chart-line" d={line} />
            <path class="chart-base" d={`M0 ${HEIGHT_PX - 0.5}H${width.value}`} />
          </svg>
        )}
      </div>
      <p class="chart-axis figures muted" aria-hidden="true">
        <span>{time(box.fromNs)}</span>
        <span>{time(box.toNs)}</span>
      </p>
    </figure>
  );
}
