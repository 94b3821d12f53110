//! How often the mode of a fault is found, on made-up modules whose fault is known: a table of truth and judgement.
//!
//! `cargo bench -p surefoot-memory --bench modes`; SEED=number for other modules. The tests use other seeds.
#![allow(missing_docs)]

#[allow(dead_code)]
#[path = "../tests/suite/synthetic.rs"]
mod synthetic;

use std::time::Instant;
use surefoot_memory::fault::Evidence;
use surefoot_model::{FaultMode, Persistence};
use synthetic::{FIT, Module, Noise, Random, by_rates, module, stray};

const MODES: [FaultMode; 8] = [
    FaultMode::Cell,
    FaultMode::Row,
    FaultMode::Rows,
    FaultMode::Column,
    FaultMode::Bank,
    FaultMode::Banks,
    FaultMode::Rank,
    FaultMode::Undetermined,
];

const STAYS: [Persistence; 3] = [Persistence::Transient, Persistence::Permanent, Persistence::Undetermined];

fn word(mode: FaultMode) -> &'static str {
    match mode {
        FaultMode::None => "none",
        FaultMode::Cell => "cell",
        FaultMode::Row => "row",
        FaultMode::Rows => "rows",
        FaultMode::Column => "column",
        FaultMode::Bank => "bank",
        FaultMode::Banks => "banks",
        FaultMode::Rank => "rank",
        FaultMode::Undetermined => "not to be told",
    }
}

#[derive(Default)]
struct Matrix {
    modes: [[u32; 8]; 8],
    stays: [[u32; 3]; 2],
}

fn place<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter().position(|other| other == one).unwrap_or(all.len() - 1)
}

impl Matrix {
    fn add(&mut self, module: &Module) {
        let mut evidence = Evidence::default();
        module.reports.iter().for_each(|report| evidence.add(report));
        let (_, fault) = evidence.judge_at(module.until_ns);
        self.modes[place(&MODES, &module.mode)][place(&MODES, &fault.mode)] += 1;
        if module.mode != FaultMode::Undetermined {
            self.stays[place(&STAYS, &module.persistence)][place(&STAYS, &fault.persistence)] += 1;
        }
    }

    fn print(&self, title: &str) {
        println!("\n{title}\n\n| truth \\ judged | {} | right |", MODES.map(word).join(" | "));
        println!("|---|{}", "---:|".repeat(8));
        let (mut right, mut all) = (0, 0);
        for (at, row) in self.modes.iter().enumerate() {
            let sum: u32 = row.iter().sum();
            if sum == 0 {
                continue;
            }
            (right, all) = (right + row[at], all + sum);
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            println!("| {} | {} | {:.1} % |", word(MODES[at]), cells.join(" | "), percent(row[at], sum));
        }
        println!("\nRight: {right} of {all}, {:.1} %.", percent(right, all));
        let [transient, permanent] = &self.stays;
        println!(
            "Transient ones: {} judged transient, {} permanent, {} not to be told. Permanent ones: {}, {}, {}.",
            transient[0], transient[1], transient[2], permanent[0], permanent[1], permanent[2]
        );
    }
}

fn percent(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

fn main() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_123);
    let begun = Instant::now();
    let mut random = Random::new(seed);
    let mut by_rate = Matrix::default();
    for _ in 0..20_000 {
        let (mode, persistence) = by_rates(&mut random);
        by_rate.add(&module(mode, persistence, 1, Noise::USUAL, &mut random));
    }
    by_rate.print("Drawn by the field rates, any number of reports, with noise:");
    for reports_min in [1, 5] {
        let mut equal = Matrix::default();
        for (mode, ..) in FIT {
            for _ in 0..2_000 {
                equal.add(&module(mode, Persistence::Permanent, reports_min, Noise::USUAL, &mut random));
            }
        }
        equal.print(&format!("Permanent faults, as many of each mode, {reports_min} reports at least, with noise:"));
    }
    for strays in [0, 1, 3, 10] {
        let mut beside = Matrix::default();
        for (mode, ..) in FIT {
            for _ in 0..1_000 {
                let mut module = module(mode, Persistence::Permanent, 30, Noise::NONE, &mut random);
                (0..strays).for_each(|_| module.reports.push(stray(&mut random)));
                beside.add(&module);
            }
        }
        beside.print(&format!(
            "Permanent faults, as many of each mode, 30 reports at least, no noise but {strays} stray flips:"
        ));
    }
    println!("\nSeed {seed}; {:.1} s.", begun.elapsed().as_secs_f64());
}
