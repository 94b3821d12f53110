//! `surefoot-bench checkpoint`: what this machine's tiers take, and the paper's microbenchmark with every policy.

mod directories;
mod figures;
pub mod options;
pub mod output;
mod paper;
mod picture;
mod printed;
mod program;
mod setup;
mod tables;
pub mod tiers;

use options::BenchOptions;
use surefoot_console::exit::Outcome;

pub fn run(options: &BenchOptions) -> anyhow::Result<Outcome> {
    if !options.paper {
        return tiers::run(options);
    }
    // Not said to clap as a conflict, because it then no longer asks for --paper where an option needs it.
    anyhow::ensure!(
        options.directories.is_empty(),
        "--paper: takes no DIR; name the tiers with --memory and --durable"
    );
    anyhow::ensure!(options.size.is_none(), "--paper: takes no --size; name sizes with --sizes-mb");
    paper::run(options)
}
