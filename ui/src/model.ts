// The shapes of the HTTP API: the serde shapes of crates/model, field for field.
// Times are CLOCK_MONOTONIC nanoseconds; they stay below 2^53 for the first 104 days of uptime
// to the nanosecond, and within 2 ns for the first 208, which no display here can show.

/** Every kind of cause in the order of the tables, with the words for people. */
export const KINDS = [
  { id: "smi", label: "SMI" },
  { id: "host", label: "hypervisor" },
  { id: "nmi", label: "NMI" },
  { id: "machine_check", label: "machine check" },
  { id: "device_interrupt", label: "device interrupt" },
  { id: "timer", label: "timer" },
  { id: "call_function", label: "call function" },
  { id: "tlb_shootdown", label: "TLB shootdown" },
  { id: "reschedule", label: "reschedule" },
  { id: "irq_work", label: "irq_work" },
  { id: "softirq", label: "softirq" },
  { id: "kernel_thread", label: "kernel thread" },
  { id: "preemption", label: "preemption" },
  { id: "other_interrupt", label: "other interrupt" },
] as const;

export type Kind = (typeof KINDS)[number]["id"];

/** Where a kind stands in `KINDS`; an unknown one (a newer server) counts as another interrupt. */
export function kindIndex(kind: string): number {
  const at = KINDS.findIndex((known) => known.id === kind);
  return at < 0 ? KINDS.length - 1 : at;
}

export interface Lost {
  kind: string;
  name: string;
  count: number;
  total_ns: number;
  max_ns: number;
  while_idle_ns: number;
}

export interface CoreLedger {
  cpu: number;
  wall_ns: number;
  idle_ns: number;
  user_ns: number;
  kernel_ns: number;
  lost: Lost[];
  unexplained_ns: number;
}

export interface Untimed {
  cpu: number;
  row: string;
  name: string;
  count: number;
}

export interface Completeness {
  row: string;
  kernel_count: number;
  probe_count: number;
}

export interface ProbeCost {
  name: string;
  count: number;
  total_ns: number;
  missed: number;
}

export interface SelfCost {
  probes: ProbeCost[];
  process_cpu_ns: number;
  resident_bytes: number;
  map_bytes: number;
  dropped: number;
  torn: number;
  /** Absent in recordings of older versions. */
  unreported?: number;
  self_interrupts: number;
}

export interface Window {
  start_ns: number;
  end_ns: number;
  cores: CoreLedger[];
  untimed: Untimed[];
  completeness: Completeness[];
  cost: SelfCost;
}

export interface GapCause {
  kind: string;
  name: string;
  duration_ns: number;
}

export interface Gap {
  cpu: number;
  source: string;
  start_ns: number;
  duration_ns: number;
  causes: GapCause[];
  unexplained_ns: number;
  verdict: string;
  certainty: string;
  evidence: string[];
}

export interface Notice {
  at_ns: number;
  text: string;
}

export interface Capability {
  id: string;
  name: string;
  state: "works" | "reduced" | "unsupported";
  reason: string;
  remedy: string;
}

export interface HostDescription {
  hostname: string;
  kernel: string;
  processor: string;
  vendor: string;
  hypervisor: string | null;
  cpus: number[];
  workload: string;
  /** Gaps shorter than this were not looked for. */
  gap_threshold_ns: number;
  source: string;
  missing: string;
  realtime_offset_ns: number;
}

/** Who raised an interrupt, and how often. Stacks begin with the innermost frame. */
export interface Raiser {
  certainty: string;
  function: string;
  syscall: string;
  comm: string;
  pid: number;
  tid: number;
  wakee: string;
  count: number;
  kernel_stack: string[];
  user_stack: string[];
}

export interface Advice {
  rule: string;
  remedy: string;
  evidence: string;
  source: string;
}

export interface Interrupt {
  cpu: number;
  kind: string;
  name: string;
  handler: string;
  count: number;
  total_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  share_of_lost_ppm: number;
  detail: string[];
  raisers: Raiser[];
  unknown_raisers: number;
  advice: Advice[];
}

/** What one polling thread noted of itself. */
export interface LoopSummary {
  pid: number;
  tid: number;
  name: string;
  threshold_ns: number;
  gap_count: number;
  total_ns: number;
  overwritten: number;
  not_listed: number;
}

export interface LoopGapPart {
  kind: string;
  name: string;
  total_ns: number;
  count: number;
  raisers: string[];
}

export interface LoopGap {
  pid: number;
  tid: number;
  name: string;
  cpu: number | null;
  start_ns: number;
  duration_ns: number;
  parts: LoopGapPart[];
  unexplained_ns: number;
}

/** Who interrupted the watched cores, from the start of the watch to its newest look. */
export interface WhoReport {
  start_ns: number;
  end_ns: number;
  interrupts: Interrupt[];
  joined_count: number;
  called_count: number;
  records: number;
  records_without_stack: number;
  records_dropped: number;
  records_unmatched: number;
  marks_lost: number;
  loops: LoopSummary[];
  loop_gaps: LoopGap[];
  missing: string[];
  /** What happened to the watch itself. */
  notices: Notice[];
  cost: SelfCost;
}

export type Severity = "good" | "notice" | "serious";

export interface Snapshot {
  version: string;
  mode: "live" | "replay";
  recording: string | null;
  now_ns: number;
  /** `null` before the first window. */
  age_ns: number | null;
  verdict: { sentence: string; severity: Severity };
  host: HostDescription;
  capabilities: Capability[];
  windows: Window[];
  gaps: Gap[];
  notices: Notice[];
  /** Where the newest report of raisers ends; `null` where they are not watched. */
  who_end_ns: number | null;
  cost: SelfCost;
  dropped: Record<string, number>;
}

export interface ReportCause extends Lost {
  /** `null` where the source does not know single durations. */
  p50_ns: number | null;
  p99_ns: number | null;
}

/** The parts of a report that the page uses; it sums up the rest from the windows. */
export interface Report {
  causes: ReportCause[];
  /** The longest gaps that pass the filters. */
  gaps: Gap[];
  /** How many gaps pass the filters in all. */
  gap_count: number;
}

export const VERDICTS: Record<string, string> = {
  traced: "traced",
  smi: "SMI",
  smi_like: "SMI-like",
  corrected_error_logging: "corrected-error logging",
  host_scheduled: "host scheduled another task",
  host_unaccounted: "host, unaccounted",
  host_pause_or_smi: "VM pause or host SMI",
  hardware_this_core: "hardware, this core",
  undetermined: "undetermined",
};

/** The kinds of cause that a verdict on the uncovered part of a gap speaks of. */
export const VERDICT_KINDS: Record<string, readonly Kind[]> = {
  smi: ["smi"],
  smi_like: ["smi"],
  corrected_error_logging: ["smi", "machine_check"],
  host_scheduled: ["host"],
  host_unaccounted: ["host"],
  host_pause_or_smi: ["host", "smi"],
};

export const CERTAINTIES: Record<string, string> = {
  certain: "certain",
  probable: "probable",
  cannot_tell_apart_here: "cannot be told apart here",
};

export const SOURCES: Record<string, string> = {
  probe: "probe",
  sentinel: "sentinel",
  timer_lateness: "late timer",
  sleep_lateness: "late sleep",
};
