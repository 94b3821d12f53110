// Findings as a list: each with its severity, what it is about, its sentence, since when, and how sure; opened, what it
// rests on. The one that is open stands in the address.

import { followLink, given, go, hrefWith } from "../address.ts";
import { rooms, type Held } from "../findings.ts";
import { age, count, moment } from "../format.ts";
import { byUrgency, isAboveOk, known, subjectWords } from "../severity.ts";
import { past, realtimeNow } from "../state.ts";
import type { Finding } from "../types.ts";
import { changeFrom, shownView, viewOf } from "../view.ts";
import { Certainty } from "./certainty.tsx";
import { Command } from "./command.tsx";
import { Icon } from "./icons.tsx";
import { SeverityBadge, SeverityIcon } from "./severity.tsx";

/** When a finding began, or in the past from when until when it held. */
function since({ finding, held }: Held, nowNs: number): string {
  if (held) return `${moment(held.fromNs, nowNs)} – ${held.untilNs === null ? "still" : moment(held.untilNs, nowNs)}`;
  const { since_realtime_ns: sinceNs } = finding;
  return sinceNs === 0 ? "began before this watch" : `${moment(sinceNs, nowNs)} (${age(nowNs - sinceNs)})`;
}

function nowOf(): number {
  return past.value ? past.value.toS * 1e9 : realtimeNow();
}

function Item({ one, id }: { one: Held; id: string }) {
  const { finding } = one;
  const isOpen = given.value.finding === finding.key;
  const view = viewOf(finding.room);
  return (
    <li class="finding" data-testid="finding" data-key={finding.key} data-severity={known(finding.severity)}>
      <button
        type="button"
        class="finding-head"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => go({ finding: isOpen ? null : finding.key })}
      >
        <Icon name={isOpen ? "open" : "closed"} size={12} />
        <SeverityBadge severity={finding.severity} size={15} />
        <span class="finding-subject untrusted muted">{subjectWords(finding.subject)}</span>
        <span class="finding-sentence untrusted">{finding.sentence}</span>
        <span class="finding-since figures muted">
          <span class="visually-hidden">{one.held ? "held " : "since "}</span>
          {since(one, nowOf())}
        </span>
        <Certainty certainty={finding.certainty} />
      </button>
      {isOpen && (
        <div class="finding-inside" id={id} data-testid="finding-evidence">
          {finding.evidence && finding.evidence.length > 0 ? (
            <ul>
              {finding.evidence.map((line, at) => (
                <li key={at} class="untrusted">
                  {line}
                </li>
              ))}
            </ul>
          ) : (
            <p class="muted">No evidence was given.</p>
          )}
          {one.next && (
            <>
              <Command label="Run next" line={one.next.command} words="finding-command" button="finding-copy" />
              <p class="muted">{one.next.effect}</p>
            </>
          )}
          <p class="muted">
            <code class="untrusted">{finding.key}</code>
          </p>
          {view && view !== shownView.value && (
            <p>
              <a href={hrefWith(changeFrom(finding, view))} onClick={followLink(changeFrom(finding, view), toTop)}>
                Open {view.title}
              </a>
            </p>
          )}
        </div>
      )}
    </li>
  );
}

export function toTop(): void {
  scrollTo(0, 0);
  document.getElementById("main")?.focus();
}

export function FindingList({ findings }: { findings: readonly Held[] }) {
  return (
    <ol class="findings-list">
      {findings.map((one, at) => (
        <Item key={`${one.finding.key}/${one.held?.fromNs ?? ""}`} one={one} id={`finding-${at}`} />
      ))}
    </ol>
  );
}

/** Says so where the address opens a finding that is not there. */
export function UnknownFinding({ findings }: { findings: readonly Held[] }) {
  const key = given.value.finding;
  if (key === undefined || findings.some(({ finding }) => finding.key === key)) return null;
  return (
    <p class="problems" role="status" data-testid="finding-unknown">
      {past.value ? "No finding of this key held in this range: " : "No finding of this key holds now: "}
      <code class="untrusted">{key}</code>
    </p>
  );
}

/** What the rooms of the shown view found: all above `ok`, or else that all is well. */
export function RoomFindings({ leaveOut = () => false, quiet = false }: { leaveOut?: (finding: Finding) => boolean; quiet?: boolean }) {
  const view = shownView.value;
  if (!rooms.value || !view) return null;
  const own = rooms.value.filter(({ room }) => view.rooms.includes(room));
  const every = own.flatMap(({ findings }) => findings);
  const all = every.filter(({ finding }) => !leaveOut(finding));
  const findings = all.filter(({ finding }) => isAboveOk(finding)).sort((a, b) => byUrgency(a.finding, b.finding));
  const leftOut = own.reduce((sum, room) => sum + room.leftOut, 0);
  const well = all.find(({ finding }) => !isAboveOk(finding));
  const isUnknown = given.value.finding !== undefined && !every.some(({ finding }) => finding.key === given.value.finding);
  if (findings.length === 0 && (quiet || !well) && !isUnknown) return null;
  return (
    <section class="card room-findings" data-testid="room-findings" aria-label="Findings">
      {findings.length > 0 && <FindingList findings={findings} />}
      {findings.length === 0 && well && (
        <p class="finding-well" data-severity="ok">
          <SeverityIcon severity="ok" size={18} />
          <span class="untrusted">{well.finding.sentence}</span>
        </p>
      )}
      {leftOut > 0 && <p class="muted aside">{count(leftOut)} more findings are not listed.</p>}
      {isUnknown && <UnknownFinding findings={every} />}
    </section>
  );
}
