//! Worlds that are built to deceive the verdicts: every sentence is false in them, and few rows may say *reproduced*.

use super::*;
use crate::disturbance::Losses;
use crate::drift::{Drift, Rate};
use crate::experiment::{Condition, Run};
use crate::length::Length;
use crate::plan::{Compared, Done, Plan};
use std::collections::BTreeMap;
use std::time::Duration;
use surefoot_model::CpuId;
use surefoot_random::Random;

/// What a world does to the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Disturbed runs are like undisturbed ones.
    Null,
    /// The opposite of what was published.
    Contrary,
    /// What was published.
    Published,
    /// Twice the effect that was published.
    Twice,
    /// What was published; and what does not happen does, just as much as would be noticed.
    Edge,
}

impl Kind {
    /// An effect as a factor.
    fn speed(self, published: f64) -> f64 {
        match self {
            Kind::Null => 1.0,
            Kind::Edge if published == 1.0 => 0.95,
            Kind::Published | Kind::Edge => published,
            Kind::Twice => published * published,
            // The opposite of "does not" is that it does.
            Kind::Contrary if published == 1.0 => 0.5,
            Kind::Contrary => 1.0 / published,
        }
    }

    /// An effect that adds.
    fn sum(self, published: f64) -> f64 {
        match self {
            Kind::Null => 0.0,
            Kind::Published => published,
            Kind::Edge => published + 3.0,
            Kind::Twice => 2.0 * published,
            Kind::Contrary => -published,
        }
    }
}

/// About normal: the sum of twelve even numbers.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

fn plan(preset: Preset, repetitions: usize) -> Plan {
    let setting = Setting { cores: (0..8).map(CpuId).collect(), is_quick: true };
    let mut cases = preset.cases(&setting, &Guard { program: "none".into(), arguments: vec![] });
    cases.iter_mut().for_each(|case| case.unsupported = None);
    let (time_limit, total_limit) = (Duration::from_secs(1), Duration::from_secs(1));
    Plan { cases, repetitions, warms_up: false, seed: 1, time_limit, total_limit }
}

fn rate(treatment: &str) -> usize {
    (1..=4).find(|rate| treatment.ends_with(&format!("-{rate}"))).unwrap_or(1)
}

/// The speed that was published, as a factor; 1 where none is lost.
fn speed(case: &str, treatment: &str) -> f64 {
    match case {
        "tcp" if treatment.contains("short") => 1.0,
        "tcp" | "tcp-ring" => {
            let sent = [5.60, 5.05, 4.43, 3.82, 3.21];
            let received = [5.60, 4.53, 3.95, 3.32, 2.71];
            (if treatment.starts_with("receiver") { received } else { sent })[rate(treatment)] / 5.60
        }
        "mpi-2" => [("one", 0.96), ("all", 0.90), ("all-at-once", 0.95)]
            .into_iter()
            .find(|(name, _)| *name == treatment)
            .map_or(1.0, |(_, speed)| speed),
        "mpi-4" => 0.61,
        "mpi-8" => 0.47,
        "unseen" => 1.0,
        _ if treatment == "short" => 1.0,
        "compile" => 0.88,
        "compile-all" => 0.36,
        case if case.ends_with("-all") => 0.24,
        _ => 0.98,
    }
}

/// By how much a count or a share was published to rise, beside the number that no disturbance has in a contrary world.
fn rise(case: &str, treatment: &str, measure: &str, stalls: f64) -> f64 {
    match (case, measure) {
        ("udp", "lost_percent") if treatment.starts_with("receiver") => [0.0, 10.9, 21.5, 32.4, 44.1][rate(treatment)],
        (_, "retransmits") if treatment.starts_with("receiver") && !treatment.contains("short") => 378.0 * stalls,
        ("deadline", "late_percent") => match treatment {
            "100ms" => 5.0,
            "200ms" => 15.0,
            _ => 40.0,
        },
        (_, "ledger_gaps") => stalls,
        _ => 0.0,
    }
}

struct World {
    kind: Kind,
    noise: f64,
    seed: u64,
}

