//! What a reader of a result must keep in mind.

use surefoot_console::units::counted;
use surefoot_disturb::disturbance::{Chosen, Losses};
use surefoot_disturb::experiment::{Condition, Experiment, Outcome};
use surefoot_hostfs::{Root, cpus};

/// Beyond this load for each core, other work is in the numbers.
const LOAD_PER_CORE: f64 = 0.7;
/// Pairs for an interval of 95 %.
const PAIRS_ENOUGH: usize = 6;

/// The warnings.
pub fn of(experiment: &Experiment, chosen: &Chosen, found: &Outcome, overruled: &[String], root: &Root) -> Vec<String> {
    let mut warnings = Vec::new();
    if !overruled.is_empty() {
        warnings.push(format!("this host looked as if it were in use: {}", overruled.join("; ")));
    }
    warnings.extend(chosen.not_used.iter().map(|method| format!("a better method does not work here: {method}")));
    let cores = cpus::online(root).map_or(1, |cores| cores.len());
    if cores == 1 && chosen.is_of_cores {
        warnings.push("this host has one core: Surefoot was stalled too, and saw the end of each run late".into());
    }
    let load = found.runs.iter().filter_map(|run| run.load).fold(0.0, f64::max);
    if load > LOAD_PER_CORE * cores as f64 {
        let cores = counted(cores as u64, "core", "cores");
        warnings.push(format!("the load was up to {load:.1} on {cores}: other work is in the numbers"));
    }
    if experiment.repetitions < PAIRS_ENOUGH {
        warnings.push(format!(
            "of {} pairs the interval holds the truth in {:.0} % of cases only: {PAIRS_ENOUGH} are needed for 95 %",
            experiment.repetitions,
            found.effect.confidence * 100.0
        ));
    }
    let disturbed = || found.runs.iter().filter(|run| run.condition == Condition::Disturbed);
    let without = disturbed().filter(|run| run.stall_count == 0).count() as u64;
    if without > 0 {
        warnings.push(format!(
            "nothing happened in {without} of {}: a longer workload or a shorter period shows more",
            counted(disturbed().count() as u64, "disturbed run", "disturbed runs")
        ));
    }
    warnings.extend(losses(found.losses));
    let left: u64 = found.runs.iter().map(|run| run.left_behind).sum();
    if left > 0 {
        let processes = counted(left, "process", "processes");
        warnings.push(format!("the workload left {processes} behind, which were ended after their run"));
    }
    warnings
}

/// What went otherwise than planned.
pub fn losses(losses: Losses) -> impl Iterator<Item = String> {
    let Losses { missed, dropped, cut } = losses;
    let all = [
        (missed, "was not done: its time", "were not done: their time", " had passed before the core could be had"),
        (dropped, "was done", "were done", " and not recorded"),
        (cut, "ended before its", "ended before their", " time"),
    ];
    all.into_iter().filter(|(count, ..)| *count > 0).map(|(count, one, many, rest)| {
        let verb = if count == 1 { one } else { many };
        format!("{} {verb}{rest}", counted(count, "stall", "stalls"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stall_and_several_are_told_in_their_words() {
        let told = |missed, dropped, cut| losses(Losses { missed, dropped, cut }).collect::<Vec<_>>();
        assert_eq!(
            told(1, 2, 0),
            [
                "1 stall was not done: its time had passed before the core could be had",
                "2 stalls were done and not recorded"
            ]
        );
        assert_eq!(told(2, 0, 1)[1], "1 stall ended before its time");
        assert!(told(0, 0, 0).is_empty());
    }
}
