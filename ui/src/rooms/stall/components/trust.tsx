// Why the numbers can be trusted, and how far: what works here, what watching costs, what was missed.

import { bytes, count, duration, share } from "../../../format.ts";
import { coreFilter, sumCompleteness, sumCost, sumUntimed } from "../ledger.ts";
import { laggedCount } from "../../../state.ts";
import * as state from "../state.ts";
import type { Capability } from "../../../types.ts";
import { Icon, type IconName } from "../../../components/icons.tsx";

const STATES: Record<string, { words: string; icon: IconName }> = {
  works: { words: "works", icon: "ok" },
  reduced: { words: "reduced", icon: "notice" },
  unsupported: { words: "not supported", icon: "warning" },
};

export function Capabilities() {
  // What is missing first: that is what somebody may do something about.
  const rank = (row: Capability) => ["unsupported", "reduced", "works"].indexOf(row.state);
  const rows = [...(state.meta.value?.capabilities ?? [])].sort((a, b) => rank(a) - rank(b));
  return (
    <section class="card" data-testid="capabilities" aria-labelledby="capabilities-title">
      <div class="card-head">
        <h2 id="capabilities-title">What works on this host</h2>
        <p class="muted figures">
          {rows.filter((row) => row.state === "works").length} of {rows.length} fully
        </p>
      </div>
      {rows.length > 0 ? (
        <ul class="capabilities">
          {rows.map((row) => {
            const known = STATES[row.state] ?? STATES.unsupported;
            return (
              <li key={row.id} data-state={row.state}>
                <span class={`badge ${row.state}`}>
                  <Icon name={known.icon} size={14} />
                  {known.words}
                </span>
                <div>
                  <strong class="untrusted">{row.name}</strong>
                  <p class="untrusted muted">{row.reason}</p>
                  {row.remedy !== "" && <p class="untrusted remedy">{row.remedy}</p>}
                </div>
              </li>
            );
          })}
        </ul>
      ) : (
        <p class="empty">The server named no capability.</p>
      )}
    </section>
  );
}

