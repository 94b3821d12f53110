//! Predictions for many nodes, as `surefoot disturb predict --json` writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many times as long a job takes on so many nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionView {
    /// How the ranks communicate; `goal` for a GOAL file.
    pub pattern: String,
    /// Nodes of the job.
    pub nodes: u64,
    /// Ranks of each.
    pub ranks_per_node: u64,
    /// How long each rank works before it communicates; of a pattern only.
    #[serde(default)]
    pub compute_ns: Option<u64>,
    /// How often; of a pattern only.
    #[serde(default)]
    pub iterations: Option<u64>,
    /// The size of a message; of a pattern only.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Each noise in words.
    pub noises: Vec<String>,
    /// Who moves the bytes while a node stops: `nic` or `host`.
    pub progress: String,
    /// How many times as long as undisturbed, the mean over the draws.
    pub slowdown: f64,
    /// One more run lies from here.
    pub interval_low: f64,
    /// To here in 19 of 20 cases.
    pub interval_high: f64,
    /// `order` or `student`.
    pub interval_method: String,
    /// Of which seed.
    pub seed: u64,
    /// How many disturbed runs.
    pub draws: u64,
}

impl PredictionView {
    /// Whether it has nodes, and numbers above 0.
    pub fn is_possible(&self) -> bool {
        let numbers = [self.slowdown, self.interval_low, self.interval_high];
        self.nodes > 0 && numbers.iter().all(|number| number.is_finite() && *number > 0.0)
    }
}
