//! The chosen interval against brute force, and what polls of bins come to against the simulator.

use super::{MS, S};
use surefoot_memory::simulate::{Arrival, Arrivals, Costs, Mechanism, Outcome, Path, Pattern, Stream, run};
use surefoot_memory::tune::{Bins, Choice, Constraint, Wish, choose, curve};

/// A seeded case: a path, its errors, and what an interval has to keep.
struct Scenario {
    path: Path,
    arrivals: Vec<Arrival>,
    wish: Wish,
}

fn scenario(number: u64) -> Scenario {
    let mut stream = Stream::numbered(14, number);
    let mut among = |low: f64, high: f64| low * (high / low).powf(stream.open_unit());
    let mean_per_s = among(0.01, 20.0);
    let counter_bits = [8, 8, 10, 12, 15][among(1.0, 6.0) as usize - 1];
    let pattern = match number % 3 {
        0 => Pattern::Steady { per_s: mean_per_s },
        1 => Pattern::Bursty { per_s: 4.0 * mean_per_s, on_s: among(5.0, 300.0), off_s: among(20.0, 1000.0) },
        _ => Pattern::HeavyTailed { mean_per_s: mean_per_s / 10.0, mean_over_median: 20.0 },
    };
    let path = Path {
        mechanism: Mechanism::Polling,
        counter_bits,
        duration_ns: among(600.0, 7200.0) as u64 * S + (number % 2) * 123_456_789,
        banks: among(1.0, 13.0) as u32,
        hot: among(1.0, 60.0) as u32,
        cores: among(1.0, 200.0) as u32,
        costs: Costs {
            poll_wake_ns: among(1e5, 1e7) as u64,
            poll_core_ns: among(1e4, 1e6) as u64,
            poll_record_ns: among(1e5, 1e8) as u64,
            ..Costs::LITERATURE
        },
        ..Path::example()
    };
    let path = Path { interval_ns: S, ..path };
    let full_ns = path.costs.poll_ns(path.cores, path.banks.into());
    let arrivals: Vec<Arrival> = Arrivals::new(&pattern, &path, 14, number).take(60_000).collect();
    let wish = Wish {
        stall_longest_ns: number.is_multiple_of(4).then(|| full_ns / 2 + path.costs.empty_poll_ns(path.cores)),
        threshold_per_s: if number.is_multiple_of(5) { 10.0 } else { 0.0 },
        detect_ns: among(30.0, 600.0) as u64 * S,
        shortest_ns: S,
        longest_ns: 300 * S,
        any_phase: false,
    };
    Scenario { path, arrivals, wish }
}

impl Scenario {
    fn at(&self, interval_ns: u64) -> Outcome {
        run(&Path { interval_ns, ..self.path.clone() }, self.arrivals.iter().copied())
    }

    fn keeps(&self, interval_ns: u64, outcome: &Outcome) -> bool {
        let Wish { stall_longest_ns, threshold_per_s, detect_ns, .. } = self.wish;
        let proves = interval_ns as f64 * threshold_per_s / 1e9 <= self.path.capacity() as f64;
        outcome.missed_count == 0
            && proves
            && interval_ns <= detect_ns
            && stall_longest_ns.is_none_or(|most| outcome.stall_longest_ns <= most)
    }

    /// Every interval in the simulator.
    fn brute_force(&self) -> Option<(u64, Outcome)> {
        let all = (1..=self.wish.longest_ns / S).map(|seconds| (seconds * S, self.at(seconds * S)));
        all.filter(|(interval_ns, outcome)| self.keeps(*interval_ns, outcome))
            .min_by_key(|(_, outcome)| outcome.stall_total_ns)
    }

    fn choice(&self) -> Choice {
        let bins = Bins::new(S, self.arrivals.iter().copied()).unwrap();
        choose(&self.path, &bins, &self.wish).unwrap()
    }
}

