// @ts-check
// Made-up answers of api/v1/overview and api/v1/history for development and checks, beside the hosts of sample.mjs.

import { makeCheckpoints, makeJob, WHY_NOT } from "./checkpoints.mjs";
import { makeHost } from "./sample.mjs";

/** @typedef {import("./sample.mjs").Scenario} Scenario */
/** @typedef {import("../src/types.ts").Finding} Finding */
/** @typedef {import("../src/types.ts").RoomOverview} Room */

const ORDER = /** @type {const} */ (["ok", "notice", "warning", "critical"]);

/**
 * @param {Finding["room"]} room @param {string} rule @param {Finding["subject"]} subject @param {Finding["severity"]} severity
 * @param {string} sentence @param {Partial<Finding>} [more] @returns {Finding}
 */
function finding(room, rule, subject, severity, sentence, more = {}) {
  const key = [room, rule, subject.kind, subject.name].filter((part) => part !== "").join("/");
  return { key, rule, room, subject, severity, certainty: "certain", sentence, evidence: [], since_realtime_ns: 0, ...more };
}

const HOST = /** @type {const} */ ({ kind: "host", name: "" });

/** What the room of lost time says. @param {Scenario} scenario @param {number} nowNs @returns {Finding[]} */
function lostTime(scenario, nowNs) {
  const core = (/** @type {number} */ cpu) => /** @type {const} */ ({ kind: "core", name: String(cpu) });
  const traced = ["softirq NET_RX took 1.9 % of core 1's time", "<img src=x onerror=alert(5)> took 0.2 %"];
  const said = {
    small: [
      finding("stall", "lost-time", core(1), "notice", "Core 1 lost 29 ms per second, 2.9 % of its busy time; most of it to softirq NET_RX.", { since_realtime_ns: nowNs - 400e9, evidence: traced }),
      finding("stall", "gap", core(0), "warning", "Core 0 stood still for 48.2 ms; the hypervisor probably ran something else.", { since_realtime_ns: nowNs - 95e9, certainty: "probable", evidence: ["traced intervals cover 4.0 % of the gap", "a hypervisor is present (KVM)"] }),
    ],
    large: [
      finding("stall", "gap", core(81), "critical", "Core 81 stood still for 54.3 ms; hardware of this core, which cannot be told apart further here.", { since_realtime_ns: nowNs - 3700e9, certainty: "cannot_tell_apart_here", evidence: ["no hypervisor is present", "no other core had a gap within 50 us"] }),
      ...Array.from({ length: 6 }, (_, at) => finding("stall", "lost-time", core(8 + at), "notice", `Core ${8 + at} lost 1${at}.${at} ms per second, 1.${at} % of its busy time.`, { since_realtime_ns: nowNs - (90 + at) * 1e9 })),
    ],
    quiet: [finding("stall", "lost-time", HOST, "ok", "No core lost more than 0.3 % of its busy time in the last minute.")],
    reduced: [finding("stall", "not-timed", HOST, "notice", "Interrupts are counted but not timed here: run as root to time them.", { since_realtime_ns: nowNs - 900e9 })],
    replay: [finding("stall", "lost-time", core(1), "warning", "Core 1 lost 24.4 ms per second to the hypervisor around the middle of this recording.", { since_realtime_ns: nowNs - 450e9 })],
  };
  return said[scenario];
}

/** What the server has to run on account of a finding. @param {Finding} finding @returns {import("../src/types.ts").Next | null} */
function next(finding) {
  if (finding.severity === "ok") return null;
  return { command: "surefoot stall who --cpu 0-3 --duration 10s", effect: "Changes no setting. It names what interrupts each core, who raised it, and what would end it." };
}

/** A room with its findings. @param {Finding["room"]} name @param {string} title @param {Finding[]} findings @param {Partial<Room>} [more] @returns {Room} */
function room(name, title, findings, more = {}) {
  const severity = findings.reduce((worst, one) => (ORDER.indexOf(one.severity) > ORDER.indexOf(worst) ? one.severity : worst), /** @type {Finding["severity"]} */ ("ok"));
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(b.severity) - ORDER.indexOf(a.severity));
  return { room: name, title, severity, needs_action: ORDER.indexOf(severity) >= 2, is_watched: true, why: "", findings: sorted.map((finding) => ({ ...finding, next: next(finding) })), findings_left_out: 0, chart: null, ...more };
}

/** @param {import("../src/types.ts").Window[]} windows @param {number} offsetNs @returns {[number, number][]} */
function lostPoints(windows, offsetNs) {
  return windows.slice(-120).map(({ start_ns, end_ns, cores }) => {
    const lost = cores.reduce((all, core) => all + core.lost.reduce((sum, one) => sum + one.total_ns, 0), 0);
    return [end_ns + offsetNs, (lost * 1e9) / (end_ns - start_ns)];
  });
}

