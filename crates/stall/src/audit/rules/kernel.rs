//! Work that the kernel spreads over all cores: workers, timers, watchdogs, statistics, polling.

use super::{Facts, Judgement, Known, Rule, cores_text, fine, fix, known};
use surefoot_model::CpuId;

/// Seconds between two rounds of the memory statistics from which on they no longer matter.
const STAT_INTERVAL_LEAST_S: i64 = 10;

pub const RULES: &[Rule] = &[
    Rule {
        name: "workqueue",
        expected: "unbound kernel work stays off the core",
        why: "work that belongs to no core is run by whichever core the mask allows",
        source: "kernel core-api/workqueue: /sys/devices/virtual/workqueue/cpumask",
        judge: |facts| off_mask(facts, &facts.settings.workqueue, "/sys/devices/virtual/workqueue/cpumask"),
        evidence: |facts, measured| {
            let worker = |name: &str| name.starts_with("kworker/u");
            Ok(format!("unbound workers: {}", measured.threads_on(facts.cpu(), |ran| ran.kernel && worker(&ran.name))?))
        },
    },
    Rule {
        name: "writeback",
        expected: "writing back of dirty pages stays off the core",
        why: "the flusher threads run long, and by default on any core",
        source: "kernel admin-guide/kernel-per-CPU-kthreads: /sys/bus/workqueue/devices/writeback/cpumask",
        judge: |facts| off_mask(facts, &facts.settings.writeback, "/sys/bus/workqueue/devices/writeback/cpumask"),
        evidence: |facts, measured| {
            let flusher = |name: &str| name.starts_with("kworker/") && name.contains("flush");
            Ok(format!("flushers: {}", measured.threads_on(facts.cpu(), |ran| ran.kernel && flusher(&ran.name))?))
        },
    },
    Rule {
        name: "timer_migration",
        expected: "1: timers may move to housekeeping cores",
        why: "with 0 a timer stays on the core that armed it and expires there",
        source: "kernel admin-guide/sysctl/kernel: timer_migration",
        judge: |facts| exactly(facts, "kernel.timer_migration", 1),
        evidence: |facts, measured| {
            let (wheel, high) = (measured.softirq("TIMER", facts.cpu())?, measured.softirq("HRTIMER", facts.cpu())?);
            Ok(format!("{wheel} TIMER and {high} HRTIMER softirqs on it in {}", measured.length()))
        },
    },
    Rule {
        name: "watchdog",
        expected: "the lockup detector does not watch the core",
        why: "it wakes the core's stop thread every few seconds, which keeps or restarts the tick",
        source: "kernel admin-guide/lockup-watchdogs: watchdog_cpumask",
        judge: |facts| not_watched(facts, "kernel.watchdog"),
        evidence: |facts, measured| {
            let stopper = |name: &str| name.starts_with("migration/");
            Ok(format!("stop threads: {}", measured.threads_on(facts.cpu(), |ran| ran.kernel && stopper(&ran.name))?))
        },
    },
    Rule {
        name: "nmi_watchdog",
        expected: "the hard-lockup detector sends no NMI to the core",
        why: "it takes a performance counter and interrupts with an NMI, which nothing can hold back",
        source: "kernel admin-guide/lockup-watchdogs: nmi_watchdog",
        judge: |facts| not_watched(facts, "kernel.nmi_watchdog"),
        evidence: |facts, measured| {
            Ok(format!("{} NMIs on it in {}", measured.interrupt("NMI", facts.cpu())?, measured.length()))
        },
    },
    Rule {
        name: "rt_throttling",
        expected: "-1: real-time threads are not throttled",
        why: "a SCHED_FIFO thread that never sleeps is stopped for the rest of each period; newer kernels do so with real-time groups only",
        source: "kernel scheduler/sched-rt-group: sched_rt_runtime_us",
        judge: rt_throttling,
        evidence: |_, _| Err("the kernel counts no throttling".to_owned()),
    },
    Rule {
        name: "fair_server",
        expected: "0: nothing is reserved for ordinary tasks on the core",
        why: "where an ordinary task waits on the core, this reservation takes up to its share from a SCHED_FIFO thread",
        source: "kernel commit d741f297bcea: /sys/kernel/debug/sched/fair_server",
        judge: fair_server,
        evidence: |_, _| Err("the kernel counts no use of the reservation".to_owned()),
    },
    Rule {
        name: "vmstat_interval",
        expected: "10 s or more",
        why: "a worker on each core folds its memory statistics this often",
        source: "kernel admin-guide/sysctl/vm: stat_interval",
        judge: |facts| {
            let seconds = facts.settings.sysctl("vm.stat_interval")?;
            let value = format!("{seconds} s");
            if seconds >= STAT_INTERVAL_LEAST_S {
                return fine(value);
            }
            fix(value, "sysctl -w vm.stat_interval=60")
        },
        evidence: |facts, measured| {
            let own = format!("kworker/{}:", facts.cpu());
            let seen = measured.threads_on(facts.cpu(), |ran| ran.kernel && ran.name.starts_with(&own))?;
            Ok(format!("workers of the core: {seen}"))
        },
    },
    Rule {
        name: "machine_check_polling",
        expected: "corrected errors are not polled for",
        why: "a timer on each core reads all banks of machine checks; where the processor signals corrected errors by \
              interrupt nothing is missed without it",
        source: "kernel ABI sysfs-mce: check_interval, ignore_ce",
        judge: machine_check_polling,
        evidence: |facts, measured| {
            let count = measured.interrupt("MCP", facts.cpu())?;
            Ok(format!("{count} polls in {}, which is short beside the usual interval of 300 s", measured.length()))
        },
    },
];

