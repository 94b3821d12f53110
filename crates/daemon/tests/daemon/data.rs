//! Events as a small machine of two cores would send them.

use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{
    Capability, CapabilityState, Cause, CauseKind, Certainty, Completeness, CoreLedger, CpuId, Event, Gap, GapCause,
    GapSource, Histogram, HostDescription, Lost, Notice, ProbeCost, SelfCost, Untimed, Vendor, Verdict, Window,
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
        untimed: vec![Untimed { cpu: CpuId(1), row: "HYP".into(), name: "Hypervisor callback".into(), count: 7 }],
        completeness: vec![Completeness { row: "LOC".into(), kernel_count: 250, probe_count: 250 }],
        cost: SelfCost {
            probes: vec![probe],
            process_cpu_ns: 3_000_000,
            resident_bytes: 20 << 20,
            map_bytes: 1 << 20,
            dropped: 5,
            torn: 1,
            self_interrupts: 0,
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
