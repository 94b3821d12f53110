//! An experiment of several workloads or disturbances, as the journal, a recording and the page have it.

use super::lines::{DisturbanceOfPlan, PlanLine};
use std::collections::BTreeSet;
use surefoot_disturb::disturbance::{GuestStop, Method, What};
use surefoot_model::{CpuId, ExperimentBegan};

/// What stands for the kind of disturbance where there are several.
const SEVERAL: &str = "several";

/// What is about to be done. Where all disturbances are alike, that is what it does; else they take turns.
pub fn began(head: &PlanLine, is_of_cores: bool, cores: Vec<CpuId>) -> ExperimentBegan {
    let all = || head.workloads.iter().flat_map(|workload| &workload.disturbances);
    let of = |one: &DisturbanceOfPlan| (one.kind.clone(), one.length_ns, one.period_ns);
    let kinds: BTreeSet<(String, u64, u64)> = all().map(of).collect();
    let (disturbance, length_ns, period_ns) = match kinds.len() {
        1 => kinds.into_iter().next().unwrap_or_default(),
        _ => (SEVERAL.to_owned(), 0, 0),
    };
    let names: Vec<&str> = head.workloads.iter().map(|workload| workload.name.as_str()).collect();
    ExperimentBegan {
        series: head.name.clone(),
        disturbance,
        is_of_cores,
        cores,
        length_ns,
        period_ns,
        workload: names.join(", "),
        run_count: head.run_count,
        ..ExperimentBegan::default()
    }
}

/// The same from the lines alone, which do not say by which method a freeze was done: by the best one.
pub fn began_of_lines(head: &PlanLine) -> ExperimentBegan {
    let of_cores = |one: &&DisturbanceOfPlan| is_of_cores(&one.kind);
    let disturbed = || head.workloads.iter().flat_map(|workload| &workload.disturbances).filter(of_cores);
    // None for all that are online.
    let all_online = disturbed().any(|one| one.cores.is_empty());
    let cores: BTreeSet<CpuId> = disturbed().flat_map(|one| one.cores.iter().copied()).collect();
    let cores = if all_online { Vec::new() } else { cores.into_iter().collect() };
    began(head, disturbed().next().is_some(), cores)
}

/// Whether a kind of disturbance takes cores, and not the workload or a guest alone.
pub fn is_of_cores(kind: &str) -> bool {
    let of_workload = |method: &Method| method.name() == kind && !method.is_of_cores();
    !Method::ALL.iter().any(of_workload)
        && GuestStop::ALL.iter().all(|how| how.name() != kind)
        && kind != What::TlbShootdown.name()
}
