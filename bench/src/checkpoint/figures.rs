//! What measured runs of the paper's microbenchmark come to: the numbers of its Figures 1 and 8 to 13. Pure.
//!
//! All are at full size: seconds through the scale; shares and bytes per second as they are.

use super::printed::{Measured, Went};
use super::setup::{Saver, Setup};
use surefoot_checkpoint::controller::YEAR_S;
use surefoot_checkpoint::measure::Spread;
use surefoot_checkpoint::simulate::{Kind, POWER};

/// The most that the paper's own bound allows: always in memory, without any code.
pub const SLOWDOWN_LIMIT: f64 = 1.14;

/// Years that a drive is bought for.
pub const DRIVE_YEARS: f64 = 5.0;

/// The share of what plain writes to fresh files cost that ours may cost.
pub const SHARE_OF_PLAIN: f64 = 0.5;

/// The result of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Run time over work time.
    pub slowdown: f64,
    /// The same by the work that was done: run time per piece of work, over that of the run without checkpoints beside it.
    /// It also counts what checkpoints in the background, and cold caches after them, take from the work.
    pub slowdown_by_work: Option<f64>,
    /// Of the iterations, the share whose checkpoint went to the SSD.
    pub ssd_share: f64,
    /// Of the iterations, the share without a checkpoint.
    pub skipped_share: f64,
    /// Mean seconds between checkpoints; `None` without any.
    pub interval_s: Option<f64>,
    /// Mean seconds between checkpoints on the SSD; `None` without any.
    pub ssd_interval_s: Option<f64>,
    /// The greatest age of the durable copy; `None` without any.
    pub durable_age_s: Option<f64>,
    /// Bytes per second to the drive, over the whole run.
    pub ssd_bytes_per_s: f64,
    /// Years until the drive's rating is used up at that rate; `None` when nothing was written.
    pub drive_years: Option<f64>,
    /// Energy of the checkpoints per iteration, joules: the paper's powers ([`POWER`]) times the time that was measured.
    pub energy_gross_joule: f64,
    /// The same beyond what the idle machine takes.
    pub energy_net_joule: f64,
    /// Median seconds of a checkpoint in memory; `None` without any.
    pub memory_checkpoint_s: Option<f64>,
    /// The fastest write to the SSD for which the program waited, bytes per second of the node.
    pub ssd_write_bytes_per_s_max: Option<f64>,
    /// Checkpoints that failed. One fails on all ranks or on none, so it counts once.
    pub failed_count: u64,
}

impl Figures {
    /// The result of a run; `none` is the run without checkpoints of the same size and round.
    pub fn of(setup: &Setup, measured: &Measured, none: Option<&Measured>) -> Self {
        let run = &measured.run;
        let iterations = run.iterations.max(1) as f64;
        let node_bytes = run.bytes_per_rank as f64 * f64::from(run.ranks);
        let at_full_size = |seconds: f64| seconds / setup.scale;
        let on_ssd = run.ssd_count + run.both_count;
        let every = |count: u64| (count > 0).then(|| at_full_size(run.run_s) / count as f64);
        let rate = node_bytes * on_ssd as f64 / run.run_s.max(f64::MIN_POSITIVE);
        let seconds_at = |place: Went| {
            measured.iterations.iter().filter(move |iteration| iteration.place == place).map(|found| found.checkpoint_s)
        };
        let fastest_s = seconds_at(Went::Ssd).fold(f64::INFINITY, f64::min);
        let per_piece = |measured: &Measured| {
            let pieces: u64 = measured.ranks.iter().map(|rank| rank.pieces).sum();
            measured.run.run_s / pieces.max(1) as f64
        };
        let [gross, net] = energy(measured).map(|joule| at_full_size(joule) / iterations);
        Figures {
            slowdown: run.run_s / (iterations * setup.run_compute_s()),
            slowdown_by_work: none.map(|none| per_piece(measured) / per_piece(none)),
            ssd_share: on_ssd as f64 / iterations,
            skipped_share: run.skip_count as f64 / iterations,
            interval_s: every(run.iterations - run.skip_count.min(run.iterations)),
            ssd_interval_s: every(on_ssd),
            durable_age_s: run.durable_age_max_s.map(at_full_size),
            ssd_bytes_per_s: rate,
            drive_years: (rate > 0.0).then(|| setup.rated_bytes / rate / YEAR_S),
            energy_gross_joule: gross,
            energy_net_joule: net,
            memory_checkpoint_s: Spread::of(seconds_at(Went::Memory)).map(|spread| at_full_size(spread.median)),
            ssd_write_bytes_per_s_max: (run.ssd_count > 0).then(|| node_bytes / fastest_s.max(f64::MIN_POSITIVE)),
            failed_count: measured.ranks.iter().map(|rank| rank.failed_count).max().unwrap_or(0),
        }
    }
}

