//! The answer of `/api/v1/memory/interval`: what each polling interval would cost and lose.

use schemars::JsonSchema;
use serde::Serialize;
use surefoot_memory::Error;
use surefoot_memory::simulate::{Arrivals, Costs, Path, Pattern, Work};
use surefoot_memory::tune::{Bins, Cores, RATE_PER_S_MIN, Wish, choose, curve, rate_to_count};
use surefoot_model::SCHEMA;

/// Bits of a machine-check bank's count, as Intel's has them.
const COUNTER_BITS: u32 = 15;
/// Errors are put into bins of this time.
const TICK_NS: u64 = 1_000_000_000;
/// The simulated time.
const DURATION_NS: u64 = 7_200 * TICK_NS;
/// Errors that one answer draws at most.
const ERRORS_MAX: f64 = 4e6;
/// Intervals that are shown, seconds.
const INTERVALS_S: [u64; 24] =
    [1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300, 450, 600, 900, 1_800, 3_600];
/// A module that goes bad is to be known after this time.
const DETECT_NS: u64 = 300 * TICK_NS;
const SEED: u64 = 1;

/// What each polling interval would cost and lose.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "MemoryInterval")]
pub struct IntervalAnswer {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Errors per second that have to be counted: the highest of any module here, 10 at least.
    pub rate_per_s: f64,
    /// Bits of the counter that is polled.
    pub counter_bits: u32,
    /// Cores that each poll scans.
    pub cores: u32,
    /// What is assumed of each piece of work, and whose word that is.
    pub assumptions: Vec<String>,
    /// The intervals, the shortest first.
    pub points: Vec<IntervalPoint>,
    /// The interval with the least stall among those that lose nothing; `null` where every one loses some.
    pub chosen_interval_s: Option<f64>,
    /// What keeps it from being longer.
    pub binding_constraint: String,
}

/// One interval.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct IntervalPoint {
    /// Between polls.
    pub interval_s: f64,
    /// Stall of a core per day.
    pub stall_ns_per_day: f64,
    /// The longest unbroken stall.
    pub stall_longest_ns: u64,
    /// The share of errors that would be lost.
    pub missed_share: f64,
}

impl IntervalAnswer {
    /// The answer for a host whose worst module has this rate.
    ///
    /// # Errors
    /// Those of the simulator; none for a rate that is a number.
    pub fn of(worst_per_s: f64, cores: Cores) -> Result<Self, Error> {
        let rate_per_s = rate_to_count(worst_per_s);
        // The faster they come, the shorter a time shows it.
        let longest_ns = (ERRORS_MAX / rate_per_s * TICK_NS as f64) as u64;
        let duration_ns = DURATION_NS.min(longest_ns / TICK_NS * TICK_NS);
        let path = Path {
            counter_bits: COUNTER_BITS,
            cores: cores.count,
            duration_ns,
            interval_ns: TICK_NS,
            ..Path::example()
        };
        let bins = Bins::new(TICK_NS, Arrivals::new(&Pattern::Steady { per_s: rate_per_s }, &path, SEED, 0))?;
        let intervals: Vec<u64> =
            INTERVALS_S.iter().map(|seconds| seconds * TICK_NS).filter(|ns| *ns <= duration_ns).collect();
        let points = curve(&path, &bins, &intervals).into_iter().map(|point| IntervalPoint {
            interval_s: point.interval_ns as f64 / 1e9,
            stall_ns_per_day: point.stall_ns_per_day,
            stall_longest_ns: point.stall_longest_ns,
            missed_share: point.missed_share,
        });
        let wish = Wish {
            stall_longest_ns: None,
            threshold_per_s: RATE_PER_S_MIN,
            detect_ns: DETECT_NS,
            shortest_ns: TICK_NS,
            longest_ns: duration_ns.min(3_600 * TICK_NS),
            any_phase: true,
        };
        let choice = choose(&path, &bins, &wish)?;
        Ok(IntervalAnswer {
            schema: SCHEMA,
            rate_per_s,
            counter_bits: COUNTER_BITS,
            cores: cores.count,
            assumptions: assumptions(cores),
            points: points.collect(),
            chosen_interval_s: choice.interval_ns.map(|ns| ns as f64 / 1e9),
            binding_constraint: choice.binding.words().to_owned(),
        })
    }
}

/// What the picture rests on.
fn assumptions(cores: Cores) -> Vec<String> {
    let polled = [Work::PollWake, Work::PollCore, Work::PollRecord, Work::Line];
    let each = |work: &Work| {
        let name = work.name().replace('_', " ");
        format!("{name}: {} ms, {}", Costs::LITERATURE.of(*work) as f64 / 1e6, work.source())
    };
    let mut all = vec![
        format!("errors come one by one at a steady rate (Poisson) to one counter of {COUNTER_BITS} bits"),
        format!("a module over {RATE_PER_S_MIN} errors per second has to be known within {} s", DETECT_NS / TICK_NS),
    ];
    all.extend(cores.assumption());
    all.extend(polled.iter().map(each));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_interval_stalls_less_until_the_counter_runs_full() {
        // 15 bits hold 32,767 errors: at 900 per second they are full after 36.4 s.
        let answer = IntervalAnswer::of(900.0, Cores::told(Some(36))).unwrap();
        assert!(!answer.assumptions.iter().any(|one| one.contains("not told")), "{answer:?}");
        let chosen = answer.chosen_interval_s.unwrap();
        assert!((34.0..=36.0).contains(&chosen), "{chosen}");
        assert!(answer.binding_constraint.contains("counter overflow"), "{}", answer.binding_constraint);
        assert!(answer.points.windows(2).all(|pair| pair[0].stall_ns_per_day > pair[1].stall_ns_per_day), "{answer:?}");
        for point in &answer.points {
            assert_eq!(point.missed_share > 0.0, point.interval_s > 36.4, "{point:?}");
        }
    }

    #[test]
    fn rates_that_cannot_be_are_taken_for_the_bounds() {
        let unknown = IntervalAnswer::of(0.0, Cores::told(None)).unwrap();
        assert!(unknown.cores == 36 && unknown.assumptions.iter().any(|one| one.contains("not told")), "{unknown:?}");
        for (worst, taken) in [(f64::NAN, 10.0), (-1.0, 10.0), (0.0, 10.0), (1e12, 5_000.0), (f64::INFINITY, 10.0)] {
            assert_eq!(IntervalAnswer::of(worst, Cores::told(Some(1))).unwrap().rate_per_s, taken, "{worst}");
        }
    }
}
