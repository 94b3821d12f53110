//! What a policy does to a fleet: years of it in seconds, with the same decisions as the real thing.
//!
//! Faults come at random or from a record, controllers do not die, steps take their time and may fail, people approve and repair. What
//! comes out is a comparison of policies, not a prediction: how often parts fail and how well a step repairs is assumed, in
//! [`Assumed`], and differs from fleet to fleet.
//!
//! ```
//! use surefoot_remedy::policy::Policies;
//! use surefoot_remedy::simulate::{Plan, simulate};
//! let policies = Policies::parse("[[policy]]\nservice = \"web\"\nsteps = [\"drain\", \"reboot\", \"return\"]", "policy.toml")?;
//! let result = simulate(&policies, &Plan { hosts: 1_000, days: 30, seed: 1, ..Plan::default() });
//! assert_eq!(result.limit_violation_count, 0);
//! # Ok::<(), surefoot_remedy::Error>(())
//! ```

mod assumed;
mod fleet;
mod parts;
mod shelf;
mod tally;

pub use assumed::{Assumed, Kind};
pub use tally::{ServiceTally, Simulated};

use crate::policy::Policies;
use surefoot_model::Alert;

/// What is simulated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// How many hosts.
    pub hosts: u64,
    /// For how many days.
    pub days: u64,
    /// Of the same seed everything comes out the same.
    pub seed: u64,
    /// How often what fails, and what steps and people do about it.
    pub assumed: Assumed,
    /// Alerts of a real fleet, in the place of made-up faults. Their times count from the first.
    pub recorded: Vec<Alert>,
}

/// Goes through the whole time.
pub fn simulate(policies: &Policies, plan: &Plan) -> Simulated {
    fleet::Fleet::new(policies, plan).run()
}