impl World {
    fn values(&self, plan: &Plan) -> Outcome {
        let mut random = Random::numbered(self.seed, 1);
        let mut done = Vec::new();
        for (number, place) in plan.places().into_iter().enumerate() {
            let case = &plan.cases[place.case];
            let treatment = place.treatment.map(|treatment| &case.treatments[treatment]);
            let stalls = 20.0;
            let mut value = |measure: &crate::plan::Measure| {
                let times = (self.noise * normal(&mut random)).exp();
                let name = measure.name.as_str();
                let Some(treatment) = treatment.map(|treatment| treatment.name.as_str()) else {
                    return match measure.compared {
                        Compared::Ratio => 100.0 * times,
                        Compared::Difference => self.base(name, stalls) * times,
                    };
                };
                match measure.compared {
                    Compared::Ratio => {
                        let speed = self.kind.speed(speed(&case.name, treatment));
                        let is_time = name.ends_with("_ns")
                            || name.ends_with("_us")
                            || name.ends_with("_ms")
                            || name == "seconds";
                        100.0 * times * if is_time { 1.0 / speed } else { speed }
                    }
                    Compared::Difference => {
                        let rise = rise(&case.name, treatment, name, stalls);
                        let base = self.base(name, stalls);
                        let value = (base + self.kind.sum(rise)) * times;
                        if name == "ledger_gaps" { value.round() } else { value }
                    }
                }
            };
            let values: Vec<f64> = case.measures.iter().map(&mut value).collect();
            let run = Run {
                number: number as u64,
                repetition: place.repetition,
                condition: Condition::Undisturbed,
                value: values[0],
                start_ns: 0,
                wall_ns: 1_000_000_000,
                stall_count: if treatment.is_some() { stalls as u64 } else { 0 },
                injected_share: treatment
                    .map_or(0.0, |treatment| treatment.spec.length_ns as f64 / treatment.spec.period_ns as f64),
                losses: Losses::default(),
                left_behind: 0,
                dropped_bytes: 0,
                load: None,
            };
            done.push(Done { place, run, values });
        }
        plan.outcome_of(done)
    }

    /// What a count or share is undisturbed: none at all in half of the worlds.
    fn base(&self, measure: &str, stalls: f64) -> f64 {
        match (self.kind, measure) {
            (Kind::Contrary, "lost_percent" | "late_percent") => 50.0,
            (Kind::Contrary, "retransmits") => 400.0 * stalls,
            (Kind::Contrary, "ledger_gaps") => 2.0 * stalls,
            (Kind::Published | Kind::Twice | Kind::Edge, _) => 0.0,
            _ if self.seed.is_multiple_of(2) => 0.0,
            _ => 20.0,
        }
    }

    /// By Student's t, as `length` and `drift` do it.
    fn estimate(&self, truth: f64, deviation: f64, count: usize, random: &mut Random) -> (f64, f64) {
        let values: Vec<f64> = (0..count).map(|_| truth + deviation * normal(random)).collect();
        let mean = values.iter().sum::<f64>() / count as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        (mean, crate::student::student(0.95, count as u64 - 1) * (variance / count as f64).sqrt())
    }

    fn length(&self, asked_ns: u64, random: &mut Random) -> Extra {
        const STEPS: usize = 5;
        let asked = asked_ns as f64;
        let truth = match self.kind {
            Kind::Null => 0.0,
            Kind::Published => asked,
            Kind::Edge => 1.05 * asked,
            Kind::Contrary | Kind::Twice => 2.0 * asked,
        };
        let (length_ns, reach) = self.estimate(truth, asked * self.noise, STEPS, random);
        let [length_ns, low_ns, high_ns] = [length_ns, length_ns - reach, length_ns + reach].map(|ns| ns.max(0.0));
        let steps = STEPS as u64;
        let found = Ok(Length { length_ns, low_ns, high_ns, driver_ns: 0.0, slope: 1.0, steps });
        Extra::Length { asked_ns, found }
    }

    fn drift(&self, random: &mut Random) -> Extra {
        const SAMPLES: usize = 9;
        // The opposite of drifting apart is to stay together.
        let truth = if matches!(self.kind, Kind::Null | Kind::Contrary) { 0.0 } else { -105e9 };
        let (middle, reach) = self.estimate(truth, 1e11 * self.noise, SAMPLES - 1, random);
        let rate = Rate { ns_per_s: 0.0, deviation: 1.0, samples: SAMPLES, left_out: 0, span_s: 9.0 };
        let (ns_per_thousand, low_ns, high_ns) = (middle, middle - reach, middle + reach);
        let drift = Drift { ns_per_thousand, low_ns, high_ns, undisturbed: rate, disturbed: rate };
        Extra::Drift { found: Ok((drift, "jiffies".into())) }
    }

    fn figure(&self, number: u32, random: &mut Random) -> Extra {
        let mut part = || (0..12).map(|_| self.kind.sum(1.0) + self.noise * normal(random)).collect();
        let above_zero = if number == 4 { vec![part(), part()] } else { vec![part()] };
        Extra::Figure {
            number,
            found: Ok(Drawn { words: "drawn".into(), above_zero, is_fitted: matches!(number, 6 | 12) }),
        }
    }

    fn extras(&self) -> Vec<Extra> {
        let random = &mut Random::numbered(self.seed, 2);
        let mut extras: Vec<Extra> =
            Preset::Slides.lengths_ns().iter().map(|asked_ns| self.length(*asked_ns, random)).collect();
        extras.push(self.drift(random));
        extras.extend([4, 6, 8, 9, 10, 11, 12].map(|number| self.figure(number, random)));
        extras
    }

    fn simulated(&self) -> Simulated {
        let random = &mut Random::numbered(self.seed, 3);
        let mut draws = |published: f64| {
            let speed = self.kind.speed(published).ln();
            Ok((0..12).map(|draw| (draw, speed + self.noise * normal(random))).collect())
        };
        Simulated { few: [0.90, 0.61, 0.47].map(&mut draws), many: [0.01, 0.9].map(&mut draws) }
    }

