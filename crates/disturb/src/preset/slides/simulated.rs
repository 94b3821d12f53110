//! More machines than a host has cores, by simulation.

use super::{LONG_NS, SECOND_NS};
use crate::predict::{Freeze, Group, Job, Network, Noise, Pattern, Setting, predict};
use crate::preset::row::Number;

/// What the simulation gives, done once for all rows.
pub(super) struct Simulated {
    /// With 2, 4 and 8 machines.
    pub(super) few: [Result<Number, String>; 3],
    /// With 64, at random moments and at once.
    pub(super) many: [Result<Number, String>; 2],
}

impl Simulated {
    pub(super) fn run() -> Simulated {
        use crate::predict::Phase::{Random, Same};
        Simulated {
            few: [2, 4, 8].map(|nodes| predicted(nodes, Random)),
            many: [Random, Same].map(|phase| predicted(64, phase)),
        }
    }
}

/// The speed that the simulation gives a job of barriers, in percent, with the range of its draws.
fn predicted(nodes: u64, phase: crate::predict::Phase) -> Result<Number, String> {
    let noise = Noise::Freeze(Freeze { length_ns: LONG_NS, period_ns: SECOND_NS, phase });
    let setting = Setting {
        job: Job {
            pattern: Pattern::Barrier,
            nodes,
            ranks_per_node: 1,
            compute_ns: 1_000_000,
            bytes: 8,
            iterations: 5_000,
        },
        network: Network::default(),
        groups: vec![Group { noise, nodes: None }],
        seed: 1,
    };
    let summary = predict(&setting, 0..if nodes > 8 { 3 } else { 12 }, 1)
        .and_then(|found| found.summary())
        .map_err(|error| error.to_string())?;
    let percent = |slowdown: f64| 100.0 / slowdown;
    Ok(Number { value: percent(summary.slowdown), low: percent(summary.most), high: percent(summary.least) })
}
