//! What to change: rules over what was seen. One row each, one test each.

use surefoot_model::{Advice, CauseKind, Interrupt, Raiser};

/// A rule of advice about one kind of interrupt.
pub struct Rule {
    /// Its stable name.
    pub name: &'static str,
    /// The evidence, when the rule applies.
    applies: fn(&Interrupt) -> Option<String>,
    /// What to do.
    pub remedy: &'static str,
    /// Where that is described.
    pub source: &'static str,
}

/// The most frequent raiser that fits, in words.
fn raised_by(interrupt: &Interrupt, fits: impl Fn(&Raiser) -> bool) -> Option<String> {
    let fitting: Vec<&Raiser> = interrupt.raisers.iter().filter(|raiser| fits(raiser)).collect();
    let first = fitting.first()?;
    let count: u64 = fitting.iter().map(|raiser| raiser.count).sum();
    let place = if first.syscall.is_empty() { first.function.clone() } else { first.syscall.clone() };
    Some(format!("{count} of {} from {} in {place}", interrupt.count.max(count), first.comm))
}

fn stack_has(raiser: &Raiser, name: &str) -> bool {
    raiser.kernel_stack.iter().chain(&raiser.user_stack).any(|frame| frame.split([' ', '+', '(']).next() == Some(name))
}

fn is(interrupt: &Interrupt, kind: CauseKind) -> bool {
    interrupt.cause.kind == kind
}