    fn rows(&self, preset: Preset, plan: &Plan) -> Vec<Row> {
        let (outcome, extras, simulated) = (self.values(plan), self.extras(), self.simulated());
        let view = View { cases: &plan.cases, outcome: &outcome };
        match preset {
            Preset::Slides => judged(&slides::rows(&view, &extras, &simulated)),
            Preset::Icpe20 => judged(&icpe20::rows(&view, &extras)),
        }
    }
}

const WORLDS: u64 = 1_000;
const NOISES: [f64; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];

fn world(kind: Kind, seed: u64) -> World {
    World { kind, noise: NOISES[seed as usize % NOISES.len()], seed }
}

/// Of each row, and of each family of rows, in how many worlds it said so.
#[derive(Default)]
struct Counts {
    rows: BTreeMap<String, u64>,
    families: BTreeMap<String, u64>,
    judged: u64,
}

fn counts(kind: Kind, is_counted: impl Fn(&Row) -> bool) -> Counts {
    let mut counts = Counts::default();
    for preset in Preset::ALL {
        let plan = plan(preset, preset.repetitions(false));
        for seed in 0..WORLDS {
            let rows = world(kind, seed).rows(preset, &plan);
            let mut families: Vec<String> = Vec::new();
            for row in rows.iter().filter(|row| row.verdict.is_some() && is_counted(row)) {
                counts.judged += 1;
                let is_so = row.verdict == Some(Verdict::Reproduced);
                *counts.rows.entry(row.row.clone()).or_default() += u64::from(is_so);
                if is_so {
                    families.push(format!("{} ({})", row.table, row.evidence.name()));
                }
            }
            families.sort_unstable();
            families.dedup();
            families.into_iter().for_each(|family| *counts.families.entry(family).or_default() += 1);
        }
    }
    counts
}

/// Few say so: of all rows together, of each row, and of each family of rows.
fn assert_few(kind: Kind, is_counted: impl Fn(&Row) -> bool) {
    let counts = counts(kind, is_counted);
    let all: u64 = counts.rows.values().sum();
    assert!(all * 20 <= counts.judged, "{kind:?}: {all} of {}", counts.judged);
    for (name, count) in counts.rows.iter().chain(&counts.families) {
        assert!(count * 20 <= WORLDS, "{kind:?}: {name}: {count} of {WORLDS}");
    }
}

#[test]
fn where_nothing_happens_few_rows_say_reproduced() {
    assert_few(Kind::Null, |_| true);
}

#[test]
fn where_the_opposite_happens_few_rows_say_reproduced() {
    assert_few(Kind::Contrary, |_| true);
}

#[test]
fn where_twice_as_much_happens_few_rows_say_that_it_is_about_so_much() {
    assert_few(Kind::Twice, |row| matches!(row.rules[0], Rule::About { .. }));
}

#[test]
fn where_as_much_happens_as_would_be_noticed_few_rows_say_that_nothing_does() {
    assert_few(Kind::Edge, |row| matches!(row.rules[0], Rule::Equivalent { .. }));
}

#[test]
fn where_it_happens_almost_without_noise_every_row_says_reproduced() {
    for preset in Preset::ALL {
        let plan = plan(preset, preset.repetitions(false));
        let world = World { kind: Kind::Published, noise: 0.001, seed: 2 };
        for row in world.rows(preset, &plan) {
            // Of a noise of a thousandth no spread is told, and a thousandth of a count is one in a thousand.
            if row.row.starts_with("runs with SMIs on one of two machines differ") {
                assert_ne!(row.verdict, Some(Verdict::Reproduced), "{row:?}");
                continue;
            }
            assert!(matches!(row.verdict, None | Some(Verdict::Reproduced)), "{row:#?}");
        }
    }
}

#[test]
fn every_row_has_a_rule_or_nothing_that_could_be_tested() {
    for preset in Preset::ALL {
        let plan = plan(preset, 3);
        for row in world(Kind::Null, 1).rows(preset, &plan) {
            let is_without = row.rules.iter().all(|rule| *rule == Rule::Shown);
            let is_unknown = row.published == "no number known to us" || row.published.starts_with("left open");
            assert_eq!(is_without, is_unknown || row.evidence == Evidence::Fitted, "{row:?}");
            assert_eq!(is_without, row.verdict.is_none(), "{row:?}");
            // A quick run has too few for any of them; what is counted in one run can be refuted by it.
            let is_of_runs = row.evidence == Evidence::Measured && plan_gives(&row);
            if is_of_runs && !is_without && !row.rules.contains(&Rule::Each) {
                let Some(Verdict::TooFewRuns { runs: 3, needed }) = row.verdict else { panic!("{row:?}") };
                assert!((6..=10).contains(&needed), "{row:?}");
                assert!(row.verdict_words().starts_with("too few runs: 3 of "), "{row:?}");
            }
        }
    }
}

/// Whether a row's numbers are those of repetitions.
fn plan_gives(row: &Row) -> bool {
    let of_sweeps = ["stalls of ", "counting SMIs", "wall clocks"];
    !of_sweeps.iter().any(|start| row.row.starts_with(start))
}
