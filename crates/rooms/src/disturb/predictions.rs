//! Predictions for many nodes, as `surefoot disturb predict --json` writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use surefoot_model::clipped;

/// Noises of one prediction, and letters of each and of other words.
const NOISES_MAX: usize = 16;
const LETTERS_MAX: usize = 200;

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

/// The word of a line, by which those that are no predictions are known.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

impl PredictionView {
    /// Whether it has nodes, and numbers above 0.
    pub fn is_possible(&self) -> bool {
        let numbers = [self.slowdown, self.interval_low, self.interval_high];
        self.nodes > 0 && numbers.iter().all(|number| number.is_finite() && *number > 0.0)
    }

    /// Reads a line, which may be a stranger's: what it keeps of one has a limit. `None` for a line that is no prediction.
    ///
    /// # Errors
    /// Why it is no line of `surefoot disturb predict --json`, or of no prediction that there can be.
    pub fn of_line(line: &[u8]) -> Result<Option<Self>, String> {
        let not_of = |error: serde_json::Error| format!("not of `surefoot disturb predict --json`: {error}");
        let Kind { kind } = serde_json::from_slice(line).map_err(not_of)?;
        if kind != "prediction" {
            return Ok(None);
        }
        let mut read: PredictionView = serde_json::from_slice(line).map_err(not_of)?;
        if !read.is_possible() {
            return Err("a prediction has nodes, and numbers above 0".into());
        }
        read.noises.truncate(NOISES_MAX);
        let words = [&mut read.pattern, &mut read.progress, &mut read.interval_method];
        words.into_iter().chain(&mut read.noises).for_each(|word| *word = clipped(word, LETTERS_MAX));
        Ok(Some(read))
    }
}
