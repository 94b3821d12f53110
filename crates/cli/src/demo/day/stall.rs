//! Where the cores' time went: a quiet day with a backup, a drain, a stress test, and at its end a storm of TLB shootdowns.

use super::clock::{
    DRAINED, EXPERIMENT, EXPERIMENT_ENDS, H, JOB_RESTARTS, MIN, REPAIRED, ROW_FAILS, S, SECONDS_FROM, STORM,
    STRESS_ENDS, at,
};
use super::random::Random;
use surefoot_model::{
    Cause, CauseKind, Certainty, Completeness, CoreLedger, CpuId, EntryExit, EntryExitBasis, Event, Gap, GapCause,
    GapSource, Histogram, Interrupt, Lost, ProbeCost, Raiser, SelfCost, Verdict, WhoCore, WhoReport, Window,
};
use surefoot_stall::who::advice::{HostFacts, advise};
use surefoot_stall::who::fix_first;

/// All times of a window are multiples of this: that many digits are enough for people, and pack well.
const STEP: u64 = 10_000;
const CORES: u32 = 4;
/// Quiet windows take turns in so many forms.
const FORMS: u64 = 6;

/// What one cause does on a core in a second: how often, how long each takes, and how long the longest, nanoseconds.
struct Rate {
    kind: CauseKind,
    name: &'static str,
    per_s: u64,
    each_ns: u64,
    max_ns: u64,
    cores: &'static [u32],
}

const fn rate(
    kind: CauseKind,
    name: &'static str,
    (per_s, each_ns, max_ns): (u64, u64, u64),
    cores: &'static [u32],
) -> Rate {
    Rate { kind, name, per_s, each_ns, max_ns, cores }
}

/// What every host has.
const ALWAYS: &[Rate] = &[
    rate(CauseKind::Timer, "local_timer", (250, 2_000, 30_000), &[0, 1, 2, 3]),
    rate(CauseKind::Softirq, "RCU", (120, 2_500, 60_000), &[0, 1]),
    rate(CauseKind::Softirq, "NET_RX", (900, 4_000, 120_000), &[0]),
    rate(CauseKind::DeviceInterrupt, "mlx5_comp0", (800, 1_500, 20_000), &[0]),
    rate(CauseKind::KernelThread, "kworker", (8, 25_000, 400_000), &[1]),
];
const BACKUP: &[Rate] = &[
    rate(CauseKind::Softirq, "BLOCK", (4_000, 6_000, 300_000), &[1]),
    rate(CauseKind::KernelThread, "kworker", (300, 60_000, 900_000), &[0, 1]),
];
/// The interrupt by which the processor reports corrected errors.
const ROW: &[Rate] = &[rate(CauseKind::MachineCheck, "threshold_apic", (14, 90_000, 700_000), &[0])];
const HELD: &[Rate] = &[rate(CauseKind::Timer, "local_timer", (20, 2_000_000, 2_040_000), &[1])];
/// What flushing 14,000 times a second takes from the two cores of the job.
pub const STORM_RATE: (u64, u64) = (14_000, 4_500);
const SHOOTDOWNS: &[Rate] =
    &[rate(CauseKind::TlbShootdown, "flush_tlb_func", (STORM_RATE.0, STORM_RATE.1, 90_000), &[2, 3])];

/// When the firmware logged an error of the row, and all cores stopped, and for how long.
const STOPS: [(u64, u64); 5] = [
    (ROW_FAILS + 21 * MIN, 38_000_000),
    (ROW_FAILS + 58 * MIN + 7 * S, 38_900_000),
    (ROW_FAILS + 97 * MIN + 14 * S, 39_800_000),
    (ROW_FAILS + 121 * MIN + 21 * S, 40_700_000),
    (ROW_FAILS + 133 * MIN + 28 * S, 41_600_000),
];

fn is_in(day_ns: u64, from_ns: u64, to_ns: u64) -> bool {
    (from_ns..to_ns).contains(&day_ns)
}

