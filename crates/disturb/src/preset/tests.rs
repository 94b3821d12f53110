//! The cases of both presets, and what their rows say of made-up runs.

use super::*;
use crate::disturbance::Losses;
use crate::experiment::{Condition, Run};
use crate::plan::{Done, Plan, RunId};
use std::time::Duration;
use surefoot_model::CpuId;

fn setting() -> Setting {
    Setting { cores: vec![CpuId(0), CpuId(1)], is_quick: true }
}

fn guard() -> Guard {
    Guard { program: "none".into(), arguments: vec![] }
}

fn plan(preset: Preset) -> Plan {
    let mut cases = preset.cases(&setting(), &guard());
    // What this machine lacks is not the question here.
    cases.iter_mut().for_each(|case| case.unsupported = None);
    let (time_limit, total_limit) = (Duration::from_secs(1), Duration::from_secs(1));
    Plan { cases, repetitions: 3, warms_up: false, seed: 1, time_limit, total_limit }
}

/// Runs whose numbers are the base, times what the treatment does to the measure.
fn outcome(plan: &Plan, base: impl Fn(&str) -> f64, treated: impl Fn(&str, &str, &str) -> f64) -> Outcome {
    let done = |(number, place): (usize, RunId)| {
        let case = &plan.cases[place.case];
        let treatment = place.treatment.map(|treatment| case.treatments[treatment].name.as_str());
        let value = |name: &str| match treatment {
            None => base(name),
            Some(treatment) => treated(&case.name, treatment, name),
        };
        let values: Vec<f64> = case.measures.iter().map(|measure| value(&measure.name)).collect();
        let run = Run {
            number: number as u64,
            repetition: place.repetition,
            condition: Condition::Undisturbed,
            value: values[0],
            start_ns: 0,
            wall_ns: 1_000_000_000,
            stall_count: 1,
            injected_share: if place.treatment.is_some() { 0.105 } else { 0.0 },
            losses: Losses::default(),
            left_behind: 0,
            dropped_bytes: 0,
            load: None,
        };
        Done { place, run, values }
    };
    plan.outcome_of(plan.places().into_iter().enumerate().map(done).collect())
}

fn verdict(rows: &[Row], name: &str) -> Option<Verdict> {
    rows.iter().find(|row| row.row == name).unwrap_or_else(|| panic!("no row '{name}'")).verdict
}

#[test]
fn every_treatment_of_both_presets_is_within_the_limits() {
    for preset in Preset::ALL {
        for cores in 1..4 {
            let setting = Setting { cores: (0..cores).map(CpuId).collect(), ..setting() };
            let cases = preset.cases(&setting, &guard());
            assert!(!cases.is_empty());
            for treatment in cases.iter().flat_map(|case| &case.treatments) {
                let root = surefoot_hostfs::Root::host();
                crate::safety::check(&treatment.spec, &root)
                    .unwrap_or_else(|fault| panic!("{}: {fault}", treatment.name));
            }
        }
        plan(preset).check().unwrap();
    }
}

#[test]
fn a_quick_run_of_the_slides_fits_into_ten_minutes() {
    let plan = plan(Preset::Slides);
    let lasts = |place: &RunId| plan.cases[place.case].lasts.unwrap();
    let all: Duration = plan.places().iter().map(lasts).sum();
    assert!(all < Duration::from_secs(9 * 60), "{all:?}");
}

#[test]
fn four_and_eight_machines_are_run_where_each_has_a_core_and_else_said_to_need_them() {
    let cases = |cores: u32| {
        let setting = Setting { cores: (0..cores).map(CpuId).collect(), ..setting() };
        Preset::Slides.cases(&setting, &guard()).into_iter().map(|case| case.name).collect::<Vec<_>>()
    };
    let has = |cores: u32, name: &str| cases(cores).iter().any(|case| case == name);
    assert!(!has(3, "mpi-4") && has(4, "mpi-4") && !has(7, "mpi-8") && has(8, "mpi-8"));
    let plan = plan(Preset::Slides);
    let outcome = outcome(&plan, |_| 100.0, |_, _, _| 100.0);
    let rows = Preset::Slides.rows(&plan.cases, &outcome, &[]);
    let row = rows.iter().find(|row| row.row == "8 machines, all have 105 ms, 1/s").unwrap();
    assert!(row.verdict == Some(Verdict::CannotBeTested) && row.ours.contains("it needs 8 cores"), "{row:?}");
}

#[test]
fn a_case_that_could_not_be_run_is_said_with_its_reason_in_every_row_of_it() {
    let mut plan = plan(Preset::Icpe20);
    plan.cases[0].unsupported = Some("it needs 2 cores: this host has 1 core".into());
    let outcome = outcome(&plan, |_| 100.0, |_, _, measure| if measure == "ledger_gaps" { 101.0 } else { 97.0 });
    let extras = [
        Extra::Figure {
            number: 12,
            found: Ok(Drawn { words: "35 s".into(), above_zero: Vec::new(), is_fitted: true }),
        },
        Extra::Figure { number: 11, found: Err("no".into()) },
    ];
    let rows = Preset::Icpe20.rows(&plan.cases, &outcome, &extras);
    let cannot = rows.iter().filter(|row| row.verdict == Some(Verdict::CannotBeTested) && row.ours.contains("2 cores"));
    assert_eq!(cannot.count(), 4, "{rows:?}");
    let third = "a third of the requests time out with stalls of some length from 100 to 400 ms";
    assert_eq!(verdict(&rows, third), Some(Verdict::CannotBeTested));
    let detector = verdict(&rows, "a fine-grained detector sees each");
    assert!(matches!(detector, Some(Verdict::TooFewRuns { runs: 3, .. })), "{detector:?}");
    let fitted = rows.iter().find(|row| row.row.starts_with("figure 12")).unwrap();
    assert_eq!((fitted.verdict, fitted.ours.as_str()), (None, "35 s"));
    assert!(fitted.verdict_words().contains("fitted"), "{fitted:?}");
    let missing = rows.last().unwrap();
    assert_eq!(
        (missing.verdict, missing.verdict_words().as_str()),
        (Some(Verdict::CannotBeTested), "cannot be simulated")
    );
}
