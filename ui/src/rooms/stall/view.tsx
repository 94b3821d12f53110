// Lost time: the timeline, its causes and cores, who interrupted, gaps, and how far the numbers can be trusted.

import { useLayoutEffect } from "preact/hooks";
import { PastState } from "../../components/past.tsx";
import { RoomFindings } from "../../components/findings.tsx";
import { connection, past, pastAnswer } from "../../state.ts";
import { theme } from "../../theme.ts";
import { Causes } from "./components/causes.tsx";
import { Compare } from "./components/compare.tsx";
import { Cores } from "./components/cores.tsx";
import { FilterBar } from "./components/filter_bar.tsx";
import { Gaps } from "./components/gaps.tsx";
import { LoopGaps } from "./components/loops.tsx";
import { Notices } from "./components/notices.tsx";
import { Parts, Words } from "./components/parts.tsx";
import { Timeline } from "./components/timeline.tsx";
import { Capabilities, Completeness, Cost } from "./components/trust.tsx";
import { Who } from "./components/who.tsx";
import { publishColours } from "./palette.ts";
import { meta } from "./state.ts";
import "./filters.css";
import "./gaps.css";
import "./timeline.css";
import "./trust.css";
import "./who.css";

export function LostTime() {
  const shown = theme.value;
  useLayoutEffect(() => publishColours(document.documentElement, shown), [shown]);
  if (past.value !== null) {
    return (
      <>
        <PastState>
          The history has windows and gaps of this range. It keeps no percentiles, not who raised the interrupts, and not
          what watching cost.
        </PastState>
        {pastAnswer.value && (
          <>
            <RoomFindings />
            <Notices />
            <FilterBar />
            <Parts />
            <Timeline />
            <Compare />
            <div class="pair">
              <Causes />
              <Cores />
            </div>
            <Gaps />
            <Words />
          </>
        )}
      </>
    );
  }
  if (meta.value === null) {
    return connection.value.phase === "loading" || connection.value.phase === "live" ? <p class="boot">Loading the last minutes of this host.</p> : null;
  }
  return (
    <>
      <RoomFindings />
      <Notices />
      <FilterBar />
      <Parts />
      <Timeline />
      <div class="pair">
        <Causes />
        <Cores />
      </div>
      <Who />
      <LoopGaps />
      <Gaps />
      <div class="pair even">
        <Cost />
        <Completeness />
      </div>
      <Capabilities />
      <Words />
    </>
  );
}