/// The share of its time, in percent, in which a core has work, and of this the share in the kernel.
fn busy(cpu: u32, day_ns: u64) -> (u64, u64) {
    let has_job = !is_in(day_ns, DRAINED, JOB_RESTARTS);
    let is_tested = is_in(day_ns, REPAIRED, STRESS_ENDS);
    match cpu {
        _ if is_tested => (97, 2),
        2 | 3 if has_job => (96, 3),
        2 | 3 => (2, 40),
        _ if is_in(day_ns, 2 * H, 2 * H + 20 * MIN) => (55, 45),
        _ if is_in(day_ns, EXPERIMENT, EXPERIMENT_ENDS) && cpu == 1 => (90, 5),
        // More is asked of it by day.
        _ => (18 + 14 * u64::from(is_in(day_ns, 8 * H, 20 * H)), 25),
    }
}

fn rates(day_ns: u64) -> impl Iterator<Item = &'static Rate> {
    let also = |rates: &'static [Rate], is_on: bool| if is_on { rates } else { &[] };
    let held = is_in(day_ns, EXPERIMENT, EXPERIMENT_ENDS);
    [
        ALWAYS,
        also(BACKUP, is_in(day_ns, 2 * H, 2 * H + 20 * MIN)),
        also(ROW, is_in(day_ns, ROW_FAILS, REPAIRED)),
        also(HELD, held),
        also(SHOOTDOWNS, day_ns >= STORM),
    ]
    .into_iter()
    .flatten()
}

fn lost(rate: &Rate, length_ns: u64, random: &mut Random) -> Lost {
    let count = random.near(rate.per_s * length_ns / S, 60).max(1);
    let total_ns = (count * rate.each_ns).div_ceil(STEP) * STEP;
    let max_ns = rate.max_ns.min(total_ns);
    let mut row = Lost::new(Cause::new(rate.kind, rate.name), count, total_ns, max_ns);
    let mut histogram = Histogram::default();
    let (long, middle) = (count / 100, count / 4);
    histogram.record(max_ns);
    histogram.add(Histogram::bucket(max_ns.min(rate.each_ns * 2)), long);
    histogram.add(Histogram::bucket(max_ns.min(rate.each_ns * 5 / 4)), middle);
    histogram.add(Histogram::bucket(rate.each_ns * 3 / 4), count.saturating_sub(1 + long + middle));
    row.histogram = histogram;
    row
}

/// One core in a window; what is not lost, used or unexplained is idle, so that the parts add up.
fn core(cpu: u32, day_ns: u64, length_ns: u64, random: &mut Random) -> CoreLedger {
    let (busy_percent, kernel_percent) = busy(cpu, day_ns);
    let mut rows: Vec<Lost> = Vec::new();
    for rate in rates(day_ns).filter(|rate| rate.cores.contains(&cpu)) {
        let mut row = lost(rate, length_ns, random);
        // On a core that is free most of the time, most of them disturb nobody.
        row.while_idle_ns = row.total_ns / STEP * (100 - busy_percent) / 100 * STEP;
        match rows.iter_mut().find(|other| other.cause == row.cause) {
            Some(other) => other.add(&row),
            None => rows.push(row),
        }
    }
    for (_, length_ns) in STOPS.iter().filter(|(stop_ns, _)| is_in(*stop_ns, day_ns, day_ns + length_ns)) {
        // A stop of all cores takes the time of those that work.
        let is_idle = busy_percent < 50;
        let mut row = Lost::new(Cause::new(CauseKind::Smi, "probable"), 1, *length_ns, *length_ns);
        row.while_idle_ns = if is_idle { *length_ns } else { 0 };
        row.histogram.record(*length_ns);
        rows.push(row);
    }
    Lost::sort(&mut rows);
    let taken_ns: u64 = rows.iter().map(|row| row.total_ns).sum();
    let unexplained_ns = length_ns / 10_000 / STEP * STEP;
    let left_ns = length_ns - taken_ns - unexplained_ns;
    let used_ns = (length_ns / 100 * random.near(busy_percent * 10, 15) / 10).min(left_ns) / STEP * STEP;
    let kernel_ns = used_ns / 100 * kernel_percent / STEP * STEP;
    CoreLedger {
        idle_ns: left_ns - used_ns,
        user_ns: used_ns - kernel_ns,
        kernel_ns,
        lost: rows,
        unexplained_ns,
        wall_ns: length_ns,
        ..CoreLedger::empty(CpuId(cpu))
    }
}