fn off_mask(facts: &Facts<'_>, mask: &Known<Vec<CpuId>>, path: &str) -> Known<Judgement> {
    let cores = known(mask)?;
    let value = format!("cores {}", cores_text(cores));
    if !cores.contains(&facts.cpu()) {
        return fine(value);
    }
    fix(value, facts.to_housekeeping(|_, mask| format!("echo {mask} > {path}")))
}

/// A setting of sysctl that must have one value.
pub(super) fn exactly(facts: &Facts<'_>, name: &str, expected: i64) -> Known<Judgement> {
    let now = facts.settings.sysctl(name)?;
    if now == expected { fine(now.to_string()) } else { fix(now.to_string(), format!("sysctl -w {name}={expected}")) }
}

/// A watchdog that is off, or whose mask leaves the core out. Its own switch goes first: it may be read without a mask.
fn not_watched(facts: &Facts<'_>, switch: &str) -> Known<Judgement> {
    if facts.settings.sysctl(switch)? == 0 {
        return fine("off");
    }
    let cores = known(&facts.settings.watchdog_cores)?;
    let value = format!("on, for cores {}", cores_text(cores));
    if !cores.contains(&facts.cpu()) {
        return fine(value);
    }
    fix(value, facts.to_housekeeping(|list, _| format!("sysctl -w kernel.watchdog_cpumask={list}")))
}

/// The warning stands behind a `#`, so that the line may be pasted whole.
const UNTHROTTLE: &str =
    "sysctl -w kernel.sched_rt_runtime_us=-1 # a real-time task that never sleeps then starves its core for good";

fn rt_throttling(facts: &Facts<'_>) -> Known<Judgement> {
    let runtime_us = facts.settings.sysctl("kernel.sched_rt_runtime_us")?;
    // A period that cannot be read leaves the usual second.
    let period_us = facts.settings.sysctl("kernel.sched_rt_period_us").unwrap_or(1_000_000);
    if runtime_us < 0 {
        return fine("-1");
    }
    let value = format!("{runtime_us} of {period_us} us");
    if runtime_us >= period_us { fine(value) } else { fix(value, UNTHROTTLE) }
}

fn fair_server(facts: &Facts<'_>) -> Known<Judgement> {
    let runtime_ns = facts
        .core
        .fair_server_ns
        .clone()
        .map_err(|why| format!("{why} (it is root's, below debugfs, on kernels from 6.12 on)"))?;
    if runtime_ns == 0 {
        return fine("0");
    }
    fix(
        format!("{} ms in each period", runtime_ns / 1_000_000),
        format!("echo 0 > /sys/kernel/debug/sched/fair_server/cpu{}/runtime", facts.cpu()),
    )
}

