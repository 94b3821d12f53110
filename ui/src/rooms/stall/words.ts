// The words of this room for the values of the API. Each table names every value of its type, so that the compiler says
// what is missing when a type gains one.

import type { CauseKind, Gap, GapSource, Verdict } from "../../types.ts";

export type Kind = CauseKind;

/** Every kind of cause in the order of the tables, with the words for people. */
export const KINDS = [
  { id: "smi", label: "SMI" },
  { id: "hypervisor", label: "hypervisor" },
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
  { id: "thread_state", label: "thread" },
  { id: "other_interrupt", label: "other interrupt" },
  { id: "console", label: "printing to the console" },
] as const satisfies readonly { id: Kind; label: string }[];

/** Does not compile when a kind has no words. */
const everyKind: Exclude<Kind, (typeof KINDS)[number]["id"]> extends never ? true : never = true;
void everyKind;

/** Where a kind stands in `KINDS`; an unknown one (a newer server) counts as another interrupt. */
export function kindIndex(kind: string): number {
  const at = KINDS.findIndex((known) => known.id === kind);
  return at < 0 ? KINDS.findIndex((known) => known.id === "other_interrupt") : at;
}

/** What the columns of lost time mean, in the words of the command's reports. */
export const MEANINGS = [
  ["lost", "time that interrupts, softirqs, kernel threads, the hypervisor or the firmware took from a task that ran or waited for this core"],
  ["while idle", "the same where it delayed no task: the core idled, or a kernel thread had it for itself"],
  ["unexplained", "time of a core that no source accounts for"],
  ["waited", "how long tasks that could run waited for this core, added up over all tasks: two that wait at once wait twice. No part of a core's time"],
  ["untraced", "the part of a gap that no traced interval covers"],
  ["run delay", "verdict where nothing is traced: the kernel counted that the thread that found the gap waited for its core, which another task had"],
] as const;

export const VERDICTS: Record<Verdict, string> = {
  traced: "traced",
  smi: "SMI",
  smi_like: "SMI-like",
  corrected_error_logging: "corrected-error logging",
  hypervisor_scheduled: "hypervisor scheduled another task",
  hypervisor_unaccounted: "hypervisor, unaccounted",
  pause_or_smi: "VM pause, or SMI of the hypervisor's machine",
  hardware_this_core: "hardware, this core",
  undetermined: "undetermined",
};

/** The verdict in words. Threads that sleep to find gaps do so only where nothing is traced: there it rests on the kernel's count of their run delay. */
export function verdictWords(gap: Pick<Gap, "verdict" | "source">): string | undefined {
  return gap.verdict === "traced" && gap.source === "sleep_lateness" ? "run delay" : VERDICTS[gap.verdict];
}

/** The kinds of cause that a verdict on the uncovered part of a gap speaks of. */
export const VERDICT_KINDS: Partial<Record<Verdict, readonly Kind[]>> = {
  smi: ["smi"],
  smi_like: ["smi"],
  corrected_error_logging: ["smi", "machine_check"],
  hypervisor_scheduled: ["hypervisor"],
  hypervisor_unaccounted: ["hypervisor"],
  pause_or_smi: ["hypervisor", "smi"],
};

export const SOURCES: Record<GapSource, string> = {
  probe: "probe",
  sentinel: "sentinel",
  timer_lateness: "late timer",
  sleep_lateness: "late sleep",
};
