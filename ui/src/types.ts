// Made by dev/types.mjs from docs/schema/api.json; do not edit. `npm run types:generate` makes it anew.

/**
 * Who acts.
 */
export type Actor =
  | {
      kind: "command";
      /**
       * The user.
       */
      uid: number;
    }
  | {
      /**
       * The job.
       */
      job: string;
      kind: "session";
    }
  | {
      /**
       * This host.
       */
      host: string;
      kind: "agent";
    }
  | {
      kind: "controller";
      /**
       * Its name.
       */
      name: string;
    }
  | {
      kind: "unknown";
    }
  | {
      kind: "not_shown";
    };
/**
 * Who was asked whether an alert holds.
 */
export type AlertSource = "agent" | "alertmanager" | "store";
/**
 * How much of a capability this host allows.
 */
export type CapabilityState = "works" | "reduced" | "unsupported";
/**
 * Why work depends on an interface.
 */
export type CarriedKind = "default_route" | "route" | "ssh_session" | "not_read" | "unknown";
/**
 * Where a case stands.
 */
export type CaseState = "waiting" | "needs_approval" | "running" | "paused" | "with_person" | "returned" | "cleared" | "cancelled";
/**
 * What kind of thing a finding is about.
 */
export type SubjectKind = "host" | "core" | "dimm" | "drive" | "job" | "interface" | "experiment" | "case" | "source";
/**
 * How bad a finding is. The order is from well to bad.
 */
export type Severity = "ok" | "notice" | "warning" | "critical";
/**
 * What was observed of an action that was done.
 */
export type Observed =
  | {
      kind: "accepted";
    }
  | {
      kind: "written";
    }
  | {
      kind: "intact";
    }
  | {
      kind: "files_gone";
    }
  | {
      kind: "measured";
    }
  | {
      kind: "driver_recovered";
    }
  | {
      kind: "link_cycled";
    }
  | {
      kind: "link_switched_on";
    }
  | {
      kind: "link_was_on";
    }
  | {
      kind: "read_back";
    }
  | {
      /**
       * What was seen.
       */
      evidence: string;
      kind: "effect";
    }
  | {
      /**
       * What was looked at.
       */
      evidence: string;
      kind: "fault_gone";
    }
  | {
      kind: "note";
      /**
       * The words.
       */
      text: string;
    }
  | {
      /**
       * CPUs that are allocated to jobs; `None` where the scheduler has no such count.
       */
      allocated_cpus?: number | null;
      kind: "empty";
      /**
       * The scheduler and the state of the host in its words, such as `Slurm: idle+drain`.
       */
      state: string;
      /**
       * Pods that do not leave with a drain: those of DaemonSets and static ones.
       */
      staying_count?: number;
      /**
       * Who took the host out of service, if not this case; it is left out of service at the end.
       */
      taken_out_by?: string;
      /**
       * Jobs or pods that are left.
       */
      work_count: number;
    }
  | {
      kind: "in_service";
      /**
       * The scheduler and the state of the host in its words.
       */
      state: string;
      /**
       * Jobs or pods that run there now; 0 until the first one starts.
       */
      work_count: number;
    }
  | {
      kind: "left_out";
      /**
       * The scheduler and the state of the host in its words.
       */
      state: string;
      /**
       * Who took it out of service.
       */
      taken_out_by: string;
    }
  | {
      /**
       * How much memory was copied and compared, in all passes.
       */
      copied_mebibytes: number;
      /**
       * Errors that were found.
       */
      error_count: number;
      kind: "tested";
      /**
       * For how long.
       */
      tested_s: number;
    }
  | {
      /**
       * Seconds from the request until it was seen to be up again; 0 where nobody measured it.
       */
      after_s: number;
      kind: "restarted";
      proof: RestartProof;
    }
  | {
      /**
       * Whether they are in force; otherwise they take effect at the next restart.
       */
      in_force: boolean;
      kind: "settings";
      /**
       * Their names and values, as whoever holds them tells them.
       */
      values: {
        [k: string]: string;
      };
    }
  | {
      kind: "rows_found";
      /**
       * Rows with errors.
       */
      row_count: number;
      /**
       * Errors without a row.
       */
      unplaced_count: number;
    }
  | {
      /**
       * Rows that it accepted.
       */
      accepted_count: number;
      /**
       * Rows that it was asked to repair.
       */
      asked_count: number;
      kind: "rows_repaired";
      lasts: RepairLasts;
      /**
       * Spare rows that are left.
       */
      spare_count: number;
    }
  | {
      /**
       * Pages that it was asked to take out of use.
       */
      asked_count: number;
      kind: "pages_offline";
      /**
       * Pages that it marks as poisoned (`/proc/kpageflags`).
       */
      offline_count: number;
    }
  | {
      kind: "alert";
      /**
       * What each said.
       */
      readings: AlertReading[];
    }
  | {
      kind: "ticket";
      /**
       * The system.
       */
      system: string;
      /**
       * Its name there.
       */
      ticket: string;
    }
  | {
      kind: "hook";
      /**
       * Its words.
       */
      text: string;
    }
  | {
      kind: "dry_run";
      /**
       * What would be done.
       */
      would: string;
    }
  | {
      kind: "unobserved";
      /**
       * Why not.
       */
      why: string;
    };
/**
 * How a restart was seen.
 */
export type RestartProof = "boot_id" | "boot_progress" | "last_reset" | "power_cycle";
/**
 * How long a post-package repair lasts.
 */
export type RepairLasts = "until_reset" | "permanently";
/**
 * How far a step has come.
 */
export type StepState = "pending" | "running" | "in_doubt" | "done" | "failed" | "skipped";
/**
 * What a case waits for, where programs must tell it apart; [`Case::waits_for`] has the words.
 */
export type CaseWait = "all_paused" | "no_policy" | "limit" | "other";
/**
 * What took time from a core. The order is that of the tables.
 */
export type CauseKind =
  | "smi"
  | "hypervisor"
  | "nmi"
  | "machine_check"
  | "device_interrupt"
  | "timer"
  | "call_function"
  | "tlb_shootdown"
  | "reschedule"
  | "irq_work"
  | "softirq"
  | "kernel_thread"
  | "preemption"
  | "thread_state"
  | "other_interrupt"
  | "console";
/**
 * How sure a statement is.
 */
export type Certainty = "certain" | "probable" | "cannot_tell_apart_here";
/**
 * What the last point of a chart says of the present.
 */
export type NowValue = "last" | "ages" | "none";
/**
 * What became of a check of the accounting.
 */
export type CheckResult = "passed" | "not_checked" | "found";
/**
 * How a check found its host.
 */
export type CheckState = "ok" | "unknown" | "warning" | "critical";
/**
 * Where a copy of a checkpoint lies.
 */
export type CheckpointTier = "memory" | "durable" | "shared";
/**
 * Where a number about a drive comes from, and so what it means.
 */
export type DriveSource = "nvme_health_log" | "nvme_endurance_log" | "smartctl" | "file_system" | "since_boot" | "rating_table";
/**
 * A line of the journal, and how bad what it says is.
 */
export type EntryView = {
  /**
   * Lines before this one that could not be written, since the session began.
   */
  lost_count?: number;
  /**
   * `CLOCK_REALTIME` of the writing, nanoseconds.
   */
  realtime_ns: number;
  severity: Severity;
} & EntryView1;
export type EntryView1 =
  | {
      event: "opened";
      /**
       * Whether it began in the file before this one, and the line is here so that it is not forgotten.
       */
      is_repeated?: boolean;
      /**
       * The job.
       */
      job: string;
      /**
       * The word for the policy.
       */
      policy: string;
      /**
       * Its ranks.
       */
      ranks: number;
      /**
       * The directory that several nodes share, where there is one: below it the job's copies are no SSD's.
       */
      shared?: string;
      /**
       * What the redundancy that is set does not protect from, in a sentence; empty where it does what it is there for, or none
       * is set. `None` from a release that did not say.
       */
      weakness?: string | null;
    }
  | (Decided & {
      event: "decision";
    })
  | (Answered & {
      event: "asked";
    })
  | {
      /**
       * Seconds from the moment at which it was taken to this line.
       */
      age_s: number;
      /**
       * Bytes that all ranks wrote.
       */
      bytes: number;
      event: "durable";
      /**
       * Its number.
       */
      generation: number;
      /**
       * Whether the tier survives the loss of power on all ranks; `None` where a medium is not known, or the release did
       * not look.
       */
      is_durable?: boolean | null;
      /**
       * `durable` on the node's own drive, `shared` in the shared directory.
       */
      tier: string;
      /**
       * Seconds that writing took.
       */
      took_s: number;
    }
  | {
      event: "unread";
      /**
       * The time of the last line that was read before, `CLOCK_REALTIME`.
       */
      since_realtime_ns: number;
    }
  | {
      event: "not_durable";
      /**
       * Its number.
       */
      generation: number;
      /**
       * As above.
       */
      tier: string;
      /**
       * Why.
       */
      why: string;
    }
  | {
      event: "removed";
      /**
       * `memory`, `durable` or `shared`.
       */
      tier: string;
      /**
       * The user who ran the command.
       */
      uid: number;
    }
  | {
      event: "restart";
      /**
       * The one that came back; `None` when there was none, or none was intact.
       */
      generation: number | null;
      /**
       * How it ended; `None` in a journal of an older release: see [`JournalEvent::is_failure`].
       */
      outcome?: RestartOutcome | null;
      /**
       * What rank 0 found, or why nothing came back.
       */
      report: string;
      /**
       * The tier that rank 0 read its part from: `memory`, `durable` or `shared`; `None` where it came from other nodes, nothing
       * came back, or an older release wrote it.
       */
      tier?: string | null;
    };
/**
 * How a job's request for its newest checkpoint ended.
 */
export type RestartOutcome = "restored" | "no_checkpoint" | "failed" | "unknown";
/**
 * The part of Surefoot that a finding comes from: one per capability, and the watch itself.
 */
export type Room = "stall" | "memory" | "checkpoint" | "nic" | "disturb" | "remedy" | "watch";
/**
 * How whole a checkpoint is.
 */
export type GenerationState = "complete" | "partial" | "unfinished" | "damaged";
/**
 * How a person closed the fault of a module.
 */
export type FaultClosing = "repaired" | "replaced" | "cleared";
/**
 * A logical processor, by the kernel's number.
 */
export type CpuId = number;
/**
 * Where a cost comes from.
 */
export type CostBasis = "measured" | "literature";
/**
 * What is done.
 */
export type DeedAction =
  | "reporter_recover"
  | "link_cycle"
  | "function_reset"
  | "change_setting"
  | "checkpoint"
  | "make_durable"
  | "restore"
  | "experiment"
  | "recheck"
  | "drain"
  | "return"
  | "restart_unit"
  | "reset_interface"
  | "offline_page"
  | "restore_page"
  | "tune_reporting"
  | "set_firmware"
  | "reboot"
  | "stress"
  | "debug_mode"
  | "collect_errors"
  | "soft_repair"
  | "hard_repair"
  | "run_hook"
  | "file_ticket"
  | "restore_setting"
  | "fault_repaired"
  | "fault_replaced"
  | "fault_cleared"
  | "remove_checkpoints";
/**
 * What came of an action.
 */
export type DeedOutcome =
  | {
      kind: "planned";
    }
  | {
      kind: "withheld";
      why: Withheld;
    }
  | {
      kind: "begun";
    }
  | {
      kind: "goes_on";
      /**
       * How far it has come.
       */
      note: string;
    }
  | {
      kind: "done";
      observed: Observed;
    }
  | {
      kind: "not_needed";
      /**
       * Why not.
       */
      why: string;
    }
  | {
      kind: "taken_back";
      /**
       * What was seen instead.
       */
      note: string;
    }
  | {
      /**
       * The error, in the words of whoever refused it.
       */
      error: string;
      kind: "failed";
    }
  | {
      /**
       * Why not.
       */
      error: string;
      kind: "in_doubt";
    };
/**
 * Why something is not done.
 */
export type Withheld =
  | {
      kind: "exhausted";
    }
  | {
      /**
       * What it carries.
       */
      carries: Carried[];
      kind: "in_use";
    }
  | {
      /**
       * What it carries.
       */
      carries: Carried[];
      kind: "device_in_use";
    }
  | {
      kind: "only_probable";
    }
  | {
      kind: "hour_limit";
      /**
       * The limit.
       */
      limit: number;
      /**
       * Steps tried in the last hour.
       */
      tried: number;
    }
  | {
      /**
       * Seconds that are waited.
       */
      grace_s: number;
      kind: "too_early";
      /**
       * Seconds since that step.
       */
      since_s: number;
    }
  | {
      kind: "not_worth_it";
      /**
       * Why, the deciding reason first.
       */
      reasons: string[];
    }
  | {
      /**
       * How many.
       */
      count: number;
      kind: "unread";
    }
  | {
      kind: "nothing_there";
    }
  | {
      kind: "refused";
      /**
       * Why.
       */
      why: string;
    }
  | {
      kind: "other";
      /**
       * The words.
       */
      why: string;
    };
/**
 * Why something is done.
 */
export type DeedReason =
  | {
      kind: "asked";
    }
  | {
      /**
       * The evidence of the finding, a line each.
       */
      evidence: string[];
      kind: "seen";
    }
  | {
      /**
       * Its number.
       */
      case: number;
      /**
       * What is wrong, see [`crate::Alert::fault`].
       */
      fault: string;
      kind: "case";
      /**
       * The service that the host works for; empty where none is known.
       */
      service?: string;
    }
  | {
      kind: "stated";
      /**
       * Their words.
       */
      text: string;
    }
  | {
      kind: "unfinished";
    }
  | {
      kind: "not_shown";
    };
/**
 * The part of the subject, or the setting, that a deed changes.
 */
export type DeedTarget =
  | {
      kind: "subject";
    }
  | {
      kind: "part";
      /**
       * Its name.
       */
      name: string;
    }
  | {
      /**
       * Its value before; `None` where it is not known.
       */
      from?: string | null;
      kind: "setting";
      /**
       * The file or attribute.
       */
      name: string;
      /**
       * The new value.
       */
      to: string;
    }
  | {
      kind: "hook";
      /**
       * Its path.
       */
      path: string;
    }
  | {
      /**
       * Its number.
       */
      generation: number;
      kind: "generation";
      tier: DeedTier;
    }
  | {
      /**
       * Its physical address.
       */
      address: number;
      /**
       * Whether its contents are dropped (`hard_offline_page`); otherwise they are moved first (`soft_offline_page`).
       */
      is_hard: boolean;
      kind: "page";
    }
  | (ClosedModule & {
      kind: "module";
    })
  | {
      kind: "not_shown";
    };
/**
 * Where a checkpoint lies.
 */
