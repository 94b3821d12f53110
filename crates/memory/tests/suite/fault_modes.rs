//! Fault modes against modules whose fault is known. The seeds are others than those of the benchmark, by which the rules were
//! chosen.

use super::field;
use super::synthetic::{Noise, Random, by_rates, module, stray};
use surefoot_memory::fault::Evidence;
use surefoot_model::{FaultMode, MemoryAction, Persistence};

const SEED: u64 = 0x7e57_0000;
const MODULES: u32 = 400;

fn judged(module: &super::synthetic::Module) -> (FaultMode, Persistence) {
    let mut evidence = Evidence::default();
    module.reports.iter().for_each(|report| evidence.add(report));
    let (_, fault) = evidence.judge_at(module.until_ns);
    (fault.mode, fault.persistence)
}

/// Of modules of this mode with five reports at least the share that is judged rightly, and the share that is taken for another mode.
fn shares(mode: FaultMode, noise: Noise, seed: u64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..MODULES {
        let module = module(mode, Persistence::Permanent, 5, noise, &mut random);
        let found = judged(&module).0;
        right += u32::from(found == module.mode);
        wrong += u32::from(found != module.mode && found != FaultMode::Undetermined);
    }
    (f64::from(right) / f64::from(MODULES), f64::from(wrong) / f64::from(MODULES))
}

#[test]
fn each_mode_is_found_in_permanent_faults_with_noise() {
    let least = [
        (FaultMode::Cell, 0.95),
        (FaultMode::Row, 0.93),
        (FaultMode::Column, 0.93),
        (FaultMode::Bank, 0.90),
        // Five reports from as many banks may be anything, and that is said.
        (FaultMode::Banks, 0.60),
        (FaultMode::Rank, 0.70),
        // Of five reports all may be of one of its rows.
        (FaultMode::Rows, 0.80),
    ];
    for (seed, (mode, least)) in least.into_iter().enumerate() {
        let (right, wrong) = shares(mode, Noise::USUAL, SEED + 1 + seed as u64);
        assert!(right >= least && wrong <= 0.10, "{mode:?}: {right}, wrong {wrong}");
    }
}

#[test]
fn without_noise_a_line_or_a_cell_is_always_found() {
    for mode in [FaultMode::Cell, FaultMode::Row, FaultMode::Column] {
        let (right, _) = shares(mode, Noise::NONE, SEED + 100);
        assert!(right >= 0.97, "{mode:?}: {right}");
    }
}

#[test]
fn modules_drawn_by_field_rates_are_judged_rightly_in_most_cases() {
    let mut random = Random::new(SEED + 200);
    let (mut mode_right, mut stays_right, mut stays_wrong, all) = (0, 0, 0, 3000);
    for _ in 0..all {
        let (mode, persistence) = by_rates(&mut random);
        let module = module(mode, persistence, 1, Noise::USUAL, &mut random);
        let found = judged(&module);
        mode_right += u32::from(found.0 == module.mode);
        if module.mode != FaultMode::Undetermined {
            stays_right += u32::from(found.1 == module.persistence);
            stays_wrong += u32::from(found.1 != module.persistence && found.1 != Persistence::Undetermined);
        }
    }
    assert!(f64::from(mode_right) >= 0.88 * f64::from(all), "{mode_right} of {all}");
    assert!(f64::from(stays_right) >= 0.80 * f64::from(all), "{stays_right} of {all}");
    assert!(f64::from(stays_wrong) <= 0.10 * f64::from(all), "{stays_wrong} of {all}");
}

#[test]
fn what_has_no_coordinates_is_never_given_a_mode() {
    let mut random = Random::new(SEED + 300);
    let blind = Noise { blind: 1.0, ..Noise::NONE };
    for _ in 0..MODULES {
        let (mode, persistence) = by_rates(&mut random);
        let module = module(mode, persistence, 1, blind, &mut random);
        assert_eq!(judged(&module).0, FaultMode::Undetermined);
    }
}

/// Modules with one fault and stray flips beside it, from thirty reports on: how many of so many are judged rightly, wrongly, and not.
fn with_strays(mode: FaultMode, strays: u32, modules: u32, seed: u64) -> [u32; 3] {
    let mut random = Random::new(seed);
    let mut counts = [0; 3];
    for _ in 0..modules {
        let mut module = module(mode, Persistence::Permanent, 30, Noise::NONE, &mut random);
        (0..strays).for_each(|_| module.reports.push(stray(&mut random)));
        counts[match judged(&module).0 {
            found if found == mode => 0,
            FaultMode::Undetermined => 2,
            _ => 1,
        }] += 1;
    }
    counts
}

const MODES: [FaultMode; 7] = [
    FaultMode::Cell,
    FaultMode::Row,
    FaultMode::Rows,
    FaultMode::Column,
    FaultMode::Bank,
    FaultMode::Banks,
    FaultMode::Rank,
];

#[test]
fn stray_flips_beside_a_fault_do_not_change_its_mode() {
    for strays in [0, 1, 3] {
        for mode in MODES {
            let [right, wrong, undetermined] = with_strays(mode, strays, 40, SEED + 400 + u64::from(strays));
            let said = format!("{mode:?} with {strays}: {right} right, {wrong} wrong, {undetermined} undetermined");
            assert!(right >= 36 && wrong <= 2, "{said}");
        }
    }
    for mode in MODES {
        let [right, wrong, undetermined] = with_strays(mode, 10, 40, SEED + 410);
        assert!(
            right >= 30 && wrong <= 6,
            "{mode:?} with 10: {right} right, {wrong} wrong, {undetermined} undetermined"
        );
    }
}

