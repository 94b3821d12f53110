import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { clock, duration, moment, share } from "../../../format.ts";
import { covered, lostNs, sumCores, type Ledger } from "../ledger.ts";
import { KINDS } from "../words.ts";
import { heatColour } from "../palette.ts";
import { layoutOf, paintData, paintMark, prepare, xToTime, type Picture } from "../paint.ts";
import { past } from "../../../state.ts";
import { theme as shownTheme } from "../../../theme.ts";
import * as state from "../state.ts";
import { columnAt } from "../timeline.ts";
import { LedgerTable } from "./ledger.tsx";

const MARK = { light: "#14171a", dark: "#ffffff" } as const;

/** What a place says in one line; also what a screen reader hears on a key press. */
function spoken(cpu: number, when: string, ledger: Ledger): string {
  const parts = ledger.lost.slice(0, 4).map((cause) => `${KINDS[cause.kind].label} ${cause.name} ${duration(lostNs(cause))}`);
  return `Core ${cpu}, ${when}: lost ${share(ledger.lostNs, ledger.wallNs)}, unexplained ${share(ledger.unexplainedNs, ledger.wallNs)}. ${parts.join(", ")}.`;
}

/** The place under the pointer or the keys, with its column and ledger; `null` when none is chosen. */
function useChosen() {
  return useComputed(() => {
    const place = state.place.value;
    const columns = state.columns.value;
    if (!place || columns.length === 0) return null;
    const column = columns[columnAt(columns, place.ns)];
    const [core] = sumCores(column.blocks, state.history.value.causes, (cpu) => cpu === place.cpu);
    return { place, column, core: core ?? null };
  });
}

type Chosen = ReturnType<typeof useChosen>;

function Canvas({ chosen }: { chosen: Chosen }) {
  const frame = useRef<HTMLDivElement>(null);
  const data = useRef<HTMLCanvasElement>(null);
  const mark = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const said = useSignal("");

  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry.contentRect.width);
      // Two pixels per column is the least that the eye and the pointer can hit.
      state.columnRoom.value = Math.max(100, Math.floor(width.value / 1.2));
    });
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  const cpus = state.lanes.value;
  const layout = layoutOf(width.value, cpus.length);
  const { fromNs, toNs } = state.range.value;
  const picture: Picture = {
    layout,
    columns: state.columns.value,
    cells: state.cells.value,
    cpus,
    fromNs,
    toNs,
    offsetNs: state.offsetNs,
    full: state.scale.value.full,
    gaps: state.gaps.value,
    theme: shownTheme.value,
  };

  useEffect(() => {
    if (!data.current || layout.width < 100) return;
    const context = prepare(data.current, layout);
    if (context) paintData(context, picture);
  }, [width.value, picture.cells, picture.gaps, picture.theme, fromNs, toNs]);

  const at = chosen.value;
  useEffect(() => {
    if (!mark.current || layout.width < 100) return;
    const context = prepare(mark.current, layout);
    if (context && at) paintMark(context, picture, at.place.cpu, at.column, MARK[picture.theme]);
  }, [width.value, at, picture.theme, fromNs, toNs, cpus.length]);

  const placeOf = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top) / layout.row);
    if (x < layout.left || x > layout.width - layout.right || row < 0 || row >= cpus.length) return null;
    return { cpu: cpus[row], ns: xToTime(layout, fromNs, toNs, x) };
  };

  /** Moves the chosen place by columns and rows; the first press chooses the newest column. */
  const move = (byColumns: number, byRows: number) => {
    const columns = state.columns.value;
    if (columns.length === 0 || cpus.length === 0) return;
    const from = state.place.value;
    let column = columns.length - 1;
    let row = 0;
    if (from) {
      column = Math.max(0, Math.min(columns.length - 1, columnAt(columns, from.ns) + byColumns));
      row = Math.max(0, Math.min(cpus.length - 1, cpus.indexOf(from.cpu) + byRows));
    }
    const { startNs, endNs } = columns[column];
    state.hovered.value = null;
    state.choose({ cpu: cpus[row], ns: (startNs + endNs) / 2 });
    const now = chosen.value;
    if (now?.core) said.value = spoken(now.place.cpu, clock(startNs, picture.offsetNs(startNs), 1), now.core);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [-Infinity, 0],
      End: [Infinity, 0],
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      state.choose(null);
      state.hovered.value = null;
    } else if (event.key in steps) {
      move(...steps[event.key]);
    } else return;
    event.preventDefault();
  };

  return (
    <div class="canvas-scroll">
      <div
        ref={frame}
        class="canvas-frame"
        data-testid="timeline-canvas"
        tabIndex={0}
        role="application"
        aria-roledescription="timeline"
        aria-label="Lost time per core over time. Arrow keys move between windows and cores, Home and End jump, Escape lets go."
        aria-describedby="place"
        style={{ height: `${layout.height}px` }}
        onKeyDown={onKeyDown}
        onPointerMove={(event) => (state.hovered.value = placeOf(event))}
        onPointerLeave={() => (state.hovered.value = null)}
        onClick={(event) => state.choose(placeOf(event))}
      >
        <canvas ref={data} aria-hidden="true" />
        <canvas ref={mark} aria-hidden="true" class="mark" />
      </div>
      <span class="visually-hidden" role="status">
        {said.value}
      </span>
    </div>
  );
}

