//! What a reader of several workloads' results must keep in mind.

use crate::run::warnings::losses;
use std::collections::BTreeSet;
use surefoot_console::units::counted;
use surefoot_disturb::disturbance::Losses;
use surefoot_disturb::plan::{Outcome, Plan};
use surefoot_disturb::safety::Permit;
use surefoot_hostfs::{Root, cpus};

/// Beyond this load for each core, other work is in the numbers.
const LOAD_PER_CORE: f64 = 0.7;

/// The warnings.
pub fn of(plan: &Plan, outcome: &Outcome, permit: Option<&Permit>, root: &Root) -> Vec<String> {
    let mut warnings = Vec::new();
    let overruled = permit.map(|permit| permit.overruled.as_slice()).unwrap_or_default();
    if !overruled.is_empty() {
        warnings.push(format!("this host looked as if it were in use: {}", overruled.join("; ")));
    }
    let cores = cpus::online(root).map_or(1, |cores| cores.len());
    if cores == 1 && permit.is_some() {
        warnings.push("this host has one core: Surefoot was stalled too, and saw the end of each run late".into());
    }
    if outcome.load_max > LOAD_PER_CORE * cores as f64 {
        warnings.push(format!(
            "the load was up to {:.1} on {}: other work is in the numbers",
            outcome.load_max,
            counted(cores as u64, "core", "cores")
        ));
    }
    if outcome.left_out > 0 {
        let runs = counted(outcome.left_out, "run", "runs");
        warnings.push(format!("the time was over before {runs}: effects are of fewer repetitions"));
    }
    if plan.repetitions < 6 {
        warnings.push(format!("{} repetitions: 6 are needed for intervals of 95 %", plan.repetitions));
    }
    let treatments = || outcome.cases.iter().flat_map(|case| &case.treatments);
    let disturbed = || {
        let runs = outcome.cases.iter().flat_map(|case| &case.runs);
        runs.filter(|done| done.place.treatment.is_some())
    };
    let without = disturbed().filter(|done| done.run.stall_count == 0).count();
    if without > 0 {
        let runs = counted(disturbed().count() as u64, "disturbed run", "disturbed runs");
        warnings
            .push(format!("nothing happened in {without} of {runs}: a longer workload or a shorter period shows more"));
    }
    let mut lost = Losses::default();
    treatments().for_each(|treated| lost.add(treated.losses));
    warnings.extend(losses(lost));
    let not_used: BTreeSet<&String> = treatments().flat_map(|treated| &treated.how.not_used).collect();
    warnings.extend(not_used.into_iter().map(|method| format!("a better method does not work here: {method}")));
    let left: u64 = outcome.cases.iter().flat_map(|case| &case.runs).map(|done| done.run.left_behind).sum();
    if left > 0 {
        let processes = counted(left, "process", "processes");
        warnings.push(format!("the workloads left {processes} behind, which were ended after their run"));
    }
    warnings.extend(outcome.notes.iter().cloned());
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use surefoot_disturb::preset::Preset;
    use surefoot_disturb::workload::Guard;
    use surefoot_disturb::workload::ready::Setting;
    use surefoot_model::CpuId;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_host_of_one_core_is_warned_of_where_cores_stand_still() {
        let tree = HostTree::new().file("sys/devices/system/cpu/online", "0\n").folder("run");
        let root = Root::at(tree.path());
        let setting = Setting { cores: vec![CpuId(0)], is_quick: true };
        let guard = Guard { program: "none".into(), arguments: vec![] };
        let plan = Plan {
            cases: Preset::Slides.cases(&setting, &guard),
            repetitions: 3,
            warms_up: false,
            seed: 1,
            time_limit: Duration::from_secs(1),
            total_limit: Duration::from_secs(1),
        };
        let outcome = plan.outcome_of(Vec::new());
        let has = |warnings: &[String], word: &str| warnings.iter().any(|warning| warning.contains(word));
        let permit = Permit::ask(&root, 0, true).unwrap();
        let found = of(&plan, &outcome, Some(&permit), &root);
        assert!(has(&found, "one core") && has(&found, "6 are needed"), "{found:?}");
        // Who stops the workload alone goes on himself.
        assert!(!has(&of(&plan, &outcome, None, &root), "one core"));
        // What takes two machines is left out there, and says so.
        let tcp = plan.cases.iter().find(|case| case.name == "tcp").unwrap();
        let why = tcp.unsupported.as_ref().unwrap();
        assert!(why.contains("2 cores") || why.contains("missing") || why.contains("root"), "{why}");
    }
}