export type DeedTier = "memory" | "durable" | "shared" | "unknown";
/**
 * What to do with a module.
 */
export type MemoryAction = "watch" | "offline_pages" | "post_package_repair" | "replace";
/**
 * The part of a module that fails.
 */
export type FaultMode = "none" | "cell" | "row" | "rows" | "column" | "bank" | "banks" | "rank" | "undetermined";
/**
 * Whether a fault stays.
 */
export type Persistence = "transient" | "permanent" | "undetermined";
/**
 * How much of what happened a count holds.
 */
export type Fidelity = "exact" | "lower_bound" | "sampled" | "unknown";
/**
 * Where a count or a report came from.
 */
export type MemorySource =
  | "edac"
  | "threshold_block"
  | "mc_event"
  | "mce_record"
  | "extlog"
  | "memory_failure"
  | "cxl_event"
  | "event_log"
  | "redfish"
  | "kernel_log"
  | "rasdaemon"
  | "mcelog";
/**
 * What became of the bits of an error.
 */
export type ErrorSeverity = "corrected" | "deferred" | "uncorrected";
/**
 * How an experiment ended.
 */
export type ExperimentOutcome = "finished" | "refused" | "failed" | "vanished";
/**
 * Where the cost of entry and exit is known from.
 */
export type EntryExitBasis = "polling_loop" | "own_loop" | "other_kind";
/**
 * A core whose ledger of a window cannot be true. It is in no sum.
 */
export type FaultyCore = {
  cpu: CpuId;
} & FaultyCore1;
export type FaultyCore1 =
  | {
      fault: "sum";
      /**
       * The parts.
       */
      parts_ns: number;
      /**
       * The wall time.
       */
      wall_ns: number;
    }
  | {
      fault: "while_idle";
      /**
       * In all.
       */
      total_ns: number;
      /**
       * While nobody was delayed.
       */
      while_idle_ns: number;
    }
  | {
      fault: "wall";
      /**
       * The wall time of the core.
       */
      wall_ns: number;
      /**
       * From the start of the window to its end.
       */
      window_ns: number;
    };
/**
 * Ledgers of one core that cannot be true, over many windows. They are in no sum.
 */
export type FaultySum = {
  /**
   * In how many windows.
   */
  count: number;
  cpu: CpuId;
} & FaultySum1;
export type FaultySum1 =
  | {
      fault: "sum";
      /**
       * The parts.
       */
      parts_ns: number;
      /**
       * The wall time.
       */
      wall_ns: number;
    }
  | {
      fault: "while_idle";
      /**
       * In all.
       */
      total_ns: number;
      /**
       * While nobody was delayed.
       */
      while_idle_ns: number;
    }
  | {
      fault: "wall";
      /**
       * The wall time of the core.
       */
      wall_ns: number;
      /**
       * From the start of the window to its end.
       */
      window_ns: number;
    };
/**
 * How a gap was found.
 */
export type GapSource = "probe" | "sentinel" | "timer_lateness" | "sleep_lateness";
/**
 * What stole the time that no traced interval covers; the rows of the decision table.
 */
export type Verdict =
  | "traced"
  | "smi"
  | "smi_like"
  | "corrected_error_logging"
  | "hypervisor_scheduled"
  | "hypervisor_unaccounted"
  | "pause_or_smi"
  | "hardware_this_core"
  | "undetermined";
/**
 * What a devlink health reporter says of the part of the device that it watches.
 */
export type ReporterState = "healthy" | "error" | "unknown";
/**
 * Who made the processor, as far as the verdict depends on it.
 */
export type Vendor = "intel" | "amd" | "other";
/**
 * How an interface does its work. The order is from well to bad, but for [`InterfaceState::Unknown`], which comes first.
 */
export type InterfaceState = "unknown" | "ok" | "slow" | "losing" | "hung";
/**
 * How a peer is probed.
 */
export type ProbeKind = "packet" | "arp" | "icmp";
/**
 * What a live client is sent. Its type is also the name of the server-sent event.
 */
export type LiveMessage =
  | (Window & {
      type: "window";
    })
  | (Gap & {
      type: "gap";
    })
  | (GapCorrection & {
      type: "gap_correction";
    })
  | (ClockChange & {
      type: "clock";
    })
  | (Notice & {
      type: "notice";
    })
  | {
      /**
       * Its end.
       */
      end_ns: number;
      /**
       * Start of what it reports of, `CLOCK_MONOTONIC`.
       */
      start_ns: number;
      type: "who";
    }
  | {
      headline: Headline;
      type: "findings";
    }
  | {
      /**
       * Events that it has missed.
       */
      missed: number;
      type: "lagged";
    };
/**
 * Why reports are not among those that are listed.
 */
export type LossKind = "not_listed" | "not_read" | "not_understood";
/**
 * Whether this machine is looked at now, or a recording is shown; `demo` is made-up data.
 */
export type Mode = "live" | "replay" | "demo";
/**
 * Where something happens.
 */
export type Part = "application" | "library" | "interface" | "daemon" | "host" | "run";
/**
 * The length of the windows of a range.
 */
export type PastResolution = "second" | "minute";

/**
 * What the one who asks may see.
 */
export interface Access {
  /**
   * Whether everything is shown.
   */
  sees_all: boolean;
  /**
   * What is not shown, and how to get it; empty where everything is.
   */
  why: string;
}
/**
 * What is advised about an interrupt.
 */
export interface Advice {
  /**
   * On how many of the raised arrivals it rests; of several pieces of advice, no arrival counts for two.
   */
  count: number;
  /**
   * What was seen that calls for it.
   */
  evidence: string;
  /**
   * What to do.
   */
  remedy: string;
  /**
   * The rule's stable name.
   */
  rule: string;
  /**
   * Its share of the raised arrivals, millionths.
   */
  share_ppm: number;
  /**
   * Where the remedy is described.
   */
  source: string;
}
/**
 * What one source says of an alert.
 */
export interface AlertReading {
  /**
   * How old that is, seconds; `None` where unknown.
   */
  age_s?: number | null;
  /**
   * Whether the alert holds; `None` where the source cannot tell.
   */
  holds: boolean | null;
  source: AlertSource;
  /**
   * Why the source cannot tell; empty otherwise.
   */
  why?: string;
}
/**
 * An answer to whether a checkpoint pays.
 */
export interface Answered {
  /**
   * How often the job asked since the last such line, this time included. The answers between were the same but for
   * their numbers, or changed too often to be written each time.
   */
  asked_count: number;
  /**
   * Age of the newest durable copy; of the session where it has none.
   */
  durable_age_s: number;
  /**
   * Where one would go that were taken then, as in [`Decided`]; `skip` when none pays.
   */
  place: string;
  /**
   * Why, the deciding reason first.
   */
  reasons: string[];
  /**
   * Seconds since the session began.
   */
  session_s: number;
}
/**
 * A fault of a list.
 */
export interface CampaignFault {
  /**
   * When, in instructions of the faulted interface.
   */
  at_instruction: number;
  bit: number;
  detected_by: string | null;
  /**
   * From the fault to its detection, virtual time.
   */
  detection_ns: number | null;
  /**
   * What the self-test found.
   */
  finding: string | null;
  /**
   * The function of a bit in code.
   */
  function: string | null;
  /**
   * The daemon found that reloading does not help.
   */
  given_up: boolean;
  /**
   * From which it is replayed.
   */
  id: string;
  outcome: string;
  /**
   * The location as people call it.
   */
  place: string;
  /**
   * Nobody executes the word after the fault, so it was not run.
   */
  pruned: boolean;
  /**
   * From detection until all ports were back, virtual time.
   */
  recovery_ns: number | null;
  /**
   * code, data, register or stuck.
   */
  space: string;
  standard: string;
}
/**
 * Some faults of one table.
 */
export interface CampaignFaults {
  faults: CampaignFault[];
  /**
   * Those before the first one here.
   */
  offset: number;
  /**
   * Only of this outcome; `null` for all.
   */
  outcome: string | null;
  /**
   * The table: `EXPERIMENT:BUILD:SEED`.
   */
  table: string;
  /**
   * Faults of that outcome.
   */
  total_count: number;
}
/**
 * A file of a campaign, and how its reading went.
 */
export interface CampaignFile {
  /**
   * Lines that say again what another one has said.
   */
  again_count: number;
  /**
   * Lines that are of no campaign, or say otherwise of a fault than another line.
   */
  bad_count: number;
  /**
   * Faults that were taken from it.
   */
  fault_count: number;
  /**
   * Faults for which there was no room: 200,000 faults are kept, and 64 tables.
   */
  left_out_count: number;
  path: string;
  /**
   * What is wrong: the first bad line, or why it is not read on.
   */
  problem: string | null;
}
/**
 * What works on this host.
 */
export interface Capabilities {
  /**
   * One row per capability; empty until the host is known.
   */
  capabilities: Capability[];
  schema: number;
}
/**
 * One thing that Surefoot can do, and whether it can do it on this host.
 */
export interface Capability {
  /**
   * Stable identifier, such as `stall.ledger`.
   */
  id: string;
  /**
   * What it gives the user, in a few words.
   */
  name: string;
  /**
   * Why it is so: what was found, or what is missing.
   */
  reason: string;
  /**
   * What the user can do about it; empty when nothing is needed or nothing helps.
   */
  remedy: string;
  state: CapabilityState;
}
/**
 * One reason why work depends on an interface.
 */
export interface Carried {
  kind: CarriedKind;
  /**
   * In words: `the default route of IPv4, through bond0`.
   */
  what: string;
}
/**
 * A fault of one host, from the alert to the host's return.
 */
export interface Case {
  /**
   * The alert that opened it, see [`Alert::key`].
   */
  alert_key: string;
  /**
   * When it first did something to its host, `CLOCK_REALTIME`; 0 for not yet. From then on it counts for the limits of its policy.
   */
  began_realtime_ns: number;
  /**
   * What it becomes when the steps that are left are done, where that is decided already: it was cancelled, or its remedies came to
   * their end.
   */
  ends_as?: CaseState | null;
  /**
   * The evidence of its alert.
   */
  evidence?: string[];
  /**
   * See [`Alert::fault`].
   */
  fault: string;
  /**
   * The host.
   */
  host: string;
  /**
   * Its number, given by the store.
   */
  id: number;
  /**
   * Whether the host was taken out of service by this case and is not back.
   */
  is_drained: boolean;
  /**
   * Whether its steps are only told, and not done.
   */
  is_dry_run: boolean;
  /**
   * Whether its alert still holds.
   */
  is_firing: boolean;
  /**
   * Who does its step.
   */
  lease: Lease & {
    [k: string]: unknown;
  };
  /**
   * The part that it is about, as it was when the case was opened; `None` where its serial number was not known.
   */
  part?: Part2 | null;
  /**
   * The policy that it follows, by its name; the steps are those that the policy had when the case was opened.
   */
  policy: string;
  /**
   * Since when its alert is known to be over, `CLOCK_REALTIME`; 0 while it holds.
   */
  quiet_since_realtime_ns: number;
  /**
   * The part that it is about was replaced; `None` where nobody said so.
   */
  replaced?: Replaced | null;
  /**
   * Goes up with every change; a change of an older one is refused.
   */
  revision: number;
  /**
   * The sentence of its alert.
   */
  sentence: string;
  /**
   * The service; empty where nobody said one.
   */
  service: string;
  severity: Severity;
  /**
   * When it was opened, `CLOCK_REALTIME`.
   */
  since_realtime_ns: number;
  state: CaseState;
  /**
   * When it came into its state, `CLOCK_REALTIME`.
   */
  state_since_realtime_ns: number;
  /**
   * Its steps, in order.
   */
  steps: CaseStep[];
  /**
   * See [`Alert::subject`].
   */
  subject?: string;
  /**
   * Its ticket, once it is a person's; empty for none.
   */
  ticket?: string;
  wait?: CaseWait;
  /**
   * What it waits for, in words; empty for nothing.
   */
  waits_for?: string;
}
/**
 * The controller that does a case's step, and until when it may: by the clock of the store.
 */
export interface Lease {
  /**
   * Goes up each time a step is begun; whoever brings the end of a step names it, and an old one is refused.
   */
  fence: number;
  /**
   * The controller's name; empty for none.
   */
  owner: string;
  /**
   * `CLOCK_REALTIME`.
   */
  until_realtime_ns: number;
}
/**
 * A part of a host that is known by its serial number: a memory module or a drive.
 *
 * Whoever knows a part only by its place tells no part: what has no serial number cannot be told apart from what takes its place.
 */
export interface Part2 {
  kind: SubjectKind;
  /**
   * The maker's name of the kind: a module's part number, a drive's model; empty where it is not known.
   */
  model?: string;
  /**
   * What findings call it, see [`Subject::name`].
   */
  name: string;
  /**
   * Where it is: the label of a module's slot, or the kernel's name of a drive.
   */
  place: string;
  /**
   * Its serial number.
   */
  serial: string;
}
/**
 * A part that was replaced, as a person told or the host's own reports did.
 */
export interface Replaced {
  /**
   * When that was told, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * What took its place, in the words of whoever told it, or by its serial number; empty where nobody said.
   */
  by?: string;
  /**
   * When it was told that the old part tested good, `CLOCK_REALTIME`; 0 for never.
   */
  tested_good_realtime_ns: number;
}
/**
 * One step of a case.
 */
export interface CaseStep {
  /**
   * Who approved it; empty for nobody.
   */
  approved_by?: string;
  /**
   * How often it was begun.
   */
  attempt_count: number;
  /**
   * When it was begun last, `CLOCK_REALTIME`; 0 for never.
   */
  begun_realtime_ns: number;
  /**
   * When it ended, `CLOCK_REALTIME`; 0 for not yet.
   */
  ended_realtime_ns: number;
  /**
   * Whether an attempt found that there was nothing to do, and did nothing. A step that was left out after an attempt may have done
   * something.
   */
  is_not_needed?: boolean;
  /**
   * What the step must know to go on after a restart or to be taken back: settings that were saved, how far a stress came. JSON.
   */
  memo?: string;
  /**
   * Whether a person is to approve it before it is begun: what the policy said when the case was opened.
   */
  needs_approval: boolean;
  /**
   * Not begun again before this time, `CLOCK_REALTIME`; 0 for at once.
   */
  not_before_realtime_ns: number;
  /**
   * What was observed when it was done; `None` for a step that is not done, or that an earlier release did.
   */
  observed?: Observed | null;
  /**
   * What came of it, in words.
   */
  outcome?: string;
  state: StepState;
  /**
   * The step in the words of the policy, such as `drain` or `run:/usr/lib/surefoot/hooks/repair`.
   */
  step: string;
}
/**
 * One cause: its kind, and the name that tells it from others of the kind.
 */
