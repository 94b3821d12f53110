// Checkpoints: what lies in the directories now, or what jobs decided in a range of the past.

import { RoomFindings } from "../../components/findings.tsx";
import { PastState } from "../../components/past.tsx";
import { past } from "../../state.ts";
import { LiveCheckpoints } from "./components/live.tsx";
import { PastCheckpoints } from "./components/past.tsx";
import "./checkpoints.css";

export function Checkpoints() {
  if (past.value !== null) {
    return (
      <>
        <PastState>The history has what jobs decided about their checkpoints in this range, not which copies there were then.</PastState>
        <RoomFindings />
        <PastCheckpoints />
      </>
    );
  }
  return (
    <>
      {/* What was found of a job stands at the job. */}
      <RoomFindings leaveOut={({ subject }) => subject.kind === "job"} quiet />
      <LiveCheckpoints />
    </>
  );
}
