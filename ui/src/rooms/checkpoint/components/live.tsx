// Checkpoints: each job's state, its strip over time, its generations, and its decisions with their reasons.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Command } from "../../../components/command.tsx";
import { Icon, type IconName } from "../../../components/icons.tsx";
import { SeverityIcon } from "../../../components/severity.tsx";
import { SortTable, type ColumnOf } from "../../../components/table.tsx";
import { age, asSentence, oldWords, count, day, moment, share, storedBytes } from "../../../format.ts";
import { connection, mode, realtimeNow } from "../../../state.ts";
import { rank, worst } from "../../../severity.ts";
import type { CheckpointDirectory, Checkpoints as Answer, DriveWear, Generation, GenerationState, Job } from "../../../types.ts";
import { verifyCommand } from "../command.ts";
import { lowered, placeWords, seconds, STATE_WORDS, TIER_PLACES, TIER_WORDS } from "../journal.ts";
import { Decisions } from "./decisions.tsx";
import * as state from "../state.ts";
import { JobStrip } from "./strip.tsx";

/** Places that are not as they should be that stand open. */
const PROBLEMS = 5;

const STATE_ICONS: Record<GenerationState, [icon: IconName, className: string]> = {
  complete: ["ok", "works"],
  partial: ["notice", "reduced"],
  unfinished: ["notice", "reduced"],
  damaged: ["critical", "unsupported"],
};

/** Now on the host's clock, each second anew. */
function useNow(): number {
  const tick = useSignal(0);
  const { phase } = connection.value;
  tick.value;
  useEffect(() => {
    if (phase === "paused" || phase === "replay") return undefined;
    const timer = setInterval(() => (tick.value += 1), 1000);
    return () => clearInterval(timer);
  }, [phase]);
  return realtimeNow();
}

/** Whether somebody holds the job's lock. */
function Running({ job }: { job: Job }) {
  if (job.is_running === null) return null;
  return (
    <span class="running" data-running={job.is_running}>
      <span class="dot" aria-hidden="true" />
      {job.is_running ? "running" : "not seen running"}
    </span>
  );
}

function facts(job: Job, nowNs: number): [string, string, string][] {
  const known: [string, string, string][] = [];
  const boundS = job.state?.staleness_max_s ?? null;
  known.push(["Newest in memory", job.memory_realtime_ns === null ? "none" : oldWords(nowNs - job.memory_realtime_ns), "lost with the machine's power"]);
  known.push([
    "Newest durable",
    job.durable_realtime_ns === null ? "none" : oldWords(nowNs - job.durable_realtime_ns),
    boundS === null ? "without a bound" : `bound: ${seconds(boundS)} old`,
  ]);
  for (const [tier, place] of Object.entries(TIER_PLACES)) {
    const stored = job.stored_bytes[tier as keyof typeof TIER_PLACES];
    if (stored !== undefined) known.push([`Bytes ${place}`, storedBytes(stored), "of the checkpoints that are there"]);
  }
  const session = job.state;
  if (!session) return known;
  const decided = Object.entries(session.decided).map(([place, times]) => `${count(times)} ${lowered(placeWords(place))}`);
  known.push(["Decisions", count(Object.values(session.decided).reduce((sum, times) => sum + times, 0)), decided.join("; ")]);
  known.push(["Time in checkpoints", share(session.checkpoint_s, session.session_s), `of ${seconds(session.session_s)} of this session`]);
  const rate = session.session_s > 0 ? session.durable_bytes / session.session_s : 0;
  const borne = session.budget_bytes_per_s;
  known.push([
    "Written to the SSD",
    storedBytes(session.durable_bytes),
    `${storedBytes(rate)} per second${borne === null ? "; what the drive is rated for is not known" : `; the drive is rated for ${storedBytes(borne)}`}`,
  ]);
  if (session.drive_ends_realtime_ns !== null) known.push(["Drive's rating used up", day(session.drive_ends_realtime_ns), "at this job's present rate, without other writers"]);
  if (session.lost_count > 0) known.push(["Lines lost", count(session.lost_count), "that the job could not write into its journal"]);
  return known;
}

const COLUMNS: ColumnOf<Generation>[] = [
  { key: "number", title: "Number", order: (row) => row.number, cell: (row) => String(row.number) },
  { key: "tier", title: "Tier", order: (row) => row.tier, cell: (row) => TIER_WORDS[row.tier] ?? row.tier },
  {
    key: "state",
    title: "State",
    order: (row) => row.state,
    cell: (row) => {
      const [icon, className] = STATE_ICONS[row.state] ?? STATE_ICONS.damaged;
      return (
        <span class={`badge ${className}`}>
          <Icon name={icon} size={14} />
          {STATE_WORDS[row.state] ?? row.state}
        </span>
      );
    },
  },
  {
    key: "taken",
    title: "Taken",
    order: (row) => row.taken_realtime_ns,
    cell: (row) => (row.taken_realtime_ns === null ? "–" : moment(row.taken_realtime_ns, realtimeNow())),
  },
  { key: "ranks", title: "Ranks", className: "number", order: (row) => row.ranks_here, cell: (row) => `${row.ranks_here} of ${row.ranks}` },
  { key: "bytes", title: "Bytes", className: "number", order: (row) => row.payload_bytes, cell: (row) => (row.payload_bytes === null ? "–" : storedBytes(row.payload_bytes)), hint: "Of the ranks that are here" },
  { key: "stored", title: "Stored", className: "number", order: (row) => row.stored_bytes, cell: (row) => storedBytes(row.stored_bytes), hint: "What it takes there, with parity and checksums" },
  { key: "protection", title: "Protection", order: (row) => row.protection, cell: (row) => row.protection || "–" },
  { key: "missing", title: "Missing", className: "missing-why", order: (row) => row.missing, cell: (row) => <span class="untrusted muted">{row.missing || "no rank (data not read)"}</span> },
];