/// The rules.
pub const RULES: [Rule; 12] = [
    Rule {
        name: "unmapped-stdio-buffer",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::TlbShootdown) {
                return None;
            }
            raised_by(interrupt, |raiser| {
                raiser.syscall == "munmap" && (stack_has(raiser, "fclose") || stack_has(raiser, "_IO_new_fclose"))
            })
        },
        remedy: "keep the stream open and rewind it, give it a buffer that stays mapped (setvbuf), or read with \
                 open/read/close",
        source: "setvbuf(3); Niometrics post on TLB shootdowns of a polling core",
    },
    Rule {
        name: "memory-mapping-beside-a-polling-thread",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::TlbShootdown) {
                return None;
            }
            raised_by(interrupt, |raiser| {
                ["munmap", "mprotect", "madvise", "mremap", "brk", "mmap"].contains(&raiser.syscall.as_str())
                    && !stack_has(raiser, "fclose")
                    && !stack_has(raiser, "_IO_new_fclose")
            })
        },
        remedy: "do not unmap, protect or advise memory in a process that has a polling thread: keep the memory, or move \
                 that work into another process; huge pages make each change rarer",
        source: "mmap(2), madvise(2); the kernel's Documentation/arch/x86/tlb.rst",
    },
    Rule {
        name: "membarrier",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::CallFunction) {
                return None;
            }
            raised_by(interrupt, |raiser| raiser.syscall == "membarrier")
        },
        remedy: "use fences in the thread that calls membarrier, or run the polling thread in another process",
        source: "membarrier(2)",
    },
    Rule {
        name: "reader-of-msr-or-cpuid",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::CallFunction) {
                return None;
            }
            let reads =
                ["__rdmsr_on_cpu", "__rdmsr_safe_on_cpu", "__wrmsr_on_cpu", "__wrmsr_safe_on_cpu", "cpuid_smp_cpuid"];
            let is_one = reads.contains(&interrupt.cause.name.as_str()) || interrupt.cause.name.contains("cpuid");
            if is_one { raised_by(interrupt, |_| true) } else { None }
        },
        remedy: "stop the tool that reads /dev/cpu/N/msr or /dev/cpu/N/cpuid of this core, or let it read a housekeeping \
                 core",
        source: "msr(4), cpuid(4): each read runs on the core that is asked about",
    },
    Rule {
        name: "perf-on-this-core",
        applies: |interrupt| {
            let by_perf = |name: &str| {
                ["remote_function", "__perf_event_read", "event_function", "__perf_install_in_context"].contains(&name)
            };
            if is(interrupt, CauseKind::CallFunction) && by_perf(&interrupt.cause.name) {
                return raised_by(interrupt, |_| true);
            }
            None
        },
        remedy: "end the profiler, or give it the other cores only (perf -C)",
        source: "perf_event_open(2)",
    },
    Rule {
        name: "probe-attached-or-code-patched",
        applies: |interrupt| {
            if is(interrupt, CauseKind::CallFunction) && interrupt.cause.name == "do_sync_core" {
                return raised_by(interrupt, |_| true);
            }
            None
        },
        remedy: "attach and detach tracers, and load modules, before the latency-sensitive work begins",
        source: "the kernel's arch/x86/kernel/alternative.c (text_poke)",
    },
    Rule {
        name: "device-line-on-this-core",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::DeviceInterrupt) {
                return None;
            }
            let managed = interrupt.detail.iter().any(|detail| detail.contains("managed: yes"));
            (!managed).then(|| format!("{} came {} times", interrupt.cause.name, interrupt.count))
        },
        remedy: "move the line: echo the housekeeping cores into /proc/irq/N/smp_affinity_list, and ban this core in \
                 irqbalance",
        source: "the kernel's Documentation/core-api/irq/irq-affinity.rst; irqbalance(1)",
    },
    Rule {
        name: "managed-line-on-this-core",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::DeviceInterrupt) {
                return None;
            }
            let managed = interrupt.detail.iter().any(|detail| detail.contains("managed: yes"));
            managed.then(|| {
                format!("{} is managed by its driver and came {} times", interrupt.cause.name, interrupt.count)
            })
        },
        remedy: "boot with isolcpus=managed_irq,CORES, or give the device fewer queues",
        source: "the kernel's Documentation/admin-guide/kernel-parameters.txt (isolcpus)",
    },
    Rule {
        name: "tick-runs",
        applies: |interrupt| {
            let ticks = interrupt
                .raisers
                .iter()
                .filter(|raiser| raiser.function.starts_with("tick_"))
                .map(|raiser| raiser.count);
            let count: u64 = ticks.sum();
            (is(interrupt, CauseKind::Timer) && count > 0).then(|| format!("the tick fired {count} times"))
        },
        remedy: "boot with nohz_full=CORES and rcu_nocbs=CORES, and keep a single runnable task on the core",
        source: "the kernel's Documentation/timers/no_hz.rst",
    },
    Rule {
        name: "timer-armed-from-elsewhere",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::Timer) {
                return None;
            }
            raised_by(interrupt, |raiser| raiser.pid != 0 && !raiser.function.starts_with("tick_"))
        },
        remedy: "arm the timer from a housekeeping core, or pin the thread that arms it there",
        source: "the kernel's Documentation/timers/no_hz.rst (timer migration)",
    },
    Rule {
        name: "work-queued-here",
        applies: |interrupt| {
            let is_worker = is(interrupt, CauseKind::KernelThread) && interrupt.cause.name == "kworker";
            if is_worker { raised_by(interrupt, |_| true) } else { None }
        },
        remedy: "take the core out of /sys/devices/virtual/workqueue/cpumask and of the writeback mask below \
                 /sys/bus/workqueue/devices",
        source: "the kernel's Documentation/core-api/workqueue.rst",
    },
    Rule {
        name: "woken-from-elsewhere",
        applies: |interrupt| {
            if !is(interrupt, CauseKind::Reschedule) {
                return None;
            }
            raised_by(interrupt, |raiser| !raiser.wakee.is_empty())
        },
        remedy: "let the thread on this core poll instead of sleep, or pin what is woken here to another core",
        source: "futex(2); the kernel's Documentation/scheduler/sched-arch.rst",
    },
];

