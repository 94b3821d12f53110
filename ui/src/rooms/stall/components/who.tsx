// Who interrupted the watched cores: each kind of interrupt, its raisers and their stacks, and what to change.

import { useSignal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { clock, count, duration, share, timed } from "../../../format.ts";
import { askedFor, groupsOf, threadName, threadWord, treeOf, type RaiserGroup } from "../icicle.ts";
import { kindIndex, KINDS } from "../words.ts";
import { mode } from "../../../state.ts";
import * as state from "../state.ts";
import { FixFirst } from "./fix_first.tsx";
import { Icicle } from "./icicle.tsx";
import { Icon } from "../../../components/icons.tsx";
import { Bar } from "../../../components/bar.tsx";
import { Certainty } from "../../../components/certainty.tsx";
import type { Advice, Certainty as Sure, Interrupt, Intruder, WhoReport } from "../../../types.ts";
import { CauseName, kindClass } from "./swatch.tsx";
import { SortTable, type ColumnOf } from "../../../components/table.tsx";

/** Raisers shown before "Show more", and after it. */
const ROOM = 6;
const MOST = 200;
/** Words about the watch itself that stand open. */
const NOTICES = 3;

function keyOf(interrupt: Interrupt): string {
  return `${interrupt.cpu}/${interrupt.kind}/${interrupt.name}`;
}

/** A raiser in a few words: the thread and the system call that it was in. */
function RaiserName({ group, name }: { group: RaiserGroup; name: string }) {
  const { first } = group;
  return (
    <>
      <span class="untrusted">{name}</span>
      {first.syscall !== "" && (
        <span class="muted">
          {" "}
          in <span class="untrusted">{first.syscall}</span>
        </span>
      )}
    </>
  );
}

/** The raiser that stands in the table: the most frequent, with its share of the arrivals. */
function TopRaiser({ interrupt }: { interrupt: Interrupt }) {
  const [top] = groupsOf(interrupt);
  if (!top) return <span class="muted">{interrupt.unknown_raisers > 0 ? "not known" : "–"}</span>;
  return (
    <span class="top-raiser">
      <span class="one-line">
        <RaiserName group={top} name={threadWord(top.first)} />
      </span>
      <Certainty certainty={top.first.certainty} />
      <span class="figures muted">{share(top.count, Math.max(interrupt.count, top.count))}</span>
    </span>
  );
}

function Raisers({ interrupt, groups, chosen }: { interrupt: Interrupt; groups: RaiserGroup[]; chosen: Signal<string | null> }) {
  const all = useSignal(false);
  const known = groups.reduce((sum, group) => sum + group.count, 0);
  const whole = known + interrupt.unknown_raisers;
  const shown = groups.slice(0, all.value ? MOST : ROOM);
  const row = (key: string | null, name: preact.ComponentChildren, asked: string, times: number, sure: Sure | null) => (
    <tr key={key ?? ""} data-chosen={chosen.value === key}>
      <th scope="row">
        <button type="button" class="link" aria-pressed={chosen.value === key} onClick={() => (chosen.value = key)}>
          {name}
        </button>
      </th>
      <td class="asked">
        <span class="untrusted">{asked}</span>
      </td>
      <td>{count(times)}</td>
      <td class="muted">{share(times, whole)}</td>
      <td class="sure">{sure !== null && <Certainty certainty={sure} />}</td>
    </tr>
  );
  return (
    <div class="raisers" data-testid="raisers">
      <table class="ledger">
        <thead>
          <tr>
            <th scope="col">raised by</th>
            <th scope="col" class="asked">
              asked for
            </th>
            <th scope="col">times</th>
            <th scope="col">share</th>
            <th scope="col" class="sure">
              certainty
            </th>
          </tr>
        </thead>
        <tbody>
          {row(null, groups.length === 1 ? "its only raiser" : `all ${count(groups.length)} together`, "", known, null)}
          {shown.map((group) => row(group.key, <RaiserName group={group} name={threadName(group.first)} />, askedFor(group.first), group.count, group.first.certainty))}
        </tbody>
      </table>
      {groups.length > ROOM && (
        <button type="button" class="button quiet more" onClick={() => (all.value = !all.value)}>
          {all.value ? `Show the first ${ROOM}` : groups.length > MOST ? `Show ${MOST}` : `Show all ${groups.length}`}
        </button>
      )}
      {all.value && groups.length > MOST && <p class="muted aside">{count(groups.length - MOST)} rarer ones are not listed.</p>}
      {interrupt.unknown_raisers > 0 && (
        <p class="muted aside">
          {count(interrupt.unknown_raisers)} {interrupt.unknown_raisers === 1 ? "arrival has" : "arrivals have"} no known raiser.
        </p>
      )}
    </div>
  );
}

function AdviceBox({ advice }: { advice: Advice }) {
  return (
    <div class="advice" data-testid="advice">
      <Icon name="notice" />
      <div>
        <p class="untrusted remedy">{advice.remedy}</p>
        <dl>
          <dt>because</dt>
          <dd class="untrusted">{advice.evidence}</dd>
          <dt>see</dt>
          <dd class="untrusted">{advice.source}</dd>
        </dl>
      </div>
    </div>
  );
}

/** A task that took the core, and why it was allowed there. */
function intruderWords(intruder: Intruder): string {
  const where =
    intruder.is_bound && /[,-]/.test(intruder.allowed) ? `placed by the kernel, on cores ${intruder.allowed}`
    : intruder.is_bound ? "bound to this core by the kernel"
    : intruder.allowed === "" ? "ended before it could be asked where it may run"
    : `allowed on cores ${intruder.allowed}`;
  const rest = [intruder.cgroup && `control group ${intruder.cgroup}`, intruder.policy].filter((text) => text !== "");
  const why = intruder.because ? ` (${intruder.because})` : "";
  return [`${intruder.comm} (thread ${intruder.tid}): ${where}${why}`, ...rest].join(", ");
}

/** An interrupt that was opened: what is known of it, its advice, its raisers and their stacks. */
function Opened({ interrupt, watchedNs }: { interrupt: Interrupt; watchedNs: number }) {
  const chosen = useSignal<string | null>(null);
  const groups = useMemo(() => groupsOf(interrupt), [interrupt]);
  const group = groups.find((one) => one.key === chosen.value) ?? null;
  const { label } = KINDS[kindIndex(interrupt.kind)];
  const tree = useMemo(
    () => treeOf(`${label} ${interrupt.name}`, group?.raisers ?? interrupt.raisers, group ? 0 : interrupt.unknown_raisers),
    [interrupt, group?.key],
  );
  const details = [...interrupt.detail, ...(interrupt.intruders ?? []).map(intruderWords)];
  const perSecond = watchedNs > 0 ? (interrupt.count * 1e9) / watchedNs : 0;
  return (
    <div class="who-opened" id="who-opened" data-testid="who-opened">
      <p class="muted figures">
        {perSecond >= 100 ? count(perSecond) : perSecond.toPrecision(2)} per second; since the watch began: median {duration(interrupt.p50_ns)},
        p99 {duration(interrupt.p99_ns)}, longest {duration(interrupt.max_ns)}
      </p>
      {interrupt.entry_exit_ns != null && (
        <p class="muted figures">
          Inside {duration(interrupt.total_ns)}; with entry and exit some {duration(interrupt.total_ns + interrupt.entry_exit_ns)} (estimated)
        </p>
      )}
      {details.length > 0 && (
        <ul class="details">
          {details.map((line, at) => (
            <li key={at} class="untrusted">
              {line}
            </li>
          ))}
        </ul>
      )}
      {interrupt.advice.map((advice) => (
        <AdviceBox key={advice.rule} advice={advice} />
      ))}
      {groups.length > 0 && <Raisers interrupt={interrupt} groups={groups} chosen={chosen} />}
      {tree.count > 0 ? (
        <Icicle key={group?.key ?? ""} id="icicle" tree={tree} />
      ) : (
        <p class="empty">Who raised it is not told apart: what it did is in the other rows.</p>
      )}
    </div>
  );
}

/** How complete the answer is. */
function Completeness({ who }: { who: WhoReport }) {
  const lost = who.records_dropped + who.marks_lost;
  return (
    <ul class="who-notes muted">
      {lost > 0 && <li>{count(lost)} records were lost on the way, so that their raisers are not known.</li>}
      {who.records_without_stack > 0 && (
        <li>
          {count(who.records_without_stack)} of {count(who.records)} records have no stack, because their core raised too many.
        </li>
      )}
      {who.missing.map((text, at) => (
        <li key={at} class="untrusted">
          Missing: {text}
        </li>
      ))}
      {who.notices.slice(-NOTICES).map((notice, at) => (
        <li key={`notice ${at}`} class="untrusted">
          {clock(notice.at_ns, state.offsetNs(notice.at_ns), 0)} {notice.text}
        </li>
      ))}
    </ul>
  );
}

/** Says how to get what is not there, in one quiet line. */
function Nothing() {
  const isReplay = mode.value === "replay";
  return (
    <p class="who-none muted" data-testid="who">
      {isReplay ? (
        <>
          This recording does not hold who raised the interrupts; record with <code>surefoot stall record --who CORES</code>.
        </>
      ) : (
        <>
          Who raised the interrupts is not being watched; start with <code>surefoot watch --who CORES</code>.
        </>
      )}
      {state.whoProblem.value !== "" && <span class="untrusted"> Could not load the report: {state.whoProblem.value}.</span>}
    </p>
  );
}

function columnsOf(open: Signal<string | null>, most: number): ColumnOf<Interrupt>[] {
  const number = (key: string, title: string, of: (row: Interrupt) => number, words: (row: Interrupt) => string): ColumnOf<Interrupt> => ({
    key,
    title,
    className: "number",
    order: of,
    cell: words,
  });
  return [
    {
      key: "interrupt",
      title: "Interrupt",
      className: "name",
      order: (row) => `${KINDS[kindIndex(row.kind)].label} ${row.name}`,
      cell: (row) => {
        const isOpen = open.value === keyOf(row);
        return (
          <button
            type="button"
            class="opener one-line"
            title={row.name}
            aria-expanded={isOpen}
            aria-controls={isOpen ? "who-opened" : undefined}
            onClick={() => (open.value = isOpen ? null : keyOf(row))}
          >
            <Icon name={isOpen ? "open" : "closed"} size={12} />
            <CauseName kind={kindIndex(row.kind)} name={row.name} />
          </button>
        );
      },
    },
    number("core", "Core", (row) => row.cpu, (row) => String(row.cpu)),
    number("count", "Count", (row) => row.count, (row) => count(row.count)),
    number("total", "Total", (row) => row.total_ns, (row) => timed(row.total_ns, row.count, duration(row.total_ns))),
    {
      ...number("share", "Of the core's lost time", (row) => row.share_of_lost_ppm, () => ""),
      hint: "The time inside it, of all time that this core lost while raisers were watched",
      cell: (row) => (
        <span class="barred">
          <Bar segments={[{ key: "share", className: kindClass(kindIndex(row.kind)), value: row.share_of_lost_ppm }]} full={most} />
          <span>{share(row.share_of_lost_ppm, 1e6)}</span>
        </span>
      ),
    },
    {
      ...number("p99", "p99", (row) => row.p99_ns, (row) => (row.p99_ns > 0 ? duration(row.p99_ns) : "–")),
      hint: "99 of 100 since the watch began were no longer than this",
    },
    {
      key: "handler",
      title: "Handler",
      className: "handler",
      order: (row) => row.handler,
      cell: (row) => (
        <span class="one-line untrusted muted" title={row.handler}>
          {row.handler}
        </span>
      ),
    },
    {
      key: "raiser",
      title: "Raised most by",
      className: "raiser",
      order: (row) => groupsOf(row)[0]?.first.comm ?? null,
      cell: (row) => <TopRaiser interrupt={row} />,
    },
  ];
}

export function Who() {
  const open = useSignal<string | null>(null);
  const who = state.who.value;
  if (!who) return <Nothing />;
  const rows = state.whoInterrupts.value;
  const watchedNs = who.end_ns - who.start_ns;
  const { rangeS } = state.filters.value;
  const isShorter = rangeS > 0 && who.watch_start_ns == null && watchedNs < rangeS * 1e9;
  const opened = rows.find((row) => keyOf(row) === open.value);
  const most = rows.reduce((largest, row) => Math.max(largest, row.share_of_lost_ppm), 1);
  return (
    <section class="card who" data-testid="who" aria-labelledby="who-title">
      <div class="card-head">
        <h2 id="who-title">Who interrupted</h2>
        <p class="muted figures">
          in the last {duration(watchedNs)}
          {isShorter && ", since the watch began"}
          {who.called_count > 0 && `; ${share(who.joined_count, who.called_count)} of ${count(who.called_count)} called functions joined exactly`}
        </p>
      </div>
      <FixFirst who={who} />
      {rows.length > 0 ? (
        <SortTable
          label="Interrupts and who raised them"
          rows={rows}
          columns={columnsOf(open, most)}
          rowKey={keyOf}
          first="total"
          room={12}
          opened={opened ? { key: keyOf(opened), content: <Opened key={keyOf(opened)} interrupt={opened} watchedNs={watchedNs} /> } : null}
        />
      ) : (
        <p class="empty">No interrupt of the cores and causes chosen came while raisers were watched.</p>
      )}
      <Completeness who={who} />
    </section>
  );
}
