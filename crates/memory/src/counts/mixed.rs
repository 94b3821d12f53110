//! Modules that nothing tells apart, and that may have changed places since the reading before: while the host was off, or because its
//! controllers have other numbers since the driver was loaded anew. What was counted of each of them may be another's from then on.

use super::renumbered::{controller_of, own_label, own_place};
use super::step::{Count, step};
use super::{Change, Kept, KeptModule, KeptPlace, Moment, Notice};
use crate::identity::Module;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::Certainty;

/// Modules that one may be mixed with, and modules of which a notice tells.
const MIXED_MAX: usize = 64;
const NOTICES_MAX: usize = 8;

/// What a module is, as far as that tells it from another.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Kind {
    pub part: Option<String>,
    /// 0 where it is not known.
    pub size_bytes: u64,
    /// A serial number that is probably this module's.
    pub serial: Option<String>,
}

impl Kind {
    pub(super) fn of(module: &Module) -> Kind {
        let serial = module.serial.clone().filter(|_| module.certainty == Some(Certainty::Probable));
        Kind { part: module.part.clone(), size_bytes: module.size_bytes, serial }
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        self.part.iter().chain(&self.serial)
    }

    /// Takes in what another reading tells; what that does not tell stays known.
    pub(super) fn learn(&mut self, now: Kind) {
        self.serial = now.serial.or(self.serial.take());
        self.part = now.part.or(self.part.take());
        if now.size_bytes > 0 {
            self.size_bytes = now.size_bytes;
        }
    }

    /// Whether one cannot be the other.
    pub(super) fn is_other(&self, other: &Kind) -> bool {
        let serials = self.serial.as_ref().zip(other.serial.as_ref());
        serials.is_some_and(|(one, other)| one != other) || !self.may_be(other)
    }

    /// Whether one may be the other: what is not known of a module tells it from none.
    fn may_be(&self, other: &Kind) -> bool {
        let parts = self.part.as_ref().zip(other.part.as_ref());
        let is_one_size = self.size_bytes == other.size_bytes || self.size_bytes == 0 || other.size_bytes == 0;
        parts.is_none_or(|(one, other)| one == other) && is_one_size
    }
}

/// Which names may be each other's.
type Pairs = BTreeSet<(String, String)>;

impl Kept {
    /// Finds the modules whose counts may be each other's since the reading before, by the names that they were kept by.
    pub(super) fn mixed(&self, moment: Moment<'_>, modules: &[Module]) -> Pairs {
        let nameless: Vec<&Module> = modules
            .iter()
            .filter(|module| module.only_place.is_none() && module.certainty != Some(Certainty::Certain))
            .collect();
        if self.was_rebooted(moment) { self.mixed_by_boot(&nameless) } else { self.mixed_by_driver(moment, &nameless) }
    }

    /// Notes them with each module; `names` are those of `modules`.
    pub(super) fn note_mixed(&mut self, pairs: &Pairs, notices: &mut Vec<Notice>) {
        let mut told = BTreeSet::new();
        for (one, other) in pairs {
            for (of, with) in [(one, other), (other, one)] {
                let Some(kept) = self.modules.get_mut(of) else { continue };
                if kept.mixed_with.len() < MIXED_MAX {
                    kept.mixed_with.insert(with.clone());
                }
                let has_errors = kept.has_errors();
                if has_errors && told.len() < NOTICES_MAX && told.insert(of.clone()) {
                    notices.push(Notice { place: of.clone(), change: Change::Mixed });
                }
            }
        }
    }

    fn was_rebooted(&self, moment: Moment<'_>) -> bool {
        let newest = self.places.values().max_by_key(|place| place.seen);
        newest.is_some_and(|place| {
            // Nothing tells of a boot since another process read it.
            let is_unknown = place.boot_id.is_none() && place.clock_s.is_none() && place.read_ns.is_none();
            is_unknown || place.change(moment, None, None) == Change::Rebooted
        })
    }

