// The modules by controller, channel and slot: each a button with its counts.

import { SeverityIcon } from "../../../components/severity.tsx";
import { count } from "../../../format.ts";
import type { DimmView as Dimm, Memory } from "../../../types.ts";
import { apart, atLeast, byController, cellErrors, counted, errorsOf, gridOf, key, rate } from "../map.ts";
import { known } from "../../../severity.ts";
import { chooseDimm } from "../state.ts";

function Cell({ dimm, isChosen, name }: { dimm: Dimm; isChosen: boolean; name: string }) {
  const severity = known(dimm.severity);
  const [corrected, uncorrected] = [dimm.corrected_count ?? 0, dimm.uncorrected_count ?? 0];
  const errors = corrected + uncorrected;
  const words = (severity: "corrected" | "uncorrected", errors: number) => {
    const text = errorsOf(dimm, severity);
    if (text === "-") return `${severity} errors not known`;
    return `${text.startsWith("≥") ? "at least " : ""}${counted(errors, `${severity} error`)}`;
  };
  const says = `${dimm.label || dimm.id}: ${words("corrected", corrected)}, ${words("uncorrected", uncorrected)}`;
  return (
    <button type="button" class="dimm" data-severity={severity} data-testid="dimm" data-dimm={dimm.id} aria-pressed={isChosen} title={says} onClick={() => chooseDimm(dimm.id)}>
      <span class="dimm-name untrusted">{name}</span>
      <span class="dimm-errors figures">
        {errors === 0 ? (
          <span class="muted">{cellErrors(dimm)}</span>
        ) : (
          <>
            <SeverityIcon severity={severity} size={13} />
            {cellErrors(dimm)}
          </>
        )}
      </span>
      <span class="dimm-rate figures muted">{dimm.rate_per_s > 0 ? atLeast(dimm, rate(dimm.rate_per_s)) : ""}</span>
      <span class="visually-hidden">{says}</span>
    </button>
  );
}

export function DimmMap({ answer, chosen }: { answer: Memory; chosen: Dimm | null }) {
  return (
    <section class="card" data-testid="dimm-map" aria-label="Memory modules">
      <div class="card-head">
        <h2>Memory modules</h2>
        <span class="muted aside">Total errors, and corrected errors per second</span>
      </div>
      <div class="controllers">
        {byController(answer.controllers, answer.dimms).map(({ id, name, dimms }) => {
          const { modules, places } = apart(dimms);
          const grid = gridOf(modules);
          const cell = (dimm: Dimm, words: string) => <Cell key={dimm.id} dimm={dimm} isChosen={dimm.id === chosen?.id} name={words} />;
          return (
            <div class="controller" key={id}>
              <h3>
                <span class="untrusted">{id === "" ? "Without a controller" : id}</span> <span class="muted untrusted">{name}</span>
              </h3>
              {grid ? (
                grid.channels.map((channel) => (
                  <div class="channel" key={channel}>
                    <span class="channel-name muted">Ch {channel}</span>
                    {grid.slots.map((slot) => {
                      const dimm = grid.at.get(key(channel, slot));
                      return dimm ? cell(dimm, `slot ${slot}`) : <span class="dimm empty-slot" key={slot} />;
                    })}
                  </div>
                ))
              ) : (
                <div class="channel">{modules.map((dimm) => cell(dimm, dimm.label || dimm.id))}</div>
              )}
              {places.length > 0 && (
                <div class="channel" data-testid="places">
                  <span class="channel-name muted">Module not known</span>
                  {places.map((dimm) => cell(dimm, dimm.id))}
                </div>
              )}
            </div>
          );
        })}
      </div>
      {answer.dimms_left_out > 0 && <p class="muted aside">{count(answer.dimms_left_out)} more modules are not shown.</p>}
    </section>
  );
}