/// Joules of one machine's checkpoints, gross and beyond idle, by the powers that the paper prints: a model, for no power
/// is measured here.
fn energy(measured: &Measured) -> [f64; 2] {
    let [ssd_watt, memory_watt, idle_watt] = POWER;
    let ranks = measured.ranks.len().max(1) as f64;
    let ssd_s = measured.ranks.iter().map(|rank| rank.ssd_s).sum::<f64>() / ranks;
    let memory_s = measured.ranks.iter().map(|rank| rank.memory_s + rank.remove_s).sum::<f64>() / ranks;
    [0.0, idle_watt].map(|idle| (ssd_watt - idle) * ssd_s + (memory_watt - idle) * memory_s)
}

/// The runs of one saver with one size, a round each.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Who saved.
    pub saver: Saver,
    /// Bytes of a checkpoint of the node, at full size.
    pub node_bytes: f64,
    /// The result of each round.
    pub rounds: Vec<Figures>,
}

/// A number of a run; `None` where there is no such number.
pub type Value = fn(&Figures) -> Option<f64>;

impl Cell {
    /// A number over the rounds; `None` where no round has it.
    pub fn spread(&self, value: Value) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(value))
    }
}

/// The mean over all sizes, of each round that has the number for all of them; `None` where none has.
pub fn average(cells: &[Cell], saver: Saver, value: Value) -> Option<Spread> {
    Spread::of(averages(cells, saver, value))
}

