//! What watching itself costs, between two readings.

use surefoot_hostfs::{Root, thread};
use surefoot_model::{CpuId, ProbeCost, SelfCost};
use surefoot_probes::layout::Slot;
use surefoot_probes::{Probes, Runs, Snapshot};

/// Remembers the last reading.
#[derive(Clone, Default)]
pub(crate) struct OwnCost {
    runs: Vec<Runs>,
    self_interrupts: u64,
    unreported: u64,
    process_cpu_ns: u64,
}

impl OwnCost {
    /// Starts from now.
    pub(crate) fn start(probes: Option<&Probes>, watched: &[CpuId]) -> Self {
        let mut cost = OwnCost::default();
        cost.since(probes, watched, &Root::host());
        cost
    }

    /// What it cost since the last call: in the programs on all cores, in interrupts and lost ends on the watched ones, in this
    /// process.
    pub(crate) fn since(&mut self, probes: Option<&Probes>, watched: &[CpuId], root: &Root) -> SelfCost {
        let process_cpu_ns = thread::cpu_ns();
        let mut cost = SelfCost {
            process_cpu_ns: process_cpu_ns - self.process_cpu_ns,
            resident_bytes: thread::resident_bytes(root).unwrap_or(0),
            ..SelfCost::default()
        };
        self.process_cpu_ns = process_cpu_ns;
        let Some(probes) = probes else { return cost };
        cost.map_bytes = probes.map_bytes();
        let snapshots: Vec<(CpuId, Snapshot)> =
            (0..probes.cpu_count() as u32).map(CpuId).filter_map(|cpu| Some((cpu, probes.snapshot(cpu)?))).collect();
        let runs = probes.runs(snapshots.iter().map(|(_, snapshot)| &*snapshot.slot));
        for now in &runs {
            let before = self.runs.iter().find(|before| before.program == now.program);
            let (count, total_ns, missed) = before.map_or((0, 0, 0), |b| (b.count, b.total_ns, b.missed));
            let one = ProbeCost {
                name: now.program.name.to_owned(),
                count: now.count.saturating_sub(count),
                total_ns: now.total_ns.saturating_sub(total_ns),
                missed: now.missed.saturating_sub(missed),
            };
            if one.count > 0 || one.missed > 0 {
                cost.probes.push(one);
            }
        }
        self.runs = runs;
        let on_watched = |of: fn(&Slot) -> u64| {
            snapshots.iter().filter(|(cpu, _)| watched.contains(cpu)).map(|(_, at)| of(&at.slot)).sum()
        };
        let (self_interrupts, unreported) = (on_watched(|slot| slot.self_interrupts), on_watched(|slot| slot.heals));
        cost.self_interrupts = u64::saturating_sub(self_interrupts, self.self_interrupts);
        cost.unreported = u64::saturating_sub(unreported, self.unreported);
        (self.self_interrupts, self.unreported) = (self_interrupts, unreported);
        cost
    }
}
