//! What really happened to the hosts, whatever the store says; and what must hold of it.

use super::sums::Sums;
use crate::suite::hands::seen;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Case, CaseState, StepState};
use surefoot_remedy::Step;
use surefoot_remedy::act::{Order, PriorAttempt};

/// Limits of the policy that all cases follow.
pub struct Held {
    pub out_max: usize,
    pub per_hour: usize,
    /// No clock jumps in this run, so that times can be checked too.
    pub is_timed: bool,
}

/// A setting of a host that is not as it was.
struct Changed {
    /// The case and its step that changed it.
    case: u64,
    step_index: usize,
    /// What the step remembered before: only whoever is told this can put the setting back.
    memo: String,
}

#[derive(Default)]
pub struct Truth {
    pub sums: Sums,
    /// Hosts out of service, and the case that took them out.
    drained: BTreeMap<String, u64>,
    /// Settings that are changed, by the host and the step that changes them.
    settings: BTreeMap<(String, String), Changed>,
    /// Attempts that had their effect.
    tokens: BTreeSet<String>,
    /// How often each step of each case had its effect.
    done: BTreeMap<(u64, usize), u32>,
    /// Those of them that were done twice and must not be.
    doubled: Option<String>,
}

/// Whether the step takes nothing away when it is done twice.
fn is_idempotent(step: &Step) -> bool {
    !matches!(
        step,
        Step::Reboot
            | Step::Run(_)
            | Step::Ticket(_)
            | Step::Debug(_)
            | Step::SoftRepair(_)
            | Step::HardRepair(_)
            | Step::Restart(_)
            | Step::ResetInterface(_)
    )
}

impl Truth {
    /// A step has its effect. Whether that put a setting back.
    pub fn effect(&mut self, order: &Order) -> bool {
        self.sums.count("step that had its effect");
        self.tokens.insert(order.token.clone());
        let count = self.done.entry((order.case, order.step_index)).or_default();
        *count += 1;
        // Settings are looked at before they are set, so that once more changes nothing; the memo tells whether it was the same change.
        if *count > 1 && !is_idempotent(&order.step) && !order.step.has_way_back() {
            self.doubled = Some(format!("'{}' of case {} was done {count} times", order.step, order.case));
        }
        let host = order.host.clone();
        match &order.step {
            Step::Drain => drop(self.drained.insert(host, order.case)),
            Step::Return => drop(self.drained.remove(&host)),
            Step::Restore(of) => {
                let place = (host, of.to_string());
                let before = before(&order.memo);
                if self.settings.get(&place).is_some_and(|changed| changed.memo == before) {
                    self.settings.remove(&place);
                    self.sums.count("setting put back");
                    return true;
                }
            }
            step if step.has_way_back() => {
                let changed =
                    Changed { case: order.case, step_index: order.step_index, memo: before(&order.memo).to_owned() };
                self.settings.insert((host, step.to_string()), changed);
            }
            _ => {}
        }
        false
    }

    pub fn find(&mut self, order: &Order) -> PriorAttempt {
        if self.tokens.contains(&order.token) && !order.step.has_way_back() {
            self.sums.count("attempt in doubt taken over, effect found");
            return PriorAttempt::Effect { observed: seen("found"), memo: order.memo.clone() };
        }
        self.sums.count("attempt in doubt taken over, no effect found");
        PriorAttempt::MayRepeat
    }

    pub fn check(&self, cases: &[Case], held: &Held, now_realtime_ns: u64) -> Result<(), String> {
        if let Some(why) = &self.doubled {
            return Err(why.clone());
        }
        if self.drained.len() > held.out_max {
            return Err(format!("{} hosts are out, allowed are {}", self.drained.len(), held.out_max));
        }
        let by_id: BTreeMap<u64, &Case> = cases.iter().map(|case| (case.id, case)).collect();
        let open = |id: &u64| by_id.get(id).filter(|case| case.state.is_open());
        for (host, id) in &self.drained {
            if !open(id).is_some_and(|case| case.is_drained && case.host == *host) {
                return Err(format!("{host} is out of service, and case {id} does not know: {:#?}", by_id.get(id)));
            }
        }
        for ((host, setting), changed) in &self.settings {
            let Some(case) = by_id.get(&changed.case) else { return Err(format!("no case {}", changed.case)) };
            self.may_be_changed(case, setting, changed)
                .map_err(|why| format!("{setting} of {host} {why}: {case:#?}"))?;
        }
        self.check_steps(cases)?;
        let mut hosts = BTreeSet::new();
        for case in cases.iter().filter(|case| case.state.is_open() && case.began_realtime_ns != 0) {
            if !hosts.insert(&case.host) {
                return Err(format!("two cases touch {}", case.host));
            }
        }
        if held.is_timed {
            let hour_ns = 3_600_000_000_000;
            let is_late =
                |case: &&Case| case.began_realtime_ns != 0 && case.began_realtime_ns + hour_ns > now_realtime_ns;
            let lately = cases.iter().filter(is_late).count();
            if lately > held.per_hour {
                return Err(format!("{lately} hosts were taken up within an hour, allowed are {}", held.per_hour));
            }
        }
        Ok(())
    }

    /// Whether a setting may be as it is: its case is open and has not said that it put it back, or what it set is meant to stay.
    fn may_be_changed(&self, case: &Case, setting: &str, changed: &Changed) -> Result<(), String> {
        let restore = format!("restore:{setting}");
        let later = &case.steps[changed.step_index..];
        if later.iter().any(|step| step.step == restore && step.state == StepState::Done) {
            return Err(format!("is still changed, and case {} says that it was put back", case.id));
        }
        let is_meant = case.steps[changed.step_index].state == StepState::Done
            && case.state == CaseState::Returned
            && !setting.starts_with("debug:");
        if case.state.is_open() || is_meant {
            return Ok(());
        }
        Err(format!("was left behind by case {}", case.id))
    }

    /// What a case says is done must have happened.
    fn check_steps(&self, cases: &[Case]) -> Result<(), String> {
        for case in cases {
            for (index, step) in case.steps.iter().enumerate().filter(|(_, step)| step.state == StepState::Done) {
                if !self.done.contains_key(&(case.id, index)) {
                    return Err(format!("'{}' of case {} never happened, and counts as done", step.step, case.id));
                }
            }
        }
        Ok(())
    }

    /// What must hold when the faults are over and everything has had its time.
    pub fn check_end(&self, cases: &[Case]) -> Result<(), String> {
        if let Some(case) = cases.iter().find(|case| case.state.is_open()) {
            return Err(format!("case {} does not end: {case:#?}", case.id));
        }
        let debug: Vec<_> = self.settings.keys().filter(|(_, setting)| setting.starts_with("debug:")).collect();
        if self.drained.is_empty() && debug.is_empty() {
            return Ok(());
        }
        Err(format!("left out of service {:?}, in debug settings {debug:?}", self.drained))
    }
}

/// What stands before a way back that has begun.
pub const HALF_WAY: &str = "half way to ";

/// The memo of the step that changed a setting, in that of its way back.
fn before(memo: &str) -> &str {
    memo.strip_prefix(HALF_WAY).unwrap_or(memo)
}
