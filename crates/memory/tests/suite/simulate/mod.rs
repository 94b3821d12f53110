//! The simulator against closed forms, against a reference that skips nothing, and against its own sums.

mod applying;
mod closed_forms;
mod reference;
mod tuning;

use proptest::prelude::*;
use reference::Reference;
use surefoot_memory::simulate::{
    Arrival, Arrivals, Costs, Fleet, Mechanism, Path, Pattern, StormRule, Trace, run, run_with_spans,
};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn arrivals(tick_ns: u64, ticks: u64) -> impl Strategy<Value = Vec<Arrival>> {
    let one = (0..ticks, 0..3u32, 1..6u64);
    proptest::collection::vec(one, 0..120).prop_map(move |mut all| {
        all.sort_unstable();
        all.into_iter().map(|(at, bank, count)| Arrival { at_ns: at * tick_ns, bank, count }).collect()
    })
}

fn costs(tick_ns: u64, of: (u64, u64, u64, u64)) -> Costs {
    Costs {
        poll_wake_ns: of.0 * tick_ns,
        poll_core_ns: 0,
        poll_record_ns: of.1 * tick_ns,
        interrupt_ns: of.2 * tick_ns,
        line_ns: 0,
        smi_ns: of.3 * tick_ns,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn polling_skips_nothing_that_second_by_second_does(
        all in arrivals(S, 500),
        bits in 0..5u32,
        interval in 2..90u64,
        of in (0..2u64, 0..60u64, 0..1u64, 0..1u64),
        duration in 500..600u64,
    ) {
        let path = Path {
            mechanism: Mechanism::Polling, counter_bits: bits, interval_ns: interval * S, duration_ns: duration * S,
            banks: 3, costs: costs(S, of), ..Path::example()
        };
        path.check().unwrap();
        let found = run(&path, all.iter().copied());
        prop_assert_eq!(found, Reference::run(&path, S, &all));
        // Keeping the stalls changes none of them.
        let (again, spans) = run_with_spans(&path, all.iter().copied());
        prop_assert_eq!(found, again);
        prop_assert_eq!(spans.iter().map(|span| span.end_ns - span.start_ns).sum::<u64>(), found.stall_total_ns);
        prop_assert!(spans.windows(2).all(|pair| pair[0].end_ns < pair[1].start_ns));
    }

    #[test]
    fn interrupts_and_smis_are_those_of_the_reference(
        all in arrivals(MS, 500),
        is_smi in any::<bool>(),
        bits in 2..6u32,
        threshold in 1..4u32,
        of in (0..1u64, 0..1u64, 0..30u64, 0..30u64),
    ) {
        let mechanism = if is_smi { Mechanism::Smi } else { Mechanism::Cmci };
        let path = Path {
            mechanism, counter_bits: bits, threshold, duration_ns: 500 * MS, banks: 3, costs: costs(MS, of),
            ..Path::example()
        };
        path.check().unwrap();
        prop_assert_eq!(run(&path, all.iter().copied()), Reference::run(&path, MS, &all));
    }

    #[test]
    fn no_text_stops_the_reader_of_traces(
        lines in proptest::collection::vec(
            prop_oneof![
                "[0-9]{1,3}(\\.[0-9]{0,12})?(,[0-9]{0,4}){0,2}",
                "\\{\"at_s\":[0-9]{1,20}(,\"bank\":-?[0-9]{1,12})?(,\"count\":[0-9]{1,20})?\\}",
                "\\{\"severity\":\"corrected\",\"at_ns\":[0-9]{1,20},\"label\":\"\\PC{0,5}\"\\}",
                "\\PC{0,30}",
            ],
            0..20,
        ),
    ) {
        let mut trace = Trace::default();
        // A line that is refused is left out, as nobody would do, so that the next one is tried as well.
        for line in &lines {
            if let Err(why) = trace.line(line) {
                prop_assert!(why.starts_with("line "), "{}", why);
            }
        }
        if let Ok(all) = trace.finish() {
            prop_assert!(all.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
            let duration_ns = all[all.len() - 1].at_ns.saturating_add(1);
            let path = Path { duration_ns, banks: 4096, interval_ns: duration_ns.max(S), ..Path::example() };
            let found = run(&path, all.iter().copied());
            prop_assert_eq!(found.arrived_count, found.reported_count + found.missed_count);
        }
    }

    #[test]
    fn sums_add_up_whatever_comes(
        all in arrivals(37 * MS, 4000),
        which in 0..3usize,
        rule in 0..3usize,
        bits in 0..33u32,
        interval in 1..5000u64,
    ) {
        let path = Path {
            mechanism: Mechanism::ALL[which], storms: StormRule::ALL[rule], counter_bits: bits,
            interval_ns: interval * 100 * MS, duration_ns: 4000 * 37 * MS, banks: 3, ..Path::example()
        };
        let found = run(&path, all.iter().copied());
        prop_assert_eq!(found.arrived_count, all.iter().map(|one| one.count).sum::<u64>());
        prop_assert_eq!(found.arrived_count, found.reported_count + found.missed_count);
        prop_assert!(found.below_threshold_count <= found.missed_count && found.saturated_count <= found.report_count);
        prop_assert!(found.stall_longest_ns <= found.stall_total_ns);
        // A threshold of one error leaves nothing behind.
        prop_assert_eq!(found.below_threshold_count, 0);
        if bits == 32 {
            prop_assert_eq!(found.missed_count, 0);
        }
    }
}

#[test]
fn any_division_of_a_fleet_gives_the_whole() {
    let path = Path { duration_ns: 86_400 * S, ..Path::example() };
    let pattern = Pattern::HeavyTailed { mean_per_s: 1e-3, mean_over_median: 55.0 };
    let fleet = Fleet { hosts: 300, faulty_share: 0.3, pattern, seed: 7 };
    let whole = fleet.run(&path, 0..300);
    let mut sum = fleet.run(&path, 0..1);
    for part in [1..100, 100..101, 101..300] {
        sum.add(&fleet.run(&path, part));
    }
    assert_eq!(whole, sum);
    assert!((50..140).contains(&whole.hosts_with_errors), "{whole:?}");
    // One host alone has the errors that it has in a fleet.
    for pattern in [pattern, Pattern::Steady { per_s: 0.1 }] {
        let single = Fleet { hosts: 1, faulty_share: 1.0, pattern, seed: 7 };
        let alone = run(&path, Arrivals::new(&pattern, &path, 7, 0));
        assert_eq!(single.run(&path, 0..1).outcome, alone);
    }
    let other = Fleet { seed: 8, ..fleet };
    assert_ne!(other.run(&path, 0..300), whole);
}

fn burst(per_s: u64, from_s: u64, to_s: u64) -> impl Iterator<Item = Arrival> {
    (from_s * per_s..to_s * per_s).map(move |number| Arrival { at_ns: number * S / per_s, bank: 0, count: 1 })
}

#[test]
fn a_storm_turns_interrupts_into_polls_as_each_kernel_does() {
    // Interrupts that print no line: with one, those of a core that is busy printing come together.
    let costs = Costs { line_ns: 0, ..Costs::LITERATURE };
    let path = |storms| Path { mechanism: Mechanism::Cmci, storms, costs, duration_ns: 3600 * S, ..Path::example() };
    // 100 errors a second for a minute, then quiet.
    let [never, old, new] =
        [StormRule::Never, StormRule::PerCore, StormRule::PerBank].map(|rule| run(&path(rule), burst(100, 10, 70)));
    assert_eq!((never.report_count, never.storm_count, never.poll_count), (6000, 0, 0));
    // The 16th interrupt begins it; then a record a second for the minute, and 300 polls that find nothing.
    assert_eq!((old.report_count, old.storm_count), (16 + 60, 1));
    assert_eq!(old.poll_count, 60 + 300);
    // The 5th record begins it, and 30 polls that find nothing end it.
    assert_eq!((new.report_count, new.storm_count), (5 + 60, 1));
    assert_eq!(new.poll_count, 60 + 30);
    for one in [never, old, new] {
        assert_eq!((one.arrived_count, one.missed_count), (6000, 0));
    }
    // 10 a second are no storm for the old rule, and one for the new.
    let slow = |rule| run(&path(rule), burst(10, 10, 70)).storm_count;
    assert_eq!((slow(StormRule::PerCore), slow(StormRule::PerBank)), (0, 1));
    // One every 20 seconds is none for either: no five of them are within 64 seconds.
    let rare = (0..100).map(|number| Arrival { at_ns: number * 20 * S, bank: 0, count: 1 });
    assert_eq!(run(&path(StormRule::PerBank), rare).storm_count, 0);
}

#[test]
fn a_counter_that_fills_within_a_second_of_a_storm_loses_the_rest() {
    let path = Path {
        mechanism: Mechanism::Cmci,
        storms: StormRule::PerBank,
        counter_bits: 8,
        duration_ns: 100 * S,
        ..Path::example()
    };
    let found = run(&path, burst(1000, 0, 10));
    // Nearly all seconds hold 1,000 errors, of which the counter holds 255.
    assert!(found.missed_count > 9 * 745 && found.missed_count < 10 * 745, "{found:?}");
    // A counter of 15 bits interrupts by itself before it is full.
    let wide = Path { counter_bits: 15, ..path };
    let many = (0..200_000u64).map(|number| Arrival { at_ns: number * S / 100_000, bank: 0, count: 1 });
    assert!(run(&wide, many).missed_count < 100, "{:?}", run(&wide, burst(100_000, 0, 2)));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let path = Path { banks: 7, ..Path::example() };
    let bursty = Pattern::Bursty { per_s: 50.0, on_s: 20.0, off_s: 100.0 };
    let once = |seed| run(&path, Arrivals::new(&bursty, &path, seed, 3));
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}
