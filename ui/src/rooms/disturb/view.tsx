// Experiments that disturb this host: all of them, the chosen one with its runs and stalls; and predictions for many nodes.

import { RoomFindings } from "../../components/findings.tsx";
import { PastState } from "../../components/past.tsx";
import { past } from "../../state.ts";
import { List } from "./components/list.tsx";
import { One } from "./components/one.tsx";
import { Predictions } from "./components/predictions.tsx";
import "./disturb.css";
import * as state from "./state.ts";

export function Experiments() {
  if (past.value !== null) {
    return (
      <>
        <PastState>For this range the history has when experiments began and their outcomes, not their runs.</PastState>
        <RoomFindings />
      </>
    );
  }
  const answer = state.disturb.value;
  const problem = state.disturbProblem.value;
  return (
    <>
      <RoomFindings />
      {problem !== "" && (
        <p class="problems untrusted" role="alert">
          Could not load the experiments: {problem}.
        </p>
      )}
      {answer && <List answer={answer} />}
      {answer && state.chosen.value && <One one={state.chosen.value} detail={answer.detail} />}
      {answer && answer.predictions.length > 0 && <Predictions all={answer.predictions} />}
    </>
  );
}
