//! Slot history: which module was in which slot, and when it was seen there.
//!
//! A serial number that cannot be read is unknown: after a boot the module may be another one. Within a boot a slot keeps its module.

use super::mixed::Kind;
use super::renumbered::controller_of;
use super::{Kept, KeptModule, Moment};
use crate::identity::Module;
use serde::{Deserialize, Serialize};
use surefoot_model::{Certainty, SlotStay};

/// Stays that are kept; the ones that ended first go first.
pub const STAYS_MAX: usize = 2048;

/// A module in a slot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Stay {
    place: String,
    label: String,
    /// The name by which the module is kept.
    pub(super) module: String,
    serial: Option<String>,
    certainty: Option<Certainty>,
    part: Option<String>,
    size_bytes: u64,
    from_realtime_ns: u64,
    seen_realtime_ns: u64,
    has_ended: bool,
    /// The boots in which it was seen first and last.
    from_boot: Option<String>,
    seen_boot: Option<String>,
    /// The reading in which it was seen last.
    seen: u64,
}

impl Stay {
    fn of(module: &Module, name: &str, boot_id: Option<&str>) -> Stay {
        let is_told = module.certainty.is_some_and(|certainty| certainty != Certainty::CannotTellApartHere);
        Stay {
            place: module.place.clone(),
            label: module.label.clone(),
            module: name.to_owned(),
            serial: module.serial.clone().filter(|_| is_told),
            certainty: module.certainty.filter(|_| is_told),
            part: module.part.clone(),
            size_bytes: module.size_bytes,
            from_boot: boot_id.map(str::to_owned),
            ..Stay::default()
        }
    }

    fn kind(&self) -> Kind {
        Kind { part: self.part.clone(), size_bytes: self.size_bytes, serial: None }
    }

    /// Whether the module that is there now is this one, is another one, or nothing tells.
    fn compare(&self, now: &Stay) -> Same {
        let is_same_boot = now.from_boot.is_some() && self.seen_boot == now.from_boot;
        match (&self.serial, &now.serial) {
            (Some(before), Some(now)) if before == now => Same::Yes,
            (Some(_), Some(_)) => Same::No,
            _ if self.kind().is_other(&now.kind()) => Same::No,
            (None, None) => Same::Yes,
            (Some(_), None) if is_same_boot => Same::Yes,
            (None, Some(_)) if is_same_boot && self.from_boot == now.from_boot => Same::Named,
            _ => Same::No,
        }
    }

    fn told(&self, kept: Option<&KeptModule>) -> SlotStay {
        SlotStay {
            corrected_count: kept.map_or(0, |kept| kept.corrected_count.max(kept.block_count)),
            uncorrected_count: kept.map_or(0, |kept| kept.uncorrected_count),
            closed: kept.and_then(KeptModule::closed_as),
            place: self.place.clone(),
            label: self.label.clone(),
            module: self.module.clone(),
            serial: self.serial.clone(),
            serial_certainty: self.certainty,
            part: self.part.clone(),
            size_bytes: self.size_bytes,
            first_seen_realtime_ns: self.from_realtime_ns,
            last_seen_realtime_ns: self.seen_realtime_ns,
            has_ended: self.has_ended,
        }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        let some = [&self.serial, &self.part, &self.from_boot, &self.seen_boot].into_iter().flatten();
        [&self.place, &self.label, &self.module].into_iter().chain(some)
    }
}

/// How the module in a slot compares with the one that was there.
enum Same {
    Yes,
    /// The same, and its serial number is known now.
    Named,
    No,
}

