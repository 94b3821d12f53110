//! The lines of `--json`, which are also what the text tells.

use super::asked::{Asked, Work};
use serde::{Deserialize, Serialize};
use surefoot_disturb::predict::{Draw, Method, Noise, Prediction};

/// What a prediction is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct About {
    /// Its name; `goal` for a GOAL file.
    pub pattern: String,
    /// Only of a GOAL file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub goal: Option<GoalAbout>,
    /// Nodes of the job.
    pub nodes: u64,
    /// Ranks of each node.
    pub ranks_per_node: u64,
    /// Only of a pattern, as the size of its messages and how often it is done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compute_ns: Option<u64>,
    /// Bytes of a message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// How often the ranks work and communicate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub iterations: Option<u64>,
    /// From the end of sending to the beginning of arrival.
    pub latency_ns: u64,
    /// Time of the core that sends, and again of the one that receives.
    pub overhead_ns: u64,
    /// The least time between two messages of one rank.
    pub gap_ns: u64,
    /// Picoseconds that a byte takes to leave.
    pub gap_per_byte_ps: u64,
    /// Who moves the bytes while a node stops: `nic` or `host`.
    pub progress: String,
    /// Each noise in words.
    pub noises: Vec<String>,
    /// The longest period of the noises.
    pub longest_period_ns: u64,
    /// The same seed gives the same prediction.
    pub seed: u64,
    /// Disturbed runs.
    pub draws: u64,
}

/// A GOAL file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoalAbout {
    /// Its ranks.
    pub ranks: u64,
    /// Pieces of work, messages sent and messages received.
    pub operation_count: u64,
    /// Of what it says, 16 hexadecimal digits: other jobs have other ones.
    pub digest: String,
}

impl About {
    /// What a prediction is of.
    pub fn of(asked: &Asked, noises: Vec<String>, draws: u64) -> About {
        let network = &asked.network;
        let period = |noise: &Noise| match noise {
            Noise::Freeze(freeze) => freeze.period_ns,
            Noise::Recorded(recorded) => recorded.span_ns,
        };
        let (pattern, goal, nodes, ranks_per_node, job) = match &asked.work {
            Work::Pattern(job) => (job.pattern.name(), None, job.nodes, job.ranks_per_node, Some(job)),
            Work::Goal { goal, ranks_per_node } => {
                let about = GoalAbout {
                    ranks: goal.ranks(),
                    operation_count: goal.operation_count(),
                    digest: format!("{:016x}", goal.digest()),
                };
                ("goal", Some(about), asked.of_goal(goal, *ranks_per_node).nodes(), *ranks_per_node, None)
            }
        };
        About {
            pattern: pattern.into(),
            goal,
            nodes,
            ranks_per_node,
            compute_ns: job.map(|job| job.compute_ns),
            bytes: job.map(|job| job.bytes),
            iterations: job.map(|job| job.iterations),
            latency_ns: network.latency_ns,
            overhead_ns: network.overhead_ns,
            gap_ns: network.gap_ns,
            gap_per_byte_ps: network.gap_per_byte_ps,
            progress: network.progress.name().into(),
            noises,
            longest_period_ns: asked.groups.iter().map(|group| period(&group.noise)).max().unwrap_or(0),
            seed: asked.seed,
            draws,
        }
    }
}

/// One disturbed run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "draw")]
pub struct DrawLine {
    /// From 0.
    draw: usize,
    /// How many times as long as undisturbed.
    slowdown: f64,
    end_ns: u64,
    event_count: u64,
}

impl DrawLine {
    /// The line of a run.
    pub fn of(number: usize, draw: &Draw, base_ns: u64) -> DrawLine {
        let slowdown = draw.end_ns as f64 / base_ns.max(1) as f64;
        DrawLine { draw: number, slowdown, end_ns: draw.end_ns, event_count: draw.event_count }
    }
}

/// What the draws come to.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "prediction")]
pub struct PredictionLine {
    /// The mean over the draws: how many times as long as undisturbed.
    pub slowdown: f64,
    /// One more run lies in this interval in 19 of 20 cases or more.
    pub interval_low: f64,
    /// The same from above.
    pub interval_high: f64,
    /// `order`: from 39 draws or more in order, whatever their distribution. `student`: by Student's t, if runs are spread as a
    /// normal distribution is.
    pub interval_method: &'static str,
    /// The least and the most of the draws.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// The undisturbed run.
    pub base_ns: u64,
    /// Pieces of work done, messages sent and messages received, in all draws.
    pub event_count: u64,
    #[serde(flatten)]
    about: About,
}

impl PredictionLine {
    /// The line of a prediction.
    ///
    /// # Errors
    /// There are too few draws.
    pub fn of(about: &About, found: &Prediction) -> anyhow::Result<PredictionLine> {
        let summary = found.summary()?;
        Ok(PredictionLine {
            slowdown: summary.slowdown,
            interval_low: summary.low,
            interval_high: summary.high,
            interval_method: match summary.method {
                Method::Order => "order",
                Method::Student => "student",
            },
            least: summary.least,
            most: summary.most,
            base_ns: found.base_ns,
            event_count: found.event_count(),
            about: about.clone(),
        })
    }
}
