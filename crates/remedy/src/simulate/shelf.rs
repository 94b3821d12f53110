//! The store of a simulation: a [`World`] that changes are put into as they are made, so that none is copied for a decision.

use crate::{Change, World};
use std::collections::HashMap;
use surefoot_model::{Alert, AuditEntry, Case};

#[derive(Default)]
pub(super) struct Shelf {
    pub(super) world: World,
    /// Where each open case lies.
    places: HashMap<u64, usize>,
    newest_id: u64,
    /// Alerts that fire and are settled or have an open case, by host and key.
    kept: HashMap<(String, String), Alert>,
}

impl Shelf {
    pub(super) fn case(&self, id: u64) -> Option<&Case> {
        self.places.get(&id).map(|place| &self.world.open[*place])
    }

    /// Takes an alert in.
    pub(super) fn take(&mut self, alert: Alert) {
        let key = (alert.host.clone(), alert.key.clone());
        let is_same = |told: &Alert| told.host == alert.host && told.key == alert.key;
        self.world.alerts.retain(|told| !is_same(told));
        let cases = self.world.open.iter_mut().filter(|case| case.host == alert.host && case.alert_key == alert.key);
        let mut has_case = false;
        for case in cases {
            case.is_firing = alert.is_firing;
            has_case = true;
        }
        if alert.is_firing && has_case {
            self.kept.insert(key, alert);
        } else {
            self.kept.remove(&key);
            if alert.is_firing {
                self.world.alerts.push(alert);
            }
        }
    }

    /// Writes changes down; the changed cases as they are now.
    pub(super) fn put(&mut self, changes: Vec<(Change, AuditEntry)>, look_back_ns: u64) -> Vec<Case> {
        let mut changed = Vec::new();
        for (change, _) in changes {
            match change {
                Change::Open(mut case) => {
                    self.newest_id += 1;
                    case.id = self.newest_id;
                    let is_same = |told: &Alert| told.host == case.host && told.key == case.alert_key;
                    if let Some(place) = self.world.alerts.iter().position(is_same) {
                        let told = self.world.alerts.swap_remove(place);
                        self.kept.insert((told.host.clone(), told.key.clone()), told);
                    }
                    self.places.insert(case.id, self.world.open.len());
                    self.world.open.push((*case).clone());
                    changed.push(*case);
                }
                Change::Update(case) => {
                    self.write(&case);
                    changed.push(*case);
                }
                Change::Settle { host, key } => {
                    let is_same = |told: &Alert| told.host == host && told.key == key;
                    if let Some(place) = self.world.alerts.iter().position(is_same) {
                        let told = self.world.alerts.swap_remove(place);
                        self.kept.insert((host, key), told);
                    }
                }
            }
        }
        let since_ns = self.world.now_realtime_ns.saturating_sub(look_back_ns);
        self.world.closed.retain(|case| case.state_since_realtime_ns >= since_ns);
        changed
    }

    /// Writes a case down; one that is closed is taken off the open ones, and its alert, where it still fires, is unsettled again.
    pub(super) fn write(&mut self, case: &Case) {
        let Some(&place) = self.places.get(&case.id) else { return };
        if case.state.is_open() {
            self.world.open[place] = case.clone();
            return;
        }
        self.places.remove(&case.id);
        self.world.open.swap_remove(place);
        if let Some(moved) = self.world.open.get(place) {
            self.places.insert(moved.id, place);
        }
        self.world.closed.push(case.clone());
        if let Some(told) = self.kept.remove(&(case.host.clone(), case.alert_key.clone())) {
            self.world.alerts.push(told);
        }
    }
}
