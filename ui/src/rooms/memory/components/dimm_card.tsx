// One module: its counts and rates, its fault with the map that shows it, and what to do.

import { Certainty } from "../../../components/certainty.tsx";
import { SeverityBadge } from "../../../components/severity.tsx";
import { age, bytes, count, duration, moment } from "../../../format.ts";
import { realtimeNow } from "../../../state.ts";
import type { DimmView as Dimm, ErrorReport, Memory } from "../../../types.ts";
import { atLeast, counted, errorsOf, FIDELITY_WORDS, isUnread, MODE_WORDS, rate, where } from "../map.ts";
import { FaultMap } from "./fault_map.tsx";

/** Reports that stand open. */
const REPORTS = 8;

const SERIAL_WORDS = { certain: "", probable: " (probable)", cannot_tell_apart_here: " (not unique)" };

const PERSISTENCE_WORDS = { transient: "transient", permanent: "permanent", undetermined: "whether it stays is undetermined" };

function facts(dimm: Dimm, answer: Memory): [string, string, string][] {
  const { spread } = dimm;
  const cost = answer.dimm_costs.find(({ id }) => id === dimm.id);
  const isKnown = dimm.rate_window_s > 0;
  const window = isKnown ? `over the last ${age(dimm.rate_window_s * 1e9)}` : "needs two looks within an hour";
  const known: [string, string, string][] = [
    ["Corrected errors", errorsOf(dimm, "corrected"), isUnread(dimm, "corrected") ? "not every counter can be read" : (FIDELITY_WORDS[dimm.fidelity] ?? dimm.fidelity)],
    [
      "Uncorrected errors",
      errorsOf(dimm, "uncorrected"),
      (dimm.closed?.uncorrected_since ?? dimm.uncorrected_count ?? 0) > 0 ? "the data at these addresses is lost" : (dimm.uncorrected_count ?? 0) > 0 ? "none since the fault was closed" : isUnread(dimm, "uncorrected") ? "not every counter can be read" : "no data lost",
    ],
    ["Rate now", isKnown ? atLeast(dimm, rate(dimm.rate_per_s)) : "not known", dimm.is_over_rate ? `over the bound; ${window}` : window],
    [
      "Worst rate",
      dimm.worst_window_s > 0 ? atLeast(dimm, rate(dimm.worst_rate_per_s)) : "0",
      dimm.worst_window_s > 0 ? `over ${age(dimm.worst_window_s * 1e9)}` : "no error in any window",
    ],
  ];
  if (spread.located_count > 0) {
    known.push(["Spread", counted(spread.cells, "cell"), [counted(spread.rows, "row"), counted(spread.columns, "column"), counted(spread.banks, "bank"), counted(spread.ranks, "rank")].join(", ")]);
  }
  if (cost) known.push(["Reporting costs", cost.per_day_ns === null ? "not known" : `${duration(cost.per_day_ns)} a day`, `${count(cost.corrected_count)} errors since the watch began`]);
  known.push(["Serial number", serialOf(dimm), [dimm.id === dimm.serial ? "" : dimm.id, dimm.part ?? "", dimm.size_bytes > 0 ? bytes(dimm.size_bytes) : "", dimm.controller].filter((word) => word !== "").join(", ")]);
  return known;
}

/** A serial number that is not certain is no name, and says so. */
function serialOf(dimm: Dimm): string {
  if (dimm.serial === null) return "not known";
  return `${dimm.serial}${SERIAL_WORDS[dimm.serial_certainty ?? "cannot_tell_apart_here"]}`;
}

export function Reports({ reports, what }: { reports: readonly ErrorReport[]; what: string }) {
  const shown = [...reports].reverse().slice(0, REPORTS);
  if (shown.length === 0) return null;
  return (
    <div data-testid="reports">
      <h3>{what}</h3>
      <ul class="memory-reports">
        {shown.map((report, at) => (
          <li key={at}>
            <span class="figures muted">{report.at_realtime_ns > 0 ? moment(report.at_realtime_ns, realtimeNow()) : "–"}</span>{" "}
            {report.fidelity === "exact" ? "" : "≥ "}
            {counted(report.count, `${report.severity} error`)} <span class="untrusted muted">{where(report.location) || report.detail}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function DimmCard({ dimm, answer }: { dimm: Dimm; answer: Memory }) {
  const { fault, advice } = dimm;
  return (
    <section class="card" data-testid="dimm-card" data-dimm={dimm.id} aria-label={`${dimm.only_place ? "Place" : "Module"} ${dimm.label || dimm.id}`}>
      <div class="card-head">
        <h2>
          <span class="untrusted">{dimm.label || dimm.id}</span>
        </h2>
        <SeverityBadge severity={dimm.severity} size={15} />
      </div>
      {dimm.only_place && (
        <p>
          Of which module these errors are is not known, only where: <span class="untrusted">{dimm.only_place}</span>.
        </p>
      )}
      {(dimm.mixed_with ?? []).length > 0 && (
        <p data-testid="mixed">
          Nothing tells it from <span class="untrusted">{(dimm.mixed_with ?? []).join(", ")}</span>, and they may have changed places: earlier counts may be the
          other's.
        </p>
      )}
      {dimm.closed && (
        <p data-testid="closed">
          Fault <span class="untrusted">{dimm.closed_words}</span>
          {dimm.closed.reason !== "" && (
            <>
              {" "}
              (<span class="untrusted">{dimm.closed.reason}</span>)
            </>
          )}
          . Since then: {counted(dimm.closed.corrected_since, "corrected error")}, {counted(dimm.closed.uncorrected_since, "uncorrected error")}.
        </p>
      )}
      {fault && (
        <div class="fault">
          <p>
            <strong>Fault: {MODE_WORDS[fault.mode] ?? fault.mode}</strong>, {PERSISTENCE_WORDS[fault.persistence] ?? fault.persistence}{" "}
            <Certainty certainty={fault.certainty} />
          </p>
          <p>
            <strong>What to do:</strong> {advice}
          </p>
          <p class="muted untrusted">{fault.evidence}</p>
          <FaultMap cells={fault.cells} leftOut={fault.cells_left_out} />
        </div>
      )}
      {!fault && advice !== null && (
        <div class="fault" data-testid="no-place">
          <p>
            <strong>Fault: undetermined.</strong> Its errors were counted, and no report since the watch began tells their place.
          </p>
          <p>
            <strong>What to do:</strong> {advice}
          </p>
        </div>
      )}
      <dl class="memory-facts">
        {facts(dimm, answer).map(([name, value, about]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="figures untrusted">{value}</dd>
            <dd class="muted untrusted">{about}</dd>
          </div>
        ))}
      </dl>
      <Reports reports={answer.reports.filter((report) => report.dimm === dimm.id)} what="Newest reports" />
    </section>
  );
}