/// What is advised about an interrupt.
pub fn advise(interrupt: &Interrupt) -> Vec<Advice> {
    RULES
        .iter()
        .filter_map(|rule| {
            Some(Advice {
                rule: rule.name.to_owned(),
                evidence: (rule.applies)(interrupt)?,
                remedy: rule.remedy.to_owned(),
                source: rule.source.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, Certainty, CpuId};

    fn interrupt(kind: CauseKind, name: &str) -> Interrupt {
        Interrupt {
            cpu: CpuId(1),
            cause: Cause::new(kind, name),
            handler: String::new(),
            count: 10,
            total_ns: 1,
            p50_ns: 1,
            p99_ns: 1,
            max_ns: 1,
            share_of_lost_ppm: 1,
            detail: Vec::new(),
            raisers: Vec::new(),
            unknown_raisers: 0,
            advice: Vec::new(),
        }
    }

    fn by(mut interrupt: Interrupt, syscall: &str, function: &str, user_stack: &[&str]) -> Interrupt {
        interrupt.raisers.push(Raiser {
            certainty: Certainty::Certain,
            function: function.into(),
            syscall: syscall.into(),
            comm: "stats".into(),
            pid: 7,
            tid: 8,
            wakee: if interrupt.cause.kind == CauseKind::Reschedule { "poller".into() } else { String::new() },
            count: 9,
            kernel_stack: Vec::new(),
            user_stack: user_stack.iter().map(|&frame| frame.to_owned()).collect(),
        });
        interrupt
    }

    fn detail(mut interrupt: Interrupt, detail: &str) -> Interrupt {
        interrupt.detail.push(detail.into());
        interrupt
    }

    /// A case for each rule, in the order of the rules; no other rule may apply to it.
    fn cases() -> Vec<Interrupt> {
        use CauseKind::*;
        let shootdown = || interrupt(TlbShootdown, "flush_tlb_func");
        let device = || interrupt(DeviceInterrupt, "virtio1-req.0");
        vec![
            by(shootdown(), "munmap", "flush_tlb_func", &["munmap", "fclose", "read_counter"]),
            by(shootdown(), "madvise", "flush_tlb_func", &["madvise", "free"]),
            by(interrupt(CallFunction, "ipi_mb"), "membarrier", "ipi_mb", &[]),
            by(interrupt(CallFunction, "__rdmsr_safe_on_cpu"), "pread64", "__rdmsr_safe_on_cpu", &[]),
            by(interrupt(CallFunction, "remote_function"), "perf_event_open", "remote_function", &[]),
            by(interrupt(CallFunction, "do_sync_core"), "bpf", "do_sync_core", &[]),
            detail(device(), "managed: no"),
            detail(device(), "managed: yes"),
            {
                let mut tick = by(interrupt(Timer, "local_timer"), "", "tick_nohz_handler", &[]);
                tick.raisers[0].pid = 0;
                tick
            },
            by(interrupt(Timer, "local_timer"), "timer_settime", "posix_timer_fn", &[]),
            by(interrupt(KernelThread, "kworker"), "write", "wb_workfn", &[]),
            by(interrupt(Reschedule, "reschedule"), "futex", "", &[]),
        ]
    }

    #[test]
    fn every_rule_fires_on_its_case_and_only_there() {
        let cases = cases();
        assert_eq!(cases.len(), RULES.len());
        for (case, rule) in cases.iter().zip(&RULES) {
            let advice = advise(case);
            let names: Vec<_> = advice.iter().map(|advice| advice.rule.as_str()).collect();
            assert_eq!(names, [rule.name], "{case:?}");
            assert!(!advice[0].evidence.is_empty() && !advice[0].remedy.contains("  "));
        }
    }

    #[test]
    fn without_a_raiser_nothing_is_advised_about_calls() {
        for kind in [CauseKind::TlbShootdown, CauseKind::CallFunction, CauseKind::Reschedule, CauseKind::KernelThread] {
            assert_eq!(advise(&interrupt(kind, "f")), []);
        }
    }
}
