// One interface: the evidence for its state, its health reporters, its probe, its newest changes.

import { Certainty } from "../../../components/certainty.tsx";
import { SeverityBadge } from "../../../components/severity.tsx";
import { count, duration, moment, plural } from "../../../format.ts";
import { realtimeNow } from "../../../state.ts";
import type { InterfaceChange, InterfaceView } from "../../../types.ts";

/** Changes that are shown. */
const SHOWN = 10;

export function InterfaceCard({ one, changes }: { one: InterfaceView; changes: readonly InterfaceChange[] }) {
  const { probe } = one;
  return (
    <section class="card" data-interface={one.name} aria-label={`Interface ${one.name}`}>
      <div class="card-head">
        <h2>
          <span class="untrusted">{one.name}</span>: {one.state}
        </h2>
        <SeverityBadge severity={one.severity} size={15} />
        {one.certainty && <Certainty certainty={one.certainty} />}
      </div>
      <ul class="nic-lines">
        {one.evidence.map((line) => (
          <li key={line} class="untrusted">
            {line}
          </li>
        ))}
      </ul>
      {one.carries.length > 0 && <p class="untrusted">In use for: {one.carries.map(({ what }) => what).join(", ")}.</p>}
      {one.reporters.length > 0 && (
        <>
          <h3>Health reporters</h3>
          <ul class="nic-lines">
            {one.reporters.map((reporter) => (
              <li key={`${reporter.device} ${reporter.port} ${reporter.name}`} data-reporter={reporter.name}>
                <span class="untrusted">{reporter.name}</span> of <span class="untrusted">{reporter.device}</span>: {reporter.state}, {plural(reporter.error_count, "error", "errors")},{" "}
                {plural(reporter.recover_count, "recovery", "recoveries")}{reporter.has_dump ? ", dump available" : ""}
              </li>
            ))}
          </ul>
        </>
      )}
      {probe && (
        <p>
          Probes of <span class="untrusted">{probe.peer}</span>: {count(probe.answered_count)} of {count(probe.sent_count)} answered
          {probe.round_trips ? `; median ${duration(probe.round_trips.p50_ns)}, 99 of 100 within ${duration(probe.round_trips.p99_ns)}` : ""}.
        </p>
      )}
      {changes.length > 0 && (
        <>
          <h3>State changes</h3>
          <ul class="nic-lines">
            {[...changes]
              .reverse()
              .slice(0, SHOWN)
              .map((change) => (
                <li key={change.at_ns}>
                  <span class="figures muted">{moment(change.at_realtime_ns, realtimeNow())}</span> {change.from} → {change.to}: <span class="untrusted">{change.evidence.join("; ")}</span>
                </li>
              ))}
          </ul>
        </>
      )}
    </section>
  );
}
