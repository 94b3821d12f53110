//! The store of a simulation: a [`World`] that changes are put into as they are made, so that none is copied for a decision.
//!
//! Where limits are tight, thousands of cases wait, and each decision would look at all of them. Those whose turn is far off are put
//! aside: of each service the next [`AT_HAND`] are kept in the world, and the rest follows in the order in which decisions take them. A
//! case that waits for a limit and has touched nothing counts for no other, so decisions are the same.

use crate::{Change, World};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use surefoot_model::{Alert, AuditEntry, Case, CaseState, CaseWait, Severity};

/// How many cases of a service that wait for a limit are in the world.
const AT_HAND: usize = 16;

pub(super) struct Shelf {
    /// See [`AT_HAND`].
    pub(super) at_hand: usize,
    pub(super) world: World,
    /// Where each open case lies.
    places: HashMap<u64, usize>,
    newest_id: u64,
    /// Cases that are put aside, by their turn.
    aside: BTreeMap<String, BTreeSet<(Reverse<Severity>, u64)>>,
    aside_cases: HashMap<u64, Case>,
    /// The case that is put aside of each host and key.
    aside_alerts: HashMap<(String, String), u64>,
    /// Alerts that fire and are settled or have an open case, by host and key.
    kept: HashMap<(String, String), Alert>,
    /// Keys of alerts that were settled, by host: those that still fire are decided on anew when a case of the host is closed.
    known: HashMap<String, Vec<String>>,
}

impl Default for Shelf {
    fn default() -> Self {
        Shelf {
            at_hand: AT_HAND,
            world: World::default(),
            places: HashMap::new(),
            newest_id: 0,
            aside: BTreeMap::new(),
            aside_cases: HashMap::new(),
            aside_alerts: HashMap::new(),
            kept: HashMap::new(),
            known: HashMap::new(),
        }
    }
}

impl Shelf {
    pub(super) fn case(&self, id: u64) -> Option<&Case> {
        self.places.get(&id).map(|place| &self.world.open[*place])
    }

    /// All open cases, also those that are put aside.
    pub(super) fn open(&self) -> impl Iterator<Item = &Case> {
        self.world.open.iter().chain(self.aside_cases.values())
    }

    /// Puts cases aside whose turn is far off, and brings back those whose turn comes. Whether some were brought back.
    pub(super) fn sort_out(&mut self) -> bool {
        let mut at_hand: HashMap<&str, BTreeSet<(Reverse<Severity>, u64)>> = HashMap::new();
        for case in self.world.open.iter().filter(|case| is_queued(case)) {
            at_hand.entry(&case.service).or_default().insert((Reverse(case.severity), case.id));
        }
        let mut far: Vec<u64> = Vec::new();
        let mut near: Vec<u64> = Vec::new();
        for (service, turns) in &at_hand {
            far.extend(turns.iter().skip(self.at_hand).map(|(_, id)| *id));
            // One that is aside may come before one that is at hand: the worse come first, and one may have been brought back late.
            let waiting = self.aside.get(*service).into_iter().flatten();
            let last = turns.iter().take(self.at_hand).next_back();
            let room = self.at_hand.saturating_sub(turns.len());
            near.extend(
                waiting
                    .enumerate()
                    .take_while(|(index, turn)| *index < room || Some(*turn) < last)
                    .map(|(_, turn)| turn.1),
            );
        }
        let idle = self.aside.iter().filter(|(service, _)| !at_hand.contains_key(service.as_str()));
        near.extend(idle.flat_map(|(_, turns)| turns.iter().take(self.at_hand).map(|turn| turn.1)));
        far.into_iter().for_each(|id| self.put_aside(id));
        let is_more = !near.is_empty();
        near.into_iter().for_each(|id| self.bring_back(id));
        is_more
    }

    fn put_aside(&mut self, id: u64) {
        let Some(case) = self.remove(id) else { return };
        self.aside.entry(case.service.clone()).or_default().insert((Reverse(case.severity), id));
        self.aside_alerts.insert((case.host.clone(), case.alert_key.clone()), id);
        self.aside_cases.insert(id, case);
    }

    fn bring_back(&mut self, id: u64) {
        let Some(case) = self.aside_cases.remove(&id) else { return };
        if let Some(turns) = self.aside.get_mut(&case.service) {
            turns.remove(&(Reverse(case.severity), id));
            if turns.is_empty() {
                self.aside.remove(&case.service);
            }
        }
        self.aside_alerts.remove(&(case.host.clone(), case.alert_key.clone()));
        self.places.insert(id, self.world.open.len());
        self.world.open.push(case);
    }

    /// Takes a case off the open ones of the world.
    fn remove(&mut self, id: u64) -> Option<Case> {
        let place = self.places.remove(&id)?;
        let case = self.world.open.swap_remove(place);
        if let Some(moved) = self.world.open.get(place) {
            self.places.insert(moved.id, place);
        }
        Some(case)
    }

    /// Takes an alert in.
    pub(super) fn take(&mut self, alert: Alert) {
        let key = (alert.host.clone(), alert.key.clone());
        if let Some(id) = self.aside_alerts.get(&key).copied() {
            self.bring_back(id);
        }
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
                        if told.is_firing {
                            self.known.entry(host.clone()).or_default().push(key.clone());
                        }
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
        self.remove(case.id);
        self.world.closed.push(case.clone());
        if let Some(told) = self.kept.remove(&(case.host.clone(), case.alert_key.clone())) {
            self.world.alerts.push(told);
        }
        if let Some(others) = self.known.remove(&case.host) {
            let others = others.into_iter().filter_map(|key| self.kept.remove(&(case.host.clone(), key)));
            self.world.alerts.extend(others);
        }
    }
}

/// Whether a case waits for a limit of its service, and for nothing of its own.
fn is_queued(case: &Case) -> bool {
    case.state == CaseState::Waiting
        && case.began_realtime_ns == 0
        && case.is_firing
        && case.wait == CaseWait::Limit
        && case.steps.iter().all(|step| step.not_before_realtime_ns == 0)
}
