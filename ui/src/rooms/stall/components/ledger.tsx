// The ledger of one place or of the whole range: every part, and that they add up.

import { useSignal } from "@preact/signals";
import { count, duration, roundToSum, share, thousandths } from "../../../format.ts";
import { lostNs, type Ledger } from "../ledger.ts";
import { ifSeen } from "../state.ts";
import { KINDS } from "../words.ts";
import { Bar } from "../../../components/bar.tsx";
import { CauseName, kindClass, Swatch } from "./swatch.tsx";

/** Causes shown before the smaller ones are summed up in one row; so many that the ledger is as high as the lanes. */
const ROOM = 10;

/** The parts of a core's wall time as bar segments, every kind in its own colour. */
export function ledgerSegments(ledger: Ledger) {
  return [
    { key: "idle", className: "c-idle", value: ledger.idleNs + ledger.whileIdleNs },
    { key: "user", className: "c-user", value: ledger.userNs },
    { key: "kernel", className: "c-kernel", value: ledger.kernelNs },
    ...lostSegments(ledger),
  ];
}

/** Kinds that a filter leaves out keep their length and lose their colour, so that the parts still add up. */
export function lostSegments(ledger: Ledger, mask?: readonly boolean[]) {
  return [
    ...KINDS.map((kind, at) => ({
      key: kind.id,
      className: mask && !mask[at] ? "c-off" : kindClass(at),
      value: ledger.byKindNs[at],
    })),
    { key: "unexplained", className: kindClass(null), value: ledger.unexplainedNs },
  ];
}

/** Milliseconds to the microsecond, rounded so that the column adds up to its last line. */
export function LedgerTable({ ledger }: { ledger: Ledger }) {
  const all = useSignal(false);
  const named = ledger.lost.filter((cause) => lostNs(cause) > 0);
  // One row more than the room is better than a row that says "1 smaller cause".
  const folded = !all.value && named.length > ROOM + 1;
  const lost = folded ? named.slice(0, ROOM) : named;
  const smaller = named.slice(lost.length);
  const smallerNs = smaller.reduce((sum, cause) => sum + lostNs(cause), 0);
  const untimed = ledger.lost.filter((cause) => cause.totalNs === 0 && cause.count > 0).length;
  const parts = [
    ledger.idleNs,
    ledger.whileIdleNs,
    ledger.userNs,
    ledger.kernelNs,
    ...lost.map(lostNs),
    ...(folded ? [smallerNs] : []),
    ledger.unexplainedNs,
  ];
  const steps = roundToSum(parts, ledger.wallNs, 1000);
  const sum = steps.reduce((so, part) => so + part, 0);
  const seen = new Set(["while-idle", "unexplained"]);
  const row = (key: string, name: preact.ComponentChildren, ns: number, at: number, title?: string) => {
    const words = (said: string) => (seen.has(key) ? ifSeen(ns, said) : said);
    return (
      <tr key={key} title={title}>
        <th scope="row">{name}</th>
        <td>{words(thousandths(at < 0 ? sum : steps[at]))}</td>
        <td class="muted">{words(share(ns, ledger.wallNs))}</td>
      </tr>
    );
  };
  return (
    <>
      <Bar segments={ledgerSegments(ledger)} full={ledger.wallNs} />
      <table class="ledger">
        <thead>
          <tr>
            <th scope="col">part</th>
            <th scope="col">ms</th>
            <th scope="col">share</th>
          </tr>
        </thead>
        <tbody>
          {row("idle", <><span class="swatch c-idle" aria-hidden="true" />idle</>, ledger.idleNs, 0)}
          {row(
            "while-idle",
            <><span class="swatch c-idle" aria-hidden="true" />delayed no task</>,
            ledger.whileIdleNs,
            1,
            "Interrupts and kernel threads while no task ran or waited",
          )}
          {row("user", <><span class="swatch c-user" aria-hidden="true" />user</>, ledger.userNs, 2)}
          {row("kernel", <><span class="swatch c-kernel" aria-hidden="true" />kernel for tasks</>, ledger.kernelNs, 3)}
          {lost.map((cause, at) =>
            row(
              `${cause.kind}/${cause.name}`,
              <span class="one-line">
                <CauseName kind={cause.kind} name={cause.name} />
              </span>,
              lostNs(cause),
              at + 4,
              `${cause.name} ${count(cause.count)} times, longest ${duration(cause.maxNs)} within the range`,
            ),
          )}
          {folded &&
            row(
              "smaller",
              <button type="button" class="link" onClick={() => (all.value = true)}>
                {smaller.length} smaller causes
              </button>,
              smallerNs,
              lost.length + 4,
            )}
          {row("unexplained", <><Swatch kind={null} />unexplained</>, ledger.unexplainedNs, steps.length - 1)}
        </tbody>
        <tfoot>
          {row("wall", "= wall", ledger.wallNs, -1)}
        </tfoot>
      </table>
      {all.value && named.length > ROOM + 1 && (
        <button type="button" class="link" onClick={() => (all.value = false)}>
          Show the {ROOM} largest causes
        </button>
      )}
      {untimed > 0 && (
        <p class="muted aside">
          {untimed === 1 ? "One cause was" : `${untimed} causes were`} counted but not timed; its time is in the other
          parts.
        </p>
      )}
    </>
  );
}
