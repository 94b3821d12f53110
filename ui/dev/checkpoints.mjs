// @ts-check
// Made-up checkpoints for development and checks, in the form of api/v1/checkpoints.

/** @typedef {import("../src/types.ts").Checkpoints} Checkpoints */
/** @typedef {import("../src/types.ts").Job} Job */
/** @typedef {import("../src/types.ts").EntryView} JournalEvent */

const GIB = 2 ** 30;

/** @type {Checkpoints} */
const NOTHING = { schema: 2, version: "0.1.0", looked_realtime_ns: null, look_ns: 0, directories: [], jobs: [], jobs_left_out: 0, is_cut: false, problems: [], problems_left_out: 0, drives: null };

export const WHY_NOT = "No checkpoint directory is configured; start with: surefoot watch --checkpoints DIR";

/**
 * What a server says of a job.
 * @param {string} job @param {string} rule @param {import("../src/types.ts").Severity} severity @param {string} sentence @param {number} sinceNs @param {string[]} [evidence]
 * @returns {import("../src/types.ts").Finding}
 */
function finding(job, rule, severity, sentence, sinceNs, evidence = []) {
  return { key: `checkpoint/${rule}/job/${job}`, rule, room: "checkpoint", subject: { kind: "job", name: job }, severity, certainty: "certain", sentence, evidence, since_realtime_ns: severity === "ok" ? 0 : sinceNs };
}

/**
 * A job that takes a checkpoint every `everyS` seconds, every eighth of them durable, the last one now.
 * @param {string} name @param {number} checkpoints @param {number} everyS @param {number} nowNs @returns {Job}
 */
export function makeJob(name, checkpoints, everyS, nowNs) {
  const beganNs = nowNs - checkpoints * everyS * 1e9;
  /** @type {JournalEvent[]} */
  const events = [{ severity: "ok", event: "opened", realtime_ns: beganNs, job: name, ranks: 4, policy: "surefoot" }];
  let durableNs = beganNs;
  let durableBytes = 0;
  /** @type {Record<string, number>} */
  const decided = { memory: 0, memory_and_ssd: 0 };
  for (let number = 1; number <= checkpoints; number += 1) {
    const atNs = beganNs + number * everyS * 1e9 - 5e8;
    const isDurable = number % 8 === 0;
    const place = isDurable ? "memory_and_ssd" : "memory";
    const ageS = (atNs - durableNs) / 1e9;
    decided[place] += 1;
    events.push({
      severity: "ok",
      event: "decision",
      realtime_ns: atNs,
      place,
      generation: number,
      reasons: [isDurable ? `the durable copy is ${ageS.toFixed(0)} s old, and every ${8 * everyS} s pays` : `the durable copy is ${ageS.toFixed(0)} s old; every ${8 * everyS} s wastes least`],
      payload_bytes: 2 * GIB,
      node_bytes: 8 * GIB,
      visible_s: 0.21,
      durable_age_s: ageS,
      staleness_max_s: 10 * everyS,
      durable_bytes: durableBytes,
      session_s: number * everyS,
      checkpoint_s: number * 0.21,
      decided: { ...decided },
    });
    if (!isDurable || number + 1 > checkpoints) continue;
    const isLost = number % 400 === 0;
    const doneNs = atNs + 4e9;
    if (isLost) events.push({ severity: "warning", event: "not_durable", tier: "durable", realtime_ns: doneNs, generation: number, why: "cannot sync /ssd/job: Input/output error (os error 5)" });
    else {
      durableNs = atNs;
      durableBytes += 8 * GIB;
      events.push({ severity: "ok", event: "durable", tier: "durable", realtime_ns: doneNs, generation: number, age_s: 4, took_s: 3.8, bytes: 8 * GIB });
    }
  }
  /** @param {number} number @param {"memory" | "durable" | "shared"} tier @returns {import("../src/types.ts").Generation} */
  const generation = (number, tier) => ({
    number,
    nonce: number.toString(16).padStart(16, "0"),
    tier,
    state: "complete",
    missing: "",
    taken_realtime_ns: beganNs + number * everyS * 1e9 - 7e8,
    ranks_here: 4,
    ranks: 4,
    payload_bytes: 8 * GIB,
    stored_bytes: tier === "memory" ? 9.6 * GIB : 8.1 * GIB,
    protection: tier === "memory" ? "shard" : "checked",
    directory: tier === "memory" ? `/dev/shm/${name}` : `/ssd/${name}`,
  });
  const newestDurable = checkpoints - 1 - ((checkpoints - 1) % 8);
  return {
    name,
    directories: [`/dev/shm/${name}`, `/ssd/${name}`],
    ranks: 4,
    is_running: true,
    memory_realtime_ns: beganNs + checkpoints * everyS * 1e9 - 7e8,
    durable_realtime_ns: newestDurable > 0 ? beganNs + newestDurable * everyS * 1e9 - 7e8 : null,
    stored_bytes: { memory: 2 * 9.6 * GIB, durable: 2 * 8.1 * GIB },
    generations: [generation(checkpoints, "memory"), generation(checkpoints - 1, "memory"), generation(newestDurable, "durable"), generation(newestDurable - 8, "durable")],
    generations_left_out: 0,
    state: {
      policy: "surefoot",
      began_realtime_ns: beganNs,
      staleness_max_s: 10 * everyS,
      decided,
      durable_bytes: durableBytes,
      checkpoint_s: checkpoints * 0.21,
      session_s: checkpoints * everyS,
      budget_bytes_per_s: 92.5e6,
      drive_ends_realtime_ns: nowNs + 4.2 * 365.25 * 86_400e9,
      lost_count: 0,
    },
    events,
    events_left_out: 0,
    events_skipped: 0,
    findings: [finding(name, "fresh", "ok", `A durable checkpoint from ${Math.round((nowNs - durableNs) / 1e9)} s ago (bound ${10 * everyS} s), one in memory from 0.7 s ago.`, nowNs)],
  };
}