fn window(day_ns: u64, length_ns: u64) -> Window {
    // Neighbours of the same kind look alike in most of their digits, which packs well, and no two of them are the same to an eye.
    let mut random = Random::new(day_ns / length_ns % FORMS + 17 * (day_ns / H));
    let cores: Vec<CoreLedger> = (0..CORES).map(|cpu| core(cpu, day_ns, length_ns, &mut random)).collect();
    let count: u64 = cores.iter().flat_map(|core| &core.lost).map(|row| row.count).sum();
    let timer: u64 = cores
        .iter()
        .flat_map(|core| &core.lost)
        .filter(|row| row.cause.kind == CauseKind::Timer)
        .map(|row| row.count)
        .sum();
    let probe = ProbeCost { name: "ledger".into(), count, total_ns: count * 150, missed: 0 };
    Window {
        start_ns: at(day_ns),
        end_ns: at(day_ns + length_ns),
        cores,
        completeness: vec![Completeness { row: "LOC".into(), kernel_count: timer, probe_count: timer }],
        cost: SelfCost {
            probes: vec![probe],
            process_cpu_ns: length_ns / 500,
            resident_bytes: 24 << 20,
            map_bytes: 3 << 20,
            ..SelfCost::default()
        },
        ..Window::default()
    }
}

/// A gap that its core's tape explains but for a small rest.
fn gap(day_ns: u64, cpu: u32, cause: Cause, duration_ns: u64) -> Gap {
    let unexplained_ns = duration_ns / 50;
    Gap {
        cpu: CpuId(cpu),
        source: GapSource::TimerLateness,
        start_ns: at(day_ns),
        duration_ns,
        causes: vec![GapCause { cause, duration_ns: duration_ns - unexplained_ns }],
        unexplained_ns,
        verdict: Verdict::Traced,
        certainty: Certainty::Certain,
        evidence: vec!["traced intervals cover 98 % of it".into()],
    }
}

fn gaps(events: &mut Vec<(u64, Event)>) {
    let mut random = Random::new(7);
    let shootdown = || Cause::new(CauseKind::TlbShootdown, "flush_tlb_func");
    let mut tell = |day_ns: u64, gap: Gap| events.push((at(day_ns), Event::Gap(gap)));
    for (day_ns, length_ns) in STOPS {
        let stop = Gap {
            source: GapSource::Sentinel,
            causes: Vec::new(),
            unexplained_ns: length_ns,
            verdict: Verdict::CorrectedErrorLogging,
            certainty: Certainty::Probable,
            evidence: vec![
                "no software ran on this core".into(),
                "all cores stopped together".into(),
                "a corrected memory error was reported 0.2 s later".into(),
            ],
            ..gap(day_ns, 0, shootdown(), length_ns)
        };
        tell(day_ns, stop);
    }
    let mut day_ns = STORM;
    while day_ns < 24 * H {
        let cpu = 2 + (random.below(2) as u32);
        let length_ns = 110_000 + random.below(40) * 10_000;
        tell(day_ns, gap(day_ns, cpu, shootdown(), length_ns));
        day_ns += if day_ns < SECONDS_FROM { 4 * MIN } else { 11 * S } + random.below(5) * S;
    }
}