/** The numbers of the chosen place, or of the whole range. */
function Panel({ chosen }: { chosen: Chosen }) {
  const at = chosen.value;
  const { toNs } = state.range.value;
  const cores = state.cores.value;
  const whole = !at;
  const ledger = at ? at.core : state.whole.value;
  // Whole windows are summed up: the first may begin before the range, and the page may not have been watching for all of it yet.
  const { startNs: from, endNs: to } = at ? at.column : covered(state.blocks.value);
  const isOfDays = to - from > 12 * 3600e9;
  const when = (ns: number) =>
    past.value ? moment(ns, toNs) : isOfDays ? moment(ns + state.offsetNs(ns), toNs + state.offsetNs(toNs)) : clock(ns, state.offsetNs(ns), 1);
  return (
    <aside class="panel" id="place" data-testid="ledger" aria-label="Ledger">
      <h3>
        {whole ? `${cores.length === 1 ? `Core ${cores[0].cpu}` : `${cores.length} cores`}, whole range` : `Core ${at.place.cpu}`}
        {!whole && state.pinned.value && !state.hovered.value && (
          <button type="button" class="button quiet" onClick={() => state.choose(null)}>
            Whole range
          </button>
        )}
      </h3>
      <p class="figures muted">
        {when(from)} – {when(to)} ({duration(to - from)})
      </p>
      {whole && state.lostPlace.value && (
        <p class="aside muted" data-testid="place-lost">
          Core {state.lostPlace.value.cpu} at {clock(state.lostPlace.value.ns, state.offsetNs(state.lostPlace.value.ns), 1)} was chosen, and is not in what is shown.
        </p>
      )}
      {ledger ? <LedgerTable ledger={ledger} /> : <p class="empty">This core was not online then, or its counters could not be read.</p>}
    </aside>
  );
}

/** How strong a colour is, or how high a lane. */
function Scale() {
  const theme = shownTheme.value;
  const { full, clipped } = state.scale.value;
  const heat = state.cells.value.layers === null;
  const most = share(full, 1);
  if (!heat) {
    return (
      <p class="scale muted">
        Full height of a lane: <strong class="figures">{most}</strong> of the core's time
        {clipped && "; taller ones are cut off, with a slit"}. Wedges are gaps.
      </p>
    );
  }
  const stops = [0, 0.25, 0.5, 0.75, 1].map((level) => `rgb(${heatColour(level, theme).join(" ")})`).join(", ");
  return (
    <p class="scale muted">
      Lost and unexplained share: <span class="figures">0 %</span>
      <span class="ramp" aria-hidden="true" style={{ background: `linear-gradient(to right, ${stops})` }} />
      <span class="figures">{most}</span>
      {clipped && " and more"}
    </p>
  );
}

export function Timeline() {
  const chosen = useChosen();
  const cpus = state.lanes.value;
  const any = state.blocks.value.length > 0;
  return (
    <section class="card timeline" data-testid="timeline" aria-labelledby="timeline-title">
      <div class="card-head">
        <h2 id="timeline-title">Lost time by core</h2>
        {any && <Scale />}
      </div>
      {any && cpus.length > 0 ? (
        <div class="timeline-body">
          <Canvas chosen={chosen} />
          <Panel chosen={chosen} />
        </div>
      ) : (
        <p class="empty">
          {any ? "None of the chosen cores is watched." : "There is no window of this range."}
        </p>
      )}
    </section>
  );
}
