// What to fix first: the causes by what work lost to them, each with its remedy and the command that shows whether it worked.

import { count, duration, share } from "../../../format.ts";
import { kindIndex } from "../words.ts";
import { coreFilter, filterFixes } from "../ledger.ts";
import { formatCpuList } from "../../../cpulist.ts";
import * as state from "../state.ts";
import type { Fix, WhoReport } from "../../../types.ts";
import { CauseName } from "./swatch.tsx";

function Row({ fix, rank, watchedNs, entries }: { fix: Fix; rank: number; watchedNs: number; entries: string }) {
  const perSecondNs = watchedNs > 0 ? (fix.total_ns * 1e9) / watchedNs : 0;
  return (
    <li data-testid="fix" value={rank}>
      <p class="fix-head">
        <span class="fix-cause">
          <CauseName kind={kindIndex(fix.kind)} name={fix.name} />
        </span>
        <span class="muted figures">
          {fix.cpus.length === 1 ? "core" : "cores"} {formatCpuList([...fix.cpus].sort((a, b) => a - b))}
        </span>
        <span class="figures">
          <strong>{share(fix.share_of_lost_ppm, 1e6)}</strong> of all that was lost{entries}
        </span>
        <span class="muted figures">
          {duration(perSecondNs)} per second, {count(fix.count)} times
        </span>
      </p>
      {fix.remedy === "" ? (
        <p class="muted">No advice for this cause; the table has its details.</p>
      ) : (
        <>
          <p class="remedy untrusted">{fix.remedy}</p>
          <p class="muted untrusted">
            Because {fix.evidence}. Then {fix.expect}.
          </p>
        </>
      )}
    </li>
  );
}

/** The list; nothing where there is nothing to fix on the cores and of the kinds chosen. */
export function FixFirst({ who }: { who: WhoReport }) {
  const { cpus, kinds } = state.filters.value;
  const all = who.fix_first ?? [];
  const fixes = filterFixes(all, coreFilter(cpus), kinds);
  const [first] = fixes;
  if (!first) return null;
  return (
    <div class="fix-first" data-testid="fix-first">
      <h3>Fix first</h3>
      <ol>
        {fixes.map((fix) => (
          <Row
            key={`${fix.kind}/${fix.name}/${fix.rule}`}
            fix={fix}
            rank={all.indexOf(fix) + 1}
            watchedNs={who.end_ns - who.start_ns}
            entries={(who.entry_exit ?? []).length > 0 ? ", entry and exit included" : ""}
          />
        ))}
      </ol>
      <p class="muted aside">
        To measure a change: <code class="untrusted">{first.verify}</code>, with BEFORE.surefoot recorded before it
        (<code>stall who --record</code>).
      </p>
    </div>
  );
}
