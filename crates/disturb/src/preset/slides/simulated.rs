//! More machines than a host has cores, by simulation.

use super::{LONG_NS, SECOND_NS};
use crate::predict::{Freeze, Group, Job, Network, Noise, Pattern, Setting, predict};
use crate::preset::row::Each;

/// Draws of a few machines: they cost little, and a wide interval would hold almost any published number.
const DRAWS: u64 = 100;
/// Draws of many machines.
const DRAWS_OF_MANY: u64 = 12;

/// What the simulation gives, done once for all rows: the logarithm of the speed over that without stalls, of each draw.
pub(in crate::preset) struct Simulated {
    /// With 2, 4 and 8 machines.
    pub(in crate::preset) few: [Result<Each, String>; 3],
    /// With 64, at random moments and at once.
    pub(in crate::preset) many: [Result<Each, String>; 2],
}

impl Simulated {
    pub(in crate::preset) fn run() -> Simulated {
        use crate::predict::Phase::{Random, Same};
        Simulated {
            few: [2, 4, 8].map(|nodes| predicted(nodes, Random)),
            many: [Random, Same].map(|phase| predicted(64, phase)),
        }
    }
}

/// The speed that the simulation gives a job of barriers.
fn predicted(nodes: u64, phase: crate::predict::Phase) -> Result<Each, String> {
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
    let found =
        predict(&setting, 0..if nodes > 8 { DRAWS_OF_MANY } else { DRAWS }, 1).map_err(|error| error.to_string())?;
    if found.base_ns == 0 {
        return Err("the undisturbed job takes no time".into());
    }
    let speed = |end_ns: u64| (found.base_ns as f64 / end_ns as f64).ln();
    Ok(found.draws.iter().enumerate().map(|(draw, found)| (draw as u64, speed(found.end_ns))).collect())
}