export interface Cause {
  kind: CauseKind;
  /**
   * Interrupt line, function, vector, thread: whatever tells one from another within the kind.
   */
  name: string;
}
/**
 * One line over time.
 */
export interface Chart {
  now: NowValue;
  /**
   * `CLOCK_REALTIME` nanoseconds and the value, oldest first.
   */
  points: [number, number][];
  /**
   * What it shows, in a few words.
   */
  title: string;
  /**
   * `ns_per_s`, `s` or `count`.
   */
  unit: string;
}
/**
 * A check, and how bad its state is.
 */
export interface CheckView {
  /**
   * When it ended, `CLOCK_MONOTONIC`.
   */
  at_ns: number;
  /**
   * When it ended, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * What that rests on, a line each.
   */
  evidence?: string[];
  /**
   * Whether the run before this one found another state, or there was none.
   */
  is_change: boolean;
  /**
   * The name of the check.
   */
  name: string;
  /**
   * How often it is run.
   */
  period_ns: number;
  /**
   * The processor time that it took: of its thread, and of its program with all that this waited for.
   */
  processor_ns: number;
  /**
   * One sentence for people, with its full stop.
   */
  sentence: string;
  severity: Severity;
  /**
   * Since when it is in this state, `CLOCK_REALTIME`.
   */
  since_realtime_ns: number;
  state: CheckState;
  /**
   * How long the run took.
   */
  took_ns: number;
}
/**
 * A directory that was named.
 */
export interface CheckpointDirectory {
  /**
   * Names of the drives beneath it, where they are known.
   */
  drives: string[];
  /**
   * The kernel's word for its file system; `None` where it is not known.
   */
  file_system: string | null;
  /**
   * What may still be written there; `None` where it is not known.
   */
  free_bytes: number | null;
  /**
   * As it was named, absolute.
   */
  path: string;
  /**
   * Why it could not be looked at.
   */
  problem: string | null;
  /**
   * What is kept there, or could be.
   */
  tiers: CheckpointTier[];
}
/**
 * The wear of drives at one time.
 */
export interface CheckpointDrives {
  /**
   * The drives.
   */
  drives: DriveWear[];
  /**
   * When it was read, `CLOCK_REALTIME`.
   */
  read_realtime_ns: number;
}
/**
 * One drive: what it is, and how worn. What is not known is `None`, and `notes` say why.
 */
export interface DriveWear {
  /**
   * What the drive itself warns of, the bits of byte 0 of log 02h ([`DriveWear::warnings`]); 0 for nothing.
   */
  critical_warning?: SourcedUint64 | null;
  /**
   * The numbers, as `MAJOR:MINOR`, of the device and of all that lies on it: partitions, volumes, arrays, and the
   * numbers that a directory on it shows.
   */
  device_numbers: string[];
  /**
   * Whether the kernel takes it for a rotating disk.
   */
  is_rotational: boolean;
  /**
   * Errors of the medium that the drive could not correct.
   */
  media_error_count?: SourcedUint64 | null;
  /**
   * The maker's model name; empty where there is none.
   */
  model: string;
  /**
   * The kernel's name of the whole device, such as `nvme0n1`.
   */
  name: string;
  /**
   * Why something is not known, a sentence without a full stop each.
   */
  notes: string[];
  /**
   * The drive's own estimate of its life used, percent; may be more than 100.
   */
  percent_used?: SourcedUint64 | null;
  /**
   * Hours that it was switched on.
   */
  power_on_hours?: SourcedUint64 | null;
  /**
   * Bytes that it is rated for, by the measure of its source: the host's bytes of a standard workload in a table, the
   * flash's bytes in an endurance log.
   */
  rated_bytes?: SourcedUint64 | null;
  /**
   * The serial number, where every user may read it.
   */
  serial?: string | null;
  /**
   * Its size.
   */
  size_bytes: number;
  /**
   * Spare flash left, percent.
   */
  spare_percent?: SourcedUint64 | null;
  /**
   * Bytes that went to the flash over bytes that hosts wrote, over its life.
   */
  write_amplification?: SourcedDouble | null;
  /**
   * Bytes that hosts wrote to it.
   */
  written_bytes?: SourcedUint64 | null;
}
/**
 * A number with its source.
 */
export interface SourcedUint64 {
  /**
   * More about the source: a field, an attribute, the document of a rating; may be empty.
   */
  detail?: string;
  source: DriveSource;
  /**
   * The number.
   */
  value: number;
}
/**
 * A number with its source.
 */
export interface SourcedDouble {
  /**
   * More about the source: a field, an attribute, the document of a rating; may be empty.
   */
  detail?: string;
  source: DriveSource;
  /**
   * The number.
   */
  value: number;
}
/**
 * Something in the directories of checkpoints that is not as it should be.
 */
export interface CheckpointProblem {
  /**
   * Where.
   */
  path: string;
  /**
   * The user whose directory it is in; `None` in recordings of earlier releases.
   */
  uid?: number | null;
  /**
   * What.
   */
  why: string;
}
/**
 * Everything about checkpoints at one moment.
 */
