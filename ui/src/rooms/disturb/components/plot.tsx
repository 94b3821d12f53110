// A picture of points on two axes. The numbers stand in the tables beside it, so readers of the screen are told its title alone.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { axisOf, drawn, ticksOf, xOf, yOf, type Axis, type Frame, type Scale, type Series } from "../plot.ts";

const HEIGHT_PX = 220;
const FRAME = { height: HEIGHT_PX, left: 70, right: 12, top: 10, bottom: 26 };

export interface AxisWords {
  title: string;
  scale: Scale;
  words: (value: number) => string;
}

export function Plot({ series, across, up }: { series: readonly Series[]; across: AxisWords; up: AxisWords }) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const observer = new ResizeObserver(([entry]) => (width.value = Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const points = series.flatMap((one) => drawn(one.points));
  if (points.length === 0) return null;
  const x = axisOf(points.map((point) => point.x), across.scale);
  const y = axisOf(points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]), up.scale);
  const box: Frame = { ...FRAME, width: width.value };
  return (
    <figure class="plot" data-testid="plot">
      <figcaption>
        <span class="untrusted">{up.title}</span>
        <span class="plot-key">
          {series.map((one, at) => (
            <span key={one.name} class="untrusted plot-name" data-series={at} data-look={one.look}>
              <svg width={16} height={12} aria-hidden="true" focusable="false">
                {one.look === "line" ? <path class="plot-line" d="M0 6h16" /> : <circle cx={8} cy={6} r={one.look === "halo" ? 5.5 : 4} />}
              </svg>
              {one.name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={frame}>
        {width.value > 0 && (
          <svg width={width.value} height={HEIGHT_PX} aria-hidden="true" focusable="false">
            <Grid frame={box} x={x} y={y} across={across} up={up} />
            {series.map((one, at) => (
              <Marks key={one.name} frame={box} x={x} y={y} series={one} at={at} />
            ))}
          </svg>
        )}
      </div>
      <p class="plot-across muted">{across.title}</p>
    </figure>
  );
}

function Grid({ frame, x, y, across, up }: { frame: Frame; x: Axis; y: Axis; across: AxisWords; up: AxisWords }) {
  const round = (value: number) => Number(value.toPrecision(6));
  const [left, right, bottom] = [frame.left, frame.width - frame.right, frame.height - frame.bottom];
  return (
    <g class="plot-grid">
      {ticksOf(y, 4).map((value) => (
        <g key={value}>
          <path d={`M${left} ${yOf(frame, y, value).toFixed(1)}H${right}`} />
          <text x={left - 6} y={yOf(frame, y, value) + 4} text-anchor="end">
            {up.words(round(value))}
          </text>
        </g>
      ))}
      {ticksOf(x, frame.width < 500 ? 4 : 8).map((value) => (
        <text key={value} x={xOf(frame, x, value)} y={bottom + 17} text-anchor="middle">
          {across.words(round(value))}
        </text>
      ))}
    </g>
  );
}

function Marks({ frame, x, y, series, at }: { frame: Frame; x: Axis; y: Axis; series: Series; at: number }) {
  const points = drawn(series.points).map((point) => ({ ...point, left: xOf(frame, x, point.x), top: yOf(frame, y, point.y) }));
  return (
    <g class="plot-marks" data-series={at} data-look={series.look}>
      {series.look === "line" && <path class="plot-line" d={points.map(({ left, top }, first) => `${first === 0 ? "M" : "L"}${left.toFixed(1)} ${top.toFixed(1)}`).join("")} />}
      {points.map(({ left, top, low, high }, one) => (
        <g key={one}>
          {low !== undefined && high !== undefined && <path class="plot-range" d={`M${left.toFixed(1)} ${yOf(frame, y, low).toFixed(1)}V${yOf(frame, y, high).toFixed(1)}`} />}
          <circle cx={left.toFixed(1)} cy={top.toFixed(1)} r={series.look === "halo" ? 7 : 3.5} />
        </g>
      ))}
    </g>
  );
}
