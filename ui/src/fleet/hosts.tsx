// The hosts by rooms, the worst first: as many rows as are in sight are drawn, whatever the fleet has.

import { useComputed, useSignal } from "@preact/signals";
import { followLink, given, hrefWith } from "../address.ts";
import { SeverityIcon } from "../components/severity.tsx";
import { age, count } from "../format.ts";
import { known, SEVERITY_WORDS } from "../severity.ts";
import { cases, hosts, hostsProblem, isOpen } from "./feed.ts";
import { chosen, inSight, lostShare, ORDERS, pageOf, ROOMS, services, sorted, stateOf, type Cell, type HostLine, type HostList, type Order, type Population } from "./hosts.ts";

const ROW_PX = 28;
const LIST_PX = 448;
const KINDS: Record<string, string> = { kernel: "Kernel", firmware: "Firmware", product: "Machine", dimm: "Memory module", drive: "Drive" };

/** A count, and its share of all. */
function part(number: number, all: number): string {
  return `${count(number)} (${((100 * number) / Math.max(1, all)).toFixed(1)} %)`;
}

function Found({ cell, now }: { cell: Cell; now: number }) {
  const severity = known(cell.severity);
  return (
    <td class={`heat ${severity}`} title={`${SEVERITY_WORDS[severity]} for ${age(now - cell.since_ns)}: ${cell.sentence}`}>
      <SeverityIcon severity={severity} size={14} />
      {cell.count > 1 && <span class="figures">{count(cell.count)}</span>}
    </td>
  );
}

function lostWords({ lost }: HostLine): string {
  if (lost === undefined) return "Not known: lost time is not watched, or its agent is silent.";
  const rate = (ns: number) => `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms per second`;
  const seen = lost.is_traced ? "" : " Only the kernel's counters told: more may have been lost.";
  return `Core ${lost.worst_cpu} lost most: ${rate(lost.worst_ns_per_s)}. All ${count(lost.cores)} watched cores: ${rate(lost.total_ns_per_s)}.${seen}`;
}

function lostText(host: HostLine): string {
  const share = lostShare(host);
  return share === null ? "?" : `${host.lost?.is_traced === true ? "" : "≥ "}${(100 * share).toFixed(1)} %`;
}

