//! Controllers that have another number than when they were counted last: a driver that is loaded anew, and a boot, may number them
//! otherwise. Which is which is told by their modules: places, labels and serial numbers.

use super::{Kept, KeptModule};
use crate::identity::{ALL, Module};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::Certainty;

/// Each place of a controller, without the controller's number, with its label and, where that is certain, its serial number.
type Hardware = BTreeSet<(String, String, String)>;

/// A place without its controller's name; `None` for what stands for a row or a block and comes and goes with its counts.
pub(super) fn own_place<'a>(place: &'a str, controller: &str) -> Option<&'a str> {
    let own = place.strip_prefix(controller)?.strip_prefix('/')?;
    (own != ALL && (!own.starts_with("csrow") || own.contains('/'))).then_some(own)
}

/// The controller of a place.
pub(super) fn controller_of(place: &str) -> Option<&str> {
    place.split_once('/').map(|(controller, _)| controller).filter(|controller| controller.starts_with("mc"))
}

/// A label without the controller's number, which the kernel's own labels have.
pub(super) fn own_label(label: &str, controller: &str) -> String {
    if label.starts_with(&format!("{controller}/")) {
        return String::new();
    }
    let made_up = format!("mc#{}", controller.trim_start_matches("mc"));
    label.strip_prefix(&made_up).map_or_else(|| label.to_owned(), |rest| format!("mc#{rest}"))
}

impl Kept {
    /// Gives what is kept the numbers that its controllers have now. Controllers with the same modules cannot be told apart: they keep
    /// their numbers.
    pub(super) fn renumber(&mut self, modules: &[Module]) {
        let mut now: BTreeMap<&str, Hardware> = BTreeMap::new();
        for module in modules.iter().filter(|module| module.only_place.is_none() && !module.controller.is_empty()) {
            let serial = match module.certainty {
                Some(Certainty::Certain) => module.serial.clone().unwrap_or_default(),
                _ => String::new(),
            };
            let label = own_label(&module.label, &module.controller);
            let places = module.counters.iter().filter_map(|counter| own_place(&counter.place, &module.controller));
            now.entry(&module.controller)
                .or_default()
                .extend(places.map(|place| (place.to_owned(), label.clone(), serial.clone())));
        }
        let before = self.hardware();
        let stays = |id: &str, hardware: &Hardware| now.get(id) == Some(hardware);
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (id, hardware) in now.iter().filter(|(id, own)| before.get(**id) != Some(own)) {
            let mut was = before.iter().filter(|(id, own)| *own == hardware && !stays(id, own));
            let mut others = now.iter().filter(|(other, own)| *own == hardware && *other != id);
            if let (Some((old, _)), None, None) = (was.next(), was.next(), others.next()) {
                names.insert(old.clone(), (*id).to_owned());
            }
        }
        // What had the number before, and is not there any more, makes room.
        let displaced: Vec<String> =
            names.values().filter(|id| before.contains_key(*id) && !names.contains_key(*id)).cloned().collect();
        for id in displaced {
            let free = (1_u32..).map(|round| format!("{id}-before-{round}")).find(|name| !before.contains_key(name));
            names.extend(free.map(|name| (id, name)));
        }
        if !names.is_empty() {
            self.rename(&names);
        }
    }

    /// The controllers that are kept, as they were seen last.
    fn hardware(&self) -> BTreeMap<String, Hardware> {
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, kept) in &self.places {
            if let Some(controller) = controller_of(place) {
                let seen = newest.entry(controller).or_default();
                *seen = kept.seen.max(*seen);
            }
        }
        let mut found: BTreeMap<String, Hardware> = BTreeMap::new();
        for (place, kept) in &self.places {
            let Some(controller) = controller_of(place).filter(|id| newest.get(id) == Some(&kept.seen)) else {
                continue;
            };
            let Some(own) = own_place(place, controller) else { continue };
            let is_place = controller_of(&kept.module).is_some();
            let serial = if is_place { String::new() } else { kept.module.clone() };
            let here = self.modules.get(&kept.module).map_or("", |module| module.here.as_str());
            let entry = (own.to_owned(), own_label(here, controller), serial);
            found.entry(controller.to_owned()).or_default().insert(entry);
        }
        found
    }

    fn rename(&mut self, names: &BTreeMap<String, String>) {
        let renamed = |name: String| match controller_of(&name).and_then(|id| Some((id, names.get(id)?))) {
            Some((id, new)) => format!("{new}{}", &name[id.len()..]),
            None => name,
        };
        self.rename_stays(renamed);
        let places = std::mem::take(&mut self.places).into_iter();
        self.places = places
            .map(|(place, mut kept)| {
                kept.module = renamed(kept.module);
                (renamed(place), kept)
            })
            .collect();
        let modules = std::mem::take(&mut self.modules).into_iter();
        self.modules = modules
            .map(|(name, mut kept)| {
                kept.mixed_with = kept.mixed_with.into_iter().map(renamed).collect();
                (renamed(name), kept)
            })
            .collect();
    }

    /// Modules that the newest reading has not, each with its name and the controller on which it was.
    pub(crate) fn unseen(&self) -> Vec<(&str, &str, &KeptModule)> {
        let mut of: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for (place, kept) in &self.places {
            let Some(controller) = controller_of(place) else { continue };
            let newest = of.entry(&kept.module).or_insert((kept.seen, controller));
            if kept.seen > newest.0 {
                *newest = (kept.seen, controller);
            }
        }
        let unseen = self.modules.iter().filter(|(_, module)| module.seen < self.readings);
        unseen
            .filter_map(|(name, module)| {
                let controller = of.get(name.as_str()).map(|(_, controller)| *controller);
                Some((name.as_str(), controller.or_else(|| controller_of(name))?, module))
            })
            .collect()
    }

    /// Whether a module was in the reading before the newest.
    pub(crate) fn was_just_there(&self, module: &KeptModule) -> bool {
        module.seen + 1 == self.readings
    }

    /// Notes when the modules of the newest reading were seen, `CLOCK_REALTIME`.
    pub(crate) fn seen_at(&mut self, realtime_ns: u64) {
        self.date_stays(realtime_ns);
        let readings = self.readings;
        let there = self.modules.values_mut().filter(|module| module.seen == readings);
        there.for_each(|module| {
            module.seen_realtime_ns = realtime_ns;
            if module.since_realtime_ns == super::COMES {
                module.since_realtime_ns = realtime_ns;
            }
        });
    }
}
