//! The order of the runs, and what comes of them.

use super::*;
use crate::disturbance::Losses;
use crate::workload::Guard;

fn case(name: &str, treatments: usize) -> Case {
    let spec = Spec::freeze(1, 10);
    let treatment = |number: usize| Treatment { name: format!("t{number}"), spec: spec.clone() };
    Case {
        name: name.into(),
        workload: Workload::new("true".into(), Guard { program: "none".into(), arguments: vec![] }),
        measures: vec![
            Measure { name: "time".into(), metric: Metric::Wall, compared: Compared::Ratio },
            Measure { name: "loss".into(), metric: Metric::Wall, compared: Compared::Difference },
        ],
        treatments: (0..treatments).map(treatment).collect(),
        unsupported: None,
        lasts: None,
    }
}

fn plan(seed: u64) -> Plan {
    Plan {
        cases: vec![case("one", 2), case("two", 1), case("three", 3)],
        repetitions: 4,
        warms_up: true,
        seed,
        time_limit: Duration::from_secs(1),
        total_limit: Duration::from_secs(1),
    }
}

fn done(place: RunId, number: u64, values: [f64; 2]) -> Done {
    let run = Run {
        number,
        repetition: place.repetition,
        condition: Condition::Undisturbed,
        value: values[0],
        start_ns: 0,
        wall_ns: 1_000,
        stall_count: 2,
        injected_share: 0.25,
        losses: Losses::default(),
        left_behind: 0,
        dropped_bytes: 0,
        load: Some(0.5),
    };
    Done { place, run, values: values.to_vec() }
}

#[test]
fn every_repetition_has_each_case_with_each_treatment_and_the_seed_chooses_the_order() {
    let places = plan(1).places();
    // 3 that warm up, and 4 times (1 + 2) + (1 + 1) + (1 + 3).
    assert_eq!(places.len(), 3 + 4 * 9);
    let distinct: std::collections::BTreeSet<RunId> = places.iter().copied().collect();
    assert_eq!(distinct.len(), places.len());
    let order = |repetition: u64| -> Vec<usize> {
        places.iter().filter(|place| place.repetition == Some(repetition)).map(|place| place.case).collect()
    };
    for repetition in 0..4 {
        // The runs of a case lie beside each other.
        let mut cases = order(repetition);
        assert_eq!(cases.len(), 9);
        cases.dedup();
        assert_eq!(cases.len(), 3, "{cases:?}");
    }
    // The first of a case warms it up.
    for case in 0..3 {
        let first = places.iter().find(|place| place.case == case).unwrap();
        assert_eq!(first.repetition, None);
    }
    assert_eq!(places, plan(1).places());
    assert!((2..9).any(|seed| plan(seed).places() != places));
    assert!((1..9).any(|seed| plan(seed).places()[1].treatment != places[1].treatment));
}

#[test]
fn what_is_unsupported_is_not_run_and_what_is_known_not_again() {
    let mut plan = plan(1);
    plan.cases[1].unsupported = Some("no such tool".into());
    assert!(plan.places().iter().all(|place| place.case != 1));
    let known = done(plan.places()[0], 0, [1.0, 2.0]);
    let state = State::new(&plan, vec![known]);
    assert!(!state.is_wanted(&plan.places()[0]) && state.is_wanted(&plan.places()[1]));
    let outcome = state.outcome();
    assert_eq!(outcome.cases[1].gave_up, Some(NoResult::Unsupported("no such tool".into())));
    assert_eq!(outcome.load_max, 0.5);
}

#[test]
fn each_treatment_is_compared_with_the_undisturbed_run_of_its_own_repetition() {
    let plan = plan(1);
    let mut known = Vec::new();
    for repetition in 0..4u64 {
        // What drifts is in both runs of a repetition.
        let drift = 1.0 + repetition as f64;
        for (treatment, times, loss) in [(None, 1.0, 0.0), (Some(0), 2.0, 10.0), (Some(1), 0.5, 0.0)] {
            let place = RunId { case: 0, repetition: Some(repetition), treatment };
            known.push(done(place, known.len() as u64, [100.0 * drift * times, loss]));
        }
    }
    // One that has no undisturbed one is no pair.
    known.push(done(RunId { case: 2, repetition: Some(0), treatment: Some(0) }, 99, [1.0, 1.0]));
    let outcome = State::new(&plan, known).outcome();
    let [twice, half] = [0, 1].map(|treatment| &outcome.cases[0].treatments[treatment]);
    assert_eq!((twice.measures[0].pairs, twice.stall_count, twice.injected_share), (4, 8, 0.25));
    assert!((twice.measures[0].effect.unwrap().ratio - 2.0).abs() < 1e-9);
    assert!((half.measures[0].effect.unwrap().ratio - 0.5).abs() < 1e-9);
    assert_eq!(twice.measures[1].shift.unwrap().estimate, 10.0);
    assert_eq!(half.measures[1].shift.unwrap().estimate, 0.0);
    assert_eq!(twice.measures[1].medians, [0.0, 10.0]);
    let lonely = &outcome.cases[2].treatments[0].measures[0];
    assert_eq!((lonely.pairs, lonely.effect), (0, None));
}

#[test]
fn numbers_that_are_impossible_are_refused_with_what_would_be_possible() {
    let refused = |change: fn(&mut Plan)| {
        let mut plan = plan(1);
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    assert!(refused(|plan| plan.repetitions = 1).contains("1 repetitions: 2 to 200"));
    assert!(refused(|plan| plan.cases.clear()).contains("0 workloads: 1 to 100"));
    assert!(refused(|plan| plan.cases[0].treatments.clear()).contains("0 disturbances of workload 'one'"));
    assert!(refused(|plan| plan.cases[0].measures.clear()).contains("0 measures of workload 'one'"));
    assert!(plan(1).check().is_ok());
}
