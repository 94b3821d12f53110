//! What other threads raise: shootdowns, called functions, reschedules.

use super::evidence::{has_kernel, has_user};
use super::{RestsOn, Rule, is};
use surefoot_model::{CauseKind, Interrupt, Raiser};

/// A function of the C library that sets up a stream's buffer or gives it back.
fn is_stdio(name: &str) -> bool {
    name.starts_with("_IO_") || ["fclose", "__fclose", "pclose", "freopen", "freopen64", "setvbuf"].contains(&name)
}

fn is_shootdown(interrupt: &Interrupt) -> bool {
    // Kernels that do not tell the called functions show a shootdown by its sender's announcement alone.
    is(interrupt, CauseKind::TlbShootdown) || is(interrupt, CauseKind::CallFunction)
}

/// Whether a raiser's request is a flush of translations.
fn flushes(interrupt: &Interrupt, raiser: &Raiser) -> bool {
    is_shootdown(interrupt) && (is(interrupt, CauseKind::TlbShootdown) || raiser.function.starts_with("flush_tlb"))
}

fn is_call(interrupt: &Interrupt, raiser: &Raiser, syscalls: &[&str]) -> bool {
    flushes(interrupt, raiser) && syscalls.contains(&raiser.syscall.as_str())
}

fn called(interrupt: &Interrupt, functions: &[&str]) -> bool {
    is(interrupt, CauseKind::CallFunction) && functions.contains(&interrupt.cause.name.as_str())
}

/// What a copy of a shared page runs through, in the kernel.
const COPY_ON_WRITE: [&str; 4] = ["do_wp_page", "wp_page_copy", "ptep_clear_flush", "do_cow_fault"];
const BALANCING: [&str; 3] = ["change_prot_numa", "task_numa_work", "do_numa_page"];
const FORKS: [&str; 4] = ["fork", "vfork", "clone", "clone3"];
const SIGNALS: [&str; 6] = ["tgkill", "tkill", "kill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"];

pub(super) const RULES: [Rule; 11] = [
    Rule {
        name: "numa-balancing",
        rests_on: RestsOn::Raisers(|interrupt, raiser| flushes(interrupt, raiser) && has_kernel(raiser, &BALANCING)),
        remedy: |_, _| {
            "switch NUMA balancing off (sysctl kernel.numa_balancing=0) and bind the process's memory yourself (numactl)"
                .into()
        },
        source: "the kernel's Documentation/admin-guide/sysctl/kernel.rst (numa_balancing)",
    },
    Rule {
        name: "fork-beside-a-polling-thread",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_call(interrupt, raiser, &FORKS) || flushes(interrupt, raiser) && has_kernel(raiser, &COPY_ON_WRITE)
        }),
        remedy: |_, _| {
            "do not fork in a process that has a polling thread: fork flushes its memory on every core, and each page \
             that the process writes afterwards is copied and flushed again. Start programs by posix_spawn or vfork, \
             which share the memory instead, or from a small process that was forked before the polling thread began; \
             keep memory that is written out of children (madvise MADV_DONTFORK)"
                .into()
        },
        source: "fork(2), posix_spawn(3), vfork(2), madvise(2)",
    },
    Rule {
        name: "unmapped-stdio-buffer",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_call(interrupt, raiser, &["munmap"]) && has_user(raiser, is_stdio)
        }),
        remedy: |_, _| {
            "give the stream a buffer of your own that stays (setvbuf), keep it open and rewind it, or use plain open, \
             read and close"
                .into()
        },
        source: "setvbuf(3); Niometrics post on TLB shootdowns of a polling core",
    },
    Rule {
        name: "memory-mapping-beside-a-polling-thread",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_call(interrupt, raiser, &["munmap", "mprotect", "madvise", "mremap", "brk", "mmap"])
        }),
        remedy: |_, _| {
            "do not unmap, protect or advise memory in a process that has a polling thread: keep the memory, or move \
             that work into another process; huge pages make each change rarer. If the memory is the buffer of a \
             stream, give the stream one that stays (setvbuf), or use plain open, read and close"
                .into()
        },
        source: "mmap(2), madvise(2), setvbuf(3); the kernel's Documentation/arch/x86/tlb.rst",
    },
    Rule {
        name: "kernel-changes-this-process-s-memory",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            const DAEMONS: [&str; 6] = ["kdamond", "khugepaged", "kswapd", "kcompactd", "ksmd", "migration"];
            flushes(interrupt, raiser) && DAEMONS.iter().any(|daemon| raiser.comm.starts_with(daemon))
        }),
        remedy: |_, host| {
            let damon = host.damon_off.iter().map(|off| format!("; {off}")).collect::<String>();
            format!(
                "lock the memory of the polling process (mlockall), and keep the kernel's daemons off it: echo madvise > \
                 /sys/kernel/mm/transparent_hugepage/enabled, sysctl vm.compaction_proactiveness=0{damon}"
            )
        },
        source: "mlockall(2); the kernel's Documentation/admin-guide/mm",
    },
    Rule {
        name: "membarrier",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is(interrupt, CauseKind::CallFunction) && raiser.syscall == "membarrier"
        }),
        remedy: |_, _| {
            "use fences in the thread that calls membarrier, or run the polling thread in another process".into()
        },
        source: "membarrier(2)",
    },
    Rule {
        name: "reader-of-msr-or-cpuid",
        rests_on: RestsOn::Raisers(|interrupt, _| {
            const READS: [&str; 4] = ["__rdmsr_on_cpu", "__rdmsr_safe_on_cpu", "__wrmsr_on_cpu", "__wrmsr_safe_on_cpu"];
            called(interrupt, &READS)
                || is(interrupt, CauseKind::CallFunction) && interrupt.cause.name.contains("cpuid")
        }),
        remedy: |_, _| {
            "stop the tool that reads /dev/cpu/N/msr or /dev/cpu/N/cpuid of this core, or let it read a housekeeping core"
                .into()
        },
        source: "msr(4), cpuid(4): each read runs on the core that is asked about",
    },
    Rule {
        name: "perf-on-this-core",
        rests_on: RestsOn::Raisers(|interrupt, _| {
            called(interrupt, &["remote_function", "__perf_event_read", "event_function", "__perf_install_in_context"])
        }),
        remedy: |_, host| format!("end the profiler, or give it the other cores only (perf -C {})", host.others()),
        source: "perf_event_open(2)",
    },
    Rule {
        name: "probe-attached-or-code-patched",
        rests_on: RestsOn::Raisers(|interrupt, _| called(interrupt, &["do_sync_core"])),
        remedy: |_, _| "attach and detach tracers, and load modules, before the latency-sensitive work begins".into(),
        source: "the kernel's arch/x86/kernel/alternative.c (text_poke)",
    },
    Rule {
        name: "signals-to-this-thread",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is(interrupt, CauseKind::Reschedule) && SIGNALS.contains(&raiser.syscall.as_str())
        }),
        remedy: |_, _| {
            "send the polling thread no signals: block them there (pthread_sigmask) and let another thread take them \
             (sigwaitinfo, signalfd), or tell it by a flag in memory that it polls anyway"
                .into()
        },
        source: "pthread_sigmask(3), signalfd(2), tgkill(2)",
    },
    Rule {
        name: "woken-from-elsewhere",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is(interrupt, CauseKind::Reschedule) && !raiser.wakee.is_empty()
        }),
        remedy: |_, _| {
            "let the thread on this core poll instead of sleep, or pin what is woken here to another core".into()
        },
        source: "futex(2); the kernel's Documentation/scheduler/sched-arch.rst",
    },
];
