//! The options of `surefoot ecc`.

use super::verilog::VerilogOptions;
use clap::{Args, Subcommand};
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use surefoot_ecc::coverage::{Convention, Fault, Method, Scheme};

/// More trials than this are no table any more: 10^12 take a core a few hours per cell.
const TRIALS_MAX: u64 = 1_000_000_000_000;
/// More shards than this are no array job any more.
const SHARDS_MAX: u32 = 4096;

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

/// Part `number` (from 1) of `of` parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardChoice {
    pub number: u32,
    pub of: u32,
}

impl ShardChoice {
    /// The only part of one.
    pub const WHOLE: ShardChoice = ShardChoice { number: 1, of: 1 };

    /// Its trials.
    pub fn range(self, trials: u64) -> Range<u64> {
        let until = |number: u32| {
            let share = u128::from(trials) * u128::from(number) / u128::from(self.of);
            u64::try_from(share).unwrap_or(trials)
        };
        until(self.number - 1)..until(self.number)
    }
}

impl FromStr for ShardChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write part and parts, such as 1/4, which is the first of four";
        let (number, of) = text.split_once('/').ok_or(FORM)?;
        let parse = |part: &str| part.parse::<u32>().map_err(|_| format!("'{part}' is not a number; {FORM}"));
        let (number, of) = (parse(number)?, parse(of)?);
        if !(1..=SHARDS_MAX).contains(&of) {
            return Err(format!("{of} parts, but 1 to {SHARDS_MAX} are possible"));
        }
        if !(1..=of).contains(&number) {
            return Err(format!("part {number} of {of}, but the parts are 1 to {of}"));
        }
        Ok(ShardChoice { number, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_trials_once() {
        for trials in [1, 7, 1_000_000, TRIALS_MAX] {
            for of in [1, 3, 4096] {
                let ends = (1..=of).map(|number| ShardChoice { number, of }.range(trials));
                let last = ends.fold(0, |at, range| {
                    assert_eq!(range.start, at);
                    range.end
                });
                assert_eq!(last, trials);
            }
        }
    }

    #[test]
    fn shards_are_part_and_parts() {
        assert_eq!("2/4".parse(), Ok(ShardChoice { number: 2, of: 4 }));
        for (text, said) in
            [("4", "such as 1/4"), ("0/4", "1 to 4"), ("5/4", "1 to 4"), ("1/0", "1 to 4096"), ("a/4", "'a'")]
        {
            assert!(text.parse::<ShardChoice>().unwrap_err().contains(said), "{text}");
        }
    }
}
