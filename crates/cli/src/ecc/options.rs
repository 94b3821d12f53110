//! The options of `surefoot ecc`.

use super::verilog::VerilogOptions;
use anyhow::anyhow;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use surefoot_ecc::coverage::{Convention, Fault, Method, Scheme, Selection, SelectsNothing};
use surefoot_store::shards::ShardChoice;

/// More trials than this are no table any more: 10^12 take a core a few hours per cell.
const TRIALS_MAX: u64 = 1_000_000_000_000;

#[derive(Subcommand)]
pub enum EccCommand {
    /// Print how likely each code corrects, detects or misses each DRAM fault.
    Coverage(CoverageOptions),
    /// Write the decoders as synthesizable Verilog, from the tables that the software uses.
    Verilog(VerilogOptions),
}

#[derive(Args)]
pub struct CoverageOptions {
    /// Codes: rs36_32, rs18_16, rs19_16, chipkill, secded, shards, shards_crc [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub code: Vec<Scheme>,
    /// Faults, such as bit or pin+chip [default: every single one and every pair]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub fault: Vec<Fault>,
    /// Conventions: paper and physical for memory codes, contiguous and spread for shards [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub convention: Vec<Convention>,
    /// Methods: exact, closed-form, monte-carlo [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub method: Vec<Method>,
    /// Monte Carlo trials per cell; cells of shards get a thousandth, because each of their trials is 4,096 codewords
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=TRIALS_MAX))]
    pub trials: u64,
    /// The same seed gives the same output, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// JSON lines instead of a table: one per cell and method
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Comma-separated values instead of a table
    #[arg(long)]
    pub csv: bool,
    /// Also write the table as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Only run part i of n of the trials, and write what --merge reads
    #[arg(long, value_name = "i/n", conflicts_with_all = ["json", "csv", "chart", "merge"])]
    pub shard: Option<ShardChoice>,
    /// Merge the shards of a run, and print what the whole run would have printed
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["code", "fault", "convention", "method", "trials", "seed"]
    )]
    pub merge: Vec<PathBuf>,
}

impl CoverageOptions {
    /// The cells that they select.
    ///
    /// # Errors
    /// They select none.
    pub fn selection(&self) -> anyhow::Result<Selection> {
        let wanted = Selection {
            schemes: self.code.clone(),
            faults: self.fault.clone(),
            conventions: self.convention.clone(),
            methods: self.method.clone(),
            trials: self.trials,
            seed: self.seed,
        };
        Selection::of(&wanted).map_err(|nothing| match nothing {
            SelectsNothing::Fault(_) => anyhow!("--fault {nothing}"),
            SelectsNothing::Convention => anyhow!("--convention: {nothing}"),
        })
    }
}
