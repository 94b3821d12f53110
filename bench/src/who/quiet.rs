//! Whether `stall who` itself interrupts the watched core between start and stop.

use super::raisers::{Raisers, Rest};
use super::watch::{Stacks, Watch};
use crate::child::pause;
use crate::numbers::{Spread, median};
use crate::run::Bench;
use crate::table::Row;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_hostfs::interrupts::Interrupts;

/// The rows of /proc/interrupts by which one core, or a tracer on it, interrupts a core. The timer and devices are not
/// among them: they come whether or not anybody watches.
const ROWS: [&str; 6] = ["NMI", "PMI", "IWI", "RES", "CAL", "TLB"];

/// After the start and before the count begins.
const SETTLING: Duration = Duration::from_millis(300);

/// What the watched core does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Core {
    Idle,
    Polls,
}

impl Core {
    fn name(self) -> &'static str {
        match self {
            Core::Idle => "the core idle",
            Core::Polls => "the core polling",
        }
    }
}

/// Interrupts of the core in one length of time.
#[derive(Debug, Clone, Default)]
struct Counted {
    /// By the kernel's count.
    interrupts: f64,
    /// Of the watch itself, by what it says.
    own: f64,
}

pub fn run(bench: &Bench, program: &PathBuf) -> anyhow::Result<Vec<Row>> {
    let (rounds, length) = if bench.quick { (2, 400) } else { (6, 1_000) };
    let length = Duration::from_millis(length);
    let mut own = Vec::new();
    let mut rows = Vec::new();
    for core in [Core::Idle, Core::Polls] {
        let (mut alone, mut watched) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            bench.say(&format!("who: its own interrupts, {}, round {} of {rounds}", core.name(), round + 1));
            alone.push(count(bench, program, core, false, length)?.interrupts);
            let counted = count(bench, program, core, true, length)?;
            watched.push(counted.interrupts);
            own.push(counted.own);
        }
        rows.push(row(core, length, &alone, &watched));
    }
    let said = Row::new("who", "own interrupts on the watched core, by its own count and rows")
        .ours(format!("{} in {} watches", own.iter().sum::<f64>(), own.len()))
        .against("0")
        .none_over(0.0, &own, "0");
    rows.insert(0, said);
    Ok(rows)
}

fn count(bench: &Bench, program: &PathBuf, core: Core, watched: bool, length: Duration) -> anyhow::Result<Counted> {
    let poller = match core {
        Core::Idle => None,
        Core::Polls => Some(Raisers::start(bench, program, 1, 0, Rest::Sleep, &[])?),
    };
    let watch = if watched { Some(Watch::start(bench, Stacks::Both, None)?) } else { None };
    pause(SETTLING)?;
    let before = Interrupts::read(&bench.root)?;
    pause(length)?;
    let delta = Interrupts::read(&bench.root)?.delta(&before);
    let own = match watch {
        None => 0,
        Some(watch) => {
            let said = watch.stop()?;
            let kinds = ["call_function", "tlb_shootdown", "reschedule", "irq_work", "nmi"];
            let by_it = |raiser: &&super::watch::Named| raiser.pid == said.pid && kinds.contains(&raiser.kind.as_str());
            let named: u64 = said.raisers.iter().filter(by_it).map(|raiser| raiser.count).sum();
            said.closing.cost.self_interrupts.max(named)
        }
    };
    if let Some(poller) = poller {
        poller.end()?;
    }
    let interrupts: u64 = ROWS.iter().filter_map(|label| delta.count(label, bench.cpu)).sum();
    Ok(Counted { interrupts: interrupts as f64, own: own as f64 })
}

/// What others raise only adds to what the watch itself raises, which would be there each time. So it raises none if the
/// fewest of its rounds are no more than the fewest alone, or if it had more in no more than half of the rounds.
fn row(core: Core, length: Duration, alone: &[f64], watched: &[f64]) -> Row {
    let fewest = |numbers: &[f64]| numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let words = |numbers: &[f64]| format!("{} (median {})", fewest(numbers), median(numbers).unwrap_or(0.0));
    let more: Vec<f64> = watched.iter().zip(alone).map(|(watched, alone)| watched - alone).collect();
    Row::new("who", format!("interrupts from other cores in {length:?}, the fewest of the rounds, {}", core.name()))
        .ours(words(watched))
        .against(format!("alone: {}", words(alone)))
        .ratio(Spread::of(&more))
        .held(fewest(watched) <= fewest(alone) || median(&more).is_some_and(|more| more <= 0.0), "0 more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Outcome::{Met, Missed};

    #[test]
    fn what_comes_each_time_is_its_own() {
        let outcome = |alone: &[f64], watched: &[f64]| row(Core::Idle, Duration::from_secs(1), alone, watched).outcome;
        assert_eq!(outcome(&[0.0, 3.0, 1.0], &[4.0, 0.0, 9.0]), Met, "others came now and then");
        assert_eq!(outcome(&[0.0, 3.0, 1.0], &[1.0, 2.0, 1.0]), Met, "as often fewer as more");
        assert_eq!(outcome(&[0.0, 3.0, 1.0], &[4.0, 1.0, 9.0]), Missed, "one came each time");
    }
}