/** @param {import("./sample.mjs").Scenario} scenario @param {number} nowNs @returns {Checkpoints} */
export function makeCheckpoints(scenario, nowNs) {
  if (scenario === "quiet") return { ...NOTHING, why: WHY_NOT };
  if (scenario === "replay") return { ...NOTHING, why: "a recording holds no checkpoints; look at those of a running host" };
  const directories = [
    { path: "/dev/shm", tiers: /** @type {["memory"]} */ (["memory"]), file_system: "tmpfs", free_bytes: 44 * GIB, drives: [], problem: null },
    { path: "/ssd", tiers: /** @type {["durable"]} */ (["durable"]), file_system: "ext4", free_bytes: 1200 * GIB, drives: ["nvme0n1"], problem: null },
  ];
  const known = { ...NOTHING, looked_realtime_ns: nowNs - 1e9, directories };
  if (scenario === "reduced") return { ...known, looked_realtime_ns: nowNs };
  const drive = /** @type {import("../src/types.ts").DriveWear} */ ({ device_numbers: ["259:0"], size_bytes: 3.84e12, is_rotational: false, name: "nvme0n1", model: "a drive", notes: [], percent_used: { value: 12, source: "nvme_health_log" }, written_bytes: { value: 1.7e15, source: "nvme_health_log" }, rated_bytes: { value: 14.6e15, source: "rating_table" } });
  const first = makeJob("cfd/wing", scenario === "large" ? 1199 : 90, 30, nowNs);
  if (scenario === "large") {
    const [, , durable] = first.generations;
    const older = (/** @type {number} */ at) => ({ ...durable, number: 1000 - at, nonce: at.toString(16).padStart(16, "0"), taken_realtime_ns: nowNs - (at + 40) * 30e9 });
    first.generations.push(...Array.from({ length: 1000 }, (_, at) => older(at)));
  }
  const late = makeJob("training", 3, 30, nowNs - 3600e9);
  late.findings = [finding("training", "stale", "critical", "The newest durable checkpoint is 61 min old; its bound is 5 min.", nowNs - 3300e9, ["staleness_max_s is 300 in the journal", "the job holds the lock of rank 0"])];
  const hostile = makeJob("broken", 20, 30, nowNs);
  hostile.findings = [finding("broken", "damaged", "warning", "The newest checkpoint on the SSD, number 16, is damaged; a restart takes an older one.", nowNs - 120e9, ["rank 2: <img src=x onerror=alert(1)>"])];
  hostile.is_running = false;
  hostile.generations[2] = { ...hostile.generations[2], state: "damaged", missing: "rank 2: <img src=x onerror=alert(1)>" };
  hostile.events.push({ severity: "warning", event: "restart", realtime_ns: nowNs - 1e9, generation: null, report: "no checkpoint can be restored: \u202etxet <b>bold</b>" });
  // What a newer server may say.
  hostile.events.push(/** @type {any} */ ({ event: "unheard_of", realtime_ns: nowNs }));
  return {
    ...known,
    drives: { read_realtime_ns: nowNs, drives: [drive] },
    jobs: [hostile, first, late],
    problems: [{ path: "/dev/shm/strange", why: "it is a symbolic link" }],
  };
}
