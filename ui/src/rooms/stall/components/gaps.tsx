import { useSignal } from "@preact/signals";
import { clock, count, duration, instant, share, threshold } from "../../../format.ts";
import { gapKey } from "../history.ts";
import type { Gap } from "../../../types.ts";
import { kindIndex, SOURCES, verdictWords } from "../words.ts";
import { past } from "../../../state.ts";
import * as state from "../state.ts";
import { Bar } from "../../../components/bar.tsx";
import { Certainty } from "../../../components/certainty.tsx";
import { CauseName, kindClass, Swatch } from "./swatch.tsx";

const ROOM = 8;
const MOST = 200;

/** What no traced interval covers is "untraced" and not "unexplained": the verdict may still explain it. */
function segments(gap: Gap) {
  return [
    ...gap.causes.map((cause, at) => ({
      key: String(at),
      className: kindClass(kindIndex(cause.kind)),
      value: cause.duration_ns,
    })),
    { key: "untraced", className: kindClass(null), value: gap.unexplained_ns },
  ];
}

function Inside({ gap }: { gap: Gap }) {
  const row = (key: string, name: preact.ComponentChildren, ns: number) => (
    <tr key={key}>
      <th scope="row">{name}</th>
      <td>{duration(ns)}</td>
      <td class="muted">{share(ns, gap.duration_ns)}</td>
    </tr>
  );
  return (
    <table class="ledger">
      <thead>
        <tr>
          <th scope="col">inside</th>
          <th scope="col">time</th>
          <th scope="col">share</th>
        </tr>
      </thead>
      <tbody>
        {gap.causes.map((cause, at) => {
          const kind = kindIndex(cause.kind);
          return row(String(at), <CauseName kind={kind} name={cause.name} />, cause.duration_ns);
        })}
        {row("untraced", <><Swatch kind={null} />untraced</>, gap.unexplained_ns)}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">= gap</th>
          <td>{duration(gap.duration_ns)}</td>
          <td />
        </tr>
      </tfoot>
    </table>
  );
}

function OneGap({ gap }: { gap: Gap }) {
  const open = useSignal(false);
  const show = () => {
    state.choose({ cpu: gap.cpu, ns: gap.start_ns });
    document.querySelector<HTMLElement>(".canvas-frame")?.focus();
  };
  return (
    <li>
      <details onToggle={(event) => (open.value = event.currentTarget.open)}>
        <summary>
          <span class="gap-length figures">{duration(gap.duration_ns)}</span>
          <span class="gap-core figures">core {gap.cpu}</span>
          <span class="gap-when figures muted">{clock(gap.start_ns, state.offsetNs(gap.start_ns))}</span>
          <Bar segments={segments(gap)} full={gap.duration_ns} />
          <span class="gap-verdict">
            {verdictWords(gap) ?? <span class="untrusted">{gap.verdict}</span>}
            <Certainty certainty={gap.certainty} />
          </span>
          <span class="gap-untraced figures muted">{share(gap.unexplained_ns, gap.duration_ns)} untraced</span>
          <span class="gap-source muted">{SOURCES[gap.source] ?? gap.source}</span>
        </summary>
        {open.value && (
          <div class="gap-inside">
            <Inside gap={gap} />
            <div>
              <h4>Evidence</h4>
              {gap.evidence.length > 0 ? (
                <ul>
                  {gap.evidence.map((line, at) => (
                    <li key={at} class="untrusted">
                      {line}
                    </li>
                  ))}
                </ul>
              ) : (
                <p class="muted">None was recorded.</p>
              )}
              <p class="muted figures">Began {instant(gap.start_ns, state.offsetNs(gap.start_ns))}</p>
              <button type="button" class="button" onClick={show}>
                Show in the timeline
              </button>
            </div>
          </div>
        )}
      </details>
    </li>
  );
}

export function Gaps() {
  const all = useSignal(false);
  const gaps = state.gaps.value;
  // What is shorter than both was not looked for, so nothing can be said of it.
  const fromUs = Math.max(state.filters.value.minUs, state.lookedForUs.value);
  const shown = gaps.slice(0, all.value ? MOST : ROOM);
  return (
    <section class="card" data-testid="gaps" aria-labelledby="gaps-title">
      <div class="card-head">
        <h2 id="gaps-title">Longest gaps</h2>
        {gaps.length > 0 && (
          <p class="muted figures">
            {count(state.gapCount.value)} {past.value ? "listed, " : ""}of {threshold(fromUs)} and more; longest first
          </p>
        )}
      </div>
      {gaps.length > 0 ? (
        <ol class="gaps">
          {shown.map((gap) => (
            <OneGap key={gapKey(gap)} gap={gap} />
          ))}
        </ol>
      ) : (
        <p class="empty">No gap of {threshold(fromUs)} or more in this range.</p>
      )}
      {gaps.length > ROOM && (
        <button type="button" class="button quiet more" onClick={() => (all.value = !all.value)}>
          {all.value ? `Show the first ${ROOM}` : `Show ${Math.min(MOST, gaps.length)}`}
        </button>
      )}
    </section>
  );
}
