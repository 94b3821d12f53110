// The hosts by rooms, the worst first: as many rows as are in sight are drawn, whatever the fleet has.

import { useComputed, useSignal } from "@preact/signals";
import { SeverityIcon } from "../components/severity.tsx";
import { age, count } from "../format.ts";
import { known, SEVERITY_WORDS } from "../severity.ts";
import { hosts, hostsProblem } from "./feed.ts";
import { chosen, inSight, ROOMS, services, stateOf, type Cell, type HostLine, type Population } from "./hosts.ts";

const ROW_PX = 28;
const LIST_PX = 448;
const KINDS: Record<string, string> = { kernel: "Kernel", firmware: "Firmware", product: "Machine" };

function Found({ cell, now }: { cell: Cell; now: number }) {
  const severity = known(cell.severity);
  return (
    <td class={`heat ${severity}`} title={`${SEVERITY_WORDS[severity]} for ${age(now - cell.since_ns)}: ${cell.sentence}`}>
      <SeverityIcon severity={severity} size={14} />
      {cell.count > 1 && <span class="figures">{count(cell.count)}</span>}
    </td>
  );
}

function Row({ host, now }: { host: HostLine; now: number }) {
  const cells = [...Object.values(host.found ?? {}), ...(host.alerts === undefined ? [] : [host.alerts])];
  const worst = cells.filter(({ severity }) => severity === host.severity).sort((a, b) => a.since_ns - b.since_ns)[0];
  return (
    <tr data-testid="host" data-host={host.host}>
      <th scope="row" class="untrusted" title={[host.product, host.firmware, host.kernel].filter(Boolean).join(", ")}>
        {host.host}
      </th>
      <td class="untrusted muted">{host.service}</td>
      {ROOMS.map(([room]) => {
        const state = stateOf(host, room);
        if (state === "unknown") return <td class="heat unknown" key={room} title="Not known: the room is not watched, or its agent is silent.">?</td>;
        if (state === "well") return <td class="heat well" key={room} title="Watched, and nothing found.">·</td>;
        return <Found key={room} cell={state} now={now} />;
      })}
      {host.alerts === undefined ? <td class="heat" /> : <Found cell={host.alerts} now={now} />}
      <td class="figures">{worst === undefined ? "" : age(now - worst.since_ns)}</td>
      <td class="untrusted fleet-sentence" title={worst?.sentence}>
        {worst === undefined ? host.is_silent === true && <span class="muted">Its agent is silent.</span> : worst.sentence}
      </td>
    </tr>
  );
}

function Populations({ all }: { all: readonly Population[] }) {
  if (all.length === 0) return null;
  return (
    <details class="fleet-populations">
      <summary>Kernels, firmware and machines</summary>
      <div class="table-scroll">
        <table class="sortable">
          <thead>
            <tr>
              <th>Kind</th>
              <th>Name</th>
              <th>Hosts</th>
              {ROOMS.map(([room, title]) => (
                <th key={room}>{title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {all.map(({ kind, name, hosts: number, found }) => (
              <tr key={`${kind} ${name}`}>
                <td>{KINDS[kind] ?? kind}</td>
                <td class="untrusted">{name === "" ? "not known" : name}</td>
                <td class="figures">{count(number)}</td>
                {ROOMS.map(([room]) => (
                  <td class="figures" key={room}>
                    {found[room] === undefined ? "" : `${count(found[room])} (${((100 * found[room]) / number).toFixed(1)} %)`}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">Under each room: hosts with a warning or worse there, and their share.</p>
    </details>
  );
}

export function Hosts() {
  const search = useSignal("");
  const service = useSignal("");
  const top = useSignal(0);
  const shown = useComputed(() => chosen(hosts.value?.hosts ?? [], search.value, service.value));
  const list = hosts.value;
  if (list === null) return hostsProblem.value === "" ? null : <p class="problems">No list of hosts: {hostsProblem.value}.</p>;
  const { from, to } = inSight(shown.value.length, top.value, LIST_PX, ROW_PX);
  const all = services(list.hosts);
  return (
    <section class="card" data-testid="hosts" aria-label="Hosts">
      <h2>Hosts</h2>
      <p class={`untrusted severity-${known(list.headline.severity)}`} data-testid="hosts-headline">
        <SeverityIcon severity={list.headline.severity} /> {list.headline.sentence}
      </p>
      {hostsProblem.value !== "" && <p class="problems">No newer list of hosts: {hostsProblem.value}.</p>}
      {list.total > 0 && (
        <>
          <div class="asking">
            <label>
              Search
              <input type="search" value={search.value} data-testid="host-search" onInput={(event) => (search.value = event.currentTarget.value)} />
            </label>
            {all.length > 0 && (
              <label>
                Service
                <select value={service.value} onInput={(event) => (service.value = event.currentTarget.value)}>
                  <option value="">all</option>
                  {all.map((name) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              </label>
            )}
            <span class="muted" data-testid="hosts-shown">
              {count(shown.value.length)} of {count(list.total)} hosts
            </span>
          </div>
          <div class="table-scroll fleet-hosts" style={{ maxHeight: `${LIST_PX}px` }} tabIndex={0} role="region" aria-label="Hosts by rooms" onScroll={(event) => (top.value = event.currentTarget.scrollTop)}>
            <table>
              <thead>
                <tr>
                  <th>Host</th>
                  <th>Service</th>
                  {ROOMS.map(([room, title]) => (
                    <th key={room}>{title}</th>
                  ))}
                  <th>Alerts</th>
                  <th>For</th>
                  <th>Worst</th>
                </tr>
              </thead>
              <tbody>
                {from > 0 && <tr style={{ height: `${from * ROW_PX}px` }} aria-hidden="true" />}
                {shown.value.slice(from, to).map((host) => (
                  <Row key={host.host} host={host} now={list.now_ns} />
                ))}
                {to < shown.value.length && <tr style={{ height: `${(shown.value.length - to) * ROW_PX}px` }} aria-hidden="true" />}
              </tbody>
            </table>
          </div>
          <p class="muted">
            A dot: watched, and nothing found. A question mark: not known. A number: how many findings.
            {list.hosts.length < list.matching && ` ${count(list.matching - list.hosts.length)} more hosts are not in this list.`}
            {list.left_out > 0 && ` ${count(list.left_out)} hosts or alerts had no room or could not be read.`}
          </p>
          <Populations all={list.populations} />
        </>
      )}
    </section>
  );
}