/// Number of scenarios: 40, or `SUREFOOT_SCENARIOS` (1,000 for the table in `bench/results/memory.md`).
fn scenarios() -> u64 {
    std::env::var("SUREFOOT_SCENARIOS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

#[test]
fn the_choice_stalls_as_little_as_the_best_of_all_intervals() {
    let (mut worst, mut none) = (1.0f64, 0);
    let mut binding: std::collections::BTreeMap<&str, u32> = Default::default();
    for number in 0..scenarios() {
        let scenario = scenario(number);
        let choice = scenario.choice();
        *binding.entry(choice.binding.name()).or_default() += 1;
        let (Some(interval_ns), Some((best_ns, best))) = (choice.interval_ns, scenario.brute_force()) else {
            assert!(choice.interval_ns.is_none() && scenario.brute_force().is_none(), "scenario {number}: {choice:?}");
            none += 1;
            continue;
        };
        let found = scenario.at(interval_ns);
        assert!(scenario.keeps(interval_ns, &found), "scenario {number}: {choice:?}");
        assert_eq!(found, choice.outcome, "scenario {number}: the bins say something else than the simulator");
        let ratio = found.stall_total_ns as f64 / best.stall_total_ns.max(1) as f64;
        assert!(ratio <= 1.01, "scenario {number}: {interval_ns} against {best_ns}: {ratio}");
        worst = worst.max(ratio);
        // What holds at any phase holds at this one.
        if let Some(safe_ns) = choice.any_phase_ns {
            assert!(scenario.keeps(safe_ns, &scenario.at(safe_ns)), "scenario {number}: {choice:?}");
        }
    }
    let count = scenarios();
    println!(
        "{count} scenarios: worst ratio of total stall {worst:.4}, {none} without any interval; binding {binding:?}"
    );
    assert!(none < count / 2);
}

#[test]
fn polls_that_begin_later_lose_nothing_either() {
    let mut tried = 0;
    for number in 0..30 {
        let scenario = scenario(number);
        let Some(safe_ns) = scenario.choice().any_phase_ns else { continue };
        let wish = Wish { any_phase: true, ..scenario.wish };
        let bins = Bins::new(S, scenario.arrivals.iter().copied()).unwrap();
        assert_eq!(choose(&scenario.path, &bins, &wish).unwrap().interval_ns, Some(safe_ns));
        for part in 1..8 {
            // The first poll comes a part of an interval early.
            let shift_ns = safe_ns * part / 8;
            let shifted = scenario.arrivals.iter().map(|one| Arrival { at_ns: one.at_ns + shift_ns, ..*one });
            let duration_ns = scenario.path.duration_ns + shift_ns;
            let path = Path { interval_ns: safe_ns, duration_ns, ..scenario.path.clone() };
            assert_eq!(run(&path, shifted).missed_count, 0, "scenario {number}, part {part}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

fn steady(per_s: u64) -> Scenario {
    let path = Path { counter_bits: 8, duration_ns: 3600 * S, interval_ns: S, ..Path::example() };
    let arrivals = (0..3600 * per_s).map(|number| Arrival { at_ns: number * S / per_s, bank: 0, count: 1 }).collect();
    let wish = Wish {
        stall_longest_ns: None,
        threshold_per_s: 0.0,
        detect_ns: 600 * S,
        shortest_ns: S,
        longest_ns: 300 * S,
        any_phase: false,
    };
    Scenario { path, arrivals, wish }
}

#[test]
fn each_bound_binds_where_it_should() {
    let chosen = |scenario: &Scenario| (scenario.choice().interval_ns.map(|ns| ns / S), scenario.choice().binding);
    // 10 a second fill 255 after 25 s.
    let known = steady(10);
    assert_eq!(chosen(&known), (Some(25), Constraint::Loss));
    assert_eq!(known.choice().any_phase_ns, Some(24 * S));
    let with = |wish: Wish| Scenario { wish, ..steady(10) };
    assert_eq!(chosen(&with(Wish { detect_ns: 12 * S, ..known.wish })), (Some(12), Constraint::Detection));
    assert_eq!(chosen(&with(Wish { longest_ns: 7 * S, ..known.wish })), (Some(7), Constraint::Range));
    assert_eq!(chosen(&with(Wish { threshold_per_s: 51.0, ..known.wish })), (Some(5), Constraint::Proof));
    // A poll with a record takes 42.2 ms, one without 9.2 ms.
    let tight = with(Wish { stall_longest_ns: Some(42 * MS), ..known.wish });
    assert_eq!(chosen(&tight), (None, Constraint::Stall));
    assert_eq!(tight.choice().outcome.stall_longest_ns, 42_200_000);
    // Two counters that fire in turn every second: only polls of a second find one record at a time.
    let mut turns = steady(1);
    turns.path.banks = 2;
    turns.arrivals.iter_mut().for_each(|one| one.bank = (one.at_ns / S % 2) as u32);
    turns.wish.stall_longest_ns = Some(50 * MS);
    assert_eq!(chosen(&turns), (Some(1), Constraint::Stall));
    // With one bit no poll proves 10 errors a second.
    let mut bit = with(Wish { threshold_per_s: 10.0, ..known.wish });
    bit.path.counter_bits = 0;
    assert_eq!(chosen(&bit), (None, Constraint::Proof));
}

#[test]
fn the_curve_is_what_the_simulator_says() {
    let scenario = scenario(1);
    let bins = Bins::new(S, scenario.arrivals.iter().copied()).unwrap();
    let intervals: Vec<u64> = [1, 3, 7, 60, 250].map(|seconds| seconds * S).into();
    let days = scenario.path.duration_ns as f64 / 86.4e12;
    for point in curve(&scenario.path, &bins, &intervals) {
        let outcome = scenario.at(point.interval_ns);
        assert_eq!((point.missed_count, point.stall_longest_ns), (outcome.missed_count, outcome.stall_longest_ns));
        assert!((point.stall_ns_per_day - outcome.stall_total_ns as f64 / days).abs() < 10.0);
    }
}