fn averages(cells: &[Cell], saver: Saver, value: Value) -> Vec<f64> {
    let of_saver: Vec<&Cell> = cells.iter().filter(|cell| cell.saver == saver).collect();
    let rounds = of_saver.iter().map(|cell| cell.rounds.len()).min().unwrap_or(0);
    (0..rounds)
        .filter_map(|round| {
            let values: Vec<f64> = of_saver.iter().filter_map(|cell| value(&cell.rounds[round])).collect();
            (values.len() == of_saver.len()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
        .collect()
}

/// Something that is promised, and whether it was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What.
    pub what: String,
    /// What was found, in the unit that `what` names.
    pub found: f64,
    /// Whether it must be at most, or at least, the limit.
    pub is_at_most: bool,
    /// The limit, in the same unit.
    pub limit: f64,
}

impl Check {
    /// Whether it was kept.
    pub fn is_met(&self) -> bool {
        if self.is_at_most { self.found <= self.limit } else { self.found >= self.limit }
    }
}

/// What can be held against the runs that there are.
pub fn checks(setup: &Setup, cells: &[Cell]) -> Vec<Check> {
    let mut checks = Vec::new();
    let at_most = |what: String, found: f64, limit: f64| Check { what, found, is_at_most: true, limit };
    let ours = Saver::Library(Kind::Surefoot);
    if let Some(average) = average(cells, ours, |run| Some(run.slowdown)) {
        let percent = |slowdown: f64| 100.0 * (slowdown - 1.0);
        let what = "surefoot, every checkpoint with its code: average slowdown, percent".into();
        checks.push(at_most(what, percent(average.median), percent(SLOWDOWN_LIMIT)));
    }
    for saver in [ours, Saver::Library(Kind::SurefootWhenDue)] {
        let runs: Vec<&Figures> =
            cells.iter().filter(|cell| cell.saver == saver).flat_map(|cell| &cell.rounds).collect();
        if runs.is_empty() {
            continue;
        }
        let years = runs.iter().map(|run| run.drive_years.unwrap_or(f64::INFINITY)).fold(f64::INFINITY, f64::min);
        let what = format!("{}: drive life of the worst run, years", saver.name());
        checks.push(Check { what, found: years, is_at_most: false, limit: DRIVE_YEARS });
        let age_s = runs.iter().map(|run| run.durable_age_s.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        let what = format!("{}: greatest age of the durable copy in any run, s", saver.name());
        checks.push(at_most(what, age_s, setup.staleness_max_s));
    }
    if let Some(share) = share_of_plain(cells, ours) {
        checks.push(at_most(
            "surefoot / plain writes of fresh files: average cost".into(),
            share.median,
            SHARE_OF_PLAIN,
        ));
    }
    let rates = cells.iter().flat_map(|cell| &cell.rounds).filter_map(|run| run.ssd_write_bytes_per_s_max);
    if let Some(rate) = rates.reduce(f64::max) {
        let what = "the fastest write to the SSD that was waited for, MB/s".into();
        checks.push(at_most(what, rate / 1e6, setup.ssd_bytes_per_s / 1e6));
    }
    checks
}

/// What a saver costs on average over the sizes, through what plain writes cost in the same round.
pub fn share_of_plain(cells: &[Cell], saver: Saver) -> Option<Spread> {
    let slowdown: Value = |run| Some(run.slowdown - 1.0);
    let (ours, plain) = (averages(cells, saver, slowdown), averages(cells, Saver::Plain, slowdown));
    Spread::of(ours.iter().zip(&plain).filter(|(_, plain)| **plain > 0.0).map(|(ours, plain)| ours / plain))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::checkpoint::printed::tests::printed;

    fn setup() -> Setup {
        Setup { iterations: 4, scale: 0.02, ranks: 2, ..Setup::default() }
    }

    fn figures() -> Figures {
        let measured = Measured::read(&printed()).unwrap();
        let mut none = measured.clone();
        none.run.run_s = 0.4;
        Figures::of(&setup(), &measured, Some(&none))
    }

    #[test]
    fn the_figures_of_a_run_are_those_by_hand() {
        let found = figures();
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9 * other.abs(), "{one} instead of {other}");
        near(found.slowdown, 2.5);
        near(found.slowdown_by_work.unwrap(), 2.5);
        assert_eq!((found.ssd_share, found.skipped_share), (0.5, 0.25));
        near(found.interval_s.unwrap(), 50.0 / 3.0);
        near(found.ssd_interval_s.unwrap(), 25.0);
        near(found.durable_age_s.unwrap(), 25.0);
        near(found.ssd_bytes_per_s, 4_000.0);
        near(found.drive_years.unwrap(), 14.6e15 / 4_000.0 / YEAR_S);
        near(found.memory_checkpoint_s.unwrap(), 5.0);
        near(found.ssd_write_bytes_per_s_max.unwrap(), 2_000.0 / 0.4);
        // 0.4 s at 50 W and 0.2 s at 79 W, of 37 W idle, in four iterations of a fiftieth.
        near(found.energy_gross_joule, (0.4 * 50.0 + 0.2 * 79.0) * 50.0 / 4.0);
        near(found.energy_net_joule, (0.4 * 13.0 + 0.2 * 42.0) * 50.0 / 4.0);
    }

    #[test]
    fn a_checkpoint_that_failed_on_all_ranks_counts_once() {
        let text = printed().replace("\"failed_count\":0", "\"failed_count\":1");
        assert_eq!(Figures::of(&setup(), &Measured::read(&text).unwrap(), None).failed_count, 1);
    }

    #[test]
    fn averages_are_over_sizes_and_spread_over_rounds() {
        let cell = |saver: Saver, node_bytes: f64, slowdowns: [f64; 3]| Cell {
            saver,
            node_bytes,
            rounds: slowdowns.map(|slowdown| Figures { slowdown, ..figures() }).to_vec(),
        };
        let ours = Saver::Library(Kind::Surefoot);
        let cells = [
            cell(ours, 1e9, [1.02, 1.04, 1.06]),
            cell(ours, 2e9, [1.10, 1.12, 1.14]),
            cell(Saver::Plain, 1e9, [1.10, 1.10, 1.10]),
            cell(Saver::Plain, 2e9, [1.30, 1.30, 1.30]),
        ];
        let found = average(&cells, ours, |run| Some(run.slowdown)).unwrap();
        assert!((found.median - 1.08).abs() < 1e-9 && found.count == 3);
        assert!((share_of_plain(&cells, ours).unwrap().median - 0.4).abs() < 1e-9);
        let checks = super::checks(&setup(), &cells);
        let met: Vec<bool> = checks.iter().map(Check::is_met).collect();
        assert_eq!(met, [true, true, true, true, true], "{checks:?}");
        let slow = [cell(ours, 1e9, [1.15, 1.15, 1.15]), cell(Saver::Plain, 1e9, [1.2, 1.2, 1.2])];
        let missed: Vec<bool> = super::checks(&setup(), &slow).iter().map(Check::is_met).collect();
        assert_eq!(missed, [false, true, true, false, true]);
        assert!(super::checks(&Setup { staleness_max_s: 24.0, ..setup() }, &cells).iter().any(|check| !check.is_met()));
        assert_eq!(average(&cells, Saver::Library(Kind::None), |run| Some(run.slowdown)), None);
        assert_eq!(average(&cells, ours, |_| None), None);
    }
}