/// Who raises the interrupts of the two cores of the job, from the beginning of the storm.
fn who(day_ns: u64) -> WhoReport {
    let length_ns = day_ns - STORM;
    let seconds = length_ns / S;
    let mut interrupts = Vec::new();
    for cpu in [2, 3] {
        let count = STORM_RATE.0 * seconds;
        // Two threads of the job's process.
        let raiser = |comm: &str, syscall: &str, share: u64, user: &[&str], kernel: &[&str]| Raiser {
            certainty: Certainty::Certain,
            function: "flush_tlb_func".into(),
            syscall: syscall.into(),
            comm: comm.into(),
            pid: 4711,
            tid: if comm == "stats" { 4719 } else { 4713 },
            wakee: String::new(),
            count: count / 100 * share,
            kernel_stack: kernel.iter().map(|&frame| frame.to_owned()).collect(),
            user_stack: user.iter().map(|&frame| frame.to_owned()).collect(),
            is_sum: false,
        };
        let unmap = [
            "smp_call_function_many_cond",
            "on_each_cpu_cond_mask",
            "flush_tlb_mm_range",
            "tlb_finish_mmu",
            "unmap_region",
            "do_vmi_align_munmap",
            "__vm_munmap",
            "__x64_sys_munmap",
            "do_syscall_64",
        ];
        let protect = [
            "smp_call_function_many_cond",
            "flush_tlb_mm_range",
            "tlb_finish_mmu",
            "do_mprotect_pkey",
            "__x64_sys_mprotect",
            "do_syscall_64",
        ];
        let mut shootdown = Interrupt {
            handler: "flush_tlb_func".into(),
            while_idle_ns: 0,
            entry_exit_ns: Some(count * 700),
            p50_ns: 4_200,
            p99_ns: 9_800,
            max_ns: 90_000,
            share_of_lost_ppm: 985_000,
            raisers: vec![
                raiser(
                    "stats",
                    "munmap",
                    97,
                    &["__munmap", "free_sample_buffer", "flush_samples", "stats_thread", "start_thread"],
                    &unmap,
                ),
                raiser(
                    "weather-model",
                    "mprotect",
                    2,
                    &["__mprotect", "grow_heap", "sysmalloc", "malloc", "read_boundary"],
                    &protect,
                ),
            ],
            unknown_raisers: count - count / 100 * 99,
            ..Interrupt::new(
                CpuId(cpu),
                Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"),
                count,
                count * STORM_RATE.1,
            )
        };
        shootdown.advice = advise(&shootdown, &facts());
        let ticks = 250 * seconds;
        let tick = Interrupt {
            handler: "tick_nohz_handler".into(),
            entry_exit_ns: Some(ticks * 700),
            p50_ns: 1_900,
            p99_ns: 6_000,
            max_ns: 30_000,
            share_of_lost_ppm: 15_000,
            detail: vec!["the tick runs: two or more tasks share this core now and then".into()],
            unknown_raisers: ticks,
            ..Interrupt::new(CpuId(cpu), Cause::new(CauseKind::Timer, "local_timer"), ticks, ticks * 2_000)
        };
        interrupts.extend([shootdown, tick]);
    }
    let cores = [2, 3].map(|cpu| WhoCore {
        cpu: CpuId(cpu),
        wall_ns: length_ns,
        idle_ns: length_ns / 50,
        lost_ns: seconds * (STORM_RATE.0 * STORM_RATE.1 + 250 * 2_000),
    });
    let entry_exit = |kind| EntryExit {
        kind,
        median_ns: 700,
        p10_ns: 560,
        p90_ns: 1_100,
        samples: 4_000,
        basis: EntryExitBasis::OwnLoop,
    };
    let called = 2 * STORM_RATE.0 * seconds;
    let mut report = WhoReport {
        start_ns: at(STORM),
        end_ns: at(day_ns),
        cores: cores.to_vec(),
        entry_exit: vec![entry_exit(CauseKind::TlbShootdown), entry_exit(CauseKind::Timer)],
        interrupts,
        joined_count: called / 100 * 99,
        called_count: called,
        records: called,
        records_unmatched: called - called / 100 * 99,
        ..WhoReport::default()
    };
    report.interrupts.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.total_ns));
    report.fix_first = fix_first::rank(&report);
    report
}

fn facts() -> HostFacts {
    HostFacts {
        has_nohz_full: true,
        has_rcu_nocb: Some(true),
        has_isolation: Some(true),
        has_systemd: true,
        has_cpuset: true,
        has_workqueue_mask: true,
        damon_off: Vec::new(),
        watched: "2-3".into(),
        housekeeping: "0-1".into(),
    }
}

/// All of it, each event with the time by which it takes its place.
pub fn events() -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    gaps(&mut events);
    let minutes = (0..SECONDS_FROM / MIN).map(|minute| (minute * MIN, MIN));
    let seconds = (SECONDS_FROM / S..24 * 3600).map(|second| (second * S, S));
    for (day_ns, length_ns) in minutes.chain(seconds) {
        events.push((at(day_ns + length_ns), Event::Window(window(day_ns, length_ns))));
    }
    for day_ns in [STORM + 20 * MIN, SECONDS_FROM, 24 * H - 2 * MIN] {
        events.push((at(day_ns), Event::Who(Box::new(who(day_ns)))));
    }
    events
}
