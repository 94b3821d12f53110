// Fault campaigns of a modelled interface: all of them in a line each, the table of the chosen one beside the paper's, the
// faults of an outcome, and the movie of one.

import { count, duration } from "../../../format.ts";
import type { CampaignFile, OutcomeRow, ShareRow, StandardRow, Table, TimesRow } from "../../../types.ts";
import { axisEnd, detectorWords, faultsWords, intervalWords, keyOf, orNone, outcomeWords, percent, spaced } from "../campaign.ts";
import * as state from "../state.ts";
import { Faults } from "./faults.tsx";
import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";
import { Movie } from "./movie.tsx";

export function Campaigns() {
  const answer = state.campaign.value;
  const problem = state.campaignProblem.value;
  const said = problem !== "" && (
    <p class="problems untrusted" role="alert">
      Could not load the fault campaigns: {problem}.
    </p>
  );
  if (!answer) return <>{said}</>;
  if (answer.why !== undefined) {
    return (
      <section class="card">
        <h2>Fault campaigns</h2>
        <p class="muted untrusted">{answer.why}</p>
      </section>
    );
  }
  const chosen = state.chosenTable.value;
  return (
    <>
      {said}
      <section class="card" data-testid="campaigns">
        <div class="card-head">
          <h2>Fault campaigns</h2>
          <p class="muted">of a model, not of this host</p>
        </div>
        {answer.tables.length === 0 ? <p class="empty">None yet.</p> : <FoldingTable columns={CAMPAIGNS} rows={answer.tables} rowKey={keyOf} current={chosen} />}
        <Files files={answer.files} />
      </section>
      {chosen && <Outcomes table={chosen} />}
      {chosen && state.chosenOutcome.value !== "" && <Faults list={answer.list} table={chosen} />}
      {state.chosenFault.value !== "" && <Movie />}
    </>
  );
}

/** A share with its interval. */
function both(row: ShareRow) {
  return row.of === 0 ? "–" : `${percent(row.share)} (${intervalWords(row)})`;
}

function within({ median, max }: TimesRow): string {
  return `${duration(median)}, at most ${duration(max)}`;
}

const CAMPAIGNS: readonly Folding<Table>[] = [
  {
    title: "experiment",
    cell: (table) => (
      <button type="button" class="row-name untrusted" onClick={() => state.chooseTable(table)}>
        {table.experiment}
      </button>
    ),
  },
  { title: "control program", cell: ({ build, seed }) => `${build}, seed ${seed}` },
  { title: "faults", kind: "number", cell: (table) => faultsWords(table) },
  { title: "failures (95\u00a0%)", kind: "number", cell: ({ failures }) => both(failures) },
  { title: "coverage (95\u00a0%)", kind: "number", cell: ({ coverage }) => both(coverage) },
  { title: "paper's coverage", kind: "number", cell: ({ paper_coverage }) => orNone(paper_coverage, percent) },
  { title: "detected within", kind: "number", cell: ({ detection_ns }) => orNone(detection_ns, within) },
  { title: "recovered within", kind: "number", cell: ({ recovery_ns }) => orNone(recovery_ns, within) },
];

/** What is wrong with the files; nothing where all is well. */
function Files({ files }: { files: readonly CampaignFile[] }) {
  const bad = files.filter((file) => file.problem !== null || file.bad_count > 0 || file.left_out_count > 0);
  if (bad.length === 0) return null;
  return (
    <ul class="nic-lines problems-list" data-testid="campaign-files">
      {bad.map((file) => (
        <li key={file.path} class="untrusted">
          {file.path}: {count(file.fault_count)} faults
          {file.bad_count > 0 ? `, ${count(file.bad_count)} bad lines` : ""}
          {file.left_out_count > 0 ? `, ${count(file.left_out_count)} left out` : ""}
          {file.problem === null ? "" : ` (${file.problem})`}
        </li>
      ))}
    </ul>
  );
}