function Generations({ job }: { job: Job }) {
  return (
    <div data-testid="generations">
      <h3>Checkpoints that are there</h3>
      {job.generations.length > 0 ? (
        <SortTable label={`Checkpoints of ${job.name}`} rows={job.generations} columns={COLUMNS} rowKey={(row) => `${row.tier}/${row.number}/${row.nonce}`} first="number" room={10} />
      ) : (
        <p class="empty">None yet: the job has only opened its directories.</p>
      )}
      {job.generations_left_out > 0 && <p class="muted aside">{count(job.generations_left_out)} older ones are not shown.</p>}
    </div>
  );
}

function JobCard({ job, nowNs }: { job: Job; nowNs: number }) {
  return (
    <section class="card job" data-testid="job" data-job={job.name} aria-label={`Job ${job.name}`}>
      <div class="card-head">
        <h2>
          <span class="untrusted">{job.name}</span>
        </h2>
        <p class="muted figures">
          <Running job={job} />
          {job.ranks > 0 && ` · ${job.ranks === 1 ? "one rank" : `${job.ranks} ranks`}`}
          {job.state && job.state.policy !== "" && ` · policy ${job.state.policy}`}
        </p>
      </div>
      <ul class="job-findings">
        {job.findings.map((finding) => (
          <li key={finding.key} class={`job-verdict ${finding.severity}`} data-testid="job-verdict" data-severity={finding.severity}>
            <SeverityIcon severity={finding.severity} size={18} />
            <span class="untrusted">{finding.sentence}</span>
          </li>
        ))}
      </ul>
      <JobStrip job={job} nowNs={nowNs} />
      <dl class="job-facts">
        {facts(job, nowNs).map(([name, value, note]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="figures">{value}</dd>
            <dd class="muted">{note}</dd>
          </div>
        ))}
      </dl>
      <Generations job={job} />
      <div data-testid="decisions">
        <h3>Decisions and outcomes</h3>
        <Decisions entries={job.events} nowNs={nowNs} none="No journal lies beside these checkpoints, so the reasons are not known." />
        {job.events_skipped > 0 && <p class="muted aside">{count(job.events_skipped)} lines of the journal cannot be read.</p>}
      </div>
      <Command label="Read and check every page" line={verifyCommand(job.directories)} words="verify" button="copy-verify" />
    </section>
  );
}

/** The worst of what the server found of a job; it says at least that all is well. */

/** Which job is looked at, where there are several. */
function Chooser({ jobs, chosen, nowNs }: { jobs: Job[]; chosen: Job; nowNs: number }) {
  return (
    <div class="job-chooser" role="group" aria-label="Jobs" data-testid="jobs">
      {jobs.map((job) => {
        const severity = worst(job.findings.map((finding) => finding.severity)) ?? "ok";
        return (
          <button key={job.name} type="button" class="chip" aria-pressed={job === chosen} onClick={() => state.chooseJob(job.name)}>
            <span class={`job-sign ${severity}`}>
              <SeverityIcon severity={severity} size={13} />
            </span>
            <span class="untrusted">{job.name}</span>
            <span class="muted figures">{job.is_running === true ? "running" : job.durable_realtime_ns === null ? "" : oldWords(nowNs - job.durable_realtime_ns)}</span>
          </button>
        );
      })}
    </div>
  );
}

function driveWords(drive: DriveWear): string {
  const said: string[] = [];
  if (drive.percent_used) said.push(`${drive.percent_used.value} % of its life used`);
  if (drive.written_bytes) said.push(`${storedBytes(drive.written_bytes.value)} written${drive.rated_bytes ? ` of ${storedBytes(drive.rated_bytes.value)} rated` : ""}`);
  if (drive.spare_percent) said.push(`${drive.spare_percent.value} % spare left`);
  if (drive.media_error_count && drive.media_error_count.value > 0) said.push(`${count(drive.media_error_count.value)} media errors`);
  return said.length > 0 ? said.join(", ") : (drive.notes[0] ?? "its wear is not known");
}