export function Cost() {
  state.revision.value;
  const { fromNs, toNs } = state.range.value;
  const cost = sumCost(state.blocks.value);
  const probesNs = cost.probes.reduce((sum, probe) => sum + probe.total_ns, 0);
  const missed = cost.probes.reduce((sum, probe) => sum + probe.missed, 0);
  const spanNs = Math.max(1, toNs - fromNs);
  // Probes run on every watched core, whatever the filter shows.
  const wallNs = spanNs * Math.max(1, state.host.value?.cpus.length ?? 1);
  const facts: [string, string, string][] = [
    ["In probes", share(probesNs, wallNs), `${duration((probesNs / spanNs) * 1e9)} per second over all cores`],
    ["Own process", share(cost.process_cpu_ns, spanNs), "of one core"],
    ["Interrupts it caused", count(cost.self_interrupts), "on watched cores, while it watched"],
    ...(cost.attach_interrupts == null
      ? []
      : ([["To attach", `up to ${count(cost.attach_interrupts)}`, "interrupts on watched cores; their time is not measured"]] as [string, string, string][])),
    ["Events dropped", count(cost.dropped), `${count(missed)} probe runs skipped, ${count(cost.torn)} torn reads`],
    ["Interrupts not traced", count(cost.untraced_interrupts ?? 0), "by the kernel; they count as what they interrupted"],
    ["Exits not traced", count(cost.unreported), "by the kernel; the next event shows them"],
    ["Memory", bytes(cost.resident_bytes), `and ${bytes(cost.map_bytes)} of eBPF maps`],
  ];
  for (const [name, value] of Object.entries(state.meta.value?.dropped ?? {})) {
    if (value > 0) facts.push([`Dropped: ${name.replaceAll("_", " ")}`, count(value), "by the server"]);
  }
  const forgotten = state.history.value.forgottenGaps + state.history.value.forgottenWindows;
  if (forgotten > 0) facts.push(["Forgotten by this page", count(forgotten), "gaps and windows, for lack of room"]);
  if (laggedCount.value > 0) facts.push(["This page fell behind", count(laggedCount.value), "times; it caught up from the server"]);
  return (
    <section class="card" data-testid="cost" aria-labelledby="cost-title">
      <div class="card-head">
        <h2 id="cost-title">What watching costs</h2>
        <p class="muted">in this range</p>
      </div>
      <dl class="cost">
        {facts.map(([name, value, note]) => (
          <div key={name}>
            <dt class="untrusted">{name}</dt>
            <dd class="figures">{value}</dd>
            <dd class="muted">{note}</dd>
          </div>
        ))}
      </dl>
      {cost.probes.length > 0 && (
        <details class="fold">
          <summary>Each probe</summary>
          <div class="table-scroll" tabIndex={0} role="region" aria-label="Cost of each probe">
            <table class="ledger">
              <thead>
                <tr>
                  <th scope="col">program</th>
                  <th scope="col">runs</th>
                  <th scope="col">time</th>
                  <th scope="col">each</th>
                  <th scope="col">skipped</th>
                </tr>
              </thead>
              <tbody>
                {cost.probes.map((probe) => (
                  <tr key={probe.name}>
                    <th scope="row" class="untrusted">
                      {probe.name}
                    </th>
                    <td>{count(probe.count)}</td>
                    <td>{duration(probe.total_ns)}</td>
                    <td>{probe.count > 0 ? duration(probe.total_ns / probe.count) : "–"}</td>
                    <td>{count(probe.missed)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </section>
  );
}

/** The probes held against the kernel's own counters, and what no probe can time. */
export function Completeness() {
  const rows = sumCompleteness(state.blocks.value).filter((row) => row.kernel_count > 0 || row.probe_count > 0);
  const untimed = sumUntimed(state.blocks.value, coreFilter(state.filters.value.cpus));
  const kernel = rows.reduce((sum, row) => sum + row.kernel_count, 0);
  // A probe may see one more than the kernel at a window's edge; that does not make up for a miss elsewhere.
  const seen = rows.reduce((sum, row) => sum + Math.min(row.probe_count, row.kernel_count), 0);
  return (
    <section class="card" data-testid="completeness" aria-labelledby="completeness-title">
      <div class="card-head">
        <h2 id="completeness-title">Coverage against /proc/interrupts</h2>
      </div>
      {rows.length === 0 ? (
        <p class="empty">No interrupt was compared in this range.</p>
      ) : (
        <>
          <p>
            Probes saw <strong class="figures">{share(seen, kernel)}</strong> of{" "}
            <span class="figures">{count(kernel)}</span> interrupts that the kernel counted.
          </p>
          <details class="fold">
            <summary>Each row of /proc/interrupts</summary>
            <div class="table-scroll" tabIndex={0} role="region" aria-label="Rows of /proc/interrupts">
              <table class="ledger">
                <thead>
                  <tr>
                    <th scope="col">row</th>
                    <th scope="col">kernel</th>
                    <th scope="col">probes</th>
                    <th scope="col">seen</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={row.row}>
                      <th scope="row" class="untrusted">
                        {row.row}
                      </th>
                      <td>{count(row.kernel_count)}</td>
                      <td>{count(row.probe_count)}</td>
                      <td>{share(row.probe_count, row.kernel_count)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </details>
        </>
      )}
      <h3>Counted but not timed</h3>
      {untimed.length === 0 ? (
        <p class="muted">
          {seen < kernel
            ? `${count(kernel - seen)} interrupts of the rows above; every row has a tracepoint.`
            : "Nothing: every interrupt of this range has a time."}
        </p>
      ) : (
        <table class="ledger">
          <tbody>
            {untimed.map((row) => (
              <tr key={row.row}>
                <th scope="row" class="untrusted">
                  {row.row} <span class="muted">{row.name}</span>
                </th>
                <td>{count(row.count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
