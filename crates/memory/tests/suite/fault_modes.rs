//! Fault modes against modules whose fault is known. The seeds are others than those of the benchmark, by which the rules were
//! chosen.

use super::synthetic::{Noise, Random, by_rates, module};
use surefoot_memory::fault::Evidence;
use surefoot_model::{FaultMode, Persistence};

const SEED: u64 = 0x7e57_0000;
const MODULES: u32 = 400;

fn judged(module: &super::synthetic::Module) -> (FaultMode, Persistence) {
    let mut evidence = Evidence::default();
    module.reports.iter().for_each(|report| evidence.add(report));
    let (_, fault) = evidence.judge_at(module.until_ns);
    (fault.mode, fault.persistence)
}

/// The share that is judged rightly of modules of this mode with five reports at least.
fn share_right(mode: FaultMode, noise: Noise, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let right = (0..MODULES).filter(|_| {
        let module = module(mode, Persistence::Permanent, 5, noise, &mut random);
        judged(&module).0 == module.mode
    });
    right.count() as f64 / f64::from(MODULES)
}

#[test]
fn each_mode_is_found_in_permanent_faults_with_noise() {
    let least = [
        (FaultMode::Cell, 0.95),
        (FaultMode::Row, 0.93),
        (FaultMode::Column, 0.93),
        (FaultMode::Bank, 0.90),
        (FaultMode::Banks, 0.78),
        (FaultMode::Rank, 0.88),
    ];
    for (mode, least) in least {
        let share = share_right(mode, Noise::USUAL, SEED + u64::from(super::synthetic::extent(mode)));
        assert!(share >= least, "{mode:?}: {share}");
    }
}

#[test]
fn without_noise_a_line_or_a_cell_is_always_found() {
    for mode in [FaultMode::Cell, FaultMode::Row, FaultMode::Column] {
        let share = share_right(mode, Noise::NONE, SEED + 100);
        assert!(share >= 0.97, "{mode:?}: {share}");
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
