// Memory errors: every module with its counts, rates and fault, what reporting costs, and whether the accounting works.

import { RoomFindings } from "../../components/findings.tsx";
import { PastState } from "../../components/past.tsx";
import { past } from "../../state.ts";
import { LiveMemory } from "./components/live.tsx";
import "./memory.css";

export function MemoryErrors() {
  if (past.value !== null) {
    return (
      <>
        <PastState>The history has what was reported and found in this range, not the counts of each module then.</PastState>
        <RoomFindings />
      </>
    );
  }
  return (
    <>
      <RoomFindings />
      <LiveMemory />
    </>
  );
}
