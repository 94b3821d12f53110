//! What a prediction is asked of.

use std::ops::Range;
use surefoot_disturb::Error;
use surefoot_disturb::predict::goal::{Goal, GoalSetting, predict_goal};
use surefoot_disturb::predict::{Group, Job, Network, Prediction, Setting, predict};

/// What to simulate.
pub struct Asked {
    /// What the ranks do.
    pub work: Work,
    /// What messages cost.
    pub network: Network,
    /// What stops which nodes.
    pub groups: Vec<Group>,
    /// The same seed gives the same prediction.
    pub seed: u64,
}

/// What the ranks do.
pub enum Work {
    /// They communicate by a pattern.
    Pattern(Job),
    /// What a GOAL file says.
    Goal {
        /// The file's content.
        goal: Goal,
        /// Its ranks fill one node after the other.
        ranks_per_node: u64,
    },
}

/// What is enough for an interval that needs no assumption.
const DRAWS_DEFAULT: u64 = 40;
/// More events only where somebody asks for them.
const EVENTS_DEFAULT: u64 = 1_000_000_000;

impl Asked {
    /// Default number of draws.
    pub fn draws(&self) -> u64 {
        let events = match &self.work {
            Work::Pattern(job) => job.event_count(),
            Work::Goal { goal, .. } => goal.operation_count(),
        };
        EVENTS_DEFAULT.checked_div(events).map_or(DRAWS_DEFAULT, |draws| draws.clamp(8, DRAWS_DEFAULT))
    }

    /// Whether all of it can be simulated.
    ///
    /// # Errors
    /// It cannot; says why.
    pub fn check(&self, draws: u64) -> Result<(), Error> {
        match &self.work {
            Work::Pattern(job) => self.of_pattern(*job).check(draws),
            Work::Goal { goal, ranks_per_node } => self.of_goal(goal, *ranks_per_node).check(draws),
        }
    }

    /// Simulates these draws.
    ///
    /// # Errors
    /// It cannot be simulated; says why.
    pub fn predict(&self, draws: Range<u64>, threads: usize) -> Result<Prediction, Error> {
        match &self.work {
            Work::Pattern(job) => predict(&self.of_pattern(*job), draws, threads),
            Work::Goal { goal, ranks_per_node } => predict_goal(&self.of_goal(goal, *ranks_per_node), draws, threads),
        }
    }

    fn of_pattern(&self, job: Job) -> Setting {
        Setting { job, network: self.network, groups: self.groups.clone(), seed: self.seed }
    }

    /// The setting of a GOAL file.
    pub fn of_goal<'a>(&'a self, goal: &'a Goal, ranks_per_node: u64) -> GoalSetting<'a> {
        GoalSetting { goal, ranks_per_node, network: self.network, groups: &self.groups, seed: self.seed }
    }
}
