// The faults of one outcome, a page at a time; each leads to its movie.

import { count, duration } from "../../../format.ts";
import type { CampaignFault, CampaignFaults, Table } from "../../../types.ts";
import { detectedWords, keyOf, orNone, outcomeWords, placeWords, spaced } from "../campaign.ts";
import * as state from "../state.ts";
import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";

export function Faults({ list, table }: { list: CampaignFaults | null; table: Table }) {
  const outcome = state.chosenOutcome.value;
  // The list of another outcome is not this one's.
  const isHere = list !== null && list.table === keyOf(table) && list.outcome === outcome;
  return (
    <section class="card" data-testid="campaign-faults" data-outcome={outcome}>
      <div class="card-head">
        <h2>Faults: {outcomeWords(outcome)}</h2>
        {isHere && <span class="muted">{count(list.total_count)}</span>}
      </div>
      {isHere ? <Rows list={list} /> : <p class="empty">Asking.</p>}
    </section>
  );
}

function Rows({ list }: { list: CampaignFaults }) {
  const { faults, offset, total_count } = list;
  return (
    <>
      {faults.length === 0 ? (
        <p class="empty">No faults here.</p>
      ) : (
        <FoldingTable columns={COLUMNS} rows={faults} rowKey={({ id }) => id} current={faults.find(({ id }) => id === state.chosenFault.value)} />
      )}
      {total_count > state.FAULTS_SHOWN && (
        <p class="pages">
          <button type="button" class="button" disabled={offset === 0} onClick={() => state.chooseFaultsFrom(Math.max(0, offset - state.FAULTS_SHOWN))}>
            Earlier
          </button>
          <span class="muted figures">
            {count(offset + faults.length)} of {count(total_count)}
          </span>
          <button type="button" class="button" disabled={offset + faults.length >= total_count} onClick={() => state.chooseFaultsFrom(offset + state.FAULTS_SHOWN)}>
            Later
          </button>
        </p>
      )}
    </>
  );
}

const COLUMNS: readonly Folding<CampaignFault>[] = [
  {
    title: "bit",
    cell: (fault) => (
      <button type="button" class="row-name untrusted" onClick={() => state.chooseFault(fault.id)}>
        {placeWords(fault)}
      </button>
    ),
  },
  { title: "at instruction", kind: "number", cell: ({ at_instruction }) => count(at_instruction) },
  { title: "class", cell: ({ standard }) => spaced(standard) },
  { title: "detected by", cell: (fault) => detectedWords(fault) + (fault.given_up ? ", given up" : "") },
  { title: "detected after", kind: "number", cell: ({ detection_ns }) => orNone(detection_ns, duration) },
  { title: "recovered within", kind: "number", cell: ({ recovery_ns }) => orNone(recovery_ns, duration) },
];