/// A thousand errors of one row, and three flips in other banks.
#[test]
fn a_thousand_errors_of_a_row_stay_a_row_with_three_flips_elsewhere() {
    for seed in 0..20 {
        let mut random = Random::new(SEED + 500 + seed);
        let mut row = module(FaultMode::Row, Persistence::Permanent, 1000, Noise::NONE, &mut random);
        (0..3).for_each(|_| row.reports.push(stray(&mut random)));
        let mut evidence = Evidence::default();
        row.reports.iter().for_each(|report| evidence.add(report));
        let (_, fault) = evidence.judge_at(row.until_ns);
        assert!(fault.mode == FaultMode::Row && fault.action == MemoryAction::PostPackageRepair, "{seed}: {fault:?}");
        assert!(fault.probability.unwrap() > 0.9 && fault.report_count >= 1003, "{fault:?}");
    }
}

/// A row in one bank and a column in another: two faults, and no lost banks.
#[test]
fn a_row_and_a_column_in_two_banks_are_two_faults() {
    let mut random = Random::new(SEED + 600);
    let mut right = 0;
    for _ in 0..50 {
        let mut reports = module(FaultMode::Row, Persistence::Permanent, 30, Noise::NONE, &mut random).reports;
        let column = module(FaultMode::Column, Persistence::Permanent, 30, Noise::NONE, &mut random);
        reports.extend(column.reports);
        let mut evidence = Evidence::default();
        reports.iter().for_each(|report| evidence.add(report));
        let (_, fault) = evidence.judge_at(column.until_ns);
        let is_said =
            fault.evidence.contains("column") && fault.evidence.contains("beside it") && fault.evidence.contains("row");
        right += u32::from(fault.mode == FaultMode::Column && is_said);
    }
    assert!(right >= 47, "{right} of 50");
}

/// Healthy modules flip a bit now and then: 100,000 modules of a year by the rate of the field, and, far beyond it, modules with up to ten
/// flips in two months. None is to be replaced, repaired or to lose a page.
#[test]
fn no_healthy_module_is_condemned() {
    let mut random = Random::new(SEED + 700);
    // 15.6 transient cell faults in 10^9 hours of a device, 36 devices.
    let none_in_a_year = (-15.6e-9f64 * 36.0 * 8766.0).exp();
    let condemned = |flips: u32, random: &mut Random| {
        let mut evidence = Evidence::default();
        for _ in 0..flips {
            let one = stray(random);
            // Until it is scrubbed it may be read a few times.
            (0..=random.below(4)).for_each(|_| evidence.add(&one));
        }
        let fault = evidence.judge().1;
        (fault.action != MemoryAction::Watch).then_some(fault)
    };
    let mut with_flips = 0;
    for year in 0..100_000 {
        let (mut flips, mut left) = (0, random.share());
        while left > none_in_a_year {
            left *= random.share();
            flips += 1;
        }
        with_flips += u32::from(flips > 0);
        let condemned = (flips > 0).then(|| condemned(flips, &mut random)).flatten();
        assert_eq!(condemned, None, "module-year {year} with {flips} flips");
    }
    assert!(with_flips > 300, "{with_flips}");
    for flips in [2, 3, 5, 10] {
        let bad = (0..500).filter(|_| condemned(flips, &mut random).is_some()).count();
        assert!(bad <= 2, "{bad} of 500 healthy modules with {flips} flips");
    }
}

/// Modules by a generator that shares nothing with the classifier: hot pages, scrubs, intermittent faults, lost records.
#[test]
fn faults_of_an_independent_generator_are_named_from_thirty_reports_on() {
    for (flips, least) in [(0, 0.95), (1, 0.92), (3, 0.90), (10, 0.82)] {
        let mut random = surefoot_random::Random::new(SEED + 800 + u64::from(flips));
        let (mut right, mut all) = (0, 0);
        for mode in MODES {
            for _ in 0..12 {
                let host = field::Host::drawn(&mut random);
                let module = field::module(&[(mode, true)], (30, 300), flips, &host, &mut random);
                let mut evidence = Evidence::default();
                module.reports.iter().for_each(|report| evidence.add(report));
                right += u32::from(evidence.judge_at(module.until_ns).1.mode == mode);
                all += 1;
            }
        }
        assert!(f64::from(right) >= least * f64::from(all), "{right} of {all} with {flips} flips");
    }
}

/// Flips that wait three days for a slow scrubber, are read hundreds of times, or take a neighbour with them.
#[test]
fn flips_of_an_independent_generator_condemn_no_module() {
    let mut random = surefoot_random::Random::new(SEED + 900);
    for number in 0..2000 {
        let (geometry, host) = (field::geometry(&mut random), field::Host::drawn(&mut random));
        let mut reports: Vec<_> = (0..=number % 3).flat_map(|_| field::flip(&geometry, &host, &mut random)).collect();
        reports.sort_by_key(|report| report.at_realtime_ns);
        let mut evidence = Evidence::default();
        reports.iter().for_each(|report| evidence.add(report));
        let fault = evidence.judge_at(field::UNTIL_NS).1;
        assert_eq!(fault.action, MemoryAction::Watch, "{fault:?}");
    }
}