fn machine_check_polling(facts: &Facts<'_>) -> Known<Judgement> {
    if facts.core.machine_check_ignored == Ok(1) {
        return fine("corrected errors are ignored");
    }
    match known(&facts.core.machine_check_interval_s)? {
        0 => fine("off"),
        seconds => {
            fix(format!("every {seconds} s"), "echo 0 > /sys/devices/system/machinecheck/machinecheck0/check_interval")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Try, good, measured, ran};

    #[test]
    fn workqueue() {
        let try_it = Try::new("workqueue");
        try_it.ok(&good());
        let tree = good().file("sys/devices/virtual/workqueue/cpumask", "0f\n");
        let found = try_it.fix(&tree);
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("cores 0-3", "echo 3 > /sys/devices/virtual/workqueue/cpumask")
        );
        let mut measured = measured("", "", 1.0);
        measured.ran = Ok(vec![ran(2, "kworker/u8:3-events", true, 9), ran(2, "kworker/2:1", true, 1)]);
        let found = try_it.fix_with(&tree, &measured);
        assert_eq!(
            found.evidence,
            "unbound workers: 1 was seen running on it in 2.0 s: kworker/u8:3-events (9 switches)"
        );
    }

    #[test]
    fn writeback() {
        let try_it = Try::new("writeback");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/bus/workqueue/devices/writeback/cpumask", "f\n"));
        assert_eq!(found.fix, "echo 3 > /sys/bus/workqueue/devices/writeback/cpumask");
    }

    #[test]
    fn timer_migration() {
        let try_it = Try::new("timer_migration");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("proc/sys/kernel/timer_migration", "0\n"));
        assert_eq!((found.actual.as_str(), found.fix.as_str()), ("0", "sysctl -w kernel.timer_migration=1"));
        let found = try_it.ok_with(&good(), &measured("", "TIMER: 0 0 3 0\nHRTIMER: 0 0 1 0\n", 1.0));
        assert_eq!(found.evidence, "3 TIMER and 1 HRTIMER softirqs on it in 2.0 s");
    }

    #[test]
    fn watchdog() {
        let try_it = Try::new("watchdog");
        assert_eq!(try_it.ok(&good()).actual, "on, for cores 0-1");
        let watched = || good().file("proc/sys/kernel/watchdog_cpumask", "0-3\n");
        let found = try_it.fix(&watched());
        assert_eq!(found.fix, "sysctl -w kernel.watchdog_cpumask=0-1");
        assert_eq!(try_it.ok(&watched().file("proc/sys/kernel/watchdog", "0\n")).actual, "off");
        try_it.cannot(&good().without("proc/sys/kernel/watchdog_cpumask"));
    }

    #[test]
    fn nmi_watchdog() {
        let try_it = Try::new("nmi_watchdog");
        try_it.ok(&good());
        let found = try_it
            .fix(&good().file("proc/sys/kernel/watchdog_cpumask", "0-3\n").file("proc/sys/kernel/nmi_watchdog", "1\n"));
        assert_eq!(found.fix, "sysctl -w kernel.watchdog_cpumask=0-1");
        let found = try_it.ok_with(&good(), &measured("NMI: 1 1 4 1 Non-maskable interrupts\n", "", 1.0));
        assert_eq!(found.evidence, "4 NMIs on it in 2.0 s");
    }

    #[test]
    fn rt_throttling() {
        let try_it = Try::new("rt_throttling");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("proc/sys/kernel/sched_rt_runtime_us", "950000\n"));
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            (
                "950000 of 1000000 us",
                "sysctl -w kernel.sched_rt_runtime_us=-1 # a real-time task that never sleeps then starves its core for good"
            )
        );
        try_it.ok(&good().file("proc/sys/kernel/sched_rt_runtime_us", "1000000\n"));
    }

    #[test]
    fn fair_server() {
        let try_it = Try::new("fair_server");
        try_it.ok(&good());
        let at = "sys/kernel/debug/sched/fair_server/cpu2/runtime";
        let found = try_it.fix(&good().file(at, "50000000\n"));
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("50 ms in each period", "echo 0 > /sys/kernel/debug/sched/fair_server/cpu2/runtime")
        );
        assert!(try_it.cannot(&good().without(at)).actual.contains("from 6.12 on"));
    }

    #[test]
    fn vmstat_interval() {
        let try_it = Try::new("vmstat_interval");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("proc/sys/vm/stat_interval", "1\n"));
        assert_eq!((found.actual.as_str(), found.fix.as_str()), ("1 s", "sysctl -w vm.stat_interval=60"));
    }

    #[test]
    fn machine_check_polling() {
        let try_it = Try::new("machine_check_polling");
        try_it.ok(&good());
        let at = "sys/devices/system/machinecheck/machinecheck2";
        let polled = || good().file(format!("{at}/check_interval"), "300\n");
        let found = try_it.fix(&polled());
        assert_eq!(found.actual, "every 300 s");
        assert!(found.fix.starts_with("echo 0 > "), "{}", found.fix);
        try_it.ok(&polled().file(format!("{at}/ignore_ce"), "1\n"));
        assert_eq!(try_it.fix(&good().file(format!("{at}/check_interval"), "12c\n")).actual, "every 300 s");
    }
}
