//! The fold over what was seen of interfaces; pure, so that a recording folds to the same.

use crate::CHART_POINTS_MAX;
use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::VecDeque;
use surefoot_model::{Carried, InterfaceChange, InterfaceEvent, InterfaceLook, InterfaceState};

/// Changes of state that are kept one by one.
const KEPT_MAX: usize = 128;

/// What is known of the host's interfaces now.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest look; `None` before the first has ended.
    pub look: Option<InterfaceLook>,
    /// The newest changes of state, oldest first.
    pub changes: VecDeque<InterfaceChange>,
    /// Changes before those, which are dropped.
    pub changes_left_out: u64,
    /// When each look began, and how many interfaces were slow, losing or hung.
    pub bad: VecDeque<(u64, f64)>,
}

impl State {
    /// Takes in what was seen.
    pub fn seen(&mut self, seen: &InterfaceEvent) {
        match seen {
            InterfaceEvent::Look(look) => {
                let bad = look.interfaces.iter().filter(|one| one.state > InterfaceState::Ok).count();
                self.bad.push_back((look.looked_realtime_ns, bad as f64));
                self.bad.drain(..self.bad.len().saturating_sub(CHART_POINTS_MAX));
                self.look = Some(look.clone());
            }
            InterfaceEvent::Changed(change) => self.changes_left_out += keep(&mut self.changes, change),
        }
    }

    /// The newest look, of a host that has any interface.
    pub fn look_if_supported(&self) -> Option<&InterfaceLook> {
        self.look.as_ref().filter(|look| look.unsupported.is_none())
    }
}

/// Only root sees from where somebody is logged in.
impl Private for State {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            let interfaces = self.look.iter_mut().flat_map(|look| &mut look.interfaces);
            interfaces.for_each(|one| one.carries.retain(Carried::is_public));
        }
        self
    }
}

/// Keeps one more; returns how many had to go for it.
fn keep<T: Clone>(kept: &mut VecDeque<T>, one: &T) -> u64 {
    let is_full = kept.len() == KEPT_MAX;
    if is_full {
        kept.pop_front();
    }
    kept.push_back(one.clone());
    u64::from(is_full)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{CarriedKind, Interface};

    #[test]
    fn from_where_somebody_has_logged_in_is_for_root_alone() {
        let of = |kind| Carried::new(kind, "an entry whose words nobody reads");
        let carries = [CarriedKind::DefaultRoute, CarriedKind::SshSession, CarriedKind::Unknown].map(of).into();
        let interfaces = vec![Interface { name: "eth0".into(), carries, ..Interface::default() }];
        let mut state = State::default();
        state.seen(&InterfaceEvent::Look(InterfaceLook { interfaces, ..InterfaceLook::default() }));
        let carried = |sees_all| {
            let state = state.clone().seen_by(Viewer { uid: Some(1000), sees_all, named: None });
            state.look.unwrap().interfaces[0].carries.len()
        };
        assert_eq!((carried(true), carried(false)), (3, 1));
    }
}
