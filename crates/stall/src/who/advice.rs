//! What to change: rules over what was seen. One row each, one test each.

use std::collections::HashMap;
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

/// How many arrivals the raisers that fit have raised, and which of them raised most, in words: by name, place and, where
/// the stack tells, the function that called.
fn raised_by(interrupt: &Interrupt, fits: impl Fn(&Raiser) -> bool) -> Option<String> {
    let fitting: Vec<&Raiser> = interrupt.raisers.iter().filter(|raiser| fits(raiser)).collect();
    let count: u64 = fitting.iter().map(|raiser| raiser.count).sum();
    let mut groups: HashMap<(&str, &str), u64> = HashMap::new();
    for raiser in &fitting {
        *groups.entry((&raiser.comm, place(raiser))).or_default() += raiser.count;
    }
    let of_group = |raiser: &Raiser| groups.get(&(raiser.comm.as_str(), place(raiser))).copied().unwrap_or(0);
    // Raisers come most frequent first, and the first of the largest group speaks for it.
    let first = fitting.iter().copied().rev().max_by_key(|raiser| of_group(raiser))?;
    let mut text = format!("{count} of {}", interrupt.count.max(count));
    if of_group(first) < count {
        text += &format!(", {} of them", of_group(first));
    }
    text += &format!(" from {} in {}", first.comm, place(first));
    if let Some(caller) = caller(first) {
        text += &format!(", called by {caller}");
    }
    Some(text)
}

fn place(raiser: &Raiser) -> &str {
    if raiser.syscall.is_empty() { &raiser.function } else { &raiser.syscall }
}

/// The name of a frame's function, without what the symbolizer adds to it.
fn function_of(frame: &str) -> &str {
    frame.split([' ', '+', '(', '@']).next().unwrap_or(frame)
}

/// The function that made the system call: the innermost frame that is not the C library's wrapper of that call. `None`
/// where it has no name.
fn caller(raiser: &Raiser) -> Option<&str> {
    let is_wrapper = |name: &str| name == "syscall" || name.contains(raiser.syscall.as_str());
    let mut functions = raiser.user_stack.iter().map(|frame| function_of(frame));
    let first = if raiser.syscall.is_empty() { None } else { functions.find(|name| !is_wrapper(name)) };
    first.filter(|name| !name.starts_with("0x"))
}

fn stack_has(raiser: &Raiser, fits: impl Fn(&str) -> bool) -> bool {
    raiser.user_stack.iter().any(|frame| fits(function_of(frame)))
}

/// A function of the C library that sets up a stream's buffer or gives it back.
fn is_stdio(name: &str) -> bool {
    name.starts_with("_IO_") || ["fclose", "__fclose", "pclose", "freopen", "freopen64", "setvbuf"].contains(&name)
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
            raised_by(interrupt, |raiser| raiser.syscall == "munmap" && stack_has(raiser, is_stdio))
        },
        remedy: "give the stream a buffer of your own that stays (setvbuf), keep it open and rewind it, or use plain \
                 open, read and close",
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
                    && !(raiser.syscall == "munmap" && stack_has(raiser, is_stdio))
            })
        },
        remedy: "do not unmap, protect or advise memory in a process that has a polling thread: keep the memory, or move \
                 that work into another process; huge pages make each change rarer. If the memory is the buffer of a \
                 stream, give the stream one that stays (setvbuf), or use plain open, read and close",
        source: "mmap(2), madvise(2), setvbuf(3); the kernel's Documentation/arch/x86/tlb.rst",
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
    fn only_functions_of_streams_in_the_stack_blame_a_stream() {
        let rule = |stack: &[&str]| {
            let shootdown = by(interrupt(CauseKind::TlbShootdown, "f"), "munmap", "f", stack);
            advise(&shootdown).into_iter().map(|advice| advice.rule).collect::<Vec<_>>()
        };
        let blames_stream = ["unmapped-stdio-buffer"];
        assert_eq!(rule(&["munmap", "_IO_setb", "_IO_new_file_close_it", "_IO_new_fclose"]), blames_stream);
        assert_eq!(rule(&["__munmap (inlined)", "fclose@@GLIBC_2.2.5+0x40"]), blames_stream);
        // A name that sounds like it is no evidence.
        for stack in [&["munmap", "close_counter", "read_counter_by_stdio"][..], &["munmap", "my_fclose"], &["munmap"]]
        {
            assert_eq!(rule(stack), ["memory-mapping-beside-a-polling-thread"], "{stack:?}");
        }
    }

    #[test]
    fn the_evidence_names_who_raised_most_and_the_function_that_called() {
        let evidence = |interrupt: &Interrupt| advise(interrupt)[0].evidence.clone();
        let mut shootdown = interrupt(CauseKind::TlbShootdown, "f");
        shootdown.count = 40;
        shootdown = by(shootdown, "munmap", "f", &["__GI_munmap", "close_counter", "main"]);
        assert_eq!(evidence(&shootdown), "9 of 40 from stats in munmap, called by close_counter");
        // Two of another thread, each rarer, together more.
        for _ in 0..2 {
            shootdown = by(shootdown, "madvise", "f", &["0x1234 (stripped)", "main"]);
            let last = shootdown.raisers.len() - 1;
            shootdown.raisers[last].comm = "gc".into();
            shootdown.raisers[last].count = 7;
        }
        assert_eq!(evidence(&shootdown), "23 of 40, 14 of them from gc in madvise");
    }

    #[test]
    fn without_a_raiser_nothing_is_advised_about_calls() {
        for kind in [CauseKind::TlbShootdown, CauseKind::CallFunction, CauseKind::Reschedule, CauseKind::KernelThread] {
            assert_eq!(advise(&interrupt(kind, "f")), []);
        }
    }
}