    /// Any module of one kind may be in any slot since.
    fn mixed_by_boot(&self, modules: &[&Module]) -> Pairs {
        let newest = self.modules.values().map(|module| module.seen).max();
        let before = self.modules.iter().filter(|(name, module)| {
            Some(module.seen) == newest
                && module.has_errors()
                && controller_of(name).is_some_and(|id| own_place(name, id).is_some())
        });
        // A serial number that was told of this place before says that the module stayed.
        let is_settled = |name: &str, kind: &Kind| {
            self.modules.get(name).is_some_and(|kept| kind.serial.is_some() && kept.kind.serial == kind.serial)
        };
        let now: Vec<(&str, Kind)> = modules.iter().map(|module| (module.place.as_str(), Kind::of(module))).collect();
        let mut pairs = Pairs::new();
        for (name, kept) in before {
            if now.iter().any(|(place, kind)| place == name && is_settled(place, kind)) {
                continue;
            }
            let others =
                now.iter().filter(|(place, kind)| place != name && kind.may_be(&kept.kind) && !is_settled(place, kind));
            pairs.extend(others.take(MIXED_MAX).map(|(place, _)| (name.clone(), (*place).to_owned())));
        }
        pairs
    }

    /// A driver that is loaded anew may give controllers with the same modules each other's numbers. It resets all counters; who writes
    /// `reset_counters` may reset those of one controller alone.
    fn mixed_by_driver(&self, moment: Moment<'_>, modules: &[&Module]) -> Pairs {
        let mut of: BTreeMap<&str, BTreeMap<&str, (String, Kind, &Module)>> = BTreeMap::new();
        for module in modules.iter().filter(|module| self.is_reset(moment, module)) {
            if let Some(own) = own_place(&module.place, &module.controller) {
                let told = (own_label(&module.label, &module.controller), Kind::of(module), *module);
                of.entry(&module.controller).or_default().insert(own, told);
            }
        }
        let are_alike = |one: &BTreeMap<&str, (String, Kind, &Module)>,
                         other: &BTreeMap<&str, (String, Kind, &Module)>| {
            let same = |(own, (label, kind, _)): (&&str, &(String, Kind, &Module))| {
                other.get(own).is_some_and(|(other_label, other_kind, _)| {
                    label == other_label
                        && kind.may_be(other_kind)
                        && (kind.serial.is_none() || other_kind.serial.is_none() || kind.serial == other_kind.serial)
                })
            };
            one.len() == other.len() && one.iter().all(same)
        };
        let mut pairs = Pairs::new();
        let controllers: Vec<_> = of.values().collect();
        for (at, one) in controllers.iter().enumerate() {
            for other in controllers[at + 1..].iter().filter(|other| are_alike(one, other)) {
                for (own, (_, _, first)) in one.iter() {
                    let Some((_, _, second)) = other.get(own) else { continue };
                    let names = [first, second].map(|module| self.kept_at(&module.place));
                    if names.iter().flatten().any(|(_, kept)| kept.has_errors())
                        && let [Some((first, _)), Some((second, _))] = names
                    {
                        pairs.insert((first.to_owned(), second.to_owned()));
                    }
                }
            }
        }
        pairs
    }

    fn kept_at(&self, place: &str) -> Option<(&str, &KeptModule)> {
        let name = self.places.get(place)?.module.as_str();
        self.modules.get(name).map(|kept| (name, kept))
    }

    fn is_reset(&self, moment: Moment<'_>, module: &Module) -> bool {
        module.counters.iter().any(|counter| {
            let place = self.places.get(&counter.place);
            place.is_some_and(|place| place.change(moment, counter.corrected, module.reset_s) == Change::Reset)
        })
    }
}

impl KeptModule {
    fn has_errors(&self) -> bool {
        self.corrected_count > 0 || self.uncorrected_count > 0 || self.block_count > 0
    }
}

impl KeptPlace {
    /// What became of the place's counters, also where they cannot be read.
    fn change(&self, moment: Moment<'_>, now: Option<u64>, reset_s: Option<u64>) -> Change {
        let value = self.corrected.unwrap_or(0);
        let count = |value, reset_s, boot_id, clock_s| Count {
            value,
            reset_s,
            boot_id,
            clock_s,
            max: u64::MAX,
            seen_per_s: 0.0,
        };
        let before = count(value, self.reset_s, self.boot_id.as_deref(), self.clock_s);
        step(Some(&before), &count(now.unwrap_or(value), reset_s, moment.boot_id, moment.clock_s)).1
    }
}
