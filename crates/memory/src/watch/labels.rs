//! Which module a report is of.

use crate::look::Looker;
use crate::reports::{is_list, place_of};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{ErrorReport, MemoryLook};

/// The modules of a look by what reports call them.
#[derive(Debug, Default)]
pub struct Labels {
    ids: BTreeSet<String>,
    /// `None` where several modules share a label.
    labels: BTreeMap<String, Option<String>>,
}

impl Labels {
    /// Those of a look.
    pub fn of(look: &MemoryLook) -> Self {
        let mut labels = BTreeMap::new();
        for dimm in look.dimms.iter().filter(|dimm| !dimm.label.is_empty()) {
            labels.entry(dimm.label.clone()).and_modify(|id| *id = None).or_insert_with(|| Some(dimm.id.clone()));
        }
        Labels { ids: look.dimms.iter().map(|dimm| dimm.id.clone()).collect(), labels }
    }

    /// The same of a report that was kept, perhaps for weeks: one that names a module by its serial number or its place among the
    /// counters is of no other module that is in its slot now.
    pub fn module_of_kept(&self, looker: &Looker, report: &ErrorReport) -> Option<String> {
        let names_module = report.dimm.is_some() && report.dimm != place_of(report);
        let is_gone = names_module && report.dimm.as_ref().is_some_and(|id| !self.ids.contains(id));
        if is_gone { None } else { self.module_of(looker, report) }
    }

    /// The module that a report is of: by the name that it has already, by its label, or by its place.
    pub fn module_of(&self, looker: &Looker, report: &ErrorReport) -> Option<String> {
        if let Some(id) = report.dimm.as_ref().filter(|id| self.ids.contains(*id)) {
            return Some(id.clone());
        }
        // Of a list none is the one, whatever place its modules have in common.
        if is_list(report) {
            return None;
        }
        // What was imported is named by its label.
        let names = [Some(&report.label), report.dimm.as_ref()];
        if let Some(Some(id)) = names.into_iter().flatten().find_map(|name| self.labels.get(name)) {
            return Some(id.clone());
        }
        let place = &report.location;
        let layer = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1);
        let layers = [layer(place.channel), layer(place.slot), -1];
        looker.module_at(place.controller?, layers).map(str::to_owned)
    }
}