const DIRECTORY_COLUMNS: ColumnOf<CheckpointDirectory>[] = [
  { key: "path", title: "Directory", order: (row) => row.path, cell: (row) => <span class="untrusted">{row.path}</span> },
  { key: "tiers", title: "Tier", order: (row) => row.tiers.join(), cell: (row) => row.tiers.map((tier) => TIER_WORDS[tier] ?? tier).join(", ") || "–" },
  { key: "kind", title: "File system", order: (row) => row.file_system, cell: (row) => <span class="untrusted">{row.file_system ?? "–"}</span> },
  { key: "free", title: "Free", className: "number", order: (row) => row.free_bytes, cell: (row) => (row.free_bytes === null ? "–" : storedBytes(row.free_bytes)) },
  { key: "drives", title: "Drive", order: (row) => row.drives.join(), cell: (row) => <span class="untrusted">{row.drives.join(", ") || "–"}</span> },
];

function Directories({ answer, nowNs }: { answer: Answer; nowNs: number }) {
  const wrong = answer.directories.filter((directory) => directory.problem !== null);
  const problems = [...wrong.map(({ path, problem }) => ({ path, why: problem ?? "" })), ...answer.problems];
  const row = ({ path, why }: { path: string; why: string }, at: number) => (
    <li key={`${path}/${at}`} class="untrusted">
      {why.includes(path) ? why : `${path}: ${why}`}
    </li>
  );
  return (
    <section class="card" data-testid="directories" aria-labelledby="directories-title">
      <div class="card-head">
        <h2 id="directories-title">Directories</h2>
        {answer.looked_realtime_ns !== null && <p class="muted figures">looked at {age(nowNs - answer.looked_realtime_ns)} ago</p>}
      </div>
      <SortTable label="Directories" rows={answer.directories} columns={DIRECTORY_COLUMNS} rowKey={(row) => row.path} first="path" upwards room={20} />
      {answer.drives && answer.drives.drives.length > 0 && (
        <ul class="drives">
          {answer.drives.drives.map((drive) => (
            <li key={drive.name} class="untrusted">
              <strong>{drive.name}</strong> {drive.model}: {driveWords(drive)}
            </li>
          ))}
        </ul>
      )}
      {!answer.drives && answer.directories.length > 0 && (
        <p class="muted aside">
          The wear of the drives is not known; as root <code>surefoot checkpoint drive --write</code> publishes it.
        </p>
      )}
      {problems.length > 0 && (
        <div data-testid="problems">
          <h3>Problems</h3>
          <ul class="problems">{problems.slice(0, PROBLEMS).map(row)}</ul>
          {problems.length > PROBLEMS && (
            <details class="fold">
              <summary>{count(problems.length - PROBLEMS + answer.problems_left_out)} more</summary>
              <ul class="problems">{problems.slice(PROBLEMS).map(row)}</ul>
            </details>
          )}
        </div>
      )}
      {answer.is_cut && <p class="muted aside">A limit ended the look before it had seen everything; name directories further down to see the rest.</p>}
    </section>
  );
}

function Empty({ why }: { why: string }) {
  return (
    <section class="card" data-testid="checkpoints-none">
      <h2>Checkpoints are not watched</h2>
      <p class="empty untrusted">{asSentence(why)}</p>
      {mode.value === "live" && (
        <Command label="For example" line="surefoot watch --checkpoints /dev/shm --checkpoints /scratch/checkpoints" words="watch-command" button="copy-watch" />
      )}
    </section>
  );
}

/** What is there now. */
export function LiveCheckpoints() {
  const nowNs = useNow();
  const answer = state.checkpoints.value;
  const problem = state.checkpointsProblem.value;
  const said = problem !== "" && (
    <p class="problems" role="alert" data-testid="checkpoints-problem">
      Could not load checkpoints: <span class="untrusted">{problem}</span>. {answer ? "What is shown is the last answer." : ""}
    </p>
  );
  if (!answer) return said || <p class="boot">Looking for checkpoints.</p>;
  if (answer.why !== undefined) return <Empty why={answer.why} />;
  const order = (job: Job) => (job.is_running === true ? 0 : 10) - rank(worst(job.findings.map((finding) => finding.severity)) ?? "ok");
  const jobs = [...answer.jobs].sort((a, b) => order(a) - order(b));
  const wanted = state.chosenJob.value;
  const chosen = jobs.find((one) => one.name === wanted);
  const job = chosen ?? jobs[0];
  return (
    <>
      {said}
      {wanted !== "" && !chosen && (
        <p class="problems" role="status" data-testid="job-unknown">
          No job is called <span class="untrusted">{wanted}</span> here{job ? "; another one is shown" : ""}.
        </p>
      )}
      {jobs.length > 1 && job && <Chooser jobs={answer.jobs} chosen={job} nowNs={nowNs} />}
      {answer.jobs_left_out > 0 && <p class="muted">{count(answer.jobs_left_out)} more jobs are not shown.</p>}
      {job ? (
        <JobCard key={job.name} job={job} nowNs={nowNs} />
      ) : (
        <section class="card" data-testid="jobs-none">
          <h2>There is no checkpoint here</h2>
          <p class="empty">
            {answer.looked_realtime_ns === null
              ? "The first look is under way."
              : "No job has saved anything in these directories yet. A job shows here as soon as it opens its tiers in one of them."}
          </p>
        </section>
      )}
      <Directories answer={answer} nowNs={nowNs} />
    </>
  );
}