function Row({ host, now }: { host: HostLine; now: number }) {
  const cells = [...Object.values(host.found ?? {}), ...(host.alerts === undefined ? [] : [host.alerts])];
  const worst = cells.filter(({ severity }) => severity === host.severity).sort((a, b) => a.since_ns - b.since_ns)[0];
  return (
    <tr data-testid="host" data-host={host.host}>
      <th scope="row" class="untrusted" title={[host.product, host.firmware, host.kernel].filter(Boolean).join(", ")}>
        <a href={hrefWith({ host: host.host })} onClick={followLink({ host: host.host })}>
          {host.host}
        </a>
      </th>
      <td class="untrusted muted">{host.service}</td>
      {ROOMS.map(([room]) => {
        const state = stateOf(host, room);
        if (state === "unknown") return <td class="heat unknown" key={room} title="Not known: the room is not watched, or its agent is silent.">?</td>;
        if (state === "well") return <td class="heat well" key={room} title="Watched, and nothing found.">·</td>;
        return <Found key={room} cell={state} now={now} />;
      })}
      {host.alerts === undefined ? <td class="heat" /> : <Found cell={host.alerts} now={now} />}
      <td class="figures" title={lostWords(host)} data-testid="lost">
        {lostText(host)}
      </td>
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
      <summary>Kernels, firmware, machines and parts</summary>
      <div class="table-scroll">
        <table class="sortable">
          <thead>
            <tr>
              <th>Kind</th>
              <th>Name</th>
              <th>Hosts</th>
              <th>Parts</th>
              <th>Parts in trouble</th>
              {ROOMS.map(([room, title]) => (
                <th key={room}>{title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {all.map(({ kind, name, hosts: number, found = {}, parts }) => (
              <tr key={`${kind} ${name}`}>
                <td>{KINDS[kind] ?? kind}</td>
                <td class="untrusted">{name === "" ? "not known" : name}</td>
                <td class="figures">{count(number)}</td>
                <td class="figures">{parts === undefined ? "" : count(parts.count)}</td>
                <td class="figures">{parts === undefined ? "" : part(parts.faulty, parts.count)}</td>
                {ROOMS.map(([room]) => (
                  <td class="figures" key={room}>
                    {found[room] === undefined ? "" : part(found[room], number)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">Under each room: hosts with a warning or worse there, and their share. Parts: those that are known by their serial numbers.</p>
    </details>
  );
}

/** What is known of the host that the address names. */
function OneHost({ list }: { list: HostList }) {
  const name = given.value.host;
  if (name === undefined) return null;
  const close = (
    <a class="button quiet" href={hrefWith({ host: null })} onClick={followLink({ host: null })}>
      Close
    </a>
  );
  const host = list.hosts.find((one) => one.host === name);
  if (host === undefined) {
    return (
      <section class="story" data-testid="one-host" aria-label={name}>
        <p class="problems untrusted">No host {name} is in the list.</p>
        {close}
      </section>
    );
  }
  const page = pageOf(list, name);
  const facts = [host.product, host.firmware, host.kernel].filter((fact) => fact !== undefined && fact !== "").join(", ");
  const own = (cases.value ?? []).filter((one) => one.host === name && isOpen(one));
  const said = (cell: Cell) => `${SEVERITY_WORDS[known(cell.severity)]} for ${age(list.now_ns - cell.since_ns)}${cell.count > 1 ? `, the worst of ${count(cell.count)}` : ""}: ${cell.sentence}`;
  return (
    <section class="story" data-testid="one-host" aria-label={name}>
      <h3 class="untrusted">{name}</h3>
      <p class="untrusted muted">
        {host.service === undefined || host.service === "" ? "No service" : `Service ${host.service}`}. {facts === "" ? "What it runs on is not known." : `${facts}.`}{" "}
        {host.seen_ns === undefined ? "No agent tells of it." : `Its agent was noted ${age(list.now_ns - host.seen_ns)} ago${host.is_silent === true ? " and is silent" : ""}.`}
      </p>
      <ul>
        {ROOMS.map(([room, title]) => {
          const state = stateOf(host, room);
          return (
            <li key={room} class="untrusted">
              <strong>{title}:</strong> {state === "unknown" ? "not known" : state === "well" ? "nothing found" : said(state)}
            </li>
          );
        })}
        {host.alerts !== undefined && (
          <li class="untrusted">
            <strong>Other alerts:</strong> {said(host.alerts)}
          </li>
        )}
        <li>
          <strong>Lost:</strong> {lostText(host) === "?" ? "" : `${lostText(host)} of the time of an average core. `}
          {lostWords(host)}
        </li>
        {own.map((one) => (
          <li key={one.id} class="untrusted">
            <a href={hrefWith({ case: String(one.id) })} onClick={followLink({ case: String(one.id) })}>
              Case {one.id}
            </a>
            : {one.fault} {one.subject}, {one.label}
          </li>
        ))}
      </ul>
      <div class="asking">
        {page !== null && (
          <a class="button" href={page} rel="noreferrer" data-testid="host-page">
            Open its own page
          </a>
        )}
        {close}
      </div>
    </section>
  );
}

export function Hosts() {
  const search = useSignal("");
  const service = useSignal("");
  const top = useSignal(0);
  const order = useSignal<Order>("worst");
  const shown = useComputed(() => sorted(chosen(hosts.value?.hosts ?? [], search.value, service.value), order.value));
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
            <label>
              First
              <select value={order.value} data-testid="host-order" onInput={(event) => (order.value = event.currentTarget.value as Order)}>
                {ORDERS.map(([name, words]) => (
                  <option key={name} value={name}>
                    {words}
                  </option>
                ))}
              </select>
            </label>
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
                  <th>Lost</th>
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
            A dot: watched, and nothing found. A question mark: not known. A number: how many findings. Lost: of the time of an average core, unexplained time included.
            {list.hosts.length < list.matching && ` ${count(list.matching - list.hosts.length)} more hosts are not in this list.`}
            {list.left_out > 0 && ` ${count(list.left_out)} hosts or alerts had no room or could not be read.`}
          </p>
          <OneHost list={list} />
          <Populations all={list.populations} />
        </>
      )}
    </section>
  );
}
