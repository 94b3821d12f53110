//! How often the mode of a fault is found, on made-up modules whose fault is known, by a generator that shares nothing with the classifier
//! (`tests/suite/field.rs`): tables of truth and judgement, and healthy modules that must be left alone.
//!
//! `cargo bench -p surefoot-memory --bench modes`; SEED=number for other modules, MODULES=number for more or fewer of each kind. The
//! classifier was mended by looking at modules of other seeds than the default, and at none of these.
#![allow(missing_docs)]

#[path = "../tests/suite/field.rs"]
mod field;

use field::{CIELO, Host, JAGUAR, Mix, Module, drawn, flip, geometry, module, poisson};
use std::collections::BTreeMap;
use std::time::Instant;
use surefoot_memory::fault::Evidence;
use surefoot_model::{DimmFault, ErrorReport, FaultMode, MemoryAction};
use surefoot_random::Random;

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
        FaultMode::Undetermined => "undetermined",
    }
}

fn judged(reports: &[ErrorReport], until_ns: u64) -> DimmFault {
    let mut evidence = Evidence::default();
    reports.iter().for_each(|report| evidence.add(report));
    evidence.judge_at(until_ns).1
}

#[derive(Default)]
struct Matrix([[u32; 8]; 8]);

fn place(mode: FaultMode) -> usize {
    MODES.iter().position(|&other| other == mode).unwrap_or(MODES.len() - 1)
}

impl Matrix {
    fn add(&mut self, truth: FaultMode, module: &Module) {
        self.0[place(truth)][place(judged(&module.reports, module.until_ns).mode)] += 1;
    }

    /// All, right, undetermined, another mode.
    fn sums(&self) -> [u32; 4] {
        let mut sums = [0; 4];
        for (at, row) in self.0.iter().enumerate() {
            let all: u32 = row.iter().sum();
            let undetermined = row[MODES.len() - 1];
            for (sum, add) in sums.iter_mut().zip([all, row[at], undetermined, all - row[at] - undetermined]) {
                *sum += add;
            }
        }
        sums
    }

    fn print(&self, title: &str) {
        println!("\n{title}\n\n| truth \\ judged | {} | right |", MODES.map(word).join(" | "));
        println!("|---|{}", "---:|".repeat(9));
        for (at, row) in self.0.iter().enumerate() {
            let sum: u32 = row.iter().sum();
            if sum > 0 {
                let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
                println!("| {} | {} | {:.1} % |", word(MODES[at]), cells.join(" | "), percent(row[at], sum));
            }
        }
        println!("\n{}", line(self.sums()));
    }
}

fn line([all, right, undetermined, other]: [u32; 4]) -> String {
    let errors = undetermined + other;
    format!(
        "Right {right} of {all}, {:.1} %; of {errors} errors {undetermined} undetermined, {:.0} %.",
        percent(right, all),
        percent(undetermined, errors)
    )
}

