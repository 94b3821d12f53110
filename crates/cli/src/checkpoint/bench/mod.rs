//! `surefoot checkpoint bench`: what this machine's tiers take, and the paper's microbenchmark with every policy.

mod directories;
pub mod options;
mod output;
mod paper;
mod picture;
mod program;
mod tables;
mod tiers;

use crate::exit::Outcome;
use options::BenchOptions;

pub fn run(options: &BenchOptions) -> anyhow::Result<Outcome> {
    if options.paper { paper::run(options) } else { tiers::run(options) }
}