/** @param {ReturnType<typeof import("./sample.mjs").makeStream>} stream @param {number} ageNs @returns {import("../src/types.ts").Overview} */
export function makeOverview(stream, ageNs) {
  const { scenario, windows, host } = stream;
  const newestNs = (windows[windows.length - 1]?.end_ns ?? 86_400e9) + host.realtime_offset_ns;
  const nowNs = newestNs + (scenario === "replay" ? 0 : ageNs);
  const checkpoints = makeCheckpoints(scenario, nowNs);
  const ages = /** @type {[number, number][]} */ (Array.from({ length: 90 }, (_, at) => [nowNs - (89 - at) * 40e9, (at * 40) % 260]));
  const jobs = checkpoints.jobs.flatMap((job) => job.findings);
  const whyNot = scenario === "replay" ? "This recording holds no checkpoints." : WHY_NOT;
  const rooms = [
    room("stall", "Lost time", lostTime(scenario, nowNs), { chart: windows.length > 0 ? { title: "Lost per second", unit: "ns_per_s", points: lostPoints(windows, host.realtime_offset_ns), now: "last" } : null }),
    checkpoints.why === undefined
      ? room("checkpoint", "Checkpoints", jobs.length > 0 ? jobs : [finding("checkpoint", "none", HOST, "ok", "No job has saved anything yet.")], { chart: jobs.length > 0 ? { title: "Age of the oldest durable copy", unit: "s", points: ages, now: "ages" } : null })
      : room("checkpoint", "Checkpoints", [], { is_watched: false, why: whyNot }),
    room("watch", "Surefoot itself", scenario === "large" ? [finding("watch", "dropped", { kind: "source", name: "history" }, "notice", "12 events are not in the history: its disk was too slow.", { since_realtime_ns: nowNs - 7200e9 })] : [finding("watch", "sources", HOST, "ok", "All sources work; nothing was dropped.")]),
  ];
  const above = rooms.flatMap(({ findings }) => findings).filter(({ severity }) => severity !== "ok");
  const [worst] = above.sort((a, b) => ORDER.indexOf(b.severity) - ORDER.indexOf(a.severity));
  const more = above.length === 1 ? "" : above.length === 2 ? " One more finding." : ` ${above.length - 1} more findings.`;
  return {
    access: { sees_all: true, why: "" },
    schema: 2,
    version: "0.1.0",
    mode: scenario === "replay" ? "replay" : "live",
    recording: scenario === "replay" ? "recordings/troubled host.sfr" : null,
    now_realtime_ns: nowNs,
    age_ns: windows.length > 0 ? Math.round(scenario === "replay" ? 0 : ageNs) : null,
    host,
    headline: worst ? { severity: worst.severity, sentence: `${worst.sentence}${more}` } : { severity: "ok", sentence: rooms[0].findings[0].sentence },
    rooms,
    tour: [],
  };
}

/** How far back a made-up history goes, and how long it has windows of a second. */
const KEPT_S = 7 * 86_400;
const SECONDS_KEPT_S = 86_400;

/**
 * @param {Scenario} scenario @param {number} fromS @param {number} toS @param {"second" | "minute"} resolution @param {number} nowS
 * @returns {import("../src/types.ts").PastAnswer}
 */
export function makePast(scenario, fromS, toS, resolution, nowS) {
  const made = makeHost(scenario === "large" ? "small" : scenario);
  const stepS = resolution === "second" ? 1 : 60;
  const oldestS = Math.ceil(nowS) - (resolution === "second" ? SECONDS_KEPT_S : KEPT_S);
  /** @type {import("../src/types.ts").PastWindow[]} */
  const windows = [];
  /** @type {import("../src/types.ts").PastGap[]} */
  const gaps = [];
  for (let at = Math.max(fromS, oldestS); at + stepS <= Math.min(toS, nowS); at += stepS) {
    const end = (at + stepS) * 1e9;
    const { cores } = made.window(end, at);
    const scaled = cores.map((core) => ({
      ...core,
      wall_ns: core.wall_ns * stepS,
      idle_ns: core.idle_ns * stepS,
      user_ns: core.user_ns * stepS,
      kernel_ns: core.kernel_ns * stepS,
      unexplained_ns: core.unexplained_ns * stepS,
      lost: core.lost.map((lost) => ({ ...lost, total_ns: lost.total_ns * stepS, count: (lost.count ?? 0) * stepS, while_idle_ns: lost.while_idle_ns * stepS })),
    }));
    windows.push({ start_realtime_ns: at * 1e9, end_realtime_ns: end, cores: scaled });
    // Times within a gap are of the boot that it happened in.
    if (gaps.length < 200) gaps.push(...made.gaps(end).map((gap) => ({ ...gap, start_realtime_ns: gap.start_ns, start_ns: gap.start_ns % 86_400e9 })));
  }
  const middle = ((fromS + toS) / 2) * 1e9;
  const isThere = windows.length > 0;
  const jobs = isThere && scenario !== "quiet" ? makeJob("cfd/wing", Math.min(200, Math.max(1, Math.floor((toS - fromS) / 30))), 30, toS * 1e9) : null;
  const [worst] = lostTime(scenario, middle);
  return {
    schema: 2,
    headline: isThere ? { severity: worst.severity, sentence: worst.sentence } : { severity: "notice", sentence: "The history has no findings in this range." },
    from_s: fromS,
    to_s: toS,
    resolution,
    windows,
    gaps,
    clock_changes: [], notices: isThere ? [{ at_realtime_ns: middle, text: "Core 1 went offline and came back after 3.1 s." }] : [],
    findings: isThere ? lostTime(scenario, middle).map((one) => ({ finding: one, needs_action: ORDER.indexOf(one.severity) >= 2, from_realtime_ns: middle - 30e9, last_seen_realtime_ns: toS < nowS - 3600 ? middle + 45e9 : nowS * 1e9, until_realtime_ns: toS < nowS - 3600 ? middle + 45e9 : null })) : [],
    unknown_count: 0,
    records: (jobs?.events ?? []).map(({ realtime_ns, severity, ...body }) => ({ room: "checkpoint", kind: "journal", severity, subject: { kind: /** @type {const} */ ("job"), name: "cfd/wing" }, at_realtime_ns: realtime_ns, body: { realtime_ns, ...body } })),
  };
}
