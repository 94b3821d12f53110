// The views of the page, in the order of the header. The only place that a new room's view is registered in.
// The first is part of the page's first script; each other comes in one of its own when it is first shown.

import { question as deedsQuestion } from "./overview/deeds.tsx";
import { Overview } from "./overview/overview.tsx";
import * as checkpointFeed from "./rooms/checkpoint/feed.ts";
import * as disturbFeed from "./rooms/disturb/feed.ts";
import * as memoryFeed from "./rooms/memory/feed.ts";
import * as nicFeed from "./rooms/nic/feed.ts";
import * as nic from "./rooms/nic/state.ts";
import * as remedyFeed from "./rooms/remedy/feed.ts";
import { lostChart } from "./rooms/stall/chart.ts";
import * as stallFeed from "./rooms/stall/feed.ts";
import * as stall from "./rooms/stall/state.ts";
import type { View } from "./view.ts";

export const VIEWS: readonly View[] = [
  { key: "overview", title: "Overview", load: async () => Overview, rooms: [], documents: ["overview", "deeds"], questions: [deedsQuestion] },
  {
    key: "lost-time",
    title: "Lost time",
    load: async () => (await import("./rooms/stall/view.tsx")).LostTime,
    // What watching costs and what works here stand there, too.
    rooms: ["stall", "watch"],
    documents: ["snapshot", "report", "who"],
    parameters: ["cpu", "kind", "min_us", "range_s", "at", "before_s"],
    problems: stall.findProblems,
    questions: stallFeed.questions,
    listener: stallFeed.listener,
    pastChart: lostChart,
  },
  {
    key: "memory",
    title: "Memory errors",
    load: async () => (await import("./rooms/memory/view.tsx")).MemoryErrors,
    rooms: ["memory"],
    documents: ["memory"],
    parameters: ["dimm"],
    questions: memoryFeed.questions,
    // A module's findings lead to the module.
    changeFor: ({ subject }) => (subject.kind === "dimm" ? { dimm: subject.name } : {}),
  },
  {
    key: "checkpoints",
    title: "Checkpoints",
    load: async () => (await import("./rooms/checkpoint/view.tsx")).Checkpoints,
    rooms: ["checkpoint"],
    documents: ["checkpoints"],
    parameters: ["job"],
    questions: checkpointFeed.questions,
    // What was found of a job stands at the job.
    changeFor: ({ subject }) => (subject.kind === "job" ? { job: subject.name, finding: null } : {}),
  },
  {
    key: "interfaces",
    title: "Network interfaces",
    load: async () => (await import("./rooms/nic/view.tsx")).Interfaces,
    rooms: ["nic"],
    documents: ["nic", "nic/campaign"],
    parameters: ["interface", "campaign", "outcome", "faults_from", "fault"],
    problems: nic.findProblems,
    questions: nicFeed.questions,
    // An interface's findings lead to the interface.
    changeFor: ({ subject }) => (subject.kind === "interface" ? { interface: subject.name } : {}),
  },
  {
    key: "experiments",
    title: "Disturbances",
    load: async () => (await import("./rooms/disturb/view.tsx")).Experiments,
    rooms: ["disturb"],
    documents: ["disturb"],
    parameters: ["experiment"],
    questions: disturbFeed.questions,
    // An experiment's findings lead to the experiment.
    changeFor: ({ subject }) => (subject.kind === "experiment" ? { experiment: subject.name } : {}),
  },
  {
    key: "remedies",
    title: "Remedies",
    load: async () => (await import("./rooms/remedy/view.tsx")).Remedies,
    rooms: ["remedy"],
    documents: ["remedy", "deeds"],
    // What was done for a case is a deed.
    questions: [...remedyFeed.questions, deedsQuestion],
  },
];
