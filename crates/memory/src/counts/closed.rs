//! Faults that were closed, with what the counts had then: verdicts rest on what came since.

use super::{Kept, KeptModule};
use crate::closing::Closing;
use serde::{Deserialize, Serialize};
use surefoot_model::{ClosedFault, FaultClosing};

/// Closings that are kept of modules that no counter of the kernel has; the oldest go first.
const ELSEWHERE_MAX: usize = 1024;

/// The newest closing of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    closing: FaultClosing,
    at_realtime_ns: u64,
    reason: String,
    /// What the counts kept here had then: corrected, uncorrected.
    before: [u64; 2],
    /// The same with the counts of firmware and reports.
    told: [u64; 2],
    closed_count: u32,
    back_realtime_ns: Option<u64>,
    back_count: u32,
}

impl Closed {
    /// When it was closed, `CLOCK_REALTIME`.
    pub fn at_realtime_ns(&self) -> u64 {
        self.at_realtime_ns
    }

    /// Errors since, by the counts that are kept here and by those of all sources.
    pub fn since(&self, kept: [u64; 2], all: [u64; 2]) -> [u64; 2] {
        std::array::from_fn(|of| {
            let of_kept = kept[of].saturating_sub(self.before[of]);
            // Firmware counts for itself, so its count is compared with what was known of it.
            let of_others = if all[of] > kept[of] { all[of].saturating_sub(self.told[of]) } else { 0 };
            of_kept.max(of_others)
        })
    }

    /// Notes that errors came back.
    pub(crate) fn note_back(&mut self, at_realtime_ns: u64) {
        if self.back_realtime_ns.is_none() {
            self.back_realtime_ns = Some(at_realtime_ns);
            self.back_count = self.back_count.saturating_add(1);
        }
    }

    /// As a look tells it.
    pub(crate) fn told(&self, [corrected_since, uncorrected_since]: [u64; 2]) -> ClosedFault {
        ClosedFault {
            closing: self.closing,
            closed_realtime_ns: self.at_realtime_ns,
            reason: self.reason.clone(),
            corrected_since,
            uncorrected_since,
            closed_count: self.closed_count,
            back_realtime_ns: self.back_realtime_ns,
            back_count: self.back_count,
        }
    }

    pub(super) fn texts(&self) -> [&String; 1] {
        [&self.reason]
    }
}

impl KeptModule {
    /// How its fault was closed last.
    pub(super) fn closed_as(&self) -> Option<FaultClosing> {
        self.closed.as_deref().map(|closed| closed.closing)
    }
}

impl Kept {
    /// The newest closing of a module.
    pub fn closed(&self, module: &str) -> Option<&Closed> {
        match self.modules.get(module) {
            Some(kept) => kept.closed.as_deref(),
            None => self.closed_elsewhere.get(module),
        }
    }

    pub(crate) fn closed_mut(&mut self, module: &str) -> Option<&mut Closed> {
        match self.modules.get_mut(module) {
            Some(kept) => kept.closed.as_deref_mut(),
            None => self.closed_elsewhere.get_mut(module),
        }
    }

    /// Every module with a closing, and when that was.
    pub fn all_closed(&self) -> impl Iterator<Item = (&str, u64)> {
        let counted = self.modules.iter().filter_map(|(name, kept)| Some((name, kept.closed.as_deref()?)));
        counted.chain(&self.closed_elsewhere).map(|(name, closed)| (name.as_str(), closed.at_realtime_ns))
    }

    /// The name by which the module of a closing is kept: its own, that of its serial number, or, if it had none, of what is at its
    /// place; its own name if none of these is kept.
    pub(crate) fn name_of(&self, closing: &Closing) -> String {
        let found = &closing.found;
        let of_place = || match found.serial {
            Some(_) => None,
            None => self.places.get(&found.place).map(|place| &place.module),
        };
        let names = [Some(&closing.module), found.serial.as_ref(), of_place()];
        names.into_iter().flatten().find(|name| self.modules.contains_key(*name)).unwrap_or(&closing.module).clone()
    }

    /// Closes the fault of a module: `before` is what its counts had then. `false` for a closing that is known already, or older.
    pub(crate) fn close(&mut self, name: &str, closing: &Closing, before: [u64; 2]) -> bool {
        let old = self.closed(name);
        if old.is_some_and(|old| old.at_realtime_ns >= closing.at_realtime_ns) {
            return false;
        }
        let found = &closing.found;
        let closed = Closed {
            closing: closing.closing,
            at_realtime_ns: closing.at_realtime_ns,
            reason: closing.reason.clone(),
            before,
            told: [found.corrected_count, found.uncorrected_count],
            closed_count: old.map_or(0, |old| old.closed_count).saturating_add(1),
            back_realtime_ns: None,
            back_count: old.map_or(0, |old| old.back_count),
        };
        match self.modules.get_mut(name) {
            Some(kept) => {
                // A rate of before is none of now.
                kept.rates = crate::rate::Rates::new(kept.rates.bucket.limit);
                kept.closed = Some(Box::new(closed));
            }
            None => {
                self.closed_elsewhere.insert(name.to_owned(), closed);
                while self.closed_elsewhere.len() > ELSEWHERE_MAX {
                    let oldest = self.closed_elsewhere.iter().min_by_key(|(_, closed)| closed.at_realtime_ns);
                    let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
                    self.closed_elsewhere.remove(&oldest);
                    self.dropped_count += 1;
                }
            }
        }
        true
    }

    /// A number that is another one whenever a closing was added or its fault came back.
    pub fn closings_mark(&self) -> u64 {
        let counted = self.modules.values().filter_map(|kept| kept.closed.as_deref());
        counted.chain(self.closed_elsewhere.values()).fold(0, |sum: u64, closed| {
            sum.wrapping_mul(31).wrapping_add(closed.at_realtime_ns).wrapping_add(closed.back_realtime_ns.unwrap_or(0))
        })
    }

    pub(super) fn is_sound_of_closings(&self) -> bool {
        let is_short = |closed: &Closed| {
            closed
                .texts()
                .into_iter()
                .all(|text| text.len() <= crate::closing::REASON_BYTES_MAX && !text.contains(char::is_control))
        };
        let counted = self.modules.values().filter_map(|kept: &KeptModule| kept.closed.as_deref());
        counted.chain(self.closed_elsewhere.values()).all(is_short) && self.closed_elsewhere.len() <= ELSEWHERE_MAX
    }
}