impl Kept {
    /// Takes in where the modules of a reading are; `names` are those by which they are kept.
    pub(super) fn note_stays(&mut self, moment: Moment<'_>, modules: &[Module], names: &[String]) {
        let readings = self.readings;
        for (module, name) in modules.iter().zip(names).filter(|(module, _)| module.only_place.is_none()) {
            let now = Stay::of(module, name, moment.boot_id);
            let at = self.stay_at(now, &module.place);
            let stay = &mut self.stays[at];
            (stay.seen, stay.seen_boot) = (readings, moment.boot_id.map(str::to_owned));
            stay.label.clone_from(&module.label);
            stay.module.clone_from(name);
        }
        // A slot that its controller does not show any more is empty. Of a controller that is gone nothing is known.
        let is_here =
            |place: &str| controller_of(place).is_some_and(|id| modules.iter().any(|one| one.controller == id));
        for stay in self.stays.iter_mut().filter(|stay| !stay.has_ended && stay.seen < readings) {
            stay.has_ended = is_here(&stay.place);
        }
        self.drop_stays();
    }

    /// The stay of what is in a slot now: the one that goes on, or a new one.
    fn stay_at(&mut self, now: Stay, place: &str) -> usize {
        let open = self.stays.iter().rposition(|stay| !stay.has_ended && stay.place == place);
        let Some(at) = open else {
            self.stays.push(now);
            return self.stays.len() - 1;
        };
        match self.stays[at].compare(&now) {
            Same::Yes => {
                let stay = &mut self.stays[at];
                stay.part = now.part.or(stay.part.take());
                if now.size_bytes > 0 {
                    stay.size_bytes = now.size_bytes;
                }
                stay.certainty = now.certainty.or(stay.certainty);
                at
            }
            Same::Named => {
                let before = self.stays[..at].iter().rposition(|stay| stay.place == place);
                match before.filter(|before| self.stays[*before].serial == now.serial) {
                    // It was there before the boot as well.
                    Some(before) => {
                        self.stays.remove(at);
                        self.stays[before].has_ended = false;
                        before
                    }
                    None => {
                        let stay = &mut self.stays[at];
                        (stay.serial, stay.certainty, stay.part) = (now.serial, now.certainty, now.part);
                        at
                    }
                }
            }
            Same::No => {
                self.stays[at].has_ended = true;
                self.stays.push(now);
                self.stays.len() - 1
            }
        }
    }

    /// Dates the stays of the newest reading, `CLOCK_REALTIME`.
    pub(super) fn date_stays(&mut self, realtime_ns: u64) {
        let readings = self.readings;
        for stay in self.stays.iter_mut().filter(|stay| stay.seen == readings) {
            stay.seen_realtime_ns = realtime_ns;
            if stay.from_realtime_ns == 0 {
                stay.from_realtime_ns = realtime_ns;
            }
        }
    }

    fn drop_stays(&mut self) {
        while self.stays.len() > STAYS_MAX {
            let oldest = self.stays.iter().position(|stay| stay.has_ended).unwrap_or(0);
            self.stays.remove(oldest);
            self.stays_dropped_count += 1;
        }
    }

    /// Which module was in which slot: by slot, oldest first; and how many more there were.
    pub fn slots(&self) -> (Vec<SlotStay>, u64) {
        let mut told: Vec<SlotStay> = self.stays.iter().map(|stay| stay.told(self.modules.get(&stay.module))).collect();
        // Stable: of one slot they stay in their order.
        told.sort_by_cached_key(|stay| numbers(&stay.place));
        (told, self.stays_dropped_count)
    }

    pub(super) fn rename_stays(&mut self, renamed: impl Fn(String) -> String) {
        for stay in &mut self.stays {
            stay.place = renamed(std::mem::take(&mut stay.place));
            stay.module = renamed(std::mem::take(&mut stay.module));
        }
    }

    pub(super) fn is_sound_of_stays(&self, is_short: impl Fn(&String) -> bool) -> bool {
        self.stays.len() <= STAYS_MAX && self.stays.iter().all(|stay| stay.texts().all(&is_short))
    }
}

/// The numbers of a place: `mc0/dimm10` is behind `mc0/dimm9`.
fn numbers(place: &str) -> Vec<u32> {
    let digits = place.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
    digits.map(|digits| digits.parse().unwrap_or(u32::MAX)).collect()
}
