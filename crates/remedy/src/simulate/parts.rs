//! The parts of the made-up fleet: which were repaired how often, which people replaced, and which of those tested good.

use super::assumed::Assumed;
use super::tally::Simulated;
use crate::policy::ReplaceAfter;
use std::collections::HashMap;
use surefoot_model::Case;
use surefoot_random::Random;

/// What is remembered of one place of one host.
#[derive(Default)]
struct PartSlot {
    /// Cases that repaired the part that is there, each once, and when.
    repairs: Vec<(u64, u64)>,
    /// Whether what was there before tested good: the fault is the place's own, and the next person looks there.
    is_culprit: bool,
}

/// All parts that something happened to, by host and subject.
#[derive(Default)]
pub(super) struct Parts(HashMap<(String, String), PartSlot>);

impl Parts {
    /// A step of the case repaired its part.
    pub(super) fn repaired(&mut self, case: &Case, now_ns: u64, result: &mut Simulated) {
        let place = self.0.entry((case.host.clone(), case.subject.clone())).or_default();
        if place.repairs.iter().all(|(id, _)| *id != case.id) {
            place.repairs.push((case.id, now_ns));
            result.repeat_offender_count += u64::from(place.repairs.len() == 2);
        }
    }

    /// Whether the part was repaired so often that it is to be replaced: what the engine reads in its books.
    pub(super) fn is_to_replace(&self, case: &Case, rule: ReplaceAfter, now_ns: u64) -> bool {
        let Some(place) = self.0.get(&(case.host.clone(), case.subject.clone())) else { return false };
        let from_ns = now_ns.saturating_sub(rule.within_ns);
        let counted = place.repairs.iter().filter(|(id, at_ns)| *id != case.id && *at_ns >= from_ns);
        counted.count() as u64 >= rule.repairs
    }

    /// A person repaired the host. Whether the fault comes back, because the part was not what is wrong.
    pub(super) fn replaced(
        &mut self,
        case: &Case,
        assumed: &Assumed,
        random: &mut Random,
        result: &mut Simulated,
    ) -> bool {
        let place = self.0.entry((case.host.clone(), case.subject.clone())).or_default();
        place.repairs.clear();
        result.swap_count += 1;
        if std::mem::take(&mut place.is_culprit) {
            // The place is mended, and the part that tested good is put back.
            return false;
        }
        result.replaced_count += 1;
        place.is_culprit = random.chance(assumed.not_the_part);
        result.tested_good_count += u64::from(place.is_culprit);
        place.is_culprit
    }
}

/// Whether a fault is one of a part that can be replaced.
pub(super) fn is_of_part(fault: &str) -> bool {
    ["memory/", "nic/", "checkpoint/"].iter().any(|room| fault.starts_with(room))
}
