// Network interfaces: the state of each with its evidence, health reporters and counters; and fault campaigns of a modelled one.

import { RoomFindings } from "../../components/findings.tsx";
import { PastState } from "../../components/past.tsx";
import { past } from "../../state.ts";
import { Campaigns } from "./components/campaigns.tsx";
import { LiveInterfaces } from "./components/live.tsx";
import "./nic.css";

export function Interfaces() {
  if (past.value !== null) {
    return (
      <>
        <PastState>The history has what was found and done in this range, not the counters of each interface then.</PastState>
        <RoomFindings />
      </>
    );
  }
  return (
    <>
      <RoomFindings />
      <LiveInterfaces />
      <Campaigns />
    </>
  );
}
