// The views of the page, in the order of the header. The only place that a new room's view is registered in.

import { Overview } from "./overview/overview.tsx";
import * as checkpointFeed from "./rooms/checkpoint/feed.ts";
import { Checkpoints } from "./rooms/checkpoint/view.tsx";
import { lostChart } from "./rooms/stall/chart.ts";
import * as stallFeed from "./rooms/stall/feed.ts";
import * as stall from "./rooms/stall/state.ts";
import { LostTime } from "./rooms/stall/view.tsx";
import type { View } from "./view.ts";

export const VIEWS: readonly View[] = [
  { key: "overview", title: "Overview", component: Overview, rooms: [], documents: ["overview"] },
  {
    key: "lost-time",
    title: "Lost time",
    component: LostTime,
    // What watching costs and what works here stand there, too.
    rooms: ["stall", "watch"],
    documents: ["snapshot", "report", "who"],
    parameters: ["cpu", "kind", "min_us", "range_s", "at"],
    problems: stall.findProblems,
    questions: stallFeed.questions,
    listener: stallFeed.listener,
    pastChart: lostChart,
  },
  {
    key: "checkpoints",
    title: "Checkpoints",
    component: Checkpoints,
    rooms: ["checkpoint"],
    documents: ["checkpoints"],
    parameters: ["job"],
    questions: checkpointFeed.questions,
    // What was found of a job stands at the job.
    changeFor: ({ subject }) => (subject.kind === "job" ? { job: subject.name, finding: null } : {}),
  },
];
