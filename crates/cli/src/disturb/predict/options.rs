//! The options of `surefoot disturb predict`.

use super::goal_file;
use super::noise::NoiseChoice;
use clap::Args;
use std::path::PathBuf;
use surefoot_console::units::parse_ns;
use surefoot_disturb::predict::{DRAWS_MAX, ITERATIONS_MAX, Job, NODES_MAX, Network, Pattern, Progress};
use surefoot_experiment::predict::asked::{Asked, Work};
use surefoot_experiment::predict::lines::About;
use surefoot_store::shards::ShardChoice;

/// Picoseconds for a byte at 1 Gb/s.
const PS_PER_BYTE_AT_1_GBIT: f64 = 8_000.0;

#[derive(Args)]
pub struct PredictOptions {
    /// How the ranks communicate after each piece of work: barrier, allreduce, alltoall, ring or halo
    #[arg(long, value_name = "PATTERN", required_unless_present_any = ["merge", "goal"])]
    pattern: Option<Pattern>,
    /// How many nodes the job runs on
    #[arg(
        long, value_name = "N", required_unless_present_any = ["merge", "goal"],
        value_parser = clap::value_parser!(u64).range(1..=NODES_MAX)
    )]
    nodes: Option<u64>,
    /// Instead of a pattern, what a GOAL file says; its ranks fill one node after the other
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pattern", "nodes", "compute", "bytes", "iterations", "write_goal"])]
    pub goal: Option<PathBuf>,
    /// Predict nothing, but write the pattern with all its iterations to a new GOAL file, as LogGOPSim reads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["merge", "shard", "json", "noise"])]
    pub write_goal: Option<PathBuf>,
    /// How many ranks each node has; all of them stop together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=NODES_MAX))]
    ranks_per_node: u64,
    /// How long each rank works before it communicates; 0 is possible, as for the costs of a message
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = cost_ns)]
    compute: u64,
    /// The size of a message, or of a block of alltoall; a barrier's are empty
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    bytes: u64,
    /// How often the ranks work and communicate
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=ITERATIONS_MAX))]
    iterations: u64,
    /// What stops nodes: freeze:length=2ms,period=1s,phase=same|random|staggered[,nodes=K], or
    /// `recorded:file=FILE[,phase=…][,nodes=K]` of `surefoot stall record`; may be repeated, each for other nodes
    #[arg(long, value_name = "SPEC", required_unless_present_any = ["merge", "write_goal"])]
    noise: Vec<NoiseChoice>,
    /// Of a message: from the end of its sending to the beginning of its arrival
    #[arg(long, value_name = "TIME", default_value = "5us", value_parser = cost_ns)]
    latency: u64,
    /// Of a message: the time of the core that sends, and again of the one that receives
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = cost_ns)]
    overhead: u64,
    /// The least time between two messages of one rank
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = cost_ns)]
    gap: u64,
    /// How fast a rank's messages leave, in Gb/s
    #[arg(long, value_name = "GBIT", default_value_t = 10.0)]
    gbit_per_s: f64,
    /// Who moves the bytes of messages: nic, and they go on while a node stops, or host, and they stop with its cores
    #[arg(long, value_name = "WHO", default_value_t = Progress::Nic)]
    progress: Progress,
    /// How many disturbed runs, each with other phases [default: 40, or as many, but 8 at least, as have 1e9 events together]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=DRAWS_MAX))]
    draws: Option<u64>,
    /// The same seed gives the same output, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// On how many cores to simulate [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// JSON lines instead of text: one per draw, the prediction last
    #[arg(long)]
    pub json: bool,
    /// Only simulate part i of n of the draws, and write what --merge reads
    #[arg(long, value_name = "i/n", conflicts_with_all = ["json", "merge"])]
    pub shard: Option<ShardChoice>,
    /// Merge the shards of a prediction, and print what the whole would have printed
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = [
            "pattern", "goal", "nodes", "ranks_per_node", "compute", "bytes", "iterations", "noise", "latency", "overhead", "gap",
            "gbit_per_s", "progress", "draws", "seed", "threads",
        ]
    )]
    pub merge: Vec<PathBuf>,
}

/// A duration that may be none.
fn cost_ns(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_ns(text) }
}

impl PredictOptions {
    /// What to simulate, and how to report it.
    ///
    /// # Errors
    /// A file cannot be read, or a number is none.
    pub fn asked(&self) -> anyhow::Result<(Asked, About)> {
        let network = self.network()?;
        let mut groups = Vec::new();
        let mut noises = Vec::new();
        for choice in &self.noise {
            let (group, words) = choice.group()?;
            groups.push(group);
            noises.push(words);
        }
        let work = match &self.goal {
            Some(path) => Work::Goal { goal: goal_file::read(path)?, ranks_per_node: self.ranks_per_node },
            None => Work::Pattern(self.job()?),
        };
        let asked = Asked { work, network, groups, seed: self.seed };
        let about = About::of(&asked, noises, self.draws.unwrap_or_else(|| asked.draws()));
        Ok((asked, about))
    }

    /// What the ranks do by a pattern.
    ///
    /// # Errors
    /// No pattern is named.
    pub fn job(&self) -> anyhow::Result<Job> {
        let (Some(pattern), Some(nodes)) = (self.pattern, self.nodes) else {
            anyhow::bail!("--pattern and --nodes are needed");
        };
        Ok(Job {
            pattern,
            nodes,
            ranks_per_node: self.ranks_per_node,
            compute_ns: self.compute,
            bytes: self.bytes,
            iterations: self.iterations,
        })
    }

    fn network(&self) -> anyhow::Result<Network> {
        let is_speed = self.gbit_per_s.is_finite() && self.gbit_per_s >= 0.008;
        anyhow::ensure!(is_speed, "--gbit-per-s {}: 0.008 or more are possible", self.gbit_per_s);
        Ok(Network {
            latency_ns: self.latency,
            overhead_ns: self.overhead,
            gap_ns: self.gap,
            gap_per_byte_ps: (PS_PER_BYTE_AT_1_GBIT / self.gbit_per_s).round() as u64,
            overhead_per_byte_ps: 0,
            progress: self.progress,
        })
    }

    pub fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.threads.map_or_else(all, |threads| threads as usize)
    }
}
