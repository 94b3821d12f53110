//! The cases of both presets, and what their rows say of made-up runs.

use super::*;
use crate::disturbance::Losses;
use crate::drift::{Drift, Rate};
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
fn machines_like_those_of_the_slides_reproduce_what_they_say() {
    let plan = plan(Preset::Slides);
    let base = |measure: &str| if measure == "retransmits" || measure == "lost_percent" { 0.0 } else { 100.0 };
    let rate = |treatment: &str| treatment.rsplit('-').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(1.0);
    let treated = |case: &str, treatment: &str, measure: &str| match (case, measure) {
        ("udp", "lost_percent") => [0.0, 10.9, 21.5, 32.4, 44.1][rate(treatment) as usize],
        ("tcp" | "tcp-ring", "retransmits") => {
            if treatment.starts_with("receiver") {
                40_000.0
            } else {
                10.0
            }
        }
        ("tcp", _) if treatment.contains("short") => 99.9,
        ("tcp" | "tcp-ring", _) => {
            let sent = [5.60, 5.05, 4.43, 3.82, 3.21];
            let received = [5.60, 4.53, 3.95, 3.32, 2.71];
            let gigabytes = if treatment.starts_with("receiver") { received } else { sent };
            gigabytes[rate(treatment) as usize] / 5.60 * 100.0
        }
        ("mpi-2", _) => 100.0 / if treatment == "one" { 0.96 } else { 0.90 },
        ("compile", _) => 100.0 / 0.88,
        ("compile-all", _) => 100.0 / 0.6,
        (case, _) if case.ends_with("-all") => 60.0,
        _ => 98.0,
    };
    let outcome = outcome(&plan, base, treated);
    let drift = Drift {
        ns_per_thousand: -105e9,
        low_ns: -106e9,
        high_ns: -104e9,
        undisturbed: Rate { ns_per_s: 0.0, deviation: 1.0, samples: 9, left_out: 0, span_s: 9.0 },
        disturbed: Rate { ns_per_s: 0.0, deviation: 1.0, samples: 9, left_out: 0, span_s: 9.0 },
    };
    let drift = Extra::Drift { found: Ok((drift, "jiffies".into())) };
    let rows = Preset::Slides.rows(&plan.cases, &outcome, &[drift]);
    for row in rows.iter().filter(|row| !row.published.is_empty() && !row.ours.contains("simulat")) {
        let is_open = ["runs differ by", "counting SMIs", "to coordinate"].iter().any(|open| row.row.starts_with(open));
        if row.verdict.is_some() && !is_open {
            assert_eq!(row.verdict, Some(Verdict::Reproduced), "{row:?}");
        }
    }
    assert_eq!(verdict(&rows, "integer, all cores, 105 ms, 1/s"), Some(Verdict::Reproduced));
    assert_eq!(verdict(&rows, "TCP to a ring, receiver has 105 ms, 2/s"), Some(Verdict::Reproduced));
    let without = Preset::Slides.rows(&plan.cases, &outcome, &[]);
    assert_eq!(verdict(&without, "wall clocks drift apart"), Some(Verdict::CannotBeTested));
    assert_eq!(verdict(&rows, "UDP, receiver has 105 ms, 4/s"), Some(Verdict::Reproduced));
    assert!(rows.iter().any(|row| row.row == "2 machines, one has 105 ms, 1/s" && row.ours.contains("barrier 96 %")));
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
fn a_machine_on_which_nothing_happens_reproduces_no_finding() {
    let plan = plan(Preset::Slides);
    let outcome = outcome(&plan, |_| 100.0, |_, _, _| 100.0);
    let rows = Preset::Slides.rows(&plan.cases, &outcome, &[]);
    let found = |row: &&Row| row.verdict == Some(Verdict::Reproduced) && !row.ours.contains("simulat");
    let reproduced: Vec<&str> = rows.iter().filter(found).map(|row| row.row.as_str()).collect();
    // What says that nothing is lost holds where nothing is lost.
    let harmless = |name: &&str| name.contains("short") || name.ends_with("one core, 105 ms, 1/s");
    assert!(reproduced.iter().all(harmless), "{reproduced:?}");
}

#[test]
fn a_case_that_could_not_be_run_is_said_with_its_reason_in_every_row_of_it() {
    let mut plan = plan(Preset::Icpe20);
    plan.cases[0].unsupported = Some("it needs 2 cores: this host has 1 core".into());
    let outcome = outcome(&plan, |_| 100.0, |_, _, measure| if measure == "ledger_gaps" { 104.0 } else { 97.0 });
    let extras = [
        Extra::Figure { number: 12, found: Ok("35 s".into()), has_shape: Some(true) },
        Extra::Figure { number: 11, found: Err("no".into()), has_shape: None },
    ];
    let rows = Preset::Icpe20.rows(&plan.cases, &outcome, &extras);
    let cannot = rows.iter().filter(|row| row.verdict == Some(Verdict::CannotBeTested) && row.ours.contains("2 cores"));
    assert_eq!(cannot.count(), 3, "{rows:?}");
    assert_eq!(verdict(&rows, "a third of the requests time out"), Some(Verdict::CannotBeTested));
    assert_eq!(verdict(&rows, "a fine-grained detector sees each"), Some(Verdict::Reproduced));
    assert_eq!(verdict(&rows, "a long benchmark does not see them"), Some(Verdict::Reproduced));
    assert_eq!(verdict(&rows, "figure 12: the best polling interval"), Some(Verdict::Reproduced));
    assert_eq!(rows.last().unwrap().verdict, Some(Verdict::CannotBeTested));
}
