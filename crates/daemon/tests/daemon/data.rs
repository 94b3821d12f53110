//! Events as a small machine of two cores would send them.

use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{
    Advice, Capability, CapabilityState, Cause, CauseKind, Certainty, Completeness, CoreLedger, CpuId, Event, Gap,
    GapCause, GapSource, Histogram, HostDescription, Interrupt, LoopGap, LoopGapPart, LoopSummary, Lost, Notice,
    ProbeCost, Raiser, SelfCost, Untimed, Vendor, Verdict, WhoReport, Window,
};

pub const SECOND_NS: u64 = 1_000_000_000;

pub fn host() -> HostDescription {
    HostDescription {
        hostname: "node17".into(),
        kernel: "6.12.1".into(),
        processor: "a processor".into(),
        vendor: Vendor::Amd,
        hypervisor: Some("KVM".into()),
        cpus: vec![CpuId(0), CpuId(1)],
        workload: String::new(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: String::new(),
        realtime_offset_ns: 1_700_000_000 * SECOND_NS as i64,
    }
}

pub fn capabilities() -> Event {
    let capability = Capability {
        id: "stall.smi".into(),
        name: "count SMIs".into(),
        state: CapabilityState::Unsupported,
        reason: "a virtual machine does not see them".into(),
        remedy: String::new(),
    };
    Event::Capabilities { capabilities: vec![capability] }
}

/// A cause with a histogram that knows all of its occurrences, each of the same length.
pub fn lost(kind: CauseKind, name: &str, count: u64, each_ns: u64) -> Lost {
    let mut histogram = Histogram::default();
    histogram.add(Histogram::bucket(each_ns), count);
    Lost { histogram, ..Lost::new(Cause::new(kind, name), count, count * each_ns, each_ns) }
}

/// A second of a core that idled for `idle_ns` and worked in user mode otherwise.
pub fn core(cpu: u32, idle_ns: u64, lost: Vec<Lost>, unexplained_ns: u64) -> CoreLedger {
    let lost_ns: u64 = lost.iter().map(|lost| lost.total_ns).sum();
    let core = CoreLedger {
        cpu: CpuId(cpu),
        wall_ns: SECOND_NS,
        idle_ns,
        user_ns: SECOND_NS - idle_ns - lost_ns - unexplained_ns,
        kernel_ns: 0,
        lost,
        unexplained_ns,
        waiting: None,
    };
    assert!(core.sums_up());
    core
}

/// A window of a second that ends at `end_ns`.
pub fn window(end_ns: u64, cores: Vec<CoreLedger>) -> Window {
    let probe = ProbeCost { name: "on_irq_entry".into(), count: 500, total_ns: 150_000, missed: 2 };
    Window {
        start_ns: end_ns - SECOND_NS,
        end_ns,
        cores,
        faulty: Vec::new(),
        untimed: vec![Untimed { cpu: CpuId(1), row: "HYP".into(), name: "Hypervisor callback".into(), count: 7 }],
        completeness: vec![Completeness { row: "LOC".into(), kernel_count: 250, probe_count: 250 }],
        cost: SelfCost {
            probes: vec![probe],
            process_cpu_ns: 3_000_000,
            resident_bytes: 20 << 20,
            map_bytes: 1 << 20,
            dropped: 5,
            torn: 1,
            unreported: 3,
            untraced_interrupts: 2,
            ..SelfCost::default()
        },
    }
}

/// Two cores that work, with a timer each, and softirqs on core 1.
pub fn busy_window(end_ns: u64) -> Window {
    let timer = || lost(CauseKind::Timer, "local_timer", 250, 4_000);
    let softirq = lost(CauseKind::Softirq, "net_rx", 100, 20_000);
    window(end_ns, vec![core(0, 0, vec![timer()], 0), core(1, 0, vec![softirq, timer()], 0)])
}

pub fn gap(cpu: u32, start_ns: u64, duration_ns: u64) -> Gap {
    Gap {
        cpu: CpuId(cpu),
        source: GapSource::TimerLateness,
        start_ns,
        duration_ns,
        causes: vec![GapCause { cause: Cause::new(CauseKind::Softirq, "net_rx"), duration_ns }],
        unexplained_ns: 0,
        verdict: Verdict::Traced,
        certainty: Certainty::Certain,
        evidence: vec!["softirq net_rx covers the gap".into()],
    }
}

/// A gap that no traced interval covers.
pub fn untraced_gap(cpu: u32, start_ns: u64, duration_ns: u64, verdict: Verdict, certainty: Certainty) -> Gap {
    Gap { causes: Vec::new(), unexplained_ns: duration_ns, verdict, certainty, ..gap(cpu, start_ns, duration_ns) }
}

pub fn notice(text: &str) -> Event {
    Event::Notice(Notice { at_ns: monotonic_ns(), text: text.into() })
}

/// A thread that raised an interrupt, with its stacks.
pub fn raiser(certainty: Certainty, comm: &str, tid: u32, count: u64) -> Raiser {
    Raiser {
        certainty,
        function: "flush_tlb_func".into(),
        syscall: "munmap".into(),
        comm: comm.into(),
        pid: 70,
        tid,
        wakee: String::new(),
        count,
        kernel_stack: vec!["flush_tlb_mm_range".into(), "__x64_sys_munmap".into()],
        user_stack: vec!["munmap".into(), "close_counter".into(), "main".into()],
        is_sum: false,
    }
}

/// A kind of interrupt and who raised it.
pub fn interrupt(cpu: u32, kind: CauseKind, name: &str, raisers: Vec<Raiser>) -> Interrupt {
    let count: u64 = raisers.iter().map(|raiser| raiser.count).sum();
    Interrupt {
        cpu: CpuId(cpu),
        cause: Cause::new(kind, name),
        handler: name.into(),
        count: count + 3,
        total_ns: count * 2_000,
        p50_ns: 1_900,
        p99_ns: 4_000,
        max_ns: 9_000,
        while_idle_ns: 0,
        entry_exit_ns: None,
        intruders: Vec::new(),
        share_of_lost_ppm: 250_000,
        detail: vec!["a detail".into()],
        raisers,
        unknown_raisers: 3,
        advice: vec![Advice {
            rule: "a-rule".into(),
            remedy: "do it otherwise".into(),
            evidence: "it was seen".into(),
            source: "mmap(2)".into(),
            ..Advice::default()
        }],
    }
}

/// A report of raisers from boot to `end_ns`: shootdowns on core 1, timers on both.
pub fn who(end_ns: u64) -> WhoReport {
    let stats = vec![raiser(Certainty::Certain, "stats", 71, 40), raiser(Certainty::Probable, "other", 72, 2)];
    let timer = |cpu| interrupt(cpu, CauseKind::Timer, "local_timer", vec![raiser(Certainty::Certain, "stats", 71, 9)]);
    let gap = |cpu: Option<u32>| LoopGap {
        pid: 70,
        tid: 75,
        name: "rx".into(),
        cpu: cpu.map(CpuId),
        start_ns: end_ns,
        duration_ns: 5_000,
        parts: vec![LoopGapPart {
            cause: Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"),
            total_ns: 4_000,
            count: 1,
            raisers: vec!["stats-71 in munmap".into()],
        }],
        unexplained_ns: 1_000,
    };
    WhoReport {
        start_ns: 0,
        end_ns,
        interrupts: vec![interrupt(1, CauseKind::TlbShootdown, "flush_tlb_func", stats), timer(1), timer(0)],
        joined_count: 41,
        called_count: 42,
        records: 50,
        records_dropped: 1,
        marks_lost: 2,
        loops: vec![LoopSummary {
            pid: 70,
            tid: 75,
            name: "rx".into(),
            threshold_ns: 2_000,
            gap_count: 2,
            total_ns: 10_000,
            overwritten: 0,
            not_listed: 0,
        }],
        loop_gaps: vec![gap(Some(1)), gap(None)],
        missing: vec!["no user stacks".into()],
        ..WhoReport::default()
    }
}
