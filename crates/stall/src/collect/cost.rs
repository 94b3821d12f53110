//! What watching itself costs, between two readings.

use crate::who::names;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use surefoot_hostfs::{Root, usage};
use surefoot_model::{CpuId, ProbeCost, SelfCost};
use surefoot_probes::layout::{ProgramRuns, SAMPLE_EVERY, Slot};
use surefoot_probes::{Probes, Snapshot};

/// The slots of all cores as one reading found them, to be shared by all who need one; without those that kept changing.
pub(crate) type Slots = BTreeMap<CpuId, Arc<Snapshot>>;

/// Reads the slot of every core that the arrays have room for.
pub(crate) fn read_slots(probes: &Probes) -> Slots {
    let mut slots = Slots::new();
    read_more_slots(probes, &mut slots);
    slots
}

/// Reads those that are not there yet.
pub(crate) fn read_more_slots(probes: &Probes, slots: &mut Slots) {
    for cpu in (0..probes.cpu_count() as u32).map(CpuId) {
        if !slots.contains_key(&cpu)
            && let Some(snapshot) = probes.snapshot(cpu)
        {
            slots.insert(cpu, Arc::new(snapshot));
        }
    }
}

/// Remembers the last reading.
#[derive(Clone, Default)]
pub(crate) struct OwnCost {
    /// Of each core the slot that was read last: one that is torn now counts from there when it can be read again.
    slots: Slots,
    missed: HashMap<&'static str, u64>,
    /// Whether every program was told, those without a run too.
    has_listed: bool,
    process_cpu_ns: u64,
}

impl OwnCost {
    /// Starts from now.
    pub(crate) fn start(read: Option<(&Probes, &Slots)>, watched: &[CpuId]) -> Self {
        let mut cost = OwnCost::default();
        cost.since(read, watched, &Root::host());
        cost
    }

    /// Tells every program at the next call, those without a run too: what they count is 0 so far, and not unknown.
    pub(crate) fn listing(self) -> Self {
        OwnCost { has_listed: false, ..self }
    }

    /// What it cost since the last call: in the programs on all cores, in interrupts and lost ends on the watched ones, in this
    /// process.
    pub(crate) fn since(&mut self, read: Option<(&Probes, &Slots)>, watched: &[CpuId], root: &Root) -> SelfCost {
        // The process that reads names is a part of what watching costs.
        let (names_cpu_ns, names_bytes) = names::own_cost(root);
        let process_cpu_ns = usage::cpu_ns() + names_cpu_ns;
        let mut cost = SelfCost {
            process_cpu_ns: process_cpu_ns - self.process_cpu_ns,
            resident_bytes: usage::resident_bytes(root).unwrap_or(0) + names_bytes,
            ..SelfCost::default()
        };
        self.process_cpu_ns = process_cpu_ns;
        let Some((probes, slots)) = read else { return cost };
        cost.map_bytes = probes.map_bytes();
        let spans = self.advance(slots);
        let is_first = !std::mem::replace(&mut self.has_listed, true);
        for now in probes.runs(spans.iter().map(|(_, _, is)| &*is.slot)) {
            let of_program = |of: fn(&ProgramRuns) -> u64| {
                now.program.number.map_or(0, |number| rise(&spans, |slot| of(&slot.programs[number])))
            };
            let before = self.missed.insert(now.program.name, now.missed).unwrap_or(0);
            let one = ProbeCost {
                name: now.program.name.to_owned(),
                count: of_program(|runs| runs.count),
                total_ns: of_program(|runs| runs.sampled_ns).saturating_mul(SAMPLE_EVERY),
                missed: now.missed.saturating_sub(before),
            };
            // That it is attached, and has seen nothing yet, is told once.
            if is_first || one.count > 0 || one.missed > 0 {
                cost.probes.push(one);
            }
        }
        let spans: Vec<Span> = spans.into_iter().filter(|(cpu, ..)| watched.contains(cpu)).collect();
        cost.self_interrupts = rise(&spans, |slot| slot.self_interrupts);
        cost.unreported = rise(&spans, |slot| slot.heals);
        cost
    }

    /// Takes a reading in the place of the one before; returns both of each core that is in it. A core that was never read
    /// before has cost nothing that is known.
    fn advance(&mut self, slots: &Slots) -> Vec<Span> {
        let span = |(&cpu, is): (&CpuId, &Arc<Snapshot>)| {
            let was = self.slots.insert(cpu, Arc::clone(is)).unwrap_or_else(|| Arc::clone(is));
            (cpu, was, Arc::clone(is))
        };
        slots.iter().map(span).collect()
    }
}

/// One core at two readings.
type Span = (CpuId, Arc<Snapshot>, Arc<Snapshot>);

fn rise(spans: &[Span], of: impl Fn(&Slot) -> u64) -> u64 {
    spans.iter().map(|(_, was, is)| of(&is.slot).saturating_sub(of(&was.slot))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cores: &[(u32, u64)]) -> Slots {
        let snapshot = |self_interrupts| {
            let mut slot = Box::new(Slot::zeroed());
            slot.self_interrupts = self_interrupts;
            Arc::new(Snapshot { at_ns: 0, slot })
        };
        cores.iter().map(|&(cpu, count)| (CpuId(cpu), snapshot(count))).collect()
    }

    #[test]
    fn a_core_whose_reading_was_torn_does_not_cost_its_whole_past_again() {
        let mut cost = OwnCost::default();
        let mut rises = |cores| rise(&cost.advance(&reading(cores)), |slot| slot.self_interrupts);
        assert_eq!(rises(&[(0, 100), (1, 5_000)]), 0, "what was before the start is no cost of the watch");
        assert_eq!(rises(&[(0, 103)]), 3);
        assert_eq!(rises(&[(0, 104), (1, 5_007)]), 8);
        assert_eq!(rises(&[(0, 104), (1, 5_007), (2, 900)]), 0);
    }
}
