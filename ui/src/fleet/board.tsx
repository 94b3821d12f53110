// The fleet at one look: how many cases stand where, what they wait for, and a board of all of them.

import { useSignal } from "@preact/signals";
import { followLink, given, hrefWith } from "../address.ts";
import { SeverityIcon } from "../components/severity.tsx";
import { age, count } from "../format.ts";
import { ask, cases, isAllPaused, headline, isAsking, isOpen, notices, nowNs, older, openCase, REASON_CHARS_MAX, states, told } from "./feed.ts";
import { known } from "../severity.ts";
import { capital, tally, type CaseLine } from "./words.ts";

/** Cards of a column before the rest is only counted. */
const CARDS_MAX = 50;
/** Rows of the small tables. */
const ROWS_MAX = 8;

export function Headline() {
  if (headline.value === null) return null;
  const severity = known(headline.value.severity);
  return (
    <section class={`headline ${severity}`} data-testid="headline" data-severity={severity}>
      <SeverityIcon severity={severity} size={22} />
      <p class="untrusted">{headline.value.sentence}</p>
    </section>
  );
}

/** Host names under which two machines report, of which the second one is refused, so that its faults open no case; and cases that cannot be read. */
export function Notices() {
  return notices.value.map((text) => (
    <p class="problems untrusted" key={text} data-testid="twins">
      {text}
    </p>
  ));
}

/** Stops everything, and lets it go on. */
export function Everything() {
  const reason = useSignal("");
  const isSure = useSignal(false);
  const what = isAllPaused.value ? "resume" : "pause";
  const words = isAllPaused.value ? "Go on with everything" : isSure.value ? "Really begin nothing more, of any case" : "Pause everything";
  return (
    <section class={isAllPaused.value ? "card story" : "story"} data-testid="everything" data-paused={isAllPaused.value} aria-label="Everything">
      {isAllPaused.value && (
        <p class="problems">
          Everything is paused: steps that are under way go on to their end, and nothing new is begun. Who did it and why is in <a href="api/v1/trail">the trail</a>.
        </p>
      )}
      <div class="asking">
        {(isSure.value || isAllPaused.value) && (
          <label>
            Reason
            <input type="text" value={reason.value} maxLength={REASON_CHARS_MAX} data-testid="reason-everything" onInput={(event) => (reason.value = event.currentTarget.value)} />
          </label>
        )}
        <button
          type="button"
          class={isAllPaused.value ? "button" : "button quiet"}
          data-testid={`${what}-everything`}
          disabled={isAsking.value}
          onClick={() => {
            if (what === "pause" && !isSure.value) {
              isSure.value = true;
              return;
            }
            isSure.value = false;
            void ask(null, what, reason.value);
          }}
        >
          {words}
        </button>
      </div>
      {told.value?.id === null && (
        <p role="status" class={told.value.isDone ? "muted" : "problems"}>
          {told.value.text}
        </p>
      )}
    </section>
  );
}

function Counted({ title, rows, empty }: { title: string; rows: [string, number][]; empty: string }) {
  return (
    <div class="fleet-counted">
      <h3>{title}</h3>
      {rows.length === 0 && <p class="muted">{empty}</p>}
      <ul>
        {rows.slice(0, ROWS_MAX).map(([name, number]) => (
          <li key={name}>
            <span class="figures">{count(number)}</span> <span class="untrusted">{name === "" ? "without one" : name}</span>
          </li>
        ))}
        {rows.length > ROWS_MAX && <li class="muted">{count(rows.length - ROWS_MAX)} more</li>}
      </ul>
    </div>
  );
}

export function Fleet() {
  const open = (cases.value ?? []).filter(isOpen);
  const waiting = open.filter(({ waits_for: what }) => what !== "");
  return (
    <section class="card" data-testid="fleet" aria-label="Open cases">
      <h2>Open cases</h2>
      <div class="fleet-overview">
        <Counted title="By state" rows={tally(open, ({ label }) => capital(label))} empty="None." />
        <Counted title="By service" rows={tally(open, ({ service }) => service)} empty="None." />
        <Counted title="By fault" rows={tally(open, ({ fault }) => fault)} empty="None." />
        <Counted title="What they wait for" rows={tally(waiting, ({ waits_for: what }) => what)} empty="Nothing." />
      </div>
    </section>
  );
}

function Card({ one }: { one: CaseLine }) {
  const change = { case: String(one.id) };
  return (
    <li>
      <a
        class="case-card"
        href={hrefWith(change)}
        onClick={followLink(change)}
        aria-current={openCase() === one.id ? "true" : undefined}
        data-testid="case"
        data-case={one.id}
        data-state={one.state}
      >
        <span class="case-card-head">
          <SeverityIcon severity={one.severity} size={14} />
          <strong class="untrusted">{one.host}</strong>
          <span class="muted figures">#{one.id}</span>
          {one.is_dry_run === true && <span class="muted">dry run</span>}
        </span>
        <span class="untrusted">
          {one.fault} {one.subject}
        </span>
        {one.step !== "" && isOpen(one) && <span class="untrusted muted">at: {one.step}</span>}
        {one.waits_for !== "" && <span class="untrusted">waits for {one.waits_for}</span>}
        <span class="muted figures">
          {one.label} for {age(nowNs.value - one.state_since_ns)}
        </span>
      </a>
    </li>
  );
}

export function Board() {
  const all = cases.value ?? [];
  const shown = states.value.filter(({ state, is_open }) => is_open || all.some((one) => one.state === state));
  return (
    <section class="card" data-testid="board" aria-label="Board of cases">
      <h2>Board</h2>
      {/* The width of a screen holds few columns: the board scrolls in itself. */}
      <div class="board" tabIndex={0} role="region" aria-label="Cases by state">
        {shown.map(({ state, label }) => {
          const own = all.filter((one) => one.state === state);
          return (
            <div key={state} class="board-column" data-testid="column" data-state={state}>
              <h3>
                {capital(label)} <span class="muted figures">{count(own.length)}</span>
              </h3>
              <ul>
                {own.slice(0, CARDS_MAX).map((one) => (
                  <Card key={one.id} one={one} />
                ))}
              </ul>
              {own.length > CARDS_MAX && <p class="muted">{count(own.length - CARDS_MAX)} more</p>}
            </div>
          );
        })}
      </div>
      {older.value !== null && (
        <p class="muted" data-testid="older">
          {count(older.value.count)} older cases, of which only the open ones are here: <code>surefoot remedy cases --all --before {older.value.before}</code>
        </p>
      )}
      {given.value.case !== undefined && openCase() === null && <p class="problems">The address names no case: a case has a number.</p>}
    </section>
  );
}
