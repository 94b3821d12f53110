//! Closed faults in a look: what came since, by the counters, by firmware and by reports.

use super::Looker;
use crate::closing::Closing;
use crate::identity::{Counted, Module};
use surefoot_model::{Certainty, ClosedModule, Dimm, FaultMode, MemoryLook};

impl Looker {
    /// Closes the fault of a module as of a deed: what was counted until then is no evidence any more. To be called after a look. The
    /// name of the module, if the closing is new.
    pub fn close(&mut self, closing: &Closing) -> Option<String> {
        let name = self.kept.name_of(closing);
        let total = self.total(&name).unwrap_or_default();
        let then = [closing.found.counter_corrected, closing.found.counter_uncorrected];
        let now = self.counters(&name);
        // A tree may not tell of boots; then the counters alone do.
        let is_same_boot = closing.found.boot_id == self.reader.reading().boot_id;
        let before = std::array::from_fn(|of| {
            let since = match (then[of], now[of]) {
                (Some(then), Some(now)) if is_same_boot && now >= then => now - then,
                // The counters began anew since, so all that they have came since.
                (Some(_), Some(now)) => now,
                _ => 0,
            };
            total[of].saturating_sub(since)
        });
        self.kept.close(&name, closing, before).then_some(name)
    }

    /// Adds to a look, that other sources have completed, which faults were closed and what came since. `reported` is that of a module
    /// that only reports know.
    pub fn tell_closed(&mut self, look: &mut MemoryLook, reported: impl Fn(&str) -> Option<[u64; 2]>) {
        for dimm in &mut look.dimms {
            let Some(closed) = self.kept.closed(&dimm.id) else { continue };
            let since = match (self.total(&dimm.id), reported(&dimm.id)) {
                (Some(kept), _) => closed.since(kept, [dimm.corrected(), dimm.uncorrected()]),
                (None, Some(since)) => since,
                (None, None) => closed.since([0, 0], [dimm.corrected(), dimm.uncorrected()]),
            };
            let is_back = since != [0, 0] || dimm.fault.is_some();
            let at_ns = look.looked_realtime_ns.max(closed.at_realtime_ns());
            let Some(closed) = self.kept.closed_mut(&dimm.id) else { continue };
            if is_back {
                closed.note_back(at_ns);
            }
            dimm.closed = Some(closed.told(since));
            if since == [0, 0] && dimm.fault.is_none() && dimm.unread.is_empty() {
                dimm.fault_mode = FaultMode::None;
            }
        }
    }

    /// What identifies a module, and what its counters have, for the deed that closes its fault.
    pub fn module_now(&self, dimm: &Dimm) -> ClosedModule {
        let own = self.module(&dimm.id);
        let [counter_corrected, counter_uncorrected] = self.counters(&dimm.id);
        let is_certain = dimm.serial_certainty == Some(Certainty::Certain);
        ClosedModule {
            label: dimm.label.clone(),
            place: own.map(|module| module.place.clone()).unwrap_or_default(),
            serial: dimm.serial.clone().filter(|_| is_certain),
            part: dimm.part.clone(),
            boot_id: self.reader.reading().boot_id.clone(),
            counter_corrected,
            counter_uncorrected,
            corrected_count: dimm.corrected(),
            uncorrected_count: dimm.uncorrected(),
        }
    }

    /// All that was counted of a module.
    fn total(&self, name: &str) -> Option<[u64; 2]> {
        let kept = self.kept.modules.get(name)?;
        let corrected = match self.module(name) {
            Some(module) => self.corrected(module, kept).0,
            None => kept.corrected_count.max(kept.block_count),
        };
        Some([corrected, kept.uncorrected_count])
    }

    /// What the kernel's counters of a module have now, corrected and uncorrected.
    fn counters(&self, name: &str) -> [Option<u64>; 2] {
        let Some(module) = self.module(name) else { return [None, None] };
        let sum = |of: fn(&Counted) -> Option<u64>| {
            let mut counts = module.counters.iter().map(of);
            counts
                .try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))
                .filter(|_| !module.counters.is_empty())
        };
        let block = module.block.as_ref().and_then(|block| block.errors);
        [sum(|one| one.corrected).max(block), sum(|one| one.uncorrected)]
    }

    fn module(&self, name: &str) -> Option<&Module> {
        self.names.iter().position(|own| own == name).and_then(|at| self.modules.get(at))
    }
}