export interface Checkpoints {
  /**
   * The directories that were named.
   */
  directories: CheckpointDirectory[];
  /**
   * The wear of the drives beneath these directories; `null` where nobody publishes it.
   */
  drives: CheckpointDrives | null;
  /**
   * Whether a limit ended the look before it had seen everything.
   */
  is_cut: boolean;
  /**
   * The jobs, by name.
   */
  jobs: Job[];
  /**
   * Jobs beyond those.
   */
  jobs_left_out: number;
  /**
   * How long it took.
   */
  look_ns: number;
  /**
   * When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
   */
  looked_realtime_ns: number | null;
  /**
   * What is not as it should be.
   */
  problems: CheckpointProblem[];
  /**
   * Problems beyond those.
   */
  problems_left_out: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * A job.
 */
export interface Job {
  /**
   * Where its checkpoints lie, one directory per tier.
   */
  directories: string[];
  /**
   * The same of the newest complete one on an SSD or shared file system.
   */
  durable_realtime_ns: number | null;
  /**
   * The journal, oldest line first.
   */
  events: EntryView[];
  /**
   * Lines before those.
   */
  events_left_out: number;
  /**
   * Lines of the journal that could not be read.
   */
  events_skipped: number;
  /**
   * What is to be said of the job; at least one.
   */
  findings: Finding[];
  /**
   * Newest first.
   */
  generations: Generation[];
  /**
   * Generations beyond those.
   */
  generations_left_out: number;
  /**
   * Whether a process holds the lock of a rank; `None` where there is no lock to be seen. A job in another container
   * is not seen to run.
   */
  is_running: boolean | null;
  /**
   * What it had here and of which nothing is left, a sentence for each tier.
   */
  lost?: string[];
  /**
   * When the newest checkpoint in memory was taken that is whole here.
   */
  memory_realtime_ns: number | null;
  /**
   * The job's name; with the number of its user where that is not who looked.
   */
  name: string;
  /**
   * Ranks of the newest checkpoint.
   */
  ranks: number;
  /**
   * What the newest lines of its journal say; `null` without a decision in them.
   */
  state: JournalState | null;
  /**
   * Bytes that lie there, by tier.
   */
  stored_bytes: {
    [k: string]: number;
  };
  /**
   * The user whose directories these are; `None` in recordings of earlier releases.
   */
  uid?: number | null;
}
/**
 * A decision, with what was known and what it cost.
 */
export interface Decided {
  /**
   * Where the drive's endurance is known: bytes per second that it bears until the end of its planned life.
   */
  budget_bytes_per_s?: number | null;
  /**
   * Of these, visible in checkpoints.
   */
  checkpoint_s: number;
  /**
   * Decisions of the session so far by place, this one included.
   */
  decided: {
    [k: string]: number;
  };
  /**
   * Age of the newest durable copy before the decision; of the session where it has none.
   */
  durable_age_s: number;
  /**
   * Bytes that the durable tier took on one node since the session began; the maximum over nodes.
   */
  durable_bytes: number;
  /**
   * Where it is known: bytes that may still be written before the rating is used up.
   */
  endurance_left_bytes?: number | null;
  /**
   * Why it could not be saved; empty when it was, or none was to be.
   */
  failure?: string;
  /**
   * Its number; `None` when none was taken.
   */
  generation: number | null;
  /**
   * Bytes of the whole checkpoint on one node in the durable tier; the maximum over nodes.
   */
  node_bytes: number;
  /**
   * Bytes of rank 0's payload.
   */
  payload_bytes: number;
  /**
   * Where it went: the label of the place in lower case, with `_` for spaces.
   */
  place: string;
  /**
   * Why, the deciding reason first.
   */
  reasons: string[];
  /**
   * Seconds since the session began.
   */
  session_s: number;
  /**
   * The bound on that age, where the policy has one.
   */
  staleness_max_s?: number | null;
  /**
   * Seconds that the call took.
   */
  visible_s: number;
}
/**
 * The one statement that every room makes. The headline, the page's overview, `health.json`, metrics, alerts and
 * remedies are folds over findings and know nothing else of a room.
 */
export interface Finding {
  certainty: Certainty;
  /**
   * What it rests on, a line each; may be empty.
   */
  evidence?: string[];
  /**
   * Identifies the finding for as long as it lasts, across restarts: room, rule and subject, joined by
   * [`Finding::key_of`].
   */
  key: string;
  room: Room;
  /**
   * The rule of that room, such as `lost-time`.
   */
  rule: string;
  /**
   * One sentence for people, with its full stop.
   */
  sentence: string;
  severity: Severity;
  /**
   * Since when it holds, `CLOCK_REALTIME`; 0 where that is not known.
   */
  since_realtime_ns: number;
  subject: Subject;
  /**
   * The user whose files say so; `None` where the host itself does.
   */
  uid?: number | null;
}
/**
 * What a finding is about.
 */
export interface Subject {
  kind: SubjectKind;
  /**
   * Which one; empty for the host.
   */
  name: string;
}
/**
 * A checkpoint in one tier.
 */
export interface Generation {
  /**
   * Where the first of its copies lies.
   */
  directory: string;
  /**
   * What is missing or wrong, one sentence; empty where nothing is.
   */
  missing: string;
  /**
   * Sixteen hexadecimal digits, because a number of 64 bits does not survive every reader of JSON.
   */
  nonce: string;
  /**
   * Its number, which grows with each checkpoint of the job.
   */
  number: number;
  /**
   * Payload of the ranks that are here; `None` where the manifest of one cannot be read.
   */
  payload_bytes: number | null;
  /**
   * `shard`, `chip` or `checked`; empty where no manifest says it.
   */
  protection: string;
  /**
   * Ranks that it has; 0 where no manifest says it.
   */
  ranks: number;
  /**
   * Ranks that are here.
   */
  ranks_here: number;
  state: GenerationState;
  /**
   * What the parts that are here take in the tier.
   */
  stored_bytes: number;
  /**
   * When it was taken, `CLOCK_REALTIME`; `None` where no manifest says it.
   */
  taken_realtime_ns: number | null;
  tier: CheckpointTier;
}
/**
 * Where a job stands, as its newest decision says.
 */
export interface JournalState {
  /**
   * When the session began.
   */
  began_realtime_ns: number;
  /**
   * What the drive bears until the planned end of its life; `null` where its endurance is not known.
   */
  budget_bytes_per_s: number | null;
  /**
   * Seconds of the session that went into checkpoints.
   */
  checkpoint_s: number;
  /**
   * Decisions of the session, by place.
   */
  decided: {
    [k: string]: number;
  };
  /**
   * When the drive's rating is used up at the rate of this job alone; `null` where that is not known.
   */
  drive_ends_realtime_ns: number | null;
  /**
   * Bytes that the durable tier took on one node since the session began.
   */
  durable_bytes: number;
  /**
   * Lines that the job could not write.
   */
  lost_count: number;
  /**
   * The word for its policy; empty where the line that says it is gone.
   */
  policy: string;
  /**
   * Seconds of the session.
   */
  session_s: number;
  /**
   * The bound on the age of the durable copy; `null` where the policy has none.
   */
  staleness_max_s: number | null;
}
/**
 * The wall clock was set, or the machine slept: from here on a time of the stream is another time of the day.
 */
export interface ClockChange {
  /**
   * From when the new offset holds, `CLOCK_MONOTONIC`: when it was first seen, within a tenth of a second.
   */
  at_ns: number;
  /**
   * `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` before, nanoseconds.
   */
  former_offset_ns: number;
  /**
   * `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` from now on, nanoseconds.
   */
  realtime_offset_ns: number;
  /**
   * How long the machine slept, nanoseconds: `CLOCK_BOOTTIME` went on meanwhile and `CLOCK_MONOTONIC` did not.
   */
  slept_ns: number;
}
/**
 * The newest closing of a module's fault, and the errors since. Findings judge only these.
 */
export interface ClosedFault {
  /**
   * After how many of these closings errors came back.
   */
  back_count: number;
  /**
   * When the first error since was seen, `CLOCK_REALTIME`; `None` if there was none.
   */
  back_realtime_ns?: number | null;
  /**
   * How often the fault of this module was closed.
   */
  closed_count: number;
  /**
   * When, `CLOCK_REALTIME`.
   */
  closed_realtime_ns: number;
  closing: FaultClosing;
  /**
   * Corrected errors since.
   */
  corrected_since: number;
  /**
   * The person's reason; empty for viewers who may not see it.
   */
  reason: string;
  /**
   * Uncorrected errors since.
   */
  uncorrected_since: number;
}
/**
 * A memory module at the moment at which its fault was closed: who it was, and what its counters had.
 */
export interface ClosedModule {
  /**
   * Boot in which the counters were read.
   */
  boot_id?: string | null;
  /**
   * All corrected errors that were known of it.
   */
  corrected_count: number;
  /**
   * Corrected errors in the kernel's counters; `None` if they could not be read.
   */
  counter_corrected?: number | null;
  /**
   * Uncorrected errors, likewise.
   */
  counter_uncorrected?: number | null;
  /**
   * Its slot label; empty if it has none.
   */
  label: string;
  /**
   * Its part number, likewise.
   */
  part?: string | null;
  /**
   * Its place among the kernel's counters, such as `mc0/dimm3`; empty if no counter has it.
   */
  place?: string;
  /**
   * Its serial number; `None` if it could not be read.
   */
  serial?: string | null;
  /**
   * All uncorrected errors that were known of it.
   */
  uncorrected_count: number;
}
/**
 * A row of /proc/interrupts held against what the probes counted, over all watched cores.
 */
export interface Completeness {
  /**
   * By how much the kernel's own counter rose.
   */
  kernel_count: number;
  /**
   * How many the probes saw.
   */
  probe_count: number;
  /**
   * The row's label in /proc/interrupts.
   */
  row: string;
}
/**
 * The stalls of one core.
 */
export interface CoreStalls {
  /**
   * How long each was to be.
   */
  asked_ns: number;
  /**
   * `null` where the workload was stopped, wherever it ran.
   */
  core: CpuId | null;
  /**
   * How many there are among those that are kept.
   */
  count: number;
  /**
   * Median of the end less the time that it was to be.
   */
  end_late_median_ns: number;
  /**
   * The latest end.
   */
  end_late_most_ns: number;
  /**
   * How long they were.
   */
  length_least_ns: number;
  /**
   * Half of them were no longer.
   */
  length_median_ns: number;
  /**
   * The longest.
   */
  length_most_ns: number;
  /**
   * Nine of ten were no longer.
   */
  length_p90_ns: number;
  /**
   * Median of the start less the time that it was to be.
   */
  start_late_median_ns: number;
}
/**
 * Deeds at one moment.
 */
export interface Deeds {
  /**
   * The newest of each user in each room, newest first.
   */
  deeds: ShownDeed[];
  /**
   * The same by room and user; those with none are not listed.
   */
  left_out: LeftOut[];
  /**
   * Older ones that are not kept here.
   */
  left_out_count: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * Lines of the host's journal that are not deeds of this release, since the start: torn, too long, or of another release.
   */
  unread_count: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * A deed with its words.
 */
export interface ShownDeed {
  action: DeedAction;
  actor: Actor;
  /**
   * When it was written down, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * Why; empty for viewers who may not know.
   */
  because: string;
  /**
   * When the action began, `CLOCK_REALTIME`; [`Deed::at_realtime_ns`] of an end whose beginning is unknown.
   */
  begun_realtime_ns: number;
  /**
   * Who did it; empty for viewers who may not know.
   */
  by: string;
  outcome: DeedOutcome;
  reason: DeedReason;
  room: Room;
  subject: Subject;
  target: DeedTarget;
  /**
   * What was done and what came of it, one line.
   */
  words: string;
}
/**
 * Deeds of one user in one room that are not kept.
 */
export interface LeftOut {
  /**
   * How many.
   */
  count: number;
  room: Room;
  /**
   * Whose journal they stand in; absent where that is not known, and for users beyond the limit, who share one list.
   */
  uid?: number;
}
/**
 * One experiment with all that is kept of it.
 */
export interface DetailView {
  /**
   * Core by core, of all stalls that are kept; none where several disturbances took turns, whose rows tell of them.
   */
  cores: CoreStalls[];
  /**
   * Cores beyond those.
   */
  cores_left_out: number;
  /**
   * Its name.
   */
  experiment: string;
  /**
   * What the numbers of one with several workloads or disturbances came to.
   */
  rows: ExperimentRow[];
  /**
   * Rows beyond those.
   */
  rows_left_out: number;
  /**
   * In their order.
   */
  runs: ExperimentRun[];
  /**
   * Runs beyond those.
   */
  runs_left_out: number;
  /**
   * In the order of their runs.
   */
  stalls: InjectedStall[];
  /**
   * Stalls beyond those.
   */
  stalls_left_out: number;
}
/**
 * One number of one workload under one disturbance, of an experiment with several of them; or one of those that were published,
 * beside what was found here.
 */
export interface ExperimentRow {
  /**
   * The workload's name; of what was published, the table.
   */
  case: string;
  /**
   * `ratio` (disturbed over undisturbed) or `difference` (disturbed less undisturbed).
   */
  compared: string;
  /**
   * The disturbed runs' median.
   */
  disturbed_median: number | null;
  /**
   * The ratio or the difference; `None` where there is none.
   */
  effect: number | null;
  /**
   * Whether an effect is shown.
   */
  effect_shown: boolean;
  /**
   * Median over these stalls: the end less the time that it was to be.
   */
  end_late_median_ns: number | null;
  /**
   * `measured`, `simulated` or `fitted`; empty where nothing was published.
   */
  evidence?: string;
  /**
   * Where this emulation is expected to differ from what was published.
   */
  expected_to_differ?: string;
  /**
   * The share of the disturbed runs' time that the disturbed cores stood still.
   */
  injected_share: number;
  /**
   * Where the true one lies.
   */
  interval_high: number | null;
  /**
   * Where the true one lies.
   */
  interval_low: number | null;
  /**
   * What the number is called; of what was published, the row.
   */
  measure: string;
  /**
   * What was found here, in words; empty where the numbers say it.
   */
  ours?: string;
  /**
   * Repetitions that have both runs.
   */
  pairs: number;
  /**
   * What was published, and where; empty where nothing was.
   */
  published?: string;
  /**
   * The rule of the verdict in words; empty where there is none.
   */
  rule?: string;
  /**
   * Stalls that touched these runs.
   */
  stall_count: number;
  /**
   * The disturbance's name; empty of what was published.
   */
  treatment: string;
  /**
   * The undisturbed runs' median; `None` where none is complete.
   */
  undisturbed_median: number | null;
  /**
   * The verdict in words, those of a model apart from those of a measurement; empty where nothing was published.
   */
  verdict?: string;
  /**
   * Why there is no number.
   */
  why?: string;
}
/**
 * A run that is complete.
 */
export interface ExperimentRun {
  /**
   * Which of several workloads it is of; empty where there is one.
   */
  case?: string;
  /**
   * `warm_up`, `undisturbed` or `disturbed`.
   */
  condition: string;
  /**
   * Stalls that ended before their time.
   */
  cut_stalls: number;
  /**
   * Output beyond what is kept.
   */
  dropped_bytes: number;
  /**
   * Stalls that happened and whose record was lost.
   */
  dropped_stalls: number;
  /**
   * The share of its time that the disturbed cores stood still.
   */
  injected_share: number;
  /**
   * Processes that the workload left behind and that were ended.
   */
  left_behind: number;
  /**
   * The load of the machine before it, over one minute.
   */
  load: number | null;
  /**
   * Stalls whose end had passed before they could begin.
   */
  missed_stalls: number;
  /**
   * The pair that it belongs to; that to warm up belongs to none.
   */
  repetition: number | null;
  /**
   * From 0.
   */
  run: number;
  /**
   * Stalls that touched it; of a disturbance at a rate, the interrupts or packets.
   */
  stall_count: number;
  /**
   * `CLOCK_MONOTONIC`.
   */
  start_ns: number;
  /**
   * Which of several disturbances it had; empty where there is one, and of an undisturbed run.
   */
  treatment?: string;
  /**
   * The metric; nanoseconds for the wall time.
   */
  value: number;
  /**
   * How long it took.
   */
  wall_ns: number;
}
/**
 * A stall that was injected, by the injector's own clock reads.
 */
export interface InjectedStall {
  /**
   * `null` where the workload was stopped, wherever it ran.
   */
  core: CpuId | null;
  /**
   * How long it lasted.
   */
  length_ns: number;
  /**
   * The run that it touched.
   */
  run: number;
  /**
   * `CLOCK_MONOTONIC`.
   */
  start_ns: number;
  /**
   * When it was to begin.
   */
  target_ns: number;
}
/**
 * One who detected.
 */
export interface DetectorRow {
  /**
   * How many it detected.
   */
  count: number;
  /**
   * As in the lines of faults.
   */
  detected_by: string;
}
/**
 * What reporting the errors of a module costs.
 */
export interface DimmCost {
  /**
   * Corrected errors since the watch began.
   */
  corrected_count: number;
  /**
   * [`Dimm::id`].
   */
  id: string;
  /**
   * Nanoseconds of cores per day, by its share of these errors.
   */
  per_day_ns: number | null;
}
/**
 * The fault that the errors of a module point to.
 */
export interface DimmFault {
  action: MemoryAction;
  /**
   * The same for a person, in a sentence or two.
   */
  advice: string;
  /**
   * The cells with the most errors.
   */
  cells: ErrorCell[];
  /**
   * Cells beyond those.
   */
  cells_left_out: number;
  certainty: Certainty;
  /**
   * Why, in one sentence.
   */
  evidence: string;
  mode: FaultMode;
  persistence: Persistence;
  /**
   * How probable the mode is among all that were tried, from 0 to 1; `None` where no report tells a row and a column.
   */
  probability?: number | null;
  /**
   * Reports that this rests on.
   */
  report_count: number;
  /**
   * The next best mode with its probability.
   */
  runner_up?: RunnerUp | null;
  urgency: Severity;
}
/**
 * Errors at one cell of the map that is the evidence for a fault.
 */
export interface ErrorCell {
  /**
   * Bank, with its group: `bank_group * 4 + bank` where there are groups.
   */
  bank: number;
  /**
   * Column.
   */
  column: number;
  /**
   * Errors there.
   */
  count: number;
  /**
   * Rank; `None` if it was not reported.
   */
  rank: number | null;
  /**
   * Row.
   */
  row: number;
}
/**
 * A mode that explains the reports as well, with its probability.
 */
export interface RunnerUp {
  mode: FaultMode;
  /**
   * From 0 to 1.
   */
  probability: number;
}
/**
 * A module, and what the room says of it.
 */
export interface DimmView {
  /**
   * What to do; `null` where it has no counted errors.
   */
  advice: string | null;
  /**
   * The newest closing of its fault; `None` if none was ever closed.
   */
  closed?: ClosedFault | null;
  /**
   * When its fault was closed, and whether errors came back, in words; `null` if it never was.
   */
  closed_words: string | null;
  /**
   * The controller that it hangs on, as [`MemoryController::id`]; empty where it is not known.
   */
  controller: string;
  /**
   * Corrected errors, all that were ever seen of this module: resets, wraps, reboots and moves do not lower it. `None` where
   * none was ever seen and not every counter can be read, so that nothing is known.
   */
  corrected_count: number | null;
  /**
   * The same with its evidence; `None` where no error was seen.
   */
  fault: DimmFault | null;
  fault_mode: FaultMode;
  fidelity: Fidelity;
  /**
   * What it is known by: its serial number where the host tells it, otherwise its place.
   */
  id: string;
  /**
   * Whether the leaky bucket of its rate is over its threshold.
   */
  is_over_rate: boolean;
  /**
   * The slot label, as firmware or the driver gives it.
   */
  label: string;
  /**
   * Modules that this one cannot be told from and may have changed places with, by [`Dimm::id`]: the counts of each of them may be
   * another's. Empty where that is out of the question.
   */
  mixed_with?: string[];
  /**
   * The slot where it was before, where it was moved.
   */
  moved_from: string | null;
  /**
   * Where the errors are, in words, where nobody can tell of which module they are: then this is a place, and no module. `None`
   * for a module.
   */
  only_place: string | null;
  /**
   * Part number; `None` where the host does not tell it.
   */
  part: string | null;
  /**
   * Corrected errors per second between the two newest readings.
   */
  rate_per_s: number;
  /**
   * The seconds between these readings, from 1 to 3600; 0 where there are no two readings within an hour, so that the rate
   * is not known.
   */
  rate_window_s: number;
  /**
   * Serial number; `None` where the host does not tell it.
   */
  serial: string | null;
  /**
   * How sure it is that the serial number is that of this place; `None` where none is known. It is the
   * [`Dimm::id`] only where it is certain.
   */
  serial_certainty: Certainty | null;
  severity: Severity;
  /**
   * Size; 0 where it is not known.
   */
  size_bytes: number;
  /**
   * Where the counts come from, the one that is counted first.
   */
  sources: MemorySource[];
  spread: Spread;
  /**
   * Uncorrected errors, in the same way.
   */
  uncorrected_count: number | null;
  /**
   * Severities of which errors were counted for a place with several modules, this one among them: some may be its own.
   */
  unplaced?: ErrorSeverity[];
  /**
   * Severities of which not every counter of this module can be read now: the true count may be higher than what was seen.
   */
  unread: ErrorSeverity[];
  /**
   * The highest rate of any window that was seen.
   */
  worst_rate_per_s: number;
  /**
   * How long that window was, seconds; 0 where there was none.
   */
  worst_window_s: number;
}
/**
 * How many different places errors were seen at.
 */
export interface Spread {
  /**
   * Banks of a rank.
   */
  banks: number;
  /**
   * Cells: a row and a column of a bank.
   */
  cells: number;
  /**
   * Columns of a bank.
   */
  columns: number;
  /**
   * Errors with a place.
   */
  located_count: number;
  /**
   * Ranks.
   */
  ranks: number;
  /**
   * Rows of a bank.
   */
  rows: number;
}
/**
 * Everything about experiments at one moment.
 */
export interface Disturb {
  detail?: DetailView;
  /**
   * The experiments, the newest first.
   */
  experiments: ExperimentView[];
  /**
   * Experiments beyond those.
   */
  experiments_left_out: number;
  /**
   * When the newest look at the journals began, `CLOCK_REALTIME`; `null` where there was none.
   */
  looked_realtime_ns: number | null;
  /**
   * Predictions from the files that were named.
   */
  predictions: PredictionView[];
  /**
   * Predictions beyond those.
   */
  predictions_left_out: number;
  /**
   * What could not be read.
   */
  problems: string[];
  /**
   * Problems beyond those.
   */
  problems_left_out: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * One experiment in short.
 */
export interface ExperimentView {
  /**
   * When, `CLOCK_MONOTONIC`.
   */
  at_ns: number;
  /**
   * When, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * Which ones.
   */
  cores: CpuId[];
  /**
   * `freeze`, `ipi` and so on; `several` where they take turns.
   */
  disturbance: string;
  /**
   * How it ended; `null` while it runs.
   */
  ended: ExperimentEnded | null;
  /**
   * Its name, which no other one of this host has.
   */
  experiment: string;
  /**
   * Whether cores are disturbed, for everybody, and not the workload alone.
   */
  is_of_cores: boolean;
  /**
   * Of each stall; 0 where they come at a rate.
   */
  length_ns: number;
  /**
   * How it is done; empty before that is known.
   */
  method: string;
  /**
   * The number that a run comes to; empty where these are several.
   */
  metric: string;
  /**
   * Its name within that; empty where it is the whole.
   */
  part?: string;
  /**
   * From the start of one to the start of the next; 0 where several disturbances take turns.
   */
  period_ns: number;
  /**
   * `same` where all cores stop at once, else `staggered` or `random`; empty where it is not known.
   */
  phase?: string;
  /**
   * Its process.
   */
  pid: number;
  /**
   * Runs that there will be, that to warm up among them.
   */
  run_count: number;
  /**
   * Runs that are complete.
   */
  runs_done: number;
  /**
   * The file or preset that it does, or of which it is a part; empty where it is one workload under one disturbance.
   */
  series?: string;
  /**
   * `running`, `finished`, `refused`, `failed` or `vanished`.
   */
  standing: string;
  /**
   * Whose it is; `None` where that is not known.
   */
  uid?: number | null;
  /**
   * What it does, a part of a sentence.
   */
  what: string;
  /**
   * The command; of several workloads their names.
   */
  workload: string;
}
/**
 * The end of an experiment.
 */
export interface ExperimentEnded {
  /**
   * When, `CLOCK_MONOTONIC`.
   */
  at_ns: number;
  /**
   * When, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * What it came to, where it finished and is one workload under one disturbance.
   */
  effect?: ExperimentEffect | null;
  /**
   * Which.
   */
  experiment: string;
  outcome: ExperimentOutcome;
  /**
   * What one with several of them came to, in a few words.
   */
  summary?: string;
  /**
   * What to keep in mind of one with several of them; an effect has its own.
   */
  warnings?: string[];
  /**
   * Why; empty where it finished.
   */
  why?: string;
}
/**
 * What all pairs of runs come to.
 */
export interface ExperimentEffect {
  /**
   * 0.95 or more from 6 pairs on.
   */
  confidence: number;
  /**
   * The cores that were disturbed; none where the workload or a guest was.
   */
  cores: CpuId[];
  /**
   * As of a run.
   */
  cut_stalls: number;
  /**
   * The disturbed runs' median.
   */
  disturbed_median: number;
  /**
   * As of a run.
   */
  dropped_stalls: number;
  /**
   * The interval excludes 1.
   */
  effect_shown: boolean;
  /**
   * Median over all stalls: the end less the time that it was to be.
   */
  end_late_median_ns: number | null;
  /**
   * Nine of ten ended no later than this.
   */
  end_late_p90_ns: number | null;
  /**
   * And their ends.
   */
  end_skew_median_ns: number | null;
  /**
   * The share of the disturbed runs' time that the disturbed cores stood still, by what the injector did.
   */
  injected_share: number;
  /**
   * Its other end.
   */
  interval_high: number;
  /**
   * Of the signed-rank interval, which holds the true ratio as often as `confidence` says.
   */
  interval_low: number;
  /**
   * Of each stall; 0 where they come at a rate.
   */
  length_ns: number;
  /**
   * How it was done.
   */
  method: string;
  /**
   * What that really does.
   */
  method_words: string;
  /**
   * The number that a run comes to.
   */
  metric: string;
  /**
   * The least ratio above 1, and its reciprocal below, that four of five experiments like this one would show.
   */
  minimum_detectable_ratio: number;
  /**
   * As of a run.
   */
  missed_stalls: number;
  /**
   * What was counted beside it.
   */
  notes: string[];
  /**
   * The runs that lie far from the others of their kind, by number; they count all the same.
   */
  outlier_runs: number[];
  /**
   * From the start of one to the start of the next.
   */
  period_ns: number;
  /**
   * The metric disturbed over undisturbed: the Hodges-Lehmann estimate over the pairs.
   */
  ratio: number;
  /**
   * Pairs of runs.
   */
  repetitions: number;
  /**
   * Of the order of the runs and of the moments of the stalls.
   */
  seed: number;
  /**
   * All stalls that touched a run.
   */
  stall_count: number;
  /**
   * Median over all stalls: the start less the time that it was to be.
   */
  start_late_median_ns: number | null;
  /**
   * Median: how far the starts of cores lie apart that were to stop at the same moment.
   */
  start_skew_median_ns: number | null;
  /**
   * The undisturbed runs' median.
   */
  undisturbed_median: number;
  /**
   * What to keep in mind.
   */
  warnings: string[];
  /**
   * The command.
   */
  workload: string;
}
/**
 * How many times as long a job takes on so many nodes.
 */
export interface PredictionView {
  /**
   * The size of a message; of a pattern only.
   */
  bytes: number | null;
  /**
   * How long each rank works before it communicates; of a pattern only.
   */
  compute_ns: number | null;
  /**
   * How many disturbed runs.
   */
  draws: number;
  /**
   * To here in 19 of 20 cases.
   */
  interval_high: number;
  /**
   * One more run lies from here.
   */
  interval_low: number;
  /**
   * `order` or `student`.
   */
  interval_method: string;
  /**
   * How often; of a pattern only.
   */
  iterations: number | null;
  /**
   * Nodes of the job.
   */
  nodes: number;
  /**
   * Each noise in words.
   */
  noises: string[];
  /**
   * How the ranks communicate; `goal` for a GOAL file.
   */
  pattern: string;
  /**
   * Who moves the bytes while a node stops: `nic` or `host`.
   */
  progress: string;
  /**
   * Ranks of each.
   */
  ranks_per_node: number;
  /**
   * Of which seed.
   */
  seed: number;
  /**
   * How many times as long as undisturbed, the mean over the draws.
   */
  slowdown: number;
}
/**
 * The place of an error in DRAM, as far as the reporter tells it.
 */
export interface DramLocation {
  /**
   * Physical address of the host.
   */
  address: number | null;
  /**
   * Bank, in its group where there is one.
   */
  bank: number | null;
  /**
   * Bank group.
   */
  bank_group: number | null;
  /**
   * Channel of the controller.
   */
  channel: number | null;
  /**
   * Column.
   */
  column: number | null;
  /**
   * Memory controller, by the kernel's number.
   */
  controller: number | null;
  /**
   * How many low bits of the address mean nothing.
   */
  grain_bits: number | null;
  /**
   * Physical rank, or chip select.
   */
  rank: number | null;
  /**
   * Row.
   */
  row: number | null;
  /**
   * Slot on the channel.
   */
  slot: number | null;
  /**
   * Processor socket.
   */
  socket: number | null;
}
/**
 * [`Drops`] with those of the sources, at one moment.
 */
export interface Dropped {
  findings: number;
  health: number;
  history: number;
  kernel: number;
  live: number;
  oversized: number;
  queue: number;
  short_gaps: number;
  /**
   * Events that found the channel of the sources full.
   */
  sources: number;
  torn: number;
}
/**
 * What an interrupt costs the work that it interrupts besides the time inside its handler: the processor's entry and
 * exit, the kernel's around the handler, and where there is a hypervisor, its part. An estimate.
 */
export interface EntryExit {
  basis: EntryExitBasis;
  kind: CauseKind;
  /**
   * Median per interrupt; nanoseconds.
   */
  median_ns: number;
  /**
   * One in ten was shorter; nanoseconds.
   */
  p10_ns: number;
  /**
   * One in ten was longer; nanoseconds.
   */
  p90_ns: number;
  /**
   * How many were measured.
   */
  samples: number;
}
/**
 * What a refused request is answered.
 */
export interface ErrorAnswer {
  /**
   * Why, and what can be done; one sentence.
   */
  error: string;
}
/**
 * What hardware, firmware or the kernel said of one memory error, or of several with one place.
 */
export interface ErrorReport {
  /**
   * When, `CLOCK_MONOTONIC`; `None` for what was recorded before.
   */
  at_ns: number | null;
  /**
   * When, `CLOCK_REALTIME`; 0 where the reporter does not tell.
   */
  at_realtime_ns: number;
  /**
   * How many errors it stands for, 1 or more.
   */
  count: number;
  /**
   * The reporter's own words, one line, cut where it is long; of a page that was lost also whose memory it was.
   */
  detail: string;
  /**
   * The module, as [`Dimm::id`]; `None` where it cannot be told.
   */
  dimm: string | null;
  fidelity: Fidelity;
  /**
   * The slot label as the reporter gives it; empty where it gives none.
   */
  label: string;
  location: DramLocation;
  severity: ErrorSeverity;
  source: MemorySource;
}
/**
 * What to fix, ranked by what it would bring.
 */
export interface Fix {
  /**
   * How often it came.
   */
  count: number;
  /**
   * The cores that it was seen on, costliest first.
   */
  cpus: CpuId[];
  /**
   * What was seen that calls for the remedy.
   */
  evidence: string;
  /**
   * What that command is to show.
   */
  expect: string;
  kind: CauseKind;
  /**
   * Interrupt line, function, vector, thread: whatever tells one from another within the kind.
   */
  name: string;
  /**
   * What to do.
   */
  remedy: string;
  /**
   * The rule of the advice; empty where no rule fits, so that the largest causes are listed all the same.
   */
  rule: string;
  /**
   * Its share of all that work on the watched cores lost, millionths.
   */
  share_of_lost_ppm: number;
  /**
   * Where the remedy is described.
   */
  source: string;
  /**
   * Time that work on these cores lost to it, with the estimated cost of entry and exit; nanoseconds.
   */
  total_ns: number;
  /**
   * The command that shows whether it worked; `BEFORE.surefoot` stands for a recording of this report.
   */
  verify: string;
}
/**
 * A stretch in which a core made no progress.
 */
export interface Gap {
  /**
   * What the probes saw inside, largest first.
   */
  causes: GapCause[];
  certainty: Certainty;
  cpu: CpuId;
  /**
   * How long it lasted.
   */
  duration_ns: number;
  /**
   * What the verdict rests on, one statement each.
   */
  evidence: string[];
  source: GapSource;
  /**
   * When it began, `CLOCK_MONOTONIC`.
   */
  start_ns: number;
  /**
   * The part that no traced interval covers.
   */
  unexplained_ns: number;
  verdict: Verdict;
}
/**
 * One traced cause inside a gap.
 */
export interface GapCause {
  /**
   * Its share of the gap, nested time counted once, nanoseconds.
   */
  duration_ns: number;
  kind: CauseKind;
  /**
   * Interrupt line, function, vector, thread: whatever tells one from another within the kind.
   */
  name: string;
}
/**
 * What became known of a gap after it was told of: an error report that came later. It replaces the gap and is no
 * further one.
 */
export interface GapCorrection {
  former_certainty: Certainty;
  former_verdict: Verdict;
  gap: Gap;
}
/**
 * What a host says in one sentence.
 */
export interface Headline {
  /**
   * What the host's cores lost, where the sentence says something else; `None` also where nothing is known of it.
   */
  lost_time?: string | null;
  /**
   * The sentence of the worst finding, and how many others are above `ok`.
   */
  sentence: string;
  severity: Severity;
}
/**
 * The health of a host in one small file, for other programs on it: the daemon writes it, the checkpoint controller
 * reads it before each decision.
 *
 * It is replaced as a whole, so that a reader never sees half of it, when it has something else to say and every 20 s; and
 * removed when the daemon stops. A reader tells a daemon that died by the age of the file: see [`Health::is_current`].
 */
export interface Health {
  /**
   * Age of the newest window of lost time when this was written, nanoseconds; `None` without data.
   */
  data_age_ns: number | null;
  headline: Headline;
  /**
   * The node name; empty until it is known.
   */
  host: string;
  /**
   * What its cores lost in the last minute; `None` while that is not known.
   */
  lost?: LostRate | null;
  /**
   * Its parts that are known by their serial numbers; none where that is not known.
   */
  parts?: Part2[];
  /**
   * Parts that are not listed: no room in the file, or a serial number that is not unique.
   */
  parts_left_out: number;
  /**
   * What each room that watches this host has found. A room that is not here says nothing of the host.
   */
  rooms: {
    [k: string]: RoomHealth;
  };
  /**
   * `CLOCK_REALTIME` of the writing, nanoseconds.
   */
  updated_realtime_ns: number;
  /**
   * [`Health::VERSION`].
   */
  version: number;
}
/**
 * What the watched cores of a host lost of their busy time, unexplained time included.
 */
export interface LostRate {
  /**
   * How many there are.
   */
  cores: number;
  /**
   * Whether single interruptions were seen. Otherwise it is what the kernel's counters tell, and more may have been lost.
   */
  is_traced: boolean;
  /**
   * Of all of them together, nanoseconds per second.
   */
  total_ns_per_s: number;
  /**
   * Which one that is.
   */
  worst_cpu: number;
  /**
   * Of the one that lost most, nanoseconds per second.
   */
  worst_ns_per_s: number;
}
/**
 * What one room has found.
 */
export interface RoomHealth {
  /**
   * Lines of evidence of the findings here that had no room in the file.
   */
  evidence_left_out: number;
  /**
   * Its findings above `ok`, the worst first.
   */
  findings: Finding[];
  /**
   * Findings that had no room in the file.
   */
  findings_left_out: number;
  severity: Severity;
}
/**
 * A devlink health reporter.
 */
export interface HealthReporter {
  /**
   * Whether the kernel recovers by itself; `None` where this reporter cannot recover.
   */
  auto_recover: boolean | null;
  /**
   * The device as devlink names it: bus and device, such as `pci/0000:3b:00.0`.
   */
  device: string;
  /**
   * When that dump was made, `CLOCK_REALTIME`; `None` where the kernel does not say.
   */
  dump_realtime_ns: number | null;
  /**
   * Errors since the driver loaded.
   */
  error_count: number;
  /**
   * The least time between two recoveries of the kernel's own, ms; `None` where this reporter cannot recover.
   */
  grace_period_ms: number | null;
  /**
   * Whether the driver keeps a dump of the error.
   */
  has_dump: boolean;
  /**
   * Its name, such as `tx` or `fw_fatal`.
   */
  name: string;
  /**
   * The port of the device; `None` where it watches the whole device.
   */
  port: number | null;
  /**
   * Recoveries that succeeded since the driver loaded.
   */
  recover_count: number;
  state: ReporterState;
}
/**
 * What stays true about a host while it is watched; opens every recording.
 */
export interface HostDescription {
  /**
   * The cores that are being watched, ascending.
   */
  cpus: CpuId[];
  /**
   * Gaps from this length on are reported, nanoseconds; what is shorter was not looked for.
   */
  gap_threshold_ns: number;
  /**
   * The node name, as `uname -n` prints it.
   */
  hostname: string;
  /**
   * The hypervisor's name from CPUID, or `None` on bare metal.
   */
  hypervisor: string | null;
  /**
   * The kernel release, as `uname -r` prints it.
   */
  kernel: string;
  /**
   * What is missing here and how to get it, one line; empty when nothing is.
   */
  missing: string;
  /**
   * The processor's model name.
   */
  processor: string;
  /**
   * `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` when watching began, nanoseconds.
   */
  realtime_offset_ns: number;
  /**
   * Where the numbers come from: `eBPF (BTF)`, `eBPF (plain tracepoints)` or `kernel counters`.
   */
  source: string;
  vendor: Vendor;
  /**
   * The workload that preemption is counted against, as the user named it; empty if none.
   */
  workload: string;
}
/**
 * Every address of the server.
 */
export interface Index {
  addresses: Listed[];
  /**
   * The version of this API.
   */
  schema: number;
}
/**
 * An address of the server.
 */
export interface Listed {
  /**
   * What it answers, a sentence.
   */
  about: string;
  path: string;
}
/**
 * An interface came into another state.
 */
export interface InterfaceChange {
  /**
   * When that was seen, `CLOCK_MONOTONIC`.
   */
  at_ns: number;
  /**
   * When that was seen, `CLOCK_REALTIME`.
   */
  at_realtime_ns: number;
  /**
   * What it rests on.
   */
  evidence: string[];
  from: InterfaceState;
  /**
   * Which.
   */
  interface: string;
  to: InterfaceState;
}
/**
 * Counters of an interface since its driver loaded; `None` for one that is not told.
 */
export interface InterfaceCounters {
  /**
   * Bytes received.
   */
  rx_bytes?: number | null;
  /**
   * Of those, with a wrong checksum.
   */
  rx_crc_errors?: number | null;
  /**
   * Packets that the kernel dropped after they arrived.
   */
  rx_dropped?: number | null;
  /**
   * Packets that arrived damaged.
   */
  rx_errors?: number | null;
  /**
   * Packets that the device dropped, because nobody fetched them in time.
   */
  rx_missed_errors?: number | null;
  /**
   * Packets received.
   */
  rx_packets?: number | null;
  /**
   * Bytes sent.
   */
  tx_bytes?: number | null;
  /**
   * Packets that the kernel dropped before they were sent.
   */
  tx_dropped?: number | null;
  /**
   * Packets that could not be sent.
   */
  tx_errors?: number | null;
  /**
   * Packets sent.
   */
  tx_packets?: number | null;
}
/**
 * What probing a peer came to.
 */
export interface InterfaceProbe {
  /**
   * Probes answered in time.
   */
  answered_count: number;
  /**
   * What they usually are; `None` where that is not known yet.
   */
  baseline: RoundTrips | null;
  /**
   * Whether this peer has ever answered.
   */
  has_answered: boolean;
  kind: ProbeKind;
  /**
   * Answers in a version of Surefoot's probes that this release does not know.
   */
  other_version_count: number;
  /**
   * The peer, as it was named.
   */
  peer: string;
  /**
   * Probes that the interface did not take.
   */
  refused_count: number;
  /**
   * The round trips of the answered; `None` without any.
   */
  round_trips: RoundTrips | null;
  /**
   * Probes sent.
   */
  sent_count: number;
  /**
   * How long a probe was waited for.
   */
  wait_ns: number;
}
/**
 * Percentiles of round trips.
 */
export interface RoundTrips {
  /**
   * Of so many.
   */
  count: number;
  /**
   * The longest.
   */
  max_ns: number;
  /**
   * Half took no longer than this.
   */
  p50_ns: number;
  /**
   * 99 of 100 took no longer than this.
   */
  p99_ns: number;
}
/**
 * What could not be read.
 */
export interface InterfaceProblem {
  /**
   * The file, or the part of the kernel that was asked.
   */
  path: string;
  /**
   * Why not, and what helps.
   */
  why: string;
}
/**
 * An interface, and what the room says of it.
 */
export interface InterfaceView {
  /**
   * Times that the link came or went; `None` where the kernel does not say.
   */
  carrier_change_count: number | null;
  /**
   * Why work depends on it; empty if no reason is known.
   */
  carries: Carried[];
  /**
   * How sure that is; `None` where the state is not known.
   */
  certainty: Certainty | null;
  counters: InterfaceCounters;
  /**
   * Bus and device below it, such as `pci/0000:00:03.0`; `None` for one that is made of software.
   */
  device: string | null;
  /**
   * The driver; `None` where nothing names it.
   */
  driver: string | null;
  /**
   * What the state rests on, a line each.
   */
  evidence: string[];
  /**
   * Whether it has a link; `None` where the kernel does not say, as of one that is switched off.
   */
  has_carrier: boolean | null;
  /**
   * Whether it is switched on.
   */
  is_up: boolean;
  /**
   * Its link in a word or two.
   */
  link: string;
  /**
   * The kernel's name.
   */
  name: string;
  /**
   * What probing came to; `None` where nobody asked for it.
   */
  probe: InterfaceProbe | null;
  /**
   * Its health reporters.
   */
  reporters: HealthReporter[];
  /**
   * Its self-test; `None` where nobody asked for it.
   */
  self_test: SelfTest | null;
  severity: Severity;
  /**
   * Speed of the link, Mbit/s; `None` where the driver does not say.
   */
  speed_mbit_per_s: number | null;
  state: InterfaceState;
  /**
   * Times that the kernel found a send queue stuck, all queues, since the driver loaded; `None` where it has no such counter.
   */
  tx_timeout_count: number | null;
}
/**
 * A self-test of the driver.
 */
export interface SelfTest {
  /**
   * Whether the driver says that all passed.
   */
  has_passed: boolean;
  /**
   * Whether the parts that interrupt traffic were run, too.
   */
  is_offline: boolean;
  /**
   * Each part.
   */
  parts: SelfTestPart[];
  /**
   * Why there was none; `None` where it ran.
   */
  why_not: string | null;
}
/**
 * What a part of a self-test says: 0 where it passed.
 */
export interface SelfTestPart {
  /**
   * The driver's name of it.
   */
  name: string;
  /**
   * The driver's value; what other values than 0 mean is the driver's own.
   */
  value: number;
}
/**
 * One kind of interrupt on one core: what it cost and who raised it.
 */
export interface Interrupt {
  /**
   * What is advised, that which rests on most arrivals first.
   */
  advice: Advice[];
  /**
   * How often it came.
   */
  count: number;
  cpu: CpuId;
  /**
   * More that is known about it: affinity of the line, why the tick runs.
   */
  detail: string[];
  /**
   * What its entries and exits took besides, estimated ([`WhoReport::entry_exit`]); nanoseconds. `None` where there
   * are none of its own, or no estimate.
   */
  entry_exit_ns: number | null;
  /**
   * What ran: the handler function, driver or action; empty where it is not known.
   */
  handler: string;
  /**
   * The tasks that took the core, where it is one of these, and why they were allowed there; a few of them.
   */
  intruders: Intruder[];
  kind: CauseKind;
  /**
   * Longest; nanoseconds.
   */
  max_ns: number;
  /**
   * Interrupt line, function, vector, thread: whatever tells one from another within the kind.
   */
  name: string;
  /**
   * Median; nanoseconds.
   */
  p50_ns: number;
  /**
   * 99th percentile; nanoseconds.
   */
  p99_ns: number;
  /**
   * Who raised it, most frequent first.
   */
  raisers: Raiser[];
  /**
   * Its share of the core's lost time, millionths.
   */
  share_of_lost_ppm: number;
  /**
   * Time it took inside, nested ones left out; nanoseconds.
   */
  total_ns: number;
  /**
   * Arrivals for which no raiser is known.
   */
  unknown_raisers: number;
  /**
   * Of this, time that delayed no task ([`crate::Lost::while_idle_ns`]); nanoseconds.
   */
  while_idle_ns: number;
}
/**
 * A task that took a watched core, and why it was allowed there.
 */
export interface Intruder {
  /**
   * The cores that it may use, as the kernel writes lists; empty where it ended before it could be asked.
   */
  allowed: string;
  /**
   * What let it onto the core: its affinity mask, its cpuset, or that nothing keeps it off; empty where it is not known.
   */
  because: string;
  /**
   * Its control group; empty for the root and where it is not known.
   */
  cgroup: string;
  /**
   * Its name, as /proc tells; of a worker with the name of its workqueue.
   */
  comm: string;
  /**
   * Whether the kernel binds it to its core, so that nobody can move it.
   */
  is_bound: boolean;
  /**
   * Whether it is a kernel thread.
   */
  is_kernel: boolean;
  /**
   * Its scheduling, such as `SCHED_OTHER nice 0`; empty where it is not known.
   */
  policy: string;
  /**
   * The thread.
   */
  tid: number;
}
/**
 * Who raised an interrupt on a watched core, and how often.
 */
export interface Raiser {
  certainty: Certainty;
  /**
   * The thread's name; `(interrupt)` when it was raised in one, because the thread is a bystander then.
   */
  comm: string;
  /**
   * How often.
   */
  count: number;
  /**
   * The function that was asked for: called function, timer callback, work function; or the context that raised.
   */
  function: string;
  /**
   * Whether this is the sum of several raisers of this name and system call, which had no room of their own.
   */
  is_sum?: boolean;
  /**
   * The raiser's kernel stack, innermost first; empty where none was taken.
   */
  kernel_stack: string[];
  /**
   * Its process; 0 in an interrupt.
   */
  pid: number;
  /**
   * The system call that the raiser was in; empty outside one.
   */
  syscall: string;
  /**
   * The thread; 0 in an interrupt.
   */
  tid: number;
  /**
   * The raiser's user stack, innermost first; empty where none was taken.
   */
  user_stack: string[];
  /**
   * The thread that was being woken, where that is the reason; empty otherwise.
   */
  wakee: string;
}
/**
 * One interval.
 */
export interface IntervalPoint {
  /**
   * Between polls.
   */
  interval_s: number;
  /**
   * The share of errors that would be lost.
   */
  missed_share: number;
  /**
   * The longest unbroken stall.
   */
  stall_longest_ns: number;
  /**
   * Stall of a core per day.
   */
  stall_ns_per_day: number;
}
/**
 * The ledger of a core.
 */
export interface LedgerOfLost {
  cpu: CpuId;
  /**
   * Time of causes that the filter left out, so that the parts still add up.
   */
  filtered_ns?: number;
  idle_ns: number;
  kernel_ns: number;
  lost: Lost[];
  unexplained_ns: number;
  user_ns: number;
  /**
   * How long tasks waited for the core, where the source knows.
   */
  waiting?: Waiting | null;
  wall_ns: number;
}
/**
 * What one cause took.
 */
export interface Lost {
  /**
   * `null` where the source knows the time alone, as of steal.
   */
  count: number | null;
  kind: CauseKind;
  /**
   * `null` where the source does not know single occurrences.
   */
  max_ns: number | null;
  name: string;
  total_ns: number;
  while_idle_ns: number;
}
/**
 * How long user tasks that could run waited for one core in one window.
 *
 * It is a sum over tasks: two that wait at once wait twice. A wait counts whole, in the window in which it ended.
 */
export interface Waiting {
  /**
   * Waits that ended with the core.
   */
  count: number;
  /**
   * Tasks that waited and were moved to another core: how long they had waited until then is not known.
   */
  moved_away: number;
  /**
   * Waits of which it is not known, or not to their beginning, who took the time.
   */
  not_followed: number;
  /**
   * How often a task came back that its cgroup's quota had kept from running.
   */
  throttled_count: number;
  /**
   * How long that was, from leaving the core to getting it again; not in `total_ns`. Nanoseconds.
   */
  throttled_ns: number;
  /**
   * How long they took, nanoseconds.
   */
  total_ns: number;
}
/**
 * The ledger of a core.
 */
export interface LedgerOfReportCause {
  cpu: CpuId;
  /**
   * Time of causes that the filter left out, so that the parts still add up.
   */
  filtered_ns?: number;
  idle_ns: number;
  kernel_ns: number;
  lost: ReportCause[];
  unexplained_ns: number;
  user_ns: number;
  /**
   * How long tasks waited for the core, where the source knows.
   */
  waiting?: Waiting | null;
  wall_ns: number;
}
/**
 * What one cause took in a stretch of time.
 */
export interface ReportCause {
  /**
   * `null` where the source knows the time alone, as of steal.
   */
  count: number | null;
  kind: CauseKind;
  /**
   * `null` where the source does not know single occurrences.
   */
  max_ns: number | null;
  name: string;
  /**
   * `null` where the source does not know single durations.
   */
  p50_ns: number | null;
  p99_ns: number | null;
  total_ns: number;
  while_idle_ns: number;
}
/**
 * A window, without histograms.
 */
export interface Window {
  completeness: Completeness[];
  cores: LedgerOfLost[];
  cost: SelfCost;
  end_ns: number;
  /**
   * Cores whose ledgers of this window cannot be true. They are in no sum.
   */
  faulty?: FaultyCore[];
  start_ns: number;
  untimed: Untimed[];
}
/**
 * What Surefoot itself cost in a window.
 */
export interface SelfCost {
  /**
   * Inter-processor interrupts that the watched cores received while the programs were attached, and detached where
   * that is over: the kernel patches its text for each tracepoint. Others may have raised some of them. Only in the
   * cost that begins with attaching.
   */
  attach_interrupts?: number | null;
  /**
   * Time that was moved between parts of ledgers so that they add up: a context that was read before it was known to be
   * another one. Microseconds, or up to 1 % without eBPF; where it is more, the core's ledger is in [`crate::Window::faulty`].
   */
  balanced_ns?: number;
  /**
   * Rows whose single occurrences lasted longer than all of them together, which no present source says: they come from
   * recordings of earlier releases. They are cut down to the whole.
   */
  capped_rows?: number;
  /**
   * Events that were overwritten before they could be read.
   */
  dropped: number;
  /**
   * Time that turned out after the end of its window to have been taken from somebody who waited. It stays counted as it
   * was told, as work or as nobody's loss.
   */
  known_late_ns?: number;
  /**
   * Memory of the eBPF maps.
   */
  map_bytes: number;
  /**
   * Time in each eBPF program.
   */
  probes: ProbeCost[];
  /**
   * Processor time of this process, nanoseconds.
   */
  process_cpu_ns: number;
  /**
   * Resident memory of this process.
   */
  resident_bytes: number;
  /**
   * Inter-processor interrupts that this process raised on watched cores.
   */
  self_interrupts: number;
  /**
   * Snapshots of a core that could not be read consistently and were skipped.
   */
  torn: number;
  /**
   * Ends of contexts on watched cores that the kernel did not report: exits of interrupts, and switches. The next
   * event there, or the next tick, shows them; until then the time counts for what ran before.
   */
  unreported: number;
  /**
   * Interrupts of watched cores that the kernel counted and ran no program for, at least: each is confirmed by the next
   * window. Their time counts as the work that they interrupted. Some guests do not let their agent's threads be traced.
   */
  untraced_interrupts: number;
}
/**
 * What one eBPF program cost in a window.
 */
export interface ProbeCost {
  /**
   * How often it ran.
   */
  count: number;
  /**
   * Runs that the kernel skipped because the program was already running on that core.
   */
  missed: number;
  /**
   * The program's name.
   */
  name: string;
  /**
   * Time inside it, extrapolated from one run in 64; nanoseconds.
   */
  total_ns: number;
}
/**
 * A row of /proc/interrupts that counts but has no tracepoint here: how often is known, how long is not.
 */
export interface Untimed {
  /**
   * How often in the window.
   */
  count: number;
  cpu: CpuId;
  /**
   * The row's description.
   */
  name: string;
  /**
   * The row's label in /proc/interrupts, such as `HYP`.
   */
  row: string;
}
/**
 * Something the reader of the data must know: a core went offline, the history's disk is full.
 */
export interface Notice {
  /**
   * When, `CLOCK_MONOTONIC`.
   */
  at_ns: number;
  /**
   * What, in one sentence.
   */
  text: string;
}
/**
 * A gap that a polling thread noted itself, with what the kernel did on its core meanwhile.
 */
export interface LoopGap {
  /**
   * The core that it ran on, where the kernel's side tells.
   */
  cpu: CpuId | null;
  /**
   * Length in nanoseconds.
   */
  duration_ns: number;
  /**
   * What the program calls the loop.
   */
  name: string;
  /**
   * What filled it, longest first.
   */
  parts: LoopGapPart[];
  /**
   * The process.
   */
  pid: number;
  /**
   * Start, `CLOCK_MONOTONIC` nanoseconds.
   */
  start_ns: number;
  /**
   * The thread.
   */
  tid: number;
  /**
   * What nothing explains; with the parts it adds up to the length. Nanoseconds.
   */
  unexplained_ns: number;
}
/**
 * A part of a gap that a polling thread noted.
 */
export interface LoopGapPart {
  /**
   * How often.
   */
  count: number;
  kind: CauseKind;
  /**
   * Interrupt line, function, vector, thread: whatever tells one from another within the kind.
   */
  name: string;
  /**
   * Threads that raised it, `name-thread in system call`, most frequent first; empty where none is known.
   */
  raisers: string[];
  /**
   * For how long within the gap, nested causes left out; nanoseconds.
   */
  total_ns: number;
}
/**
 * What one polling thread noted in all.
 */
export interface LoopSummary {
  /**
   * Gaps that it noted while we watched.
   */
  gap_count: number;
  /**
   * What the program calls the loop.
   */
  name: string;
  /**
   * Gaps that were read but are not listed, because there are too many.
   */
  not_listed: number;
  /**
   * Gaps that were overwritten before they were read.
   */
  overwritten: number;
  /**
   * The process.
   */
  pid: number;
  /**
   * A turn over this length is a gap; nanoseconds.
   */
  threshold_ns: number;
  /**
   * The thread.
   */
  tid: number;
  /**
   * Their time together; nanoseconds.
   */
  total_ns: number;
}
/**
 * Reports of one source that are not listed.
 */
export interface LostReports {
  /**
   * How many, since the watch began.
   */
  count: number;
  kind: LossKind;
  source: MemorySource;
  /**
   * Why.
   */
  why: string;
}
/**
 * Everything about memory errors at one moment.
 */
export interface Memory {
  /**
   * What the doctor says of the accounting.
   */
  checks: MemoryCheck[];
  /**
   * The controllers, by number.
   */
  controllers: MemoryController[];
  /**
   * What all of that comes to per day, nanoseconds of cores; `null` where nothing of it is counted here.
   */
  cost_per_day_ns: number | null;
  /**
   * What reporting costs.
   */
  costs: ReportingCost[];
  /**
   * Each module's part of it, of those with errors since the watch began.
   */
  dimm_costs: DimmCost[];
  /**
   * The modules, by controller and place.
   */
  dimms: DimmView[];
  /**
   * Modules beyond those.
   */
  dimms_left_out: number;
  /**
   * How long it took.
   */
  look_ns: number;
  /**
   * When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
   */
  looked_realtime_ns: number | null;
  /**
   * Reports that the sources did not list.
   */
  lost: LostReports[];
  /**
   * Updates for further reasons that were dropped, because there are too many reasons.
   */
  lost_left_out: number;
  /**
   * What could not be read.
   */
  problems: MemoryProblem[];
  /**
   * Problems beyond those.
   */
  problems_left_out: number;
  /**
   * The newest reports, oldest first.
   */
  reports: ErrorReport[];
  /**
   * Reports that were told since the start.
   */
  reports_count: number;
  /**
   * Controllers, checks, lost reports and costs of modules that the longest answer has no room for.
   */
  rows_left_out: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * Which module was in which slot: by slot, the oldest first.
   */
  slots: SlotStay[];
  /**
   * Stays in slots beyond those.
   */
  slots_left_out: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * What the doctor says of one part of the accounting.
 */
export interface MemoryCheck {
  certainty: Certainty;
  /**
   * What follows from it.
   */
  consequence: string;
  /**
   * What was found, with the file that says so.
   */
  evidence: string;
  /**
   * What to do; empty where nothing has to be done.
   */
  remedy: string;
  /**
   * Whether it passed, found something, or could not be made.
   */
  result: CheckResult & string;
  /**
   * Stable name, such as `cec-swallows-errors`.
   */
  rule: string;
  severity: Severity;
}
/**
 * A memory controller.
 */
export interface MemoryController {
  /**
   * Whether its total is that of its modules and of those without one; `None` where the driver gives too little to check it.
   */
  adds_up: boolean | null;
  /**
   * Corrected errors of all its modules, with those of no known module; `None` where the counter cannot be read.
   */
  corrected_count: number | null;
  /**
   * The kernel's name, such as `mc0`.
   */
  id: string;
  /**
   * The driver's name of it.
   */
  name: string;
  /**
   * Corrected errors whose module is not known; `None` where the counter cannot be read.
   */
  no_information_count: number | null;
  /**
   * Seconds since its counters were reset, as the kernel says.
   */
  reset_s: number | null;
  /**
   * Uncorrected errors in the same way.
   */
  uncorrected_count: number | null;
}
/**
 * What one way of reporting errors costs this host.
 */
export interface ReportingCost {
  basis: CostBasis;
  /**
   * How often it happened; `None` where that is not counted here.
   */
  count: number | null;
  /**
   * Time of one core for one.
   */
  each_ns: number;
  /**
   * In this time, nanoseconds.
   */
  over_ns: number;
  /**
   * What it comes to per day, nanoseconds; `None` where it is not counted here.
   */
  per_day_ns: number | null;
  /**
   * Who measured it, where and how.
   */
  source: string;
  /**
   * What is done for a report: `corrected_error_interrupt`, `poll`, `scanned_core`, `handled_record`, `logged_line` or `smi`.
   */
  what: string;
}
/**
 * A file or service that could not be read, or says what cannot be.
 */
export interface MemoryProblem {
  /**
   * The file, or the address of the service.
   */
  path: string;
  source: MemorySource;
  /**
   * What is wrong with it, and what to do.
   */
  why: string;
}
/**
 * A module in a slot, from when it was first seen there.
 */
export interface SlotStay {
  /**
   * How its fault was closed last; `None` if it never was.
   */
  closed?: FaultClosing | null;
  /**
   * Corrected errors that were counted of this module, in whatever slot.
   */
  corrected_count: number;
  /**
   * When it was first seen there, `CLOCK_REALTIME`.
   */
  first_seen_realtime_ns: number;
  /**
   * Whether the slot is empty or holds another module now.
   */
  has_ended: boolean;
  /**
   * The slot label; empty if it has none.
   */
  label: string;
  /**
   * When it was last seen there, `CLOCK_REALTIME`.
   */
  last_seen_realtime_ns: number;
  /**
   * The module, as [`Dimm::id`]; of one that is gone, the name under which its counts are kept.
   */
  module: string;
  /**
   * Its part number; `None` if it could not be read.
   */
  part: string | null;
  /**
   * The slot's place among the kernel's counters, such as `mc0/dimm3`.
   */
  place: string;
  /**
   * Its serial number; `None` if it could not be read: whether it is the module from before the boot is unknown.
   */
  serial: string | null;
  /**
   * How sure it is that the serial number is that of this slot.
   */
  serial_certainty: Certainty | null;
  /**
   * Its size; 0 if it is unknown.
   */
  size_bytes: number;
  /**
   * Uncorrected errors, likewise.
   */
  uncorrected_count: number;
}
/**
 * What each polling interval would cost and lose.
 */
export interface MemoryInterval {
  /**
   * What is assumed of each piece of work, and whose word that is.
   */
  assumptions: string[];
  /**
   * What keeps it from being longer.
   */
  binding_constraint: string;
  /**
   * The interval with the least stall among those that lose nothing; `null` where every one loses some.
   */
  chosen_interval_s: number | null;
  /**
   * Cores that each poll scans.
   */
  cores: number;
  /**
   * Bits of the counter that is polled.
   */
  counter_bits: number;
  /**
   * The intervals, the shortest first.
   */
  points: IntervalPoint[];
  /**
   * Errors per second that have to be counted: the highest of any module here, 10 at least.
   */
  rate_per_s: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
}
/**
 * Faults that are not at hand, by their numbers in the campaign.
 */
export interface MissingRow {
  /**
   * The first.
   */
  from: number;
  /**
   * The last.
   */
  to: number;
}
/**
 * Something that happened. Times are virtual.
 */
export interface MovieScene {
  /**
   * Since the beginning of the run.
   */
  at_ns: number;
  /**
   * The host on which it happened: of a delivery the one that receives.
   */
  host: number | null;
  /**
   * And with it.
   */
  instead: string | null;
  part: Part;
  /**
   * In a word: struck, diverged, `not_diverged`, halted, crashed, daemon, delivered, refused or ended.
   */
  scene: string;
  /**
   * Since the fault; of what was before, 0.
   */
  since_ns: number;
  /**
   * Of a daemon: suspected, dismissed, detected, reloaded, passed, recovered, `reload_failed` or `given_up`. Of a
   * delivery: late, again or wrong.
   */
  step: string | null;
  /**
   * In a sentence.
   */
  text: string;
  /**
   * The instruction without the fault, and what it does.
   */
  usually: string | null;
}
/**
 * The command that goes on from a finding.
 */
export interface Next {
  /**
   * As a shell takes it.
   */
  command: string;
  /**
   * What running it changes, and what it shows.
   */
  effect: string;
}
/**
 * Everything about network interfaces at one moment.
 */
export interface Nic {
  /**
   * The newest changes of state, oldest first.
   */
  changes: InterfaceChange[];
  /**
   * Changes before those.
   */
  changes_left_out: number;
  /**
   * The interfaces, the worst first, then by name.
   */
  interfaces: InterfaceView[];
  /**
   * Interfaces beyond those.
   */
  interfaces_left_out: number;
  /**
   * How long it took.
   */
  look_ns: number;
  /**
   * When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
   */
  looked_realtime_ns: number | null;
  /**
   * What could not be read.
   */
  problems: InterfaceProblem[];
  /**
   * Problems beyond those.
   */
  problems_left_out: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * What the files of campaigns come to.
 */
export interface NicCampaign {
  /**
   * The files, in the order in which they were named.
   */
  files: CampaignFile[];
  /**
   * The faults of the table that was asked for.
   */
  list: CampaignFaults | null;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * A table for each experiment, build and seed, as `surefoot nic campaign report` has them.
   */
  tables: Table[];
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * What the faults of one experiment come to.
 */
export interface Table {
  /**
   * Faults that lost, duplicated, reordered or corrupted a message.
   */
  broken_count: number;
  /**
   * The control program, as in the lines of faults.
   */
  build: string;
  /**
   * Faults of the whole campaign, all shards together; `null` where the lines do not say it.
   */
  campaign_fault_count: number | null;
  coverage: ShareRow;
  /**
   * Who detected how many.
   */
  detected_by: DetectorRow[];
  /**
   * From fault to detection, virtual time.
   */
  detection_ns: TimesRow | null;
  /**
   * The experiment's name.
   */
  experiment: string;
  failures: ShareRow;
  /**
   * The faults that are at hand.
   */
  fault_count: number;
  /**
   * Which these are: the first ten stretches of numbers.
   */
  missing: MissingRow[];
  /**
   * Faults of the campaign that are not at hand; `null` where that cannot be known.
   */
  missing_count: number | null;
  /**
   * Every outcome, those that did not occur too.
   */
  outcomes: OutcomeRow[];
  /**
   * The paper's coverage, where it made the experiment.
   */
  paper_coverage: number | null;
  /**
   * Masked by construction: their word is not executed after the fault.
   */
  pruned_count: number;
  /**
   * Faults after which the interface was recovered.
   */
  recovered_count: number;
  /**
   * From detection until all ports were back, virtual time.
   */
  recovery_ns: TimesRow | null;
  /**
   * The campaign's seed.
   */
  seed: number;
  /**
   * Every class of the standard words.
   */
  standard: StandardRow[];
  type: "table";
}
/**
 * A count as a share of another one, with its interval of Wilson at 95 %.
 */
export interface ShareRow {
  /**
   * How many.
   */
  count: number;
  /**
   * The upper end.
   */
  high: number;
  /**
   * The lower end of its interval.
   */
  low: number;
  /**
   * Of how many.
   */
  of: number;
  /**
   * The share, 0 to 1.
   */
  share: number;
}
/**
 * Median and maximum of times.
 */
export interface TimesRow {
  /**
   * The longest.
   */
  max: number;
  /**
   * The upper of the two middle ones where there are two.
   */
  median: number;
}
/**
 * One outcome of the table.
 */
export interface OutcomeRow {
  /**
   * How many.
   */
  count: number;
  /**
   * Those of them that were detected.
   */
  detected_count: number;
  /**
   * The upper end.
   */
  high: number;
  /**
   * The lower end of its interval.
   */
  low: number;
  /**
   * Of how many.
   */
  of: number;
  /**
   * In the paper's words.
   */
  outcome: string;
  /**
   * The paper's share, where it made the experiment.
   */
  paper_share: number | null;
  /**
   * The share, 0 to 1.
   */
  share: number;
}
/**
 * One class of the standard words.
 */
export interface StandardRow {
  /**
   * In the standard words.
   */
  class: string;
  /**
   * How many.
   */
  count: number;
  /**
   * The upper end.
   */
  high: number;
  /**
   * The lower end of its interval.
   */
  low: number;
  /**
   * Of how many.
   */
  of: number;
  /**
   * The share, 0 to 1.
   */
  share: number;
}
/**
 * One fault, step by step.
 */
export interface NicMovie {
  fault: Fault;
  /**
   * Scenes that are not here.
   */
  missed_count: number;
  /**
   * What happened, in order.
   */
  scenes: MovieScene[];
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
}
/**
 * One fault, and what it did.
 */
export interface Fault {
  /**
   * When, in instructions of the faulted interface.
   */
  at_instruction: number;
  /**
   * The bit of the word.
   */
  bit: number;
  /**
   * The control program: plain, detecting or tolerant; with `+iommu` and `+trap` where the experiment has them.
   */
  build: string;
  /**
   * Faults of the whole campaign, all shards together; `null` and absent as `number` is.
   */
  campaign_fault_count: number | null;
  /**
   * watchdog, interface, self_test, library, neighbour or silence.
   */
  detected_by: string | null;
  /**
   * The host whose daemon detected it.
   */
  detected_on: number | null;
  /**
   * From the fault to its detection, virtual time.
   */
  detection_ns: number | null;
  /**
   * The experiment's name.
   */
  experiment: string;
  /**
   * CRC-32 of the experiment's description, so that two of one name are told apart; `null` and absent as `number` is.
   */
  experiment_crc: number | null;
  /**
   * What the self-test found: missing, content, count, refused or slow.
   */
  finding: string | null;
  /**
   * The function of a bit in code.
   */
  function: string | null;
  /**
   * The daemon found that reloading does not help.
   */
  given_up: boolean;
  /**
   * From which `surefoot nic inject` replays it.
   */
  id: string;
  /**
   * An address, the number of a register of the processor (32: program counter), the offset of a special register.
   */
  location: number;
  /**
   * Its place among the faults of the whole campaign, from 1; `null` of a fault that was tried alone, and absent before
   * Surefoot numbered them.
   */
  number: number | null;
  /**
   * In the paper's words: hang, send_receive, dma, corrupted_control, corrupted_message, latency, host_crash, no_effect.
   */
  outcome: string;
  /**
   * The location as people call it.
   */
  place: string;
  /**
   * Nobody executes the word after the fault, so it is masked by construction and was not run.
   */
  pruned: boolean;
  /**
   * Recoveries, on both hosts.
   */
  recovery_count: number;
  /**
   * From detection until all ports were back, virtual time.
   */
  recovery_ns: number | null;
  /**
   * code, data, register or stuck.
   */
  space: string;
  /**
   * In the standard words: masked, latent, detected, silent_corruption, loss, duplicate, reorder, degraded, host_crash.
   */
  standard: string;
  /**
   * When it struck, virtual time.
   */
  struck_ns: number | null;
  /**
   * What a stuck bit always is: 0 or 1.
   */
  stuck_at: number | null;
  type: "fault";
}
/**
 * What all rooms find, a card for each.
 */
export interface Overview {
  access: Access;
  /**
   * Age of the newest data; `null` before the first.
   */
  age_ns: number | null;
  headline: Headline;
  /**
   * `null` until it is known.
   */
  host: HostDescription | null;
  mode: Mode;
  /**
   * Now, `CLOCK_REALTIME`; in a replay the end of the data.
   */
  now_realtime_ns: number;
  /**
   * The file that is replayed.
   */
  recording: string | null;
  /**
   * In the order of the page.
   */
  rooms: RoomOverview[];
  schema: number;
  /**
   * Where to look in a demo; empty otherwise.
   */
  tour: TourStop[];
  /**
   * The version of Surefoot.
   */
  version: string;
}
/**
 * What one room finds.
 */
export interface RoomOverview {
  chart: Chart | null;
  /**
   * The most urgent first, those that are well at the end.
   */
  findings: ToldFinding[];
  /**
   * Findings beyond those.
   */
  findings_left_out: number;
  is_watched: boolean;
  /**
   * Whether that asks somebody to act.
   */
  needs_action: boolean;
  room: Room;
  severity: Severity;
  title: string;
  /**
   * Why it is not watched, and what to do; empty where it is.
   */
  why: string;
}
/**
 * A finding, with what to run on its account.
 */
export interface ToldFinding {
  certainty: Certainty;
  /**
   * What it rests on, a line each; may be empty.
   */
  evidence?: string[];
  /**
   * Identifies the finding for as long as it lasts, across restarts: room, rule and subject, joined by
   * [`Finding::key_of`].
   */
  key: string;
  /**
   * `null` where no command helps.
   */
  next: Next | null;
  room: Room;
  /**
   * The rule of that room, such as `lost-time`.
   */
  rule: string;
  /**
   * One sentence for people, with its full stop.
   */
  sentence: string;
  severity: Severity;
  /**
   * Since when it holds, `CLOCK_REALTIME`; 0 where that is not known.
   */
  since_realtime_ns: number;
  subject: Subject;
  /**
   * The user whose files say so; `None` where the host itself does.
   */
  uid?: number | null;
}
/**
 * Something to look at.
 */
export interface TourStop {
  /**
   * One sentence.
   */
  sentence: string;
  /**
   * The view of the page, as in its address.
   */
  view: string;
}
/**
 * What the history has of a range.
 */
export interface PastAnswer {
  /**
   * When the wall clock was set or the machine slept; the newest. Times before and after one are as the clock showed them.
   */
  clock_changes: PastClockChange[];
  /**
   * What held at any time in the range; the newest.
   */
  findings: PastFinding[];
  /**
   * The range, seconds since 1970.
   */
  from_s: number;
  /**
   * The longest gaps.
   */
  gaps: PastGap[];
  headline: Headline;
  /**
   * The newest.
   */
  notices: PastNotice[];
  /**
   * What rooms wrote down; the newest.
   */
  records: PastRecord[];
  resolution: PastResolution;
  schema: number;
  to_s: number;
  /**
   * Rows that another release wrote and this one does not know.
   */
  unknown_count: number;
  /**
   * Oldest first. They stand at the end, because each becomes text as soon as it is read.
   */
  windows: PastWindow[];
}
/**
 * A change of the wall clock.
 */
export interface PastClockChange {
  /**
   * When, by the clock after it.
   */
  at_realtime_ns: number;
  change: ClockChange;
  /**
   * The same moment by the clock before it.
   */
  former_realtime_ns: number;
  /**
   * The change in a sentence.
   */
  text: string;
}
/**
 * A finding and how long it held.
 */
export interface PastFinding {
  finding: Finding;
  /**
   * When it came with this severity and certainty.
   */
  from_realtime_ns: number;
  /**
   * When it was last seen to hold, within ten seconds.
   */
  last_seen_realtime_ns: number;
  /**
   * Whether it asked somebody to act.
   */
  needs_action: boolean;
  /**
   * When it went; `null` while it holds.
   */
  until_realtime_ns: number | null;
}
/**
 * A gap of the history; the times in the gap itself are those of the boot that it happened in.
 */
export interface PastGap {
  /**
   * What the probes saw inside, largest first.
   */
  causes: GapCause[];
  certainty: Certainty;
  cpu: CpuId;
  /**
   * How long it lasted.
   */
  duration_ns: number;
  /**
   * What the verdict rests on, one statement each.
   */
  evidence: string[];
  source: GapSource;
  /**
   * When it began, `CLOCK_MONOTONIC`.
   */
  start_ns: number;
  start_realtime_ns: number;
  /**
   * The part that no traced interval covers.
   */
  unexplained_ns: number;
  verdict: Verdict;
}
/**
 * A notice of the history.
 */
export interface PastNotice {
  at_realtime_ns: number;
  text: string;
}
/**
 * What a room wrote down.
 */
export interface PastRecord {
  at_realtime_ns: number;
  /**
   * The whole of it: of a checkpoint a `JournalEntry`, of the watch a `SourceReport`.
   */
  body: unknown;
  /**
   * What happened, in one word of the room's.
   */
  kind: string;
  room: Room;
  severity: Severity;
  subject: Subject;
}
/**
 * A window of the history, on the clock of the world.
 */
export interface PastWindow {
  cores: LedgerOfLost[];
  end_realtime_ns: number;
  /**
   * Cores whose ledgers could not be true; they are in no sum.
   */
  faulty?: FaultySum[];
  start_realtime_ns: number;
}
/**
 * Periodic checks at one moment.
 */
export interface Remedy {
  /**
   * The newest run of each check, by name.
   */
  checks: CheckView[];
  /**
   * Results of checks that are not kept, because there are too many.
   */
  left_out_count: number;
  /**
   * Processor time of all of them.
   */
  processor_ns: number;
  /**
   * Runs of checks that ended.
   */
  run_count: number;
  /**
   * [`crate::SCHEMA`].
   */
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Why there is nothing to see, and what to do; absent where there is.
   */
  why?: string;
}
/**
 * A stretch of time, summed up.
 */
export interface Report {
  causes: ReportCause[];
  /**
   * When the wall clock was set or the machine slept, oldest first. Before the first, and without any, the host's
   * `realtime_offset_ns` makes times of the day of the others.
   */
  clock_changes: ClockChange[];
  completeness: Completeness[];
  cores: LedgerOfReportCause[];
  cost: SelfCost;
  dropped: Dropped;
  end_ns: number;
  /**
   * Ledgers that cannot be true, by core. They are in no sum.
   */
  faulty?: FaultySum[];
  /**
   * How many gaps there were in all, the short ones included.
   */
  gap_count: number;
  /**
   * The longest gaps.
   */
  gaps: Gap[];
  headline: Headline;
  host: HostDescription | null;
  mode: Mode;
  notices: Notice[];
  /**
   * The file that is replayed.
   */
  recording: string | null;
  schema: number;
  start_ns: number;
  untimed: Untimed[];
  version: string;
  /**
   * How many windows are summed up.
   */
  windows: number;
}
/**
 * Everything that the page shows at first.
 */
export interface Snapshot {
  /**
   * `null` before the first window.
   */
  age_ns: number | null;
  capabilities: Capability[];
  /**
   * When the wall clock was set or the machine slept, oldest first. Before the first, and without any, the host's
   * `realtime_offset_ns` makes times of the day of the others.
   */
  clock_changes: ClockChange[];
  cost: SelfCost;
  dropped: Dropped;
  gaps: Gap[];
  headline: Headline;
  host: HostDescription | null;
  mode: Mode;
  notices: Notice[];
  now_ns: number;
  /**
   * The file that is replayed.
   */
  recording: string | null;
  schema: number;
  /**
   * The number of the newest live event in this answer.
   */
  sequence: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * Where the newest report of raisers ends, which is at `/api/v1/who`; `null` where they are not watched.
   */
  who_end_ns: number | null;
  windows: Window[];
}
/**
 * What happened on the watched cores one by one: what ran when, and who raised it.
 */
export interface Timeline {
  /**
   * What was raised, in the order in which it was seen.
   */
  arrivals: TimelineArrival[];
  /**
   * Arrivals that found no room.
   */
  arrivals_dropped: number;
  /**
   * The causes that slices and arrivals name by their place here.
   */
  causes: Cause[];
  /**
   * The raisers that arrivals name by their place here.
   */
  raisers: Raiser[];
  /**
   * What ran, in the order in which it ended. Those of one core nest: a later one lies beside an earlier one or
   * contains it.
   */
  slices: TimelineSlice[];
  /**
   * Slices that found no room.
   */
  slices_dropped: number;
  /**
   * Changes of context that were overwritten before they could be read; what ran there is not among the slices.
   */
  turns_lost: number;
}
/**
 * Something that was raised for a core and arrived there.
 */
export interface TimelineArrival {
  /**
   * When it arrived, `CLOCK_MONOTONIC` nanoseconds; for work and wake-ups, when it was raised.
   */
  at_ns: number;
  /**
   * What arrived: its place among [`Timeline::causes`].
   */
  cause: number;
  cpu: CpuId;
  /**
   * When it was raised elsewhere; `None` where it was raised in the context that it arrived in.
   */
  raised_ns: number | null;
  /**
   * Who raised it: a place among [`Timeline::raisers`]; `None` where that is not known or one of too many.
   */
  raiser: number | null;
  /**
   * What it caused: a place among [`Timeline::slices`]; `None` where that was not seen.
   */
  slice: number | null;
}
/**
 * A stretch in which something took a core from its work, what was nested in it included.
 */
export interface TimelineSlice {
  /**
   * What ran: its place among [`Timeline::causes`].
   */
  cause: number;
  cpu: CpuId;
  /**
   * Length in nanoseconds.
   */
  duration_ns: number;
  /**
   * Start, `CLOCK_MONOTONIC` nanoseconds.
   */
  start_ns: number;
}
/**
 * Who interrupted the watched cores.
 */
export interface Who {
  mode: Mode;
  /**
   * The file that is replayed.
   */
  recording: string | null;
  schema: number;
  /**
   * The version of Surefoot.
   */
  version: string;
  /**
   * The newest report of the model, narrowed by `cpu` and `kind`; sums over all cores stay those of all cores. With `range_s` it
   * covers the newest seconds, and begins (`start_ns`) with the last report before them; `watch_start_ns` is there then, unless the
   * watch is not that old. `null` where raisers are not watched; then `why` says what to do.
   */
  who: WhoReport | null;
  /**
   * Why there is none, and what to do.
   */
  why?: string;
}
/**
 * Who interrupted the watched cores, from the start of the watch to its last look. A later one of the same watch
 * replaces it.
 */
export interface WhoReport {
  /**
   * Called functions that arrived from elsewhere.
   */
  called_count: number;
  /**
   * How the watched cores spent the time.
   */
  cores: WhoCore[];
  cost: SelfCost;
  /**
   * End, `CLOCK_MONOTONIC` nanoseconds.
   */
  end_ns: number;
  /**
   * What entry and exit of an interrupt cost here; empty where that was not measured.
   */
  entry_exit: EntryExit[];
  /**
   * What to fix first.
   */
  fix_first: Fix[];
  /**
   * Each kind of interrupt on each core, costliest first.
   */
  interrupts: Interrupt[];
  /**
   * Called functions whose raiser was found exactly.
   */
  joined_count: number;
  /**
   * Their longest gaps, longest first.
   */
  loop_gaps: LoopGap[];
  /**
   * The polling threads that noted their own gaps.
   */
  loops: LoopSummary[];
  /**
   * Arrivals that were overwritten before they could be read.
   */
  marks_lost: number;
  /**
   * What is missing here; empty when nothing is.
   */
  missing: string[];
  /**
   * How often the process that reads the files of watched programs ended over one of them.
   */
  naming_deaths: number;
  /**
   * Processes that read such files and hang, because a file system does not answer.
   */
  naming_hung: number;
  /**
   * What happened to the watch itself: a process ended, a core went offline.
   */
  notices: Notice[];
  /**
   * Records that the raising side made.
   */
  records: number;
  /**
   * Records that were lost because a buffer was full.
   */
  records_dropped: number;
  /**
   * Records that never met their arrival.
   */
  records_unmatched: number;
  /**
   * Of these, how many are without a stack because their core raised too many.
   */
  records_without_stack: number;
  /**
   * Start, `CLOCK_MONOTONIC` nanoseconds.
   */
  start_ns: number;
  /**
   * Each arrival by itself, where that was asked for; events that flow carry none.
   */
  timeline?: Timeline | null;
  /**
   * Of a report that answers for a range: when its watch began, `CLOCK_MONOTONIC` nanoseconds. Quantiles, the longest, and what is
   * known of lines and tasks are since then. `None` where the report is of the whole watch.
   */
  watch_start_ns?: number | null;
  /**
   * The process whose preemption counts, where one was named.
   */
  workload_pid: number | null;
}
/**
 * How a watched core spent the time of the watch.
 */
export interface WhoCore {
  cpu: CpuId;
  /**
   * Of this, idle; nanoseconds.
   */
  idle_ns: number;
  /**
   * Of this, lost while it had work; nanoseconds.
   */
  lost_ns: number;
  /**
   * Time that it was watched; nanoseconds.
   */
  wall_ns: number;
}