fn percent(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Each mode as often as another.
fn equal(
    modules: u64,
    count: (usize, usize),
    flips: u32,
    host: &dyn Fn(&mut Random) -> Host,
    random: &mut Random,
) -> Matrix {
    let mut matrix = Matrix::default();
    for mode in &MODES[..7] {
        for _ in 0..modules {
            let host = host(random);
            matrix.add(*mode, &module(&[(*mode, true)], count, flips, &host, random));
        }
    }
    matrix
}

fn singles(modules: u64, random: &mut Random) {
    println!(
        "\n## Single permanent faults, as many of each mode\n\n| reports | flips | right | undetermined | another mode |\n|---|---:|---:|---:|---:|"
    );
    for count in [(5, 9), (10, 29), (30, 99), (100, 999), (1000, 10_000)] {
        for flips in [0, 1, 3, 10] {
            let modules = if count.1 > 1000 { modules / 5 } else { modules };
            let [all, right, undetermined, other] = equal(modules, count, flips, &Host::drawn, random).sums();
            println!(
                "| {} to {} | {flips} | {:.1} % | {undetermined} | {other} of {all} |",
                count.0,
                count.1,
                percent(right, all)
            );
        }
    }
    for flips in [0, 1, 3, 10] {
        equal(modules, (30, 999), flips, &Host::drawn, random)
            .print(&format!("From 30 to 999 reports, {flips} flips beside them:"));
    }
}

type Hosts = (&'static str, fn(&mut Random) -> Host);

fn hosts(modules: u64, random: &mut Random) {
    let kinds: [Hosts; 6] = [
        ("bursts: many reports in seconds, then silence", |random| Host { is_bursty: true, ..Host::drawn(random) }),
        ("no bursts", |random| Host { is_bursty: false, ..Host::drawn(random) }),
        ("no scrubber", |random| Host { scrub_s: None, ..Host::drawn(random) }),
        ("scrubbed every 6 h", |random| Host { scrub_s: Some(6.0 * 3600.0), ..Host::drawn(random) }),
        ("scrubbed every 72 h", |random| Host { scrub_s: Some(72.0 * 3600.0), ..Host::drawn(random) }),
        ("one record in 300 s, the others lost", |random| Host {
            record_gap_s: 300.0,
            is_counting: false,
            ..Host::drawn(random)
        }),
    ];
    println!("\n## Single permanent faults by host, 30 to 999 reports, 1 flip\n\n| host | result |\n|---|---|");
    for (name, host) in kinds {
        println!("| {name} | {} |", line(equal(modules / 2, (30, 999), 1, &host, random).sums()));
    }
}

fn mixes(modules: u64, random: &mut Random) {
    for (name, mix) in [("Jaguar", &JAGUAR), ("Cielo", &CIELO)] {
        let (mut matrix, mut pairs) = (Matrix::default(), [0; 4]);
        for _ in 0..modules * 10 {
            let host = Host::drawn(random);
            let (mode, is_permanent) = drawn(mix, random);
            let most = if is_permanent { 2000 } else { 60 };
            let flips = poisson(0.2, random);
            let least = if mode == FaultMode::Rank { 5 } else { 2 };
            matrix.add(mode, &module(&[(mode, is_permanent)], (least, most), flips, &host, random));
        }
        matrix.print(&format!("Single faults drawn by the shares of {name}, transient and permanent, 2 to 2,000 reports, 0.2 flips on average:"));
        for _ in 0..modules * 2 {
            let (host, mix): (Host, &Mix) = (Host::drawn(random), mix);
            let (one, other) = (drawn(mix, random).0, drawn(mix, random).0);
            let module = module(&[(one, true), (other, true)], (30, 999), 0, &host, random);
            let found = judged(&module.reports, module.until_ns).mode;
            let larger = if place(one) > place(other) { one } else { other };
            let at = match found {
                mode if mode == larger => 0,
                mode if mode == one || mode == other => 1,
                FaultMode::Undetermined => 2,
                _ => 3,
            };
            pairs[at] += 1;
        }
        println!(
            "\nTwo permanent faults of one module, 30 to 999 reports each, by {name}: the larger named {}, the smaller {}, undetermined {}, a third mode {}.",
            pairs[0], pairs[1], pairs[2], pairs[3]
        );
    }
}

fn healthy(years: u32, random: &mut Random) {
    println!(
        "\n## Healthy modules: {years} module-years each\n\n| flips by | modules with errors | to be replaced, repaired or to lose a page |\n|---|---:|---|"
    );
    let transient: f64 = JAGUAR.iter().map(|(_, transient, _)| transient).sum();
    // 36 devices, 8,766 hours.
    let a_year = |fit: f64| fit * 1e-9 * 36.0 * 8766.0;
    let kinds: [(&str, f64, Option<&Mix>); 4] = [
        ("the rate of Jaguar's transient single bits", a_year(15.6), None),
        ("ten times that", a_year(156.0), None),
        ("a hundred times that", a_year(1560.0), None),
        ("Jaguar's transient faults of all modes", a_year(transient), Some(&JAGUAR)),
    ];
    for (name, mean, mix) in kinds {
        let (mut erring, mut condemned) = (0u32, BTreeMap::<String, u32>::new());
        for _ in 0..years {
            // A year is four times as long as a module is watched here: its flips come closer together than in life.
            let flips = poisson(mean, random);
            if flips == 0 {
                continue;
            }
            erring += 1;
            let (geometry, host) = (geometry(random), Host::drawn(random));
            let mut reports = Vec::new();
            for _ in 0..flips {
                match mix {
                    None => reports.extend(flip(&geometry, &host, random)),
                    Some(mix) => {
                        let mode = std::iter::repeat_with(|| drawn(mix, random)).find(|(_, stays)| !stays);
                        let mode = mode.map_or(FaultMode::Cell, |(mode, _)| mode);
                        let least = if mode == FaultMode::Rank { 5 } else { 2 };
                        reports.extend(field::fault(mode, false, (least, 60), &geometry, &host, random));
                    }
                }
            }
            reports.sort_by_key(|report| report.at_realtime_ns);
            let fault = judged(&reports, field::UNTIL_NS);
            if fault.action != MemoryAction::Watch {
                let how = format!("{:?} {:?} {:?}", fault.mode, fault.persistence, fault.action);
                *condemned.entry(how).or_default() += 1;
            }
        }
        println!("| {name} | {erring} | {} {condemned:?} |", condemned.values().sum::<u32>());
    }
}

fn main() {
    let (seed, modules) = (number("SEED", 20_261_201), number("MODULES", 200));
    let begun = Instant::now();
    let mut random = Random::new(seed);
    singles(modules, &mut random);
    hosts(modules, &mut random);
    mixes(modules, &mut random);
    healthy(100_000, &mut random);
    println!("\nSeed {seed}, {modules} modules; {:.1} s.", begun.elapsed().as_secs_f64());
}