function Outcomes({ table }: { table: Table }) {
  const { coverage } = table;
  const tolerant = table.build.startsWith("tolerant");
  return (
    <section class="card" data-testid="campaign-table" data-campaign={keyOf(table)}>
      <div class="card-head">
        <h2>
          <span class="untrusted">{table.experiment}</span>, {table.build} control program
        </h2>
        <span class="muted">
          {faultsWords(table)} faults, {count(table.pruned_count)} never run
        </span>
      </div>
      <p class="campaign-said" data-testid="campaign-coverage">
        <strong>
          {coverage.of === 0 ? "No failures" : `${count(coverage.count)} of ${count(coverage.of)} failures detected: ${percent(coverage.share)}`}
        </strong>
        {coverage.of > 0 && ` (95 % interval ${intervalWords(coverage)})`}
        {table.paper_coverage !== null && `; the paper has ${percent(table.paper_coverage)}`}.
        {tolerant && ` Recovered after ${count(table.recovered_count)}; ${count(table.broken_count)} lost, duplicated, reordered or corrupted a message.`}
        {table.detected_by.length > 0 && ` Detected by ${table.detected_by.map((row) => `${detectorWords(row.detected_by)} ${count(row.count)}`).join(", ")}.`}
      </p>
      <span class="bar outcome-bar" aria-hidden="true">
        {table.outcomes
          .filter((row) => row.count > 0)
          .map((row) => (
            <span key={row.outcome} class="outcome-fill" data-outcome={row.outcome} style={{ width: `${row.share * 100}%` }} />
          ))}
      </span>
      <FoldingTable
        columns={columnsOf(table, axisEnd(table.outcomes))}
        rows={table.outcomes}
        rowKey={({ outcome }) => outcome}
        current={table.outcomes.find(({ outcome }) => outcome === state.chosenOutcome.value)}
      />
      <p class="legend muted">
        ━ 95 %, ┃ here, ◇ paper
      </p>
      <details class="fold">
        <summary>Standard classes</summary>
        <FoldingTable columns={CLASSES} rows={table.standard} rowKey={(row) => row.class} current={null} />
      </details>
    </section>
  );
}

const SHARES = [
  { title: "faults", kind: "number", cell: (row: ShareRow) => count(row.count) },
  { title: "share", kind: "number", cell: (row: ShareRow) => percent(row.share) },
  { title: "95 %", kind: "number", cell: intervalWords },
] as const;

const CLASSES: readonly Folding<StandardRow>[] = [{ title: "class", cell: (row) => spaced(row.class) }, ...SHARES];

function columnsOf(table: Table, end: number): readonly Folding<OutcomeRow>[] {
  const isOpen = ({ outcome }: OutcomeRow) => outcome === state.chosenOutcome.value;
  return [
    {
      title: "outcome",
      cell: (row) => (
        <button type="button" class="row-name outcome-name" aria-expanded={isOpen(row)} disabled={row.count === 0} onClick={() => state.chooseOutcome(table, isOpen(row) ? null : row.outcome)}>
          <span class="outcome-fill outcome-swatch" data-outcome={row.outcome} aria-hidden="true" />
          {outcomeWords(row.outcome)}
        </button>
      ),
    },
    ...SHARES,
    { title: `0 to ${percent(end)}`, kind: "wide", cell: (row) => row.outcome !== "no_effect" && <Range row={row} end={end} /> },
    { title: "paper", kind: "number", cell: ({ paper_share }) => orNone(paper_share, percent) },
    { title: "detected", kind: "number", cell: (row) => (row.count === 0 ? "–" : `${count(row.detected_count)} of ${count(row.count)}`) },
  ];
}

/** The interval on an axis from nothing to `end`, with the paper's share. The numbers stand beside it. */
function Range({ row, end }: { row: OutcomeRow; end: number }) {
  const x = (share: number) => `${Math.min(1, share / end) * 100}%`;
  return (
    <span class="range" aria-hidden="true">
      <span class="range-line" style={{ left: x(row.low), width: `calc(${x(row.high)} - ${x(row.low)})` }} />
      <span class="outcome-fill range-mark" data-outcome={row.outcome} style={{ left: x(row.share) }} />
      {row.paper_share !== null && <span class="range-paper" style={{ left: x(row.paper_share) }} />}
    </span>
  );
}
