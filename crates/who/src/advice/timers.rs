//! What arrives by itself: timers and devices.

use super::evidence::times;
use super::{RestsOn, Rule, is};
use surefoot_model::{CauseKind, Interrupt, Raiser};

fn is_timer(interrupt: &Interrupt, raiser: &Raiser, fits: impl Fn(&str) -> bool) -> bool {
    is(interrupt, CauseKind::Timer) && fits(&raiser.function)
}

fn line(interrupt: &Interrupt, managed: bool) -> bool {
    is(interrupt, CauseKind::DeviceInterrupt)
        && interrupt.detail.iter().any(|detail| detail.contains("managed: yes")) == managed
}

/// The rule for the tick itself.
pub(super) const TICK_RUNS: &str = "tick-runs";

pub(super) const RULES: [Rule; 6] = [
    Rule {
        name: "device-line-on-this-core",
        rests_on: RestsOn::Cause(
            |interrupt| line(interrupt, false),
            |interrupt| format!("{} came {}", interrupt.cause.name, times(interrupt.count)),
        ),
        remedy: |interrupt, host| {
            let number = interrupt.detail.iter().find_map(|detail| detail.strip_prefix("line "));
            format!(
                "move the line: echo {} > /proc/irq/{}/smp_affinity_list, and ban this core in irqbalance where that runs",
                host.others(),
                number.unwrap_or("N")
            )
        },
        source: "the kernel's Documentation/core-api/irq/irq-affinity.rst; irqbalance(1)",
    },
    Rule {
        name: "managed-line-on-this-core",
        rests_on: RestsOn::Cause(
            |interrupt| line(interrupt, true),
            |interrupt| {
                format!("{} is managed by its driver and came {}", interrupt.cause.name, times(interrupt.count))
            },
        ),
        remedy: |_, host| match host.has_isolation {
            Some(false) => "give the device fewer queues; this kernel has no isolcpus= (CONFIG_CPU_ISOLATION)".into(),
            _ => format!("boot with isolcpus=managed_irq,{}, or give the device fewer queues", host.watched),
        },
        source: "the kernel's Documentation/admin-guide/kernel-parameters.txt (isolcpus)",
    },
    Rule {
        name: TICK_RUNS,
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_timer(interrupt, raiser, |function| function.starts_with("tick_"))
        }),
        remedy: |_, host| match host.has_nohz_full {
            true => format!(
                "boot with nohz_full={0} rcu_nocbs={0}, and keep a single runnable task on the core",
                host.watched
            ),
            false => {
                "a kernel built with CONFIG_NO_HZ_FULL, to boot with nohz_full=, or one with a lower CONFIG_HZ, which \
                      ticks less often: no setting of this kernel stops the tick of a busy core"
                    .into()
            }
        },
        source: "the kernel's Documentation/timers/no_hz.rst",
    },
    Rule {
        name: "interval-timer-taken-by-this-thread",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_timer(interrupt, raiser, |function| function == "it_real_fn")
        }),
        remedy: |_, _| {
            "block SIGALRM in the polling thread (pthread_sigmask) and let another thread take it (sigwaitinfo): the thread \
             that takes the signal re-arms the timer on its own core. Better, use a timerfd, read on another \
             core"
                .into()
        },
        source: "setitimer(2), pthread_sigmask(3), timerfd_create(2)",
    },
    Rule {
        name: "profiler-timer",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is_timer(interrupt, raiser, |function| function.starts_with("perf_"))
        }),
        remedy: |_, host| {
            format!(
                "end the profiler on this core, or give it the other cores only (perf -C {}): it samples by a timer on \
                 each core that it profiles",
                host.others()
            )
        },
        source: "perf_event_open(2) (PERF_COUNT_SW_CPU_CLOCK), perf-record(1)",
    },
    Rule {
        name: "timer-armed-from-elsewhere",
        rests_on: RestsOn::Raisers(|interrupt, raiser| is_timer(interrupt, raiser, |_| raiser.pid != 0)),
        remedy: |_, _| "arm the timer from a housekeeping core, or pin the thread that arms it there".into(),
        source: "the kernel's Documentation/timers/no_hz.rst (timer migration)",
    },
];
