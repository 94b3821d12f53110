import { useSignal } from "@preact/signals";
import { commandLine } from "../command.ts";
import { formatCpuList, parseCpuList } from "../../../cpulist.ts";
import { share, threshold, timed } from "../../../format.ts";
import { KINDS, type Kind } from "../words.ts";
import { mode, overview, past } from "../../../state.ts";
import { base, changeFilters, filters, filtersAreDefault, history, ifSeen, lookedForUs, revision, whole } from "../state.ts";
import { MAX_MIN_US, RANGES_S } from "../filters.ts";
import { Command } from "../../../components/command.tsx";
import { Swatch } from "./swatch.tsx";

function rangeLabel(seconds: number): string {
  if (seconds === 0) return "all";
  return seconds >= 120 && seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

function Range() {
  const { rangeS } = filters.value;
  const offered: number[] = [...RANGES_S, ...(mode.value === "replay" ? [0] : [])];
  if (!offered.includes(rangeS)) offered.push(rangeS);
  return (
    <fieldset class="segments">
      <legend>Last</legend>
      {offered.map((seconds) => (
        <label key={seconds}>
          <input
            type="radio"
            name="range"
            value={seconds}
            checked={seconds === rangeS}
            onChange={() => changeFilters({ rangeS: seconds })}
          />
          <span>{rangeLabel(seconds)}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Cores() {
  const problem = useSignal("");
  const { cpus } = filters.value;
  const take = (text: string) => {
    const parsed = text.trim() === "" ? [] : parseCpuList(text);
    if (!parsed) {
      problem.value = "Write cores as 0-3,8.";
      return;
    }
    problem.value = "";
    changeFilters({ cpus: parsed });
  };
  return (
    <label class="field">
      <span>Cores</span>
      <input
        type="text"
        name="cpus"
        size={9}
        placeholder="all"
        autocomplete="off"
        spellcheck={false}
        value={formatCpuList(cpus)}
        aria-invalid={problem.value !== ""}
        onChange={(event) => take(event.currentTarget.value)}
      />
      {problem.value !== "" && (
        <span class="field-problem" role="status">
          {problem.value}
        </span>
      )}
    </label>
  );
}

function MinimumGap() {
  const { minUs } = filters.value;
  const take = (field: HTMLInputElement) => {
    const value = field.valueAsNumber;
    if (value >= 0 && value <= MAX_MIN_US) changeFilters({ minUs: value });
    else field.value = String(minUs);
  };
  return (
    <>
      <label class="field">
        <span>Gaps from</span>
        <input
          type="number"
          name="min_us"
          min={0}
          max={MAX_MIN_US}
          step="any"
          value={minUs}
          aria-describedby="looked-for"
          onChange={(event) => take(event.currentTarget)}
        />
        <span>us</span>
      </label>
      <span id="looked-for" class="field-note muted" role="status">
        {minUs < lookedForUs.value && `gaps are looked for from ${threshold(lookedForUs.value)} on`}
      </span>
    </>
  );
}

/** The legend of all colours and the filter by kind in one: kinds that occurred, with their share. */
function Kinds() {
  revision.value;
  const { kinds } = filters.value;
  const sum = whole.value;
  const counts = KINDS.map((_, at) => sum.lost.reduce((all, lost) => all + (lost.kind === at ? lost.count : 0), 0));
  const occurred = new Set(history.value.causes.map((cause) => cause.kind));
  const toggle = (kind: Kind) =>
    changeFilters({
      kinds: KINDS.map((known) => known.id).filter((id) => (id === kind ? !kinds.includes(id) : kinds.includes(id))),
    });
  return (
    <div class="kinds" role="group" aria-label="Causes to show">
      {KINDS.map((kind, at) =>
        occurred.has(at) || kinds.includes(kind.id) ? (
          <button
            key={kind.id}
            type="button"
            class="chip"
            data-kind={kind.id}
            aria-pressed={kinds.includes(kind.id)}
            data-off={kinds.length > 0 && !kinds.includes(kind.id)}
            onClick={() => toggle(kind.id)}
          >
            <Swatch kind={at} />
            {kind.label}
            <span class="figures muted">{timed(sum.byKindNs[at], counts[at], share(sum.byKindNs[at], sum.wallNs))}</span>
          </button>
        ) : null,
      )}
      <span class="chip still">
        <Swatch kind={null} />
        unexplained
        <span class="figures muted">{ifSeen(sum.unexplainedNs, share(sum.unexplainedNs, sum.wallNs))}</span>
      </span>
    </div>
  );
}

function TheSame() {
  const replay = mode.value === "replay";
  const line = commandLine(filters.value, replay ? (overview.value?.recording ?? "FILE") : null, lookedForUs.value);
  return <Command label={replay ? "This recording in a terminal" : "The same in a terminal"} line={line} words="command" button="copy" />;
}

export function FilterBar() {
  return (
    <section class="filters" data-testid="filters" aria-label="Filters">
      <div class="filter-row">
        {past.value === null && <Range />}
        <Cores />
        <MinimumGap />
        {!filtersAreDefault.value && (
          <button type="button" class="button quiet" onClick={() => changeFilters(base.value)}>
            Reset
          </button>
        )}
        {past.value === null && <TheSame />}
      </div>
      <Kinds />
    </section>
  );
}
