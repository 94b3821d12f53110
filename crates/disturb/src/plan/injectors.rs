//! One injector for all disturbances of a kind: loading programs into the kernel takes longer than a run may.

use crate::Fault;
use crate::disturbance::{Chosen, Spec, choose, cores_of};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use surefoot_hostfs::Root;

#[derive(Default)]
pub(super) struct Injectors(BTreeMap<String, Chosen>);

impl Injectors {
    /// Who does this disturbance.
    pub(super) fn of(&mut self, spec: &Spec, root: &Root) -> Result<&mut Chosen, Fault> {
        // Those at a rate are made for their cores.
        let key = if spec.what.is_rated() {
            format!("{:?} {:?}", spec.what, spec.cores)
        } else {
            format!("{:?} {:?}", spec.what, spec.guest)
        };
        let chosen = match self.0.entry(key) {
            Entry::Vacant(place) => place.insert(choose(spec, root)?),
            Entry::Occupied(place) => place.into_mut(),
        };
        if !spec.what.is_of_one_core() {
            chosen.cores = cores_of(spec, root)?;
        }
        Ok(chosen)
    }
}
