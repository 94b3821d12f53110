//! The real programs on the running kernel. Where eBPF is not allowed the tests say that they were not run.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::layout::{CAUSE_IDLE, CAUSE_LOCAL_TIMER, CAUSE_WORK};
use surefoot_probes::{Error, Flavour, Options, Probes};

fn attach(flavour: Flavour) -> Option<Probes> {
    match Probes::attach(&Options { flavour: Some(flavour), ..Options::default() }) {
        Ok(probes) => Some(probes),
        Err(Error::Unsupported { why, .. }) => {
            eprintln!("not run: eBPF {flavour:?}: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn ledger_adds_up(flavour: Flavour) {
    let Some(probes) = attach(flavour) else { return };
    spin(Duration::from_millis(300));
    std::thread::sleep(Duration::from_millis(700));
    for cpu in (0..probes.cpu_count() as u32).map(CpuId) {
        let snapshot = probes.snapshot(cpu).expect("a core that is not in a storm can be read");
        let slot = &snapshot.slot;
        let total: u64 = slot.causes.iter().map(|cause| cause.total_ns).sum();
        assert_eq!(
            total + snapshot.open_ns(),
            snapshot.at_ns - slot.start_ns + slot.deferred_ns.saturating_sub(snapshot.at_ns - slot.last_ns)
        );
        for (index, cause) in slot.causes.iter().enumerate().filter(|(_, cause)| cause.total_ns > 0) {
            eprintln!("cpu {cpu} cause {index} {cause:?}");
        }
        eprintln!("cpu {cpu} heals {} shadowed {} self {}", slot.heals, slot.shadowed, slot.self_interrupts);
        assert!(slot.causes[CAUSE_LOCAL_TIMER].count > 0, "a second without a single tick on cpu {cpu}");
        assert!(slot.causes[CAUSE_IDLE].total_ns + slot.causes[CAUSE_WORK].total_ns > 500_000_000);
        let counted: u64 = probes.histogram(cpu, CAUSE_LOCAL_TIMER).iter().map(|&count| u64::from(count)).sum();
        assert!(counted >= slot.causes[CAUSE_LOCAL_TIMER].count);
    }
    let snapshots: Vec<_> = (0..probes.cpu_count() as u32).filter_map(|cpu| probes.snapshot(CpuId(cpu))).collect();
    for run in probes.runs(snapshots.iter().map(|snapshot| &*snapshot.slot)) {
        eprintln!(
            "{:28} {:8} runs, {:6} ns each, {} missed",
            run.program.name,
            run.count,
            run.total_ns / run.count.max(1),
            run.missed
        );
    }
    eprintln!("missing: {:?}", probes.missing());
}

#[test]
fn the_ledger_adds_up_on_typed_tracepoints() {
    ledger_adds_up(Flavour::Btf);
}

#[test]
fn the_ledger_adds_up_on_plain_tracepoints() {
    ledger_adds_up(Flavour::Plain);
}
