import { useSignal } from "@preact/signals";
import { clock, count, duration } from "../../../format.ts";
import type { LoopGap, LoopSummary } from "../../../types.ts";
import { kindIndex } from "../words.ts";
import * as state from "../state.ts";
import { Bar } from "../../../components/bar.tsx";
import { CauseName, kindClass } from "./swatch.tsx";

const ROOM = 8;
const MOST = 100;

function segments(gap: LoopGap) {
  return [
    ...gap.parts.map((part, at) => ({ key: String(at), className: kindClass(kindIndex(part.kind)), value: part.total_ns })),
    { key: "unexplained", className: kindClass(null), value: gap.unexplained_ns },
  ];
}

function Part({ gap }: { gap: LoopGap }) {
  const [first] = gap.parts;
  if (!first) return <span class="muted">nothing traced explains it</span>;
  return (
    <>
      <CauseName kind={kindIndex(first.kind)} name={first.name} /> {duration(first.total_ns)}
      {first.raisers.length > 0 && (
        <span class="muted">
          {" "}
          by <span class="untrusted">{first.raisers[0]}</span>
        </span>
      )}
      {gap.parts.length > 1 && <span class="muted"> and {gap.parts.length - 1} more</span>}
    </>
  );
}

function Summary({ loop }: { loop: LoopSummary }) {
  const missed = [
    loop.overwritten > 0 ? `${count(loop.overwritten)} were overwritten before they were read` : "",
    loop.not_listed > 0 ? `${count(loop.not_listed)} are not listed` : "",
  ].filter((words) => words !== "");
  return (
    <li>
      <strong class="untrusted">{loop.name}</strong>{" "}
      <span class="muted figures">
        (thread {loop.tid}): {count(loop.gap_count)} gaps of {duration(loop.threshold_ns)} and more, {duration(loop.total_ns)} together
        {missed.length > 0 && `; ${missed.join(", ")}`}
      </span>
    </li>
  );
}

/** What polling threads noted of themselves, with what the kernel did meanwhile; nothing where no thread does. */
export function LoopGaps() {
  const all = useSignal(false);
  const who = state.who.value;
  if (!who || (who.loops.length === 0 && who.loop_gaps.length === 0)) return null;
  const { cpus } = state.filters.value;
  const gaps = who.loop_gaps.filter((gap) => cpus.length === 0 || (gap.cpu !== null && cpus.includes(gap.cpu)));
  const shown = gaps.slice(0, all.value ? MOST : ROOM);
  return (
    <section class="card" data-testid="loops" aria-labelledby="loops-title">
      <div class="card-head">
        <h2 id="loops-title">Gaps that polling loops noted</h2>
        <p class="muted">longest first</p>
      </div>
      <ul class="loops">
        {who.loops.map((loop) => (
          <Summary key={`${loop.tid}/${loop.name}`} loop={loop} />
        ))}
      </ul>
      {shown.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Gaps that polling loops noted">
          <table class="sortable loop-gaps">
            <thead>
              <tr>
                <th scope="col" class="number">Length</th>
                <th scope="col">Loop</th>
                <th scope="col" class="number">Core</th>
                <th scope="col">Began</th>
                <th scope="col" class="wide">Filled by</th>
                <th scope="col">Most of it</th>
                <th scope="col" class="number">Unexplained</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((gap, at) => (
                <tr key={`${gap.start_ns}/${gap.tid}/${at}`}>
                  <td class="number">
                    <strong>{duration(gap.duration_ns)}</strong>
                  </td>
                  <td class="loop">
                    <span class="one-line untrusted" title={gap.name}>
                      {gap.name}
                    </span>
                  </td>
                  <td class="number">{gap.cpu ?? "–"}</td>
                  <td class="muted">{clock(gap.start_ns, state.offsetNs(gap.start_ns))}</td>
                  <td class="wide">
                    <Bar segments={segments(gap)} full={gap.duration_ns} />
                  </td>
                  <td class="most">
                    <span class="one-line">
                      <Part gap={gap} />
                    </span>
                  </td>
                  <td class="number">{duration(gap.unexplained_ns)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {gaps.length > ROOM && (
        <button type="button" class="button quiet more" onClick={() => (all.value = !all.value)}>
          {all.value ? `Show the first ${ROOM}` : `Show ${Math.min(MOST, gaps.length)}`}
        </button>
      )}
    </section>
  );
}
