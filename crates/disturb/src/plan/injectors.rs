//! One injector for all disturbances of a kind: loading programs into the kernel takes longer than a run may.

use crate::Fault;
use crate::disturbance::{Chosen, Method, Spec, What, choose, cores_of, within_budget};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use surefoot_hostfs::Root;

#[derive(Default)]
pub(super) struct Injectors(BTreeMap<String, Chosen>);

impl Injectors {
    /// Who does this disturbance.
    pub(super) fn of(&mut self, spec: &Spec, root: &Root) -> Result<&mut Chosen, Fault> {
        // Those at a rate are made for their cores; what the firmware counts is told of each rate by itself.
        let key = if spec.what == What::Smi {
            format!("{:?} {:?} {}", spec.what, spec.cores, spec.period_ns)
        } else if spec.what.is_rated() {
            format!("{:?} {:?}", spec.what, spec.cores)
        } else {
            format!("{:?} {:?}", spec.what, spec.guest)
        };
        let chosen = match self.0.entry(key) {
            Entry::Vacant(place) => place.insert(choose(spec, root)?),
            Entry::Occupied(place) => place.into_mut(),
        };
        // It was chosen for others, which may be shorter.
        if chosen.method == Method::Spin.name() {
            within_budget(spec, root)?;
        }
        if !spec.what.is_of_one_core() {
            chosen.cores = cores_of(spec, root)?;
        }
        Ok(chosen)
    }

    /// What each of them counted.
    pub(super) fn notes(&self) -> Vec<String> {
        self.0.values().flat_map(|chosen| chosen.injector.notes()).collect()
    }
}
